package peer

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdsa"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"maps"
	"math/big"
	"sync"
	"time"
)

// A server shows its certificate to anyone who connects, before the client has
// authenticated. So a node port shows a certificate that reveals nothing: it is
// self-signed, has the same key, and contains the node's certificate, encrypted under
// a key that is derived from the CA's certificate. Only nodes know the latter.

// sealedID identifies the extension that contains the node's certificate: a nonce of
// 12 bytes, then AES-256-GCM. It is on the wire: do not change.
var sealedID = asn1.ObjectIdentifier{2, 25, 1668291947}

var errShort = errors.New("peer: too short")

// sealer returns the AEAD that encrypts certificates for the nodes of the CA's
// cluster.
func sealer(ca *x509.Certificate) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, ca.Raw, nil, "skerry node port 1", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// newShown creates the certificate that reveals nothing.
func newShown(ca *x509.Certificate, pair tls.Certificate) (tls.Certificate, error) {
	aead, err := sealer(ca)
	if err != nil {
		return tls.Certificate{}, err
	}
	nonce := make([]byte, aead.NonceSize())
	rand.Read(nonce) // never fails
	key := pair.PrivateKey.(*ecdsa.PrivateKey)
	t := &x509.Certificate{
		SerialNumber:    big.NewInt(1),
		Subject:         pkix.Name{CommonName: "node"},
		NotBefore:       time.Unix(0, 0),
		NotAfter:        time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), // that of the sealed one counts
		ExtraExtensions: []pkix.Extension{{Id: sealedID, Value: aead.Seal(nonce, nonce, pair.Leaf.Raw, nil)}},
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// unseal returns the node's certificate from the one that a server has shown. An
// older server shows its certificate unsealed.
func (id *Identity) unseal(shown []*x509.Certificate) ([]*x509.Certificate, *RefusedError) {
	if len(shown) == 0 {
		return nil, nil
	}
	for _, e := range shown[0].Extensions {
		if !e.Id.Equal(sealedID) {
			continue
		}
		aead, err := sealer(id.ca)
		if err != nil {
			return nil, refuse(CodeCert, "open the certificate: %v", err)
		}
		var der []byte
		n := aead.NonceSize()
		if err = errShort; len(e.Value) > n {
			der, err = aead.Open(nil, e.Value[:n], e.Value[n:], nil)
		}
		if err != nil {
			return nil, refuse(CodeCluster, "the node there is not of cluster %s; check the addresses and the data folder", id.Cluster)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, refuse(CodeCert, "the certificate is malformed: %v", err)
		}
		// TLS has proved that the other side has the key of the shown certificate.
		if own, ok := cert.PublicKey.(*ecdsa.PublicKey); !ok || !own.Equal(shown[0].PublicKey) {
			return nil, refuse(CodeCert, "the certificate is that of another key")
		}
		return []*x509.Certificate{cert}, nil
	}
	return shown, nil
}

// olderNodes are the nodes whose program cannot open sealed certificates. As long as
// there are any, the port shows the node's certificate unsealed.
type olderNodes struct {
	mu    sync.Mutex // guards nodes
	nodes map[uint64]bool
}

// met records the greeting of a verified node.
func (o *olderNodes) met(h Hello) {
	if h.Start == 0 {
		return // a Client comes and goes; the node of its folder sends the same
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if h.Sealed {
		delete(o.nodes, h.Node)
		return
	}
	if o.nodes == nil {
		o.nodes = map[uint64]bool{}
	}
	o.nodes[h.Node] = true
}

// keep forgets the nodes for which there reports false.
func (o *olderNodes) keep(there func(id uint64) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.nodes, func(id uint64, _ bool) bool { return !there(id) })
}

// some reports whether there are any.
func (o *olderNodes) some() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.nodes) > 0
}

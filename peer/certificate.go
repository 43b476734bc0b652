package peer

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"strconv"
	"time"
)

// How long certificates are valid. They begin a day early, so that a node whose
// clock is behind the issuer's can use them at once.
const (
	caYears   = 20
	nodeYears = 10
	backdate  = 24 * time.Hour
)

// uri returns the name of a certificate's holder: skerry://CLUSTER for the CA,
// skerry://CLUSTER/node/3 for a node. It is on disk and on the wire: do not change.
func uri(cluster string, node uint64) *url.URL {
	u := &url.URL{Scheme: "skerry", Host: cluster}
	if node != 0 {
		u.Path = "/node/" + strconv.FormatUint(node, 10)
	}
	return u
}

// parseURI is the inverse of uri. It accepts only the results of uri.
func parseURI(u *url.URL) (cluster string, node uint64, ok bool) {
	if u.Scheme != "skerry" || !isClusterID(u.Host) {
		return "", 0, false
	}
	if u.Path != "" {
		var err error
		if len(u.Path) < len("/node/") {
			return "", 0, false
		}
		if node, err = strconv.ParseUint(u.Path[len("/node/"):], 10, 64); err != nil || node == 0 {
			return "", 0, false
		}
	}
	return u.Host, node, *u == *uri(u.Host, node)
}

// isClusterID reports whether s is 32 lower-case hexadecimal digits.
func isClusterID(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 16 && hex.EncodeToString(b) == s
}

// certified returns the holder that a certificate names.
func certified(c *x509.Certificate) (cluster string, node uint64, ok bool) {
	if len(c.URIs) != 1 {
		return "", 0, false
	}
	return parseURI(c.URIs[0])
}

// issue creates a key and a certificate for it, signed by the CA. If ca is nil it
// creates the CA's own, self-signed.
func issue(cluster string, node uint64, now time.Time, ca *x509.Certificate, caKey *ecdsa.PrivateKey) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	t := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{Organization: []string{"skerry"}, CommonName: fmt.Sprintf("node %d of %s", node, cluster)},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.AddDate(nodeYears, 0, 0),
		URIs:                  []*url.URL{uri(cluster, node)},
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
	signer := caKey
	if ca == nil {
		t.Subject.CommonName = "CA of " + cluster
		t.NotAfter = now.AddDate(caYears, 0, 0)
		t.KeyUsage, t.ExtKeyUsage = x509.KeyUsageCertSign, nil
		t.IsCA, t.MaxPathLenZero = true, true
		ca, signer = t, key
	}
	der, err := x509.CreateCertificate(rand.Reader, t, ca, &key.PublicKey, signer)
	if err != nil {
		return nil, nil, err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), nil
}

// marshalCert is the inverse of parseCert.
func marshalCert(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// parseCert parses a file that contains one certificate.
func parseCert(text []byte) (*x509.Certificate, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("is not one certificate in PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}

// parseKey parses a file that contains one private key.
func parseKey(text []byte) (*ecdsa.PrivateKey, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("is not one private key in PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	if k, ok := key.(*ecdsa.PrivateKey); ok {
		return k, nil
	}
	return nil, errors.New("is a key of another kind than ECDSA")
}

// verify returns the node whose certificate the other side has shown, or the reason
// why it is not a node of this cluster. TLS has proved that the other side has the
// certificate's key.
func (id *Identity) verify(shown []*x509.Certificate, now time.Time) (uint64, *RefusedError) {
	if len(shown) == 0 {
		return 0, refuse(CodeCert, "no certificate was presented")
	}
	leaf := shown[0]
	cluster, node, ok := certified(leaf)
	if !ok || node == 0 {
		return 0, refuse(CodeCert, "the certificate is not a node's: %q", leaf.Subject.CommonName)
	}
	if cluster != id.Cluster {
		return 0, refuse(CodeCluster, "node %d of cluster %s talks to node %d of cluster %s; check the addresses and the data folder", node, cluster, id.Node, id.Cluster)
	}
	roots := x509.NewCertPool()
	roots.AddCert(id.ca)
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err == nil {
		return node, nil
	}
	if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); unknown {
		return 0, refuse(CodeCluster, "the certificate of node %d has this cluster's id, %s, but is not signed by its CA", node, cluster)
	}
	if why := outdated(leaf, now); why != "" {
		return 0, refuse(CodeCert, "the certificate of node %d %s", node, why)
	}
	if why := outdated(id.ca, now); why != "" {
		return 0, refuse(CodeCert, "the CA's certificate %s", why)
	}
	return 0, refuse(CodeCert, "the certificate of node %d: %v", node, err)
}

// outdated returns why a certificate is not valid at now, or "" if it is.
func outdated(c *x509.Certificate, now time.Time) string {
	const layout = "2006-01-02 15:04 MST"
	switch {
	case now.Before(c.NotBefore):
		return fmt.Sprintf("is not valid before %s, and the clock says %s", c.NotBefore.UTC().Format(layout), now.UTC().Format(layout))
	case now.After(c.NotAfter):
		return fmt.Sprintf("expired at %s, and the clock says %s", c.NotAfter.UTC().Format(layout), now.UTC().Format(layout))
	}
	return ""
}

// tlsConfig returns the TLS configuration of both ends of every connection. It does
// not check the identity of the other side; verify does. The client calls verify
// before it sends anything, the server when it can still send an error text.
func (id *Identity) tlsConfig() *tls.Config {
	return &tls.Config{
		Certificates:                []tls.Certificate{id.pair},
		MinVersion:                  tls.VersionTLS13,
		ClientAuth:                  tls.RequireAnyClientCert,
		SessionTicketsDisabled:      true, // each connection authenticates again
		DynamicRecordSizingDisabled: true, // a batch goes out in whole records at once
	}
}

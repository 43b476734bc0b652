package peer

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"math/big"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
)

// shownTo returns the certificate that a port shows to a connecting client.
func shownTo(t *testing.T, addr string) *x509.Certificate {
	t.Helper()
	var leaf *x509.Certificate
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", addr, &tls.Config{
		InsecureSkipVerify: true, NextProtos: []string{ProtocolRaft},
		VerifyConnection: func(s tls.ConnectionState) error {
			leaf = s.PeerCertificates[0]
			return nil
		},
	})
	if err == nil {
		c.Close()
	}
	if leaf == nil {
		t.Fatalf("no certificate: %v", err)
	}
	return leaf
}

// named reports whether a certificate names a cluster.
func named(c *x509.Certificate, cluster string) bool {
	return bytes.Contains(c.Raw, []byte(cluster)) || len(c.URIs)+len(c.DNSNames) > 0 || c.Subject.String() != "CN=node" || c.Issuer.String() != "CN=node"
}

// TestStrangersLearnNothing: neither the certificate of a node port nor its refusal
// names the cluster or the node to somebody who has no certificate of the cluster.
func TestStrangersLearnNothing(t *testing.T) {
	t.Parallel()
	ids := identities(t, 2)
	p := open(t, ids[1], nil)
	for _, cluster := range []string{randomHex(), ids[0].Cluster} { // also one who knows the id
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		own := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), URIs: []*url.URL{uri(cluster, 7)}}
		der, err := x509.CreateCertificate(rand.Reader, own, own, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		greeting, err := json.Marshal(Hello{Cluster: cluster, Node: 7})
		if err != nil {
			t.Fatal(err)
		}
		a, err := knock(t, p.Addr(), tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, ProtocolRaft, greeting)
		if err != nil || a.Refused == nil || a.Refused.Code != CodeCluster {
			t.Fatalf("%+v, %v", a, err)
		}
		if text, _ := json.Marshal(a); strings.Contains(string(text), ids[0].Cluster) || strings.Contains(string(text), "node 2") {
			t.Errorf("the reply reveals %s", text)
		}
		// After the first refusal: the port logs one a second.
		eventually.True(t, "the log to name the node", func() bool { return p.log.has("talks to node 2 of cluster " + ids[0].Cluster) })
	}
	if c := shownTo(t, p.Addr()); named(c, ids[0].Cluster) {
		t.Errorf("it shows %v, %v", c.Subject, c.URIs)
	}
}

// TestSealedByAnotherKey: a sealed certificate is worth nothing to somebody who has
// copied it and has not the key.
func TestSealedByAnotherKey(t *testing.T) {
	t.Parallel()
	ids := identities(t, 2)
	shown, err := x509.ParseCertificate(ids[1].shown.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	sealed := shown.Extensions[len(shown.Extensions)-1]
	if !sealed.Id.Equal(sealedID) {
		t.Fatalf("the last extension is %v", sealed.Id)
	}
	if certs, refused := ids[0].unseal([]*x509.Certificate{shown}); refused != nil || !certs[0].Equal(ids[1].pair.Leaf) {
		t.Fatalf("%v, %v", certs, refused)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func([]byte) []byte{
		"copied":  func(b []byte) []byte { return b },
		"flipped": func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"short":   func(b []byte) []byte { return b[:5] },
		"empty":   func([]byte) []byte { return nil },
	} {
		copied := *shown
		copied.PublicKey = &key.PublicKey
		copied.ExtraExtensions = []pkix.Extension{{Id: sealedID, Value: change(bytes.Clone(sealed.Value))}}
		der, err := x509.CreateCertificate(rand.Reader, &copied, &copied, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		thief := *ids[1]
		thief.shown = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
		a, at := open(t, ids[0], nil), open(t, &thief, nil)
		_, _, err = a.connect(withTimeout(t), at.Addr(), 2, ProtocolRaft)
		refused, ok := errors.AsType[*RefusedError](err)
		if want := map[bool]string{true: CodeCert, false: CodeCluster}[what == "copied"]; !ok || refused.Code != want || refused.Remote {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestRollingUpgrade: nodes of before certificates were sealed and later ones reach
// each other, in both directions and in each order of restarts; when the last one
// is upgraded no name is shown any more.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	ids := identities(t, 3)
	former := func(o *Options) { o.former = true }
	nodes := []*running{open(t, ids[0], former), open(t, ids[1], former), open(t, ids[2], former)}
	meet := func() {
		t.Helper()
		addrs := map[uint64]string{}
		for i, n := range nodes {
			addrs[uint64(i+1)] = n.Addr()
		}
		for _, n := range nodes {
			n.SetPeers(addrs)
		}
		eventually.True(t, "all to be connected in both directions", func() bool {
			for i, n := range nodes {
				for j := range nodes {
					if s := n.state(uint64(j + 1)); i != j && (!s.Connected || !s.Inbound) {
						return false
					}
				}
			}
			return true
		})
	}
	meet()
	for i := range nodes {
		nodes[i].Close()
		nodes[i] = open(t, ids[i], nil)
		meet()
		for j, n := range nodes {
			if got, want := named(shownTo(t, n.Addr()), ids[0].Cluster), i < 2; got != want {
				t.Errorf("%d nodes are upgraded: does node %d show names? %v", i+1, j+1, got)
			}
		}
	}
}

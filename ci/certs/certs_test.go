package certs_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"

	"github.com/skerrydb/skerry/ci/certs"
)

func TestCertificate(t *testing.T) {
	local, other := certs.New(t), certs.New(t, "a.example")
	for _, c := range []struct {
		server, client *certs.Certificate
		name           string
		ok             bool
	}{
		{local, local, "localhost", true}, {local, local, "127.0.0.1", true}, {other, other, "a.example", true},
		{other, other, "localhost", false}, {local, other, "localhost", false},
	} {
		leaf, err := x509.ParseCertificate(c.server.Server().Certificates[0].Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := leaf.Verify(x509.VerifyOptions{DNSName: c.name, Roots: c.client.Client().RootCAs}); (err == nil) != c.ok {
			t.Errorf("a client that expects %s: %v", c.name, err)
		}
	}
	certFile, keyFile := local.Write(t, t.TempDir())
	cert, err := os.ReadFile(certFile)
	if err != nil || !bytes.Equal(cert, local.Cert) {
		t.Errorf("%s has %q, %v", certFile, cert, err)
	}
	if _, err := tls.LoadX509KeyPair(certFile, keyFile); err != nil {
		t.Error(err)
	}
}

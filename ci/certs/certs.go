// Package certs makes TLS certificates for tests.
//
// It knows how to create a certificate and how to present it. It must not know which
// servers and clients use it.
package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certificate is a self-signed certificate and its key. It is valid for a day, for
// servers and clients, and it is its own CA.
type Certificate struct {
	Cert, Key []byte         // PEM
	Pool      *x509.CertPool // trusts it, and nothing else
	Pair      tls.Certificate
}

// New creates a certificate for host names and addresses. Without any, it is for
// localhost and 127.0.0.1.
func New(tb testing.TB, names ...string) *Certificate {
	tb.Helper()
	if len(names) == 0 {
		names = []string{"localhost", "127.0.0.1"}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		tb.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	c := &Certificate{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		Pool: x509.NewCertPool(),
		Pair: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
	}
	c.Pool.AppendCertsFromPEM(c.Cert)
	return c
}

// Write writes the certificate and its key to cert.pem and key.pem in a folder. The
// first file also serves as the CA's.
func (c *Certificate) Write(tb testing.TB, dir string) (certFile, keyFile string) {
	tb.Helper()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, text := range map[string][]byte{certFile: c.Cert, keyFile: c.Key} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return certFile, keyFile
}

// Server returns the configuration of a server that presents the certificate.
func (c *Certificate) Server() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{c.Pair}, MinVersion: tls.VersionTLS12}
}

// Client returns the configuration of a client that trusts the certificate.
func (c *Certificate) Client() *tls.Config {
	return &tls.Config{RootCAs: c.Pool, MinVersion: tls.VersionTLS12}
}

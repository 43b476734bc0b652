package cli

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// selfSigned writes cert.pem and key.pem for 127.0.0.1 and returns what trusts them.
func selfSigned(t *testing.T, dir string) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	cert, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: cert},
		"key.pem":  {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := x509.ParseCertificate(cert)
	if err != nil {
		t.Fatal(err)
	}
	trust := x509.NewCertPool()
	trust.AddCert(parsed)
	return &tls.Config{RootCAs: trust}
}

func TestTLSOnBothFaces(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	trust := selfSigned(t, s.dir)
	p := s.serve("--tls-cert", "cert.pem", "--tls-key", "key.pem")
	addr, secure := strings.CutPrefix(p.RESP, "rediss://")
	if !secure || !strings.HasPrefix(p.HTTP, "https://") {
		t.Fatalf("announced %s and %s", p.HTTP, p.RESP)
	}
	c, err := tls.Dial("tcp", addr, trust)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "SET a 1\r\n")
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || line != "+OK\r\n" {
		t.Errorf("SET: %q, %v", line, err)
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: trust, DisableKeepAlives: true}}
	resp, err := client.Get(p.HTTP + "/db/a")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("GET: %s", resp.Status)
	}
	if out := s.run("skerry backup --from " + p.HTTP + " --to b --ca cert.pem"); !strings.HasPrefix(out, "b: position") {
		t.Errorf("backup: %s", out)
	}
	if out := s.run("skerry backup --from " + p.HTTP + " --to c"); !strings.Contains(out, "certificate") || !strings.Contains(out, "--ca FILE sets the CA to trust") {
		t.Errorf("backup from a server that nobody vouches for: %s", out)
	}
	if out := s.run("SSL_CERT_FILE=cert.pem skerry procedures --url " + p.HTTP); out != "the program of this server has no procedures\n" {
		t.Errorf("procedures: %s", out)
	}
	plain := strings.Replace(p.HTTP, "https://", "http://", 1)
	for line, flag := range map[string]string{"procedures --url ": "url", "call x --url ": "url", "backup --to c --from ": "from"} {
		if out := s.run("skerry " + line + plain); !strings.Contains(out, " accepts HTTPS only: use --"+flag+" "+p.HTTP+"\n[1]") {
			t.Errorf("%s over plain HTTP: %s", line, out)
		}
	}
	for file, want := range map[string]string{"none.pem": "ca: open none.pem: no such file", "key.pem": "ca: key.pem has no certificate (PEM)"} {
		if out := s.run("skerry procedures --url " + p.HTTP + " --ca " + file); !strings.Contains(out, want) {
			t.Errorf("--ca %s: %s", file, out)
		}
	}
	old := trust.Clone()
	old.MaxVersion = tls.VersionTLS11
	old.MinVersion = tls.VersionTLS10
	if c, err := tls.Dial("tcp", strings.TrimPrefix(p.HTTP, "https://"), old); err == nil {
		c.Close()
		t.Error("TLS 1.1 is accepted")
	}
}

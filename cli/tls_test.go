package cli

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/ci/certs"
)

func TestTLSOnBothFaces(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	cert := certs.New(t)
	cert.Write(t, s.dir)
	trust := cert.Client()
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

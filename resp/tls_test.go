package resp_test

import (
	"crypto/tls"
	"testing"

	"github.com/skerrydb/skerry/ci/certs"
)

// testTLS creates a certificate for localhost. It returns the configurations of server and
// clients, and the file of the certificate for programs.
func testTLS(tb testing.TB) (server, client *tls.Config, file string) {
	tb.Helper()
	cert := certs.New(tb)
	file, _ = cert.Write(tb, tb.TempDir())
	client = cert.Client()
	client.ServerName = "localhost"
	return cert.Server(), client, file
}

package lane_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
)

// A body that takes longer than MaxBodyWait is read by net/http.
func TestSlowBody(t *testing.T) {
	s, addr := serve(t, &http.Server{Handler: http.HandlerFunc(echo)})
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "PUT /k/a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\na")
	eventually.True(t, "the connection is handed over", func() bool { _, handed := counts(s); return handed == 1 })
	fmt.Fprint(c, "bc")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := io.ReadAll(resp.Body); string(got) != `PUT /k/a h "abc" 3 tls=false from=true` {
		t.Errorf("%q", got)
	}
}

// Heads that do not arrive in time end their connections, and so do connections without a request.
func TestSlowHeads(t *testing.T) {
	_, addr := serve(t, &http.Server{Handler: http.HandlerFunc(echo), ReadHeaderTimeout: 100 * time.Millisecond, IdleTimeout: 100 * time.Millisecond})
	var all []net.Conn
	for i := range 200 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, []string{"", "G", "GET /k/a HTTP/1.1\r\nHo", "GET /k/a HTTP/1.1\r\nHost: h\r\n\r"}[i%4])
		all = append(all, c)
	}
	for i, c := range all {
		if got, err := io.ReadAll(c); len(got) > 0 {
			t.Errorf("%d: %q, %v", i, got, err)
		}
	}
}

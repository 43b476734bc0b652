package resp_test

import (
	"io"
	"net"
	"testing"

	"github.com/skerrydb/skerry/resp"
)

// TestTrackingWithinPipeline: a key that is read and then written in one pipeline
// is told of: what the client read is old.
func TestTrackingWithinPipeline(t *testing.T) {
	t.Parallel()
	c, err := net.Dial("tcp", startSkerry(t, resp.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p := newPeer(c)
	for _, cmd := range [][]string{{"HELLO", "3"}, {"CLIENT", "TRACKING", "ON"}} {
		if v, err := p.do(cmd...); err != nil || v.kind == '-' {
			t.Fatal(v, err)
		}
	}
	for range 20 {
		if _, err := io.WriteString(c, "SET a 1\r\nGET k\r\nSET k 2\r\nSET b 1\r\n"); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			if v, err := p.receive(); err != nil || v.kind == '-' {
				t.Fatal(v, err)
			}
		}
		if _, told, err := p.push(true); err != nil || !told {
			t.Fatalf("no word of a key that was read and then written: %v", err)
		}
	}
}

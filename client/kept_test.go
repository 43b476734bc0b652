package client

import "testing"

// TestLoadsOverFlush checks that a response requested before a flush is not cached, even if
// the same key has been requested since.
func TestLoadsOverFlush(t *testing.T) {
	var c cache
	c.init(1 << 20)
	get := []byte("GET k")
	_, _, before := c.get(get, "k", 1)
	c.flush()
	_, _, since := c.get(get, "k", 1)
	c.put(before, get, []byte("$3\r\nold\r\n"), true, 100)
	if _, hit, _ := c.get(get, "k", 1); hit {
		t.Fatal("a reply from before the flush is cached")
	}
	c.put(since, get, []byte("$3\r\nnew\r\n"), true, 100)
	if raw, hit, _ := c.get(get, "k", 1); !hit || string(raw) != "$3\r\nnew\r\n" {
		t.Fatalf("cached: %q, %v", raw, hit)
	}
	c.changed([]byte("k"))
	if _, hit, _ := c.get(get, "k", 1); hit {
		t.Fatal("a reply is still cached after a change")
	}
}

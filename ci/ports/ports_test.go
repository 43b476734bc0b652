package ports

import (
	"net"
	"strconv"
	"testing"
)

// TestAddr: an address belongs to one test until that test has ended, whether a server
// listens there or not.
func TestAddr(t *testing.T) {
	t.Parallel()
	released := false
	for range 5 { // another process can take an address at once, but not five
		var addr string
		t.Run("owner", func(t *testing.T) {
			addr = Addr(t)
			if lockable(t, addr) {
				t.Errorf("another process could have %s too", addr)
			}
			for range 3 {
				l, err := net.Listen("tcp", addr)
				if err != nil {
					t.Fatal(err)
				}
				l.Close()
				if c, err := net.Dial("tcp", addr); err == nil {
					c.Close()
					t.Errorf("%s still answers", addr)
				}
			}
		})
		released = released || lockable(t, addr)
	}
	if !released {
		t.Error("no address was free after its test")
	}
}

// lockable reports whether the lock of an address is free.
func lockable(t *testing.T, addr string) bool {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := net.ListenPacket("udp", loopback(n+locks))
	if err != nil {
		return false
	}
	lock.Close()
	return true
}

// TestAddrs: no address is given twice.
func TestAddrs(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 300 {
		addr := Addr(t)
		if seen[addr] {
			t.Fatalf("%s is given twice", addr)
		}
		seen[addr] = true
	}
}

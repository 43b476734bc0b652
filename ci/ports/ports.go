// Package ports gives tests addresses that no other test on this machine uses, in any process. They are for
// servers that are started later, or restarted at the same address.
//
// It knows the ports of tests. It must not know what listens there.
package ports

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Ports of tests. They are below those that systems use for outgoing connections and for listeners on port 0
// (32768 and up on Linux), and above those of `skerry dev`.
const (
	first = 10_000
	count = 10_000
)

// locks is the distance from a port to its lock. The lock is not on the port itself, because `skerry dev` has
// its own lock there.
const locks = 10_000

// tries is how many ports are tried before Addr gives up.
const tries = 1000

// Addr returns a loopback address where nothing listens. It returns the address to no other test until this
// one has ended.
//
// A UDP socket serves as a lock: it excludes all other processes, child processes do not inherit it, and the
// kernel closes it however this process ends.
func Addr(tb testing.TB) string {
	tb.Helper()
	for range tries {
		port := first + rand.IntN(count)
		lock, err := net.ListenPacket("udp", loopback(port+locks))
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", loopback(port))
		if err != nil { // a program that is not a test uses it
			lock.Close()
			continue
		}
		l.Close()
		tb.Cleanup(func() { lock.Close() })
		return loopback(port)
	}
	tb.Fatalf("%d ports from %d on are all in use", tries, first)
	return ""
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

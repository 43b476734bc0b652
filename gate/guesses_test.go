package gate_test

import (
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerrydb/skerry/gate"
)

func addr(text string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(text)) }

// TestGuessesAreSlow: one address can make only a few guesses, on any number of
// connections. Another address does not wait, and wrong guesses are forgotten in time.
func TestGuessesAreSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.NewGuesses(nil, nil)
		begin, done := time.Now(), make(chan struct{})
		var guessing sync.WaitGroup
		for i := range 200 {
			from := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: i + 1}
			guessing.Go(func() {
				for time.Since(begin) < 10*time.Minute {
					if g.Wait(from, done) {
						g.Wrong(from)
					} else {
						gate.Sleep(time.Second, done)
					}
				}
			})
		}
		gate.Sleep(5*time.Minute, done)
		start := time.Now()
		if other := addr("198.51.100.1:1"); !g.Wait(other, done) || time.Since(start) > 0 {
			t.Errorf("another address waits for %v", time.Since(start))
		}
		guessing.Wait()
		s := g.Stats()
		if most := uint64(10*60/2*gate.MaxGuessesWaiting + 300); s.Wrong > most || s.Wrong < 100 {
			t.Errorf("%d guesses in 10 minutes, at most %d", s.Wrong, most)
		}
		if s.Delayed == 0 || s.Refused == 0 {
			t.Errorf("%+v", s)
		}
		gate.Sleep(3*gate.FreeGuesses*gate.GuessMemory, done)
		start = time.Now()
		if !g.Wait(addr("192.0.2.1:9"), done) || time.Since(start) > 0 {
			t.Errorf("minutes later the address waits for %v", time.Since(start))
		}
	})
}

// TestGuessesByAddress: an IPv4 address counts by itself, however it is written, an
// IPv6 one with its neighbours.
func TestGuessesByAddress(t *testing.T) {
	for _, c := range []struct {
		from, to string
		same     bool
	}{
		{"192.0.2.1:1", "192.0.2.1:2", true},
		{"192.0.2.1:1", "[::ffff:192.0.2.1]:2", true},
		{"192.0.2.1:1", "192.0.2.2:1", false},
		{"[2001:db8::1]:1", "[2001:db8::ffff:1]:1", true},
		{"[2001:db8::1]:1", "[2001:db8:0:1::1]:1", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			g, done := gate.NewGuesses(nil, nil), make(chan struct{})
			for range gate.FreeGuesses + 3 {
				g.Wrong(addr(c.from))
			}
			start := time.Now()
			g.Wait(addr(c.to), done)
			if waited := time.Since(start) > 0; waited != c.same {
				t.Errorf("%s after %s: waited %v", c.to, c.from, time.Since(start))
			}
		})
	}
}

// TestGuessersAreBounded: memory is bounded for any number of addresses, and the address
// with the most wrong guesses is not forgotten.
func TestGuessersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, done := gate.NewGuesses(nil, nil), make(chan struct{})
		for range gate.FreeGuesses + 5 {
			g.Wrong(addr("192.0.2.1:1"))
		}
		for i := range 2 * gate.MaxGuessers {
			g.Wrong(&net.TCPAddr{IP: net.IPv4(10, byte(i>>16), byte(i>>8), byte(i)), Port: 1})
		}
		start := time.Now()
		g.Wait(addr("192.0.2.1:1"), done)
		if time.Since(start) == 0 {
			t.Error("the worst guesser was forgotten for others")
		}
		if n := gate.Guessers(g); n > gate.MaxGuessers {
			t.Errorf("%d addresses are remembered", n)
		}
	})
}

func TestPenalty(t *testing.T) {
	last := time.Duration(-1)
	for n := 1; n <= 2*gate.MaxGuesses; n++ {
		d := gate.Penalty(n)
		if d < last || d > gate.MaxGuessWait || n == 1 && d != 0 {
			t.Errorf("the %dth: %v after %v", n, d, last)
		}
		last = d
	}
	if last != gate.MaxGuessWait {
		t.Errorf("the last: %v", last)
	}
}

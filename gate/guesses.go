package gate

import (
	"log/slog"
	"math"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Limits of guesses at a password. An address is one of IPv4, or 64 bits of IPv6.
const (
	// MaxGuesses is how many wrong passwords one connection may send; the last one
	// closes it.
	MaxGuesses = 8
	// FreeGuesses is how many wrong passwords an address may give before every
	// further password of it waits before it is looked at. One is forgotten every
	// GuessMemory.
	FreeGuesses = 10
	// GuessMemory is how long one wrong password is remembered.
	GuessMemory = 10 * time.Second
	// MaxGuessWait is the longest time that a password waits to be checked.
	MaxGuessWait = 2 * time.Second
	// MaxGuessesWaiting is how many passwords from one address may wait to be
	// checked; another one is refused without being checked.
	MaxGuessesWaiting = 32
	// MaxGuessers is how many addresses are remembered.
	MaxGuessers = 4096
)

// firstWait is the wait of the first delayed guess. Each further one waits twice as long.
const firstWait = 125 * time.Millisecond

// freeOfConn is how many wrong passwords of one connection are not penalized.
const freeOfConn = 3

// Penalty returns the delay of the response to the nth wrong password of one connection,
// counted from 1.
func Penalty(n int) time.Duration {
	if n <= freeOfConn {
		return 0
	}
	return min(firstWait<<min(n-freeOfConn-1, 8), MaxGuessWait)
}

// Guesses slows down password guessing by address, on all listeners that share it. It is
// safe for concurrent use.
type Guesses struct {
	log *slog.Logger
	now func() time.Time

	mu     sync.Mutex // guards the fields below
	by     map[netip.Addr]*guesser
	stats  GuessStats
	logged time.Time // when it last logged
}

// GuessStats are metrics since NewGuesses.
type GuessStats struct {
	Wrong   uint64 // wrong passwords
	Delayed uint64 // passwords that waited
	Refused uint64 // passwords that were not checked
}

// guesser is the record of one address.
type guesser struct {
	wrong   float64 // wrong passwords, minus those forgotten until at
	at      time.Time
	waiting int
}

// NewGuesses returns Guesses that log to log and use the clock now; nil means time.Now.
func NewGuesses(log *slog.Logger, now func() time.Time) *Guesses {
	if now == nil {
		now = time.Now
	}
	return &Guesses{log: log, now: now, by: map[netip.Addr]*guesser{}}
}

// Stats returns the metrics.
func (g *Guesses) Stats() GuessStats {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stats
}

// Wait must be called before a password from addr is checked. It waits if the address has
// sent too many wrong ones. It reports false if this password must not be checked: too
// many of its address are already waiting, or done was closed.
func (g *Guesses) Wait(addr net.Addr, done <-chan struct{}) bool {
	a, ok := source(addr)
	if !ok {
		return true
	}
	g.mu.Lock()
	who := g.by[a]
	wait := g.wait(who)
	if wait == 0 {
		g.mu.Unlock()
		return true
	}
	if who.waiting >= MaxGuessesWaiting {
		g.stats.Refused++
		g.mu.Unlock()
		return false
	}
	who.waiting++
	g.stats.Delayed++
	g.mu.Unlock()
	waited := Sleep(wait, done)
	g.mu.Lock()
	who.waiting--
	g.mu.Unlock()
	return waited
}

// Sleep waits for d. It reports false if done was closed first.
func Sleep(d time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-done:
		return false
	}
}

// wait returns how long the next password of an address waits. The caller holds mu.
func (g *Guesses) wait(who *guesser) time.Duration {
	if who == nil {
		return 0
	}
	over := g.remembered(who) - FreeGuesses
	if over < 0 {
		return 0
	}
	return time.Duration(min(float64(MaxGuessWait), float64(firstWait)*math.Exp2(math.Floor(over))))
}

// remembered returns how many wrong passwords count now. The caller holds mu.
func (g *Guesses) remembered(who *guesser) float64 {
	return max(0, who.wrong-g.now().Sub(who.at).Seconds()/GuessMemory.Seconds())
}

// maxRemembered bounds guesser.wrong, so that an address is not delayed for too long.
const maxRemembered = 2 * FreeGuesses

// Wrong records a wrong password from addr.
func (g *Guesses) Wrong(addr net.Addr) {
	g.mu.Lock()
	g.stats.Wrong++
	total := g.stats.Wrong
	if a, ok := source(addr); ok {
		who := g.by[a]
		if who == nil {
			g.forget()
			who = &guesser{}
			g.by[a] = who
		}
		who.wrong, who.at = min(g.remembered(who)+1, maxRemembered), g.now()
	}
	say := g.log != nil && g.now().Sub(g.logged) >= time.Second
	if say {
		g.logged = g.now()
	}
	g.mu.Unlock()
	if say {
		g.log.Warn("a client gave a wrong password", "from", addr, "wrong_so_far", total)
	}
}

// sampled is how many addresses are compared to find one to forget.
const sampled = 64

// forget makes room for one more address: it forgets the one with the fewest wrong
// passwords of a sample. The caller holds mu.
func (g *Guesses) forget() {
	if len(g.by) < MaxGuessers {
		return
	}
	var least netip.Addr
	fewest, seen := math.Inf(1), 0
	for a, who := range g.by { // in random order
		n := g.remembered(who)
		if who.waiting == 0 && n < fewest {
			least, fewest = a, n
		}
		if seen++; seen >= sampled && !math.IsInf(fewest, 1) {
			break
		}
	}
	delete(g.by, least)
}

// source returns the address for which guesses from addr are counted.
func source(addr net.Addr) (netip.Addr, bool) {
	t, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}, false
	}
	a := t.AddrPort().Addr().Unmap().WithZone("")
	if a.Is6() {
		p, err := a.Prefix(64)
		return p.Addr(), err == nil
	}
	return a, a.IsValid()
}

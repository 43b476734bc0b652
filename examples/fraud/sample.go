package fraud

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Sample is data for a demonstration and for tests: ordinary accounts and transfers, rings in between, and what looks
// like a ring and is none.
type Sample struct {
	Accounts  []OpenIn
	Transfers []Past     // the oldest first
	Rings     [][]string // the accounts of each ring, from the first payer on
}

// Past is a transfer that was made some time ago.
type Past struct {
	PayIn
	Ago time.Duration
}

// What a sample has.
const (
	people    = 80
	companies = 3
	landlords = 4
	days      = 10
	payments  = 400 // small ones, from anyone to anyone
)

// NewSample returns a sample. The same seed gives the same one.
func NewSample(seed uint64) *Sample {
	s := &Sample{}
	r := rand.New(rand.NewPCG(seed, 1))
	person := make([]string, people)
	for i := range person {
		person[i] = fmt.Sprintf("P-%03d", i+1)
	}
	order := slices.Clone(person)
	r.Shuffle(len(order), func(i, k int) { order[i], order[k] = order[k], order[i] })
	take := func(n int) (taken []string) {
		taken, order = order[:n:n], order[n:]
		return taken
	}
	device, card := map[string]string{}, map[string]string{}
	for i, size := range []int{3, 4, 6} {
		ring := take(size)
		s.Rings = append(s.Rings, ring)
		s.chain(r, append(ring, ring[0]), hop{})
		for k, account := range ring[1:] {
			if device[account] = fmt.Sprintf("phone-%d", i+1); k%2 == 1 {
				card[account] = fmt.Sprintf("visa-%d", i+1)
			}
		}
	}
	s.innocent(r, take)
	couple := take(2) // who share a card
	card[couple[0]], card[couple[1]] = "visa-couple", "visa-couple"
	for i, p := range person {
		s.open(p, "Person "+p[2:], or(device[p], fmt.Sprintf("phone-own-%d", i+1)), or(card[p], fmt.Sprintf("visa-own-%d", i+1)), 5_000_000)
	}
	s.ordinary(r, person)
	slices.SortStableFunc(s.Transfers, func(a, b Past) int { return int(b.Ago - a.Ago) })
	return s
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func (s *Sample) open(account, holder, device, card string, cents int64) {
	s.Accounts = append(s.Accounts, OpenIn{account, holder, device, card, cents})
}

func (s *Sample) pay(from, to string, cents int64, ago time.Duration) {
	s.Transfers = append(s.Transfers, Past{PayIn{from, to, cents}, ago})
}

// hop says how money moves along a chain. The zero hop is that of a ring.
type hop struct {
	cents int64         // of the first transfer; 0: a large amount
	keep  float64       // of the amount before; 0: nearly all
	wait  time.Duration // until the next transfer; 0: some hours; < 0: each transfer is made before the one that follows on the way
}

// chain adds transfers from each account to the next.
func (s *Sample) chain(r *rand.Rand, accounts []string, h hop) {
	cents, ago := h.cents, time.Duration(days-1-r.IntN(3))*24*time.Hour
	if cents == 0 {
		cents = 300_000 + r.Int64N(600_000)
	}
	for i, from := range accounts[:len(accounts)-1] {
		s.pay(from, accounts[i+1], cents, ago)
		if h.keep != 0 {
			cents = int64(float64(cents) * h.keep)
		} else {
			cents -= cents * (1 + r.Int64N(3)) / 100
		}
		if h.wait != 0 {
			ago -= h.wait
		} else {
			ago -= time.Duration(60+r.IntN(600)) * time.Minute
		}
	}
}

// innocent adds what is nearly a ring.
func (s *Sample) innocent(r *rand.Rand, take func(n int) []string) {
	back := func(n int) []string {
		c := take(n)
		return append(c, c[0])
	}
	s.chain(r, back(3), hop{wait: Window/2 + time.Hour}) // it takes too long
	s.chain(r, back(3), hop{keep: 0.7})                  // too little comes back
	s.chain(r, back(3), hop{keep: 1.2})                  // more is passed on than came
	s.chain(r, back(3), hop{wait: -3 * time.Hour, keep: 1})
	s.chain(r, back(MinAccounts-1), hop{})
	s.chain(r, back(MaxAccounts+1), hop{wait: time.Hour})
	s.chain(r, back(3), hop{cents: LeastCents - 1})
	s.chain(r, take(4), hop{}) // it does not come back
}

// ordinary adds wages, rents and small payments.
func (s *Sample) ordinary(r *rand.Rand, person []string) {
	for i := range companies {
		s.open(fmt.Sprintf("C-%d", i+1), fmt.Sprintf("Company %d", i+1), "", "", 100_000_000)
	}
	for i := range landlords {
		s.open(fmt.Sprintf("L-%d", i+1), fmt.Sprintf("Landlord %d", i+1), "", "", 0)
	}
	minute := func() time.Duration { return time.Duration(1+r.IntN(days*24*60)) * time.Minute }
	for _, p := range person {
		s.pay(fmt.Sprintf("C-%d", 1+r.IntN(companies)), p, 180_000+r.Int64N(200_000), minute())
		s.pay(p, fmt.Sprintf("L-%d", 1+r.IntN(landlords)), LeastCents+r.Int64N(50_000), minute())
	}
	for range payments {
		from, to := r.IntN(people), r.IntN(people-1)
		if to >= from {
			to++
		}
		s.pay(person[from], person[to], 500+r.Int64N(40_000), minute())
	}
}

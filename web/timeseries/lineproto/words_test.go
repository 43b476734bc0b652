package lineproto

import (
	"math/rand/v2"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
)

// near is bytes around those that words are searched for.
const near = "+,-./0123456789:;<=>[\\]^\n\x1f !\x7f\x80\xac\xad\xb0\xb9\xbc\xbd\xdc\xffaz_"

func randomBytes(rnd *rand.Rand, from string) []byte {
	b := make([]byte, rnd.IntN(30))
	for i := range b {
		if b[i] = from[rnd.IntN(len(from))]; rnd.IntN(20) == 0 {
			b[i] = byte(rnd.Uint32())
		}
	}
	return b
}

func TestKeyEnd(t *testing.T) {
	rnd := seed.Rand(t)
	for range 200_000 {
		b := randomBytes(rnd, []string{near, "abc_", "az#\t\xbd\xff="}[rnd.IntN(3)])
		at := rnd.IntN(len(b) + 1)
		want := at
		for want < len(b) && b[want] != ',' && b[want] != ' ' && b[want] != '=' && b[want] != '\n' && b[want] != '\\' {
			want++
		}
		if got := keyEnd(b, at); got != want {
			t.Fatalf("%q from %d: %d, want %d", b, at, got, want)
		}
	}
}

func TestDigits(t *testing.T) {
	rnd := seed.Rand(t)
	for range 200_000 {
		b := randomBytes(rnd, []string{near, "0123456789"}[rnd.IntN(2)])
		at := rnd.IntN(len(b) + 1)
		first := rnd.Uint64N(1000)
		n, want := first, at
		for ; want < len(b) && '0' <= b[want] && b[want] <= '9'; want++ {
			n = n*10 + uint64(b[want]-'0') // overflows like digits
		}
		if got, end := digits(b, at, first); end != want || got != n {
			t.Fatalf("%q from %d: %d to %d, want %d to %d", b, at, got, end, n, want)
		}
	}
}

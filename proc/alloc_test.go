package proc_test

import (
	"context"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/proc"
)

// allocations returns the number of allocations of one call of name in an existing
// transaction.
func allocations(t *testing.T, s *proc.Set, name string, args ...string) float64 {
	t.Helper()
	list, sink := texts(args), &discard{}
	text := []byte(name)
	var n float64
	_, err := s.Engine().Update(context.Background(), func(tx engine.Tx) (err error) {
		n = testing.AllocsPerRun(1000, func() {
			c, e := s.Begin(text)
			if e == nil {
				e = c.Arguments(list)
			}
			if e == nil {
				e = c.Run(tx)
			}
			if e == nil {
				e = c.Write(sink)
			}
			if c.End(); e != nil {
				err = e
			}
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestAllocations checks that a call allocates only the texts among its arguments, besides
// what the procedure allocates.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector empties pools")
	}
	type in struct {
		A int
		B uint8
		C float64
		D bool
		E string `json:",omitempty"`
		F []byte `json:",omitempty"`
	}
	type out struct {
		A    int
		Text string
		F    float64
		Big  uint64
		Sub  point
	}
	inside := proc.Define("inside", func(_ *proc.Tx, in in) (int, error) { return in.A, nil })
	s := newSet(t, proc.Options{}, inside,
		proc.Define("calls", func(tx *proc.Tx, in in) (out, error) {
			n, err := inside.Run(tx, in)
			if _, ok, err := tx.KV(0).Get([]byte("a")); ok || err != nil {
				return out{}, err
			}
			_ = tx.Rand().Uint64()
			return out{A: n, Text: "text", F: 1.5, Big: 1 << 63}, err
		}))
	for _, x := range []struct {
		name string
		args string
		most float64
	}{{"inside", "1 2 3.5 true", 0}, {"calls", "-1 0 1e9 0", 0}, {"inside", "1 2 3.5 true text", 1}, {"inside", "1 2 3.5 true text bytes", 2}} {
		if n := allocations(t, s, x.name, strings.Fields(x.args)...); n > x.most {
			t.Errorf("%s %s allocates %v times, at most %v", x.name, x.args, n, x.most)
		}
	}
}

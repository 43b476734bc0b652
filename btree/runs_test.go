package btree

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
)

// TestLoadRuns: runs that goroutines pack at the same time make the same map as one Load.
func TestLoadRuns(t *testing.T) {
	r := seed.Rand(t)
	gen := func(r *rand.Rand) []byte { return binary.BigEndian.AppendUint32(nil, r.Uint32()) }
	for range 5 {
		var m model
		for range r.IntN(4000) {
			m.set(gen(r), r.Int())
		}
		l := NewLoading()
		for _, run := range packRuns(t, r, l, m) {
			if err := l.Add(run); err != nil {
				t.Fatal(err)
			}
		}
		tree := newInts()
		tree.Set([]byte("before"), 1)
		tree.p.LoadRuns(l)
		if err := same(tree, m); err != nil {
			t.Fatal(err)
		}
		for range 50 { // its leaves belong to it
			step(t, r, tree, &m, gen, r.IntN(2) == 0)
		}
		if err := same(tree, m); err != nil {
			t.Fatal(err)
		}
	}
}

// packRuns packs m in runs of random lengths.
func packRuns(t *testing.T, r *rand.Rand, l *Loading, m model) []*Run {
	var lengths []int
	for left := len(m); left > 0; {
		n := r.IntN(min(300, left) + 1)
		lengths = append(lengths, n)
		left -= n
	}
	runs, next := make([]*Run, len(lengths)), make(chan func(*Packer), len(lengths))
	for i, n := range lengths {
		part := m[:n]
		m = m[n:]
		next <- func(p *Packer) {
			run, err := p.Pack(encodeAll(part.all()))
			if err != nil {
				t.Error(err)
			}
			runs[i] = run
		}
	}
	close(next)
	var packing sync.WaitGroup
	for range 3 {
		packing.Go(func() {
			p := l.NewPacker()
			for pack := range next {
				pack(p)
			}
		})
	}
	packing.Wait()
	return runs
}

func TestLoadRunsRefuses(t *testing.T) {
	l := NewLoading()
	run := func(keys ...string) *Run {
		var m model
		for _, key := range keys {
			m = append(m, pair{[]byte(key), 1})
		}
		r, err := l.NewPacker().Pack(encodeAll(m.all()))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if err := l.Add(run("b", "d")); err != nil {
		t.Fatal(err)
	}
	for _, first := range []string{"a", "c", "d"} {
		var order *OrderError
		if err := l.Add(run(first, "e")); !errors.As(err, &order) || order.Index != 2 {
			t.Errorf("a run from %q: %v", first, err)
		}
	}
	if err := l.Add(run()); err != nil {
		t.Error(err)
	}
	if err := l.Add(run("da")); err != nil {
		t.Error(err)
	}
	tree := newInts()
	tree.p.LoadRuns(l)
	if err := same(tree, model{{[]byte("b"), 1}, {[]byte("d"), 1}, {[]byte("da"), 1}}); err != nil {
		t.Error(err)
	}
}

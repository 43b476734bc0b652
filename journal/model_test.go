package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/journal"
	"github.com/skerrydb/skerry/journal/memfs"
)

// state is the expected contents of a log: recs from index base on. Those before need may
// be missing.
type state struct {
	base, need uint64
	recs       [][]byte
}

func (s state) next() uint64 { return s.base + uint64(len(s.recs)) }

func (s state) with(recs [][]byte) state {
	s.recs = append(slices.Clip(s.recs), recs...)
	return s
}

// upTo returns s without the records after index.
func (s state) upTo(index uint64) state {
	s.recs = s.recs[:index+1-s.base]
	return s
}

// match returns why l does not hold s, and that many records not yet durable,
// or nil.
func (s state) match(l *journal.Log, pending int) error {
	first, next := l.First(), l.Durable()+1
	if next != s.next() || l.Last() != l.Durable()+uint64(pending) {
		return fmt.Errorf("last is %d and durable %d, want %d, and %d more", l.Last(), l.Durable(), s.next()-1, pending)
	}
	if first > s.need && first > s.base || first < s.base {
		return fmt.Errorf("first is %d, want %d to %d", first, s.base, s.need)
	}
	at := first
	for r, err := range l.Read(first) {
		if err != nil {
			return err
		}
		if r.Index != at || at >= next {
			return fmt.Errorf("record %d where %d should be, the last is %d", r.Index, at, next-1)
		}
		if want := s.recs[at-s.base]; !bytes.Equal(r.Data, want) {
			return fmt.Errorf("record %d is %.20q… (%d bytes), want %.20q… (%d)", at, r.Data, len(r.Data), want, len(want))
		}
		at++
	}
	if at != next {
		return fmt.Errorf("reading ended before record %d, the last is %d", at, next-1)
	}
	return nil
}

// model drives one log and knows its expected contents.
type model struct {
	t       *testing.T
	rng     *rand.Rand
	fs      *memfs.FS
	o       journal.Options
	l       *journal.Log
	durable state
	pending [][]byte
	count   int    // of records ever made, so that each is different
	cuts    int    // torn tails cut
	kinds   [8]int // of what happened
}

func newModel(t *testing.T, n uint64) *model {
	m := &model{t: t, rng: rand.New(rand.NewPCG(n, 1)), fs: memfs.New(n), durable: state{base: 1, need: 1}}
	m.o = journal.Options{
		FS:           m.fs,
		SegmentBytes: 8<<10 + m.rng.Int64N(32<<10),
		ReserveBytes: 4096 * (1 + m.rng.Int64N(4)),
		Inline:       m.rng.IntN(4) > 0,
		Random:       rand.NewChaCha8([32]byte{byte(n)}),
		OnCut:        func(journal.Cut) { m.cuts++ },
	}
	m.reopen(m.durable)
	return m
}

// reopen opens the log, which must be in one of the given states.
func (m *model) reopen(allowed ...state) {
	m.t.Helper()
	l, err := journal.Open("log", m.o)
	if err != nil {
		m.t.Fatalf("open: %v", err)
	}
	m.l, m.pending = l, nil
	var errs []error
	for _, s := range allowed {
		if err = s.match(l, 0); err == nil {
			m.durable = s
			m.durable.need = max(s.need, l.First()) // what is gone stays gone
			return
		}
		errs = append(errs, err)
	}
	m.t.Fatalf("after opening, none of %d allowed states: %v", len(allowed), errors.Join(errs...))
}

// append adds records. Where the background runs, a fault may show here.
func (m *model) append() {
	for range 1 + m.rng.IntN(6) {
		m.count++
		n := m.rng.IntN(60)
		switch m.rng.IntN(30) {
		case 0:
			n = m.rng.IntN(60 << 10)
		case 1, 2, 3, 4, 5, 6:
			n = m.rng.IntN(4 << 10)
		}
		rec := append(fmt.Appendf(nil, "%d:", m.count), bytes.Repeat([]byte{byte(m.count)}, n)...)
		index := m.durable.next() + uint64(len(m.pending))
		var failed *journal.FailedError
		if err := m.l.Append(index, rec); errors.As(err, &failed) && !m.o.Inline {
			m.lost(true, m.durable)
			return
		} else if err != nil {
			m.t.Fatalf("append %d: %v", index, err)
		}
		m.pending = append(m.pending, rec)
	}
}

// lost ends the process after an operation failed that may have had the effect
// of after, by a crash or, if the machine can still run, by a kill.
func (m *model) lost(kill bool, after state) {
	before := m.durable
	m.l.Close() // its background must end; it can do no more harm
	if kill {
		m.fs.Kill()
	} else {
		m.fs.Crash()
	}
	m.reopen(before, after)
	if m.rng.IntN(3) == 0 { // what Open showed must stay
		m.l.Close()
		m.fs.Crash()
		m.reopen(m.durable)
	}
}

// try runs op, which on success leads to after. An error that matches the planned fault is
// allowed.
func (m *model) try(what string, after state, op func() error) {
	m.t.Helper()
	err := op()
	var failed *journal.FailedError
	switch {
	case err == nil:
		m.durable, m.pending = after, nil
	case errors.Is(err, syscall.ENOSPC):
		m.fs.LimitSpace(-1)
		if what == "sync" {
			m.pending = nil
		}
		m.kinds[0]++
		if err := m.durable.match(m.l, len(m.pending)); err != nil {
			m.t.Fatalf("after %s without space: %v", what, err)
		}
		if m.rng.IntN(2) == 0 { // what was undone must not come back
			m.lost(m.rng.IntN(2) == 0, m.durable)
		}
	case errors.Is(err, memfs.ErrStopped): // while it was only reading
		m.lost(false, m.durable)
	case errors.As(err, &failed):
		m.kinds[1]++
		if err := m.l.Append(m.l.Last()+1, nil); !errors.As(err, &failed) {
			m.t.Fatalf("append after a disk failure: %v", err)
		}
		if err := m.l.Sync(); !errors.As(err, &failed) {
			m.t.Fatalf("sync after a disk failure: %v", err)
		}
		m.lost(m.rng.IntN(3) == 0, after)
	default:
		m.t.Fatalf("%s: %v", what, err)
	}
}

// fault plans one, sometimes, and then no other.
func (m *model) fault() {
	n := m.rng.IntN(40)
	if n > 5 {
		return
	}
	m.fs.StopAfter(-1)
	m.fs.FailSync(0)
	m.fs.LimitSpace(-1)
	m.fs.ShortWrite(0, 0)
	switch n {
	case 0, 1, 2:
		m.fs.StopAfter(m.rng.IntN(12))
	case 3:
		m.fs.FailSyncAs(1+m.rng.IntN(4), []error{syscall.EIO, syscall.ENOSPC}[m.rng.IntN(2)])
	case 4:
		m.fs.LimitSpace(m.rng.Int64N(20 << 10))
	case 5:
		m.fs.ShortWrite(1+m.rng.IntN(3), 1<<m.rng.IntN(14))
	}
}

func (m *model) step() {
	m.fault()
	d := m.durable
	switch n := m.rng.IntN(20); {
	case n < 9:
		m.append()
		if n > 2 {
			m.try("sync", d.with(m.pending), m.l.Sync)
		}
	case n < 12:
		low := max(d.need, d.base)
		index := low - 1 + m.rng.Uint64N(d.next()-low+1)
		m.kinds[2]++
		m.try("truncate after", d.upTo(index), func() error { return m.l.TruncateAfter(index) })
	case n < 14:
		d.need = max(d.need, d.base+m.rng.Uint64N(d.next()-d.base+1))
		pending := m.pending
		m.try("truncate before", d, func() error { return m.l.TruncateBefore(d.need) })
		if m.durable.next() == d.next() && m.l.Last()+1 == d.next()+uint64(len(pending)) {
			m.pending = pending
		}
	case n == 14 && m.rng.IntN(3) == 0:
		next := 1 + m.rng.Uint64N(2*d.next())
		m.kinds[3]++
		m.try("reset", state{base: next, need: next}, func() error { return m.l.Reset(next) })
	case n == 15:
		m.l.Close()
		m.fs.LimitSpace(-1)
		m.fs.Kill()
		m.reopen(d)
	case n == 16:
		m.kinds[4]++
		m.lost(m.rng.IntN(2) == 0, d)
	}
}

// TestModel runs random operations, faults and crashes, and checks that the log keeps
// everything that it acknowledged.
func TestModel(t *testing.T) {
	start := seed.Of(t)
	cuts, kinds := 0, [8]int{}
	for run := range 150 {
		m := newModel(t, start+uint64(run))
		for range 150 {
			m.step()
		}
		m.l.Close()
		m.fs.Kill()
		m.verify(run)
		cuts += m.cuts
		for i, n := range m.kinds {
			kinds[i] += n
		}
		if t.Failed() {
			t.Logf("run %d", run)
			return
		}
	}
	t.Logf("torn tails %d, no space %d, disk failures %d, truncations %d, resets %d, crashes %d",
		cuts, kinds[0], kinds[1], kinds[2], kinds[3], kinds[4])
	for i, n := range append(kinds[:5:5], cuts) {
		if n == 0 {
			t.Errorf("kind %d of event never happened: the test does not test", i)
		}
	}
}

// verify compares the result of Verify with that of Open.
func (m *model) verify(run int) {
	rep, err := journal.Verify(m.fs, "log", nil)
	if err != nil || len(rep.Problems) > 0 {
		m.t.Fatalf("run %d: verify: %v, %v", run, rep.Problems, err)
	}
	m.reopen(m.durable)
	if rep.Files > 0 && (rep.First != m.l.First() || rep.Last != m.l.Last() || rep.Records != int(rep.Last+1-rep.First)) {
		m.t.Fatalf("run %d: verify says %+v, the log has %d to %d", run, rep, m.l.First(), m.l.Last())
	}
	m.l.Close()
}

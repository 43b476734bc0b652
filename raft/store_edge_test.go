package raft

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"go.etcd.io/raft/v3"
)

// TestStoreEdges takes a Store through random appends, replaced ends, shortened
// logs, installed snapshots and restarts, and looks at both sides of each of its
// edges after every step: the oldest entry, the newest, the snapshot.
func TestStoreEdges(t *testing.T) {
	first := seed.Of(t)
	for run := range uint64(150) {
		m := &storeModel{t: t, rng: rand.New(rand.NewPCG(first, run)), log: &memLog{}, terms: []uint64{0}, term: 1}
		m.open()
		for range 30 {
			m.step()
			m.check()
			if t.Failed() {
				t.Fatalf("in run %d", run)
			}
		}
	}
}

// storeModel is a Store and what it must know.
type storeModel struct {
	t     *testing.T
	rng   *rand.Rand
	log   *memLog
	s     *Store
	term  uint64
	terms []uint64 // of all entries that there ever were, by index
	vote  Vote
	snap  Base
}

func (m *storeModel) open() {
	s, err := NewStore(m.log, m.log.vote, m.snap)
	if err != nil {
		m.t.Fatal(err)
	}
	m.s = s
	if m.rng.IntN(2) == 0 {
		s.most = 3 * (1 + entryOverhead) // three entries: older ones are read from the log
	}
}

func (m *storeModel) last() uint64 { return uint64(len(m.terms)) - 1 }

// upTo is some index from a first one to the last, often one of the two.
func (m *storeModel) upTo(first uint64) uint64 {
	switch m.rng.IntN(4) {
	case 0:
		return first
	case 1:
		return m.last()
	}
	return first + m.rng.Uint64N(m.last()-first+1)
}

func (m *storeModel) step() {
	switch n := m.rng.IntN(12); {
	case n < 6:
		m.append()
	case n < 8 && m.last() > m.snap.Index: // a snapshot is taken, and the log shortened, if at all, by less or up to it
		at := m.upTo(m.snap.Index + 1)
		m.snap = Base{Index: at, Term: m.terms[at]}
		if first := m.log.First(); len(m.log.entries) > 0 && first <= at {
			m.log.truncateBefore(first + m.rng.Uint64N(at-first+2))
		}
		m.s.Compacted(m.snap)
	case n == 8: // a snapshot of another node comes
		m.term++
		for range m.rng.IntN(3) {
			m.terms = append(m.terms, m.term)
		}
		m.snap = Base{Index: m.last(), Term: m.terms[m.last()]}
		if err := m.s.Installed(m.snap); err != nil {
			m.t.Fatal(err)
		}
	case n == 9:
		m.open()
	case n == 10:
		m.term++
		m.vote = Vote{Term: m.term, For: m.rng.Uint64N(3)}
		m.save(&Save{Vote: m.vote})
	}
}

// append saves some entries, which may take the place of those at the end that are
// not in the snapshot.
func (m *storeModel) append() {
	from := m.last() + 1
	if m.rng.IntN(3) == 0 {
		from = m.upTo(max(m.snap.Index, m.s.first-1)) + 1
		m.term++
	}
	m.terms = m.terms[:from]
	w := &Save{}
	for range 1 + m.rng.IntN(4) {
		w.Entries = append(w.Entries, toPB(Entry{Index: m.last() + 1, Term: m.term, Data: []byte("x")}))
		m.terms = append(m.terms, m.term)
	}
	m.save(w)
}

func (m *storeModel) save(w *Save) {
	if err := errors.Join(m.s.Append(w), m.s.Sync(w)); err != nil {
		m.t.Fatal(err)
	}
}

func (m *storeModel) check() {
	m.t.Helper()
	first, _ := m.s.FirstIndex()
	last, _ := m.s.LastIndex()
	kept := m.log.First()
	if len(m.log.entries) == 0 {
		kept = m.snap.Index + 1
	}
	switch {
	case last != m.last():
		m.t.Errorf("the last entry is %d, want %d", last, m.last())
	case first < kept || first > kept+1 || first != kept && kept == m.snap.Index+1:
		m.t.Errorf("the first entry is %d; the log begins at %d, the snapshot is of %d", first, kept, m.snap.Index)
	}
	for i := uint64(0); i <= m.last()+2; i++ {
		term, err := m.s.Term(i)
		switch {
		case i == m.snap.Index, i >= first-1 && i <= last:
			if err != nil || term != m.terms[i] {
				m.t.Errorf("the term of %d is %d (%v), want %d; first %d, last %d, snapshot %d", i, term, err, m.terms[i], first, last, m.snap.Index)
			}
		case i < first && !errors.Is(err, raft.ErrCompacted), i > last && !errors.Is(err, raft.ErrUnavailable):
			m.t.Errorf("the term of %d: %d, %v; first %d, last %d", i, term, err, first, last)
		}
	}
	if _, err := m.s.Entries(first-1, first, 1<<40); !errors.Is(err, raft.ErrCompacted) {
		m.t.Errorf("the entry before the first: %v", err)
	}
	if _, err := m.s.Entries(last+1, last+2, 1<<40); !errors.Is(err, raft.ErrUnavailable) {
		m.t.Errorf("the entry after the last: %v", err)
	}
	for lo := first; lo <= last; lo++ {
		for _, hi := range []uint64{lo + 1, last + 1} {
			m.same(lo, hi)
		}
	}
	hard, _, _ := m.s.InitialState()
	want := max(m.vote.Term, m.terms[last])
	if hard.GetTerm() != want || hard.GetVote() != 0 && (hard.GetTerm() != m.vote.Term || hard.GetVote() != m.vote.For) || m.vote.Term == want && hard.GetVote() != m.vote.For {
		m.t.Errorf("it starts with %v; the vote was %+v, the last entry has term %d", hard, m.vote, m.terms[last])
	}
}

func (m *storeModel) same(lo, hi uint64) {
	m.t.Helper()
	got, err := m.s.Entries(lo, hi, 1<<40)
	if err != nil || uint64(len(got)) != hi-lo {
		m.t.Errorf("entries %d to %d: %d of them, %v", lo, hi, len(got), err)
	}
	for i, e := range got {
		if at := lo + uint64(i); e.GetIndex() != at || e.GetTerm() != m.terms[at] {
			m.t.Errorf("entry %d is entry %d of term %d, want term %d", at, e.GetIndex(), e.GetTerm(), m.terms[at])
		}
	}
}

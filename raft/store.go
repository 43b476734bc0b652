package raft

import (
	"fmt"
	"iter"
	"sync"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// Log stores a node's entries and its vote. One goroutine may read while another
// appends or syncs. Errors are permanent, except those that Machine.Temporary
// recognises.
type Log interface {
	// Append adds entries, which become durable with the next Sync. It first removes,
	// durably, existing entries from the first one's index on.
	Append(entries []Entry) error
	// Sync makes all appended entries durable. If it fails with a temporary error,
	// the entries appended since the last Sync are dropped.
	Sync() error
	// SetVote makes v durable before it returns.
	SetVote(v Vote) error
	// First and Last return the first and last index of the durable entries.
	// Last < First if there are none.
	First() uint64
	Last() uint64
	// Read yields the durable entries from index from on. The data of each is valid
	// until the next one is read.
	Read(from uint64) iter.Seq2[Entry, error]
	// Reset removes all entries; the next one has index next.
	Reset(next uint64) error
}

// tailBytes is how much of the newest log is kept in memory for followers. Those that
// are further behind get entries from the files.
const tailBytes = 16 << 20

// entryOverhead is the memory of an entry beside its data.
const entryOverhead = 192

// Store makes a Log a raft.Storage: it keeps the newest entries in memory and knows
// the state that the log continues from. It is safe for concurrent use.
type Store struct {
	log Log

	mu   sync.Mutex
	vote Vote
	// The commit index. Every saved entry carries it: before a node acknowledges a
	// second membership change it must have made durable that the first one is
	// committed. Otherwise it could restart with outdated members and elect itself
	// among them.
	commit uint64
	start  Members         // at the index that the machine started from
	snap   Base            // newest state that can be sent to a follower
	prev   entryID         // of the entry before first
	first  uint64          // oldest entry that can be read
	tail   []*raftpb.Entry // the newest entries, without a gap up to last
	size   int             // of tail, in bytes, with entryOverhead for each
	most   int             // limit of size, except for a single larger entry; only tests change it
	last   entryID
}

type entryID struct{ index, term uint64 }

// NewStore returns a Store for log, which continues from base, the newest state on
// disk. The log must not end before base.Index, unless it is empty.
func NewStore(log Log, vote Vote, base Base) (*Store, error) {
	s := &Store{log: log, vote: vote, most: tailBytes, snap: base, start: base.Members, prev: entryID{base.Index, base.Term}}
	s.first, s.last = base.Index+1, s.prev
	if log.Last() < log.First() {
		return s, nil
	}
	// Unless the oldest entry is the very first or follows the base, the term of its
	// predecessor is unknown. Then the oldest entry only serves as the predecessor.
	begun := false
	for e, err := range log.Read(log.First()) {
		if err != nil {
			return nil, fmt.Errorf("raft: read the log: %w", err)
		}
		switch {
		case !begun && (e.Index == 1 || e.Index == base.Index+1):
			s.first = e.Index
			if e.Index == 1 {
				s.prev = entryID{}
			}
		case !begun:
			s.prev, s.first = entryID{e.Index, e.Term}, e.Index+1
		}
		begun = true
		if e.Index == base.Index && e.Term != base.Term {
			return nil, fmt.Errorf("raft: entry %d of the log has term %d, but the state was built on term %d: this is a different log", e.Index, e.Term, base.Term)
		}
		s.last = entryID{e.Index, e.Term}
		s.commit = max(s.commit, e.Commit)
		s.keep(e)
	}
	return s, nil
}

// keep adds a durable entry to the tail. It copies the data, which belongs to the
// log.
func (s *Store) keep(e Entry) {
	e.Data = append([]byte(nil), e.Data...)
	s.push(toPB(e))
}

// cost returns how much of the limit of the tail an entry takes.
func cost(e *raftpb.Entry) int { return len(e.GetData()) + entryOverhead }

func (s *Store) push(e *raftpb.Entry) {
	s.tail = append(s.tail, e)
	s.size += cost(e)
	n := 0
	for s.size > s.most && n < len(s.tail)-1 {
		s.size -= cost(s.tail[n])
		n++
	}
	if n > 0 {
		clear(s.tail[:n])
		s.tail = s.tail[n:]
	}
}

// Vote returns the newest durable vote.
func (s *Store) Vote() Vote {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.vote
}

// holds reports whether everything in w that must be durable is durable, once all
// earlier Saves are.
func (s *Store) holds(w *Save) bool {
	return len(w.Entries) == 0 && w.Snapshot == nil && (w.Vote.Term == 0 || w.Vote == s.Vote())
}

// note raises the commit index that later entries carry, and returns it.
func (s *Store) note(commit uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commit = max(s.commit, commit)
	return s.commit
}

// Append writes the vote of a Save, durably, and its entries to the log. The entries
// are durable once Sync has returned. A snapshot must have been installed before.
func (s *Store) Append(w *Save) error {
	if v := w.Vote; v.Term != 0 && v != s.Vote() && !failpoint("vote-not-kept") {
		if err := s.log.SetVote(v); err != nil {
			return err
		}
		s.mu.Lock()
		s.vote = v
		s.mu.Unlock()
	}
	commit := s.note(w.Commit)
	if len(w.Entries) == 0 {
		return nil
	}
	if failpoint("commit-not-kept") {
		commit = 0
	}
	entries := make([]Entry, len(w.Entries))
	for i, e := range w.Entries {
		entries[i] = fromPB(e)
		entries[i].Commit = commit
	}
	return s.log.Append(entries)
}

// Sync makes the appended entries durable: those of the given Saves, in order.
func (s *Store) Sync(saves ...*Save) error {
	if err := s.log.Sync(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range saves {
		for _, e := range w.Entries {
			s.cut(e.GetIndex())
			s.push(e)
			s.last = entryID{e.GetIndex(), e.GetTerm()}
		}
	}
	return nil
}

// cut removes entries from index on from the tail.
func (s *Store) cut(index uint64) {
	for n := len(s.tail); n > 0 && s.tail[n-1].GetIndex() >= index; n-- {
		s.size -= cost(s.tail[n-1])
		s.tail[n-1] = nil
		s.tail = s.tail[:n-1]
	}
}

// Installed reports that the machine is now in state b, from a durable snapshot. It
// empties the log.
func (s *Store) Installed(b Base) error {
	if !failpoint("snapshot-keeps-log") {
		if err := s.log.Reset(b.Index + 1); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tail, s.size = nil, 0
	s.snap, s.prev, s.last = b, entryID{b.Index, b.Term}, entryID{b.Index, b.Term}
	s.first = b.Index + 1
	return nil
}

// Compacted reports that a snapshot of state b is durable and that the log may
// have dropped entries since.
func (s *Store) Compacted(b Base) {
	first := s.log.First()
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.Index > s.snap.Index {
		s.snap = b
	}
	if first <= s.first {
		return
	}
	if first == s.snap.Index+1 { // a follower that gets the snapshot continues here
		s.prev, s.first = entryID{s.snap.Index, s.snap.Term}, first
		return
	}
	// The oldest remaining entry only serves as the predecessor.
	if term, err := s.term(first); err == nil {
		s.prev, s.first = entryID{first, term}, first+1
	}
}

// Base returns the newest state that can be sent.
func (s *Store) Base() Base {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.snap
}

// InitialState implements raft.Storage.
func (s *Store) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	commit := max(s.snap.Index, min(s.commit, s.last.index))
	hs := &raftpb.HardState{Term: new(max(s.vote.Term, s.last.term)), Vote: new(s.vote.For), Commit: new(commit)}
	if s.vote.Term < s.last.term {
		hs.Vote = new(uint64(0))
	}
	return hs, s.start.conf(), nil
}

// Entries implements raft.Storage.
func (s *Store) Entries(lo, hi, maxSize uint64) ([]*raftpb.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if lo < s.first {
		return nil, raft.ErrCompacted
	}
	if hi > s.last.index+1 {
		return nil, raft.ErrUnavailable
	}
	if len(s.tail) > 0 && lo >= s.tail[0].GetIndex() {
		from := lo - s.tail[0].GetIndex()
		return bounded(s.tail[from:from+hi-lo], maxSize), nil
	}
	return s.fromLog(lo, hi, maxSize)
}

// bounded copies as many entries as fit, and at least one.
func bounded(all []*raftpb.Entry, maxSize uint64) []*raftpb.Entry {
	size := uint64(0)
	n := 0
	for n < len(all) {
		if size += uint64(len(all[n].GetData())) + 16; n > 0 && size > maxSize {
			break
		}
		n++
	}
	return append([]*raftpb.Entry(nil), all[:n]...)
}

// fromLog reads entries that are no longer in memory.
func (s *Store) fromLog(lo, hi, maxSize uint64) (out []*raftpb.Entry, err error) {
	size := uint64(0)
	for e, err := range s.log.Read(lo) {
		if err != nil && s.log.First() > lo {
			return nil, raft.ErrCompacted // the log has just dropped it, and Compacted is about to be called
		}
		if err != nil {
			return nil, fmt.Errorf("raft: read entry %d: %w", lo, err)
		}
		size += uint64(len(e.Data)) + 16
		if e.Index >= hi || len(out) > 0 && size > maxSize {
			break
		}
		e.Data = append([]byte(nil), e.Data...)
		out = append(out, toPB(e))
	}
	if len(out) == 0 {
		return nil, raft.ErrUnavailable
	}
	return out, nil
}

// Term implements raft.Storage.
func (s *Store) Term(i uint64) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.term(i)
}

func (s *Store) term(i uint64) (uint64, error) {
	switch {
	case i == s.prev.index:
		return s.prev.term, nil
	case i == s.snap.Index:
		return s.snap.Term, nil
	case i == s.last.index:
		return s.last.term, nil
	case i < s.first:
		return 0, raft.ErrCompacted
	case i > s.last.index:
		return 0, raft.ErrUnavailable
	case len(s.tail) > 0 && i >= s.tail[0].GetIndex():
		return s.tail[i-s.tail[0].GetIndex()].GetTerm(), nil
	}
	some, err := s.fromLog(i, i+1, 0)
	if err != nil {
		return 0, err
	}
	return some[0].GetTerm(), nil
}

// LastIndex implements raft.Storage.
func (s *Store) LastIndex() (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last.index, nil
}

// FirstIndex implements raft.Storage.
func (s *Store) FirstIndex() (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first, nil
}

// Snapshot implements raft.Storage. It returns only metadata; the content is added
// when the snapshot is sent.
func (s *Store) Snapshot() (*raftpb.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.snap.Index == 0 {
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	return s.snap.pb(nil), nil
}

// pb converts b to a snapshot of the library.
func (b Base) pb(data []byte) *raftpb.Snapshot {
	return &raftpb.Snapshot{Data: data, Metadata: &raftpb.SnapshotMetadata{
		ConfState: b.Members.conf(), Index: new(b.Index), Term: new(b.Term),
	}}
}

// Attach records in a snapshot message the state of the snapshot sent with it.
func Attach(m *Message, b Base) { m.Snapshot = b.pb(nil) }

// BaseOf returns the state of a snapshot, and its Data.
func BaseOf(s *raftpb.Snapshot) (Base, []byte) {
	m := s.GetMetadata()
	return Base{m.GetIndex(), m.GetTerm(), membersOf(m.GetConfState())}, s.GetData()
}

func fromPB(e *raftpb.Entry) Entry {
	kind := Data
	if e.GetType() != raftpb.EntryNormal {
		kind = Change
	}
	return Entry{Index: e.GetIndex(), Term: e.GetTerm(), Kind: kind, Data: e.GetData()}
}

func toPB(e Entry) *raftpb.Entry {
	typ := raftpb.EntryNormal
	if e.Kind == Change {
		typ = raftpb.EntryConfChangeV2
	}
	return &raftpb.Entry{Index: new(e.Index), Term: new(e.Term), Type: typ.Enum(), Data: e.Data}
}

package raft

import (
	"errors"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
)

// TestShortenedToTheSnapshot: a log that begins right after the snapshot has all
// that a follower needs that has got it. If its first entry were withheld, such a
// follower would be sent the same snapshot again and again.
func TestShortenedToTheSnapshot(t *testing.T) {
	log := &memLog{}
	s, err := NewStore(log, Vote{Term: 1}, Base{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(10) {
		w := &Save{Entries: []*raftpb.Entry{toPB(Entry{Index: i + 1, Term: 1, Data: []byte("x")})}}
		if err := errors.Join(s.Append(w), s.Sync(w)); err != nil {
			t.Fatal(err)
		}
	}
	log.truncateBefore(6)
	s.Compacted(Base{Index: 5, Term: 1})
	if first, err := s.FirstIndex(); err != nil || first != 6 {
		t.Errorf("the first entry is %d (%v), want 6", first, err)
	}
	if term, err := s.Term(5); err != nil || term != 1 {
		t.Errorf("the term of the snapshot: %d, %v", term, err)
	}
	if es, err := s.Entries(6, 7, 1<<30); err != nil || len(es) != 1 || es[0].GetIndex() != 6 {
		t.Errorf("the entry after the snapshot: %v, %v", es, err)
	}
}

// TestWhatIsOnlyNoted: a Save is completed without the disk only if it has nothing that
// must be durable.
func TestWhatIsOnlyNoted(t *testing.T) {
	log := &memLog{}
	s, err := NewStore(log, Vote{Term: 1, For: 2}, Base{})
	if err != nil {
		t.Fatal(err)
	}
	entry := toPB(Entry{Index: 1, Term: 1, Data: []byte("x")})
	for _, c := range []struct {
		what string
		save Save
		want bool
	}{
		{"the commit index", Save{Commit: 7}, true},
		{"the commit index and the durable vote", Save{Commit: 7, Vote: Vote{Term: 1, For: 2}}, true},
		{"another vote", Save{Vote: Vote{Term: 1, For: 3}}, false},
		{"another term", Save{Vote: Vote{Term: 2, For: 2}}, false},
		{"an entry", Save{Entries: []*raftpb.Entry{entry}}, false},
		{"a snapshot", Save{Snapshot: &raftpb.Snapshot{}}, false},
	} {
		if got := s.holds(&c.save); got != c.want {
			t.Errorf("a Save with %s: %v, want %v", c.what, got, c.want)
		}
	}
	s.note(7)
	s.note(5)
	if err := s.Append(&Save{Entries: []*raftpb.Entry{entry}}); err != nil {
		t.Fatal(err)
	}
	if got := log.entries[0].Commit; got != 7 {
		t.Errorf("the entry carries commit index %d, not the noted one, 7", got)
	}
}

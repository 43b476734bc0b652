package raft

import (
	"bytes"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/raft/v3/raftpb"
)

// TestBucket: a bucket gives its rate, saves little of it, and lets a long message pass
// in advance.
func TestBucket(t *testing.T) {
	var b bucket
	now := time.Hour
	const rate = 1000
	if d := b.take(now, rate, 500); d != 0 {
		t.Errorf("the first: %v", d)
	}
	if d := b.take(now, rate, 1); d != 500*time.Millisecond {
		t.Errorf("in debt: %v", d)
	}
	if d := b.take(now+499*time.Millisecond, rate, 1); d == 0 {
		t.Error("too early")
	}
	if d := b.take(now+500*time.Millisecond, rate, 1); d != 0 {
		t.Errorf("the debt is paid: %v", d)
	}
	now += time.Hour // no more than bucketTime is saved
	sent := 0
	for b.take(now, rate, 10) == 0 {
		sent += 10
	}
	if sent > 110 {
		t.Errorf("%d bytes after an hour", sent)
	}
}

// app returns a message with entries of a kilobyte after index.
func app(to, term, index uint64, entries int) *Message {
	m := &Message{Type: raftpb.MsgApp.Enum(), To: new(to), Term: new(term), Index: new(index)}
	for i := range entries {
		m.Entries = append(m.Entries, &raftpb.Entry{Index: new(index + uint64(i) + 1), Data: make([]byte, 1000)})
	}
	return m
}

// TestOldEntriesArePaced: entries for a follower that is behind follow its rate, in order
// and once; new ones and those of others do not wait.
func TestOldEntriesArePaced(t *testing.T) {
	now := time.Hour
	p := NewPace(func() time.Duration { return now }, func(id uint64) int64 { return int64(10_000 * (3 - id)) })
	const commit = 10_000
	if p.holds(app(2, 1, 10, 20), commit) {
		t.Fatal("the first waits")
	}
	for i, step := range []struct {
		m    *Message
		held bool
		len  int
	}{
		{app(2, 1, 30, 10), true, 1},
		{app(2, 1, 30, 10), true, 1}, // the library repeats it
		{app(2, 1, 40, 10), true, 2},
		{app(2, 1, 50, 0), true, 2}, // a probe
		{app(2, 1, 90, 10), true, 2},
		{app(2, 1, commit-1, 1), true, 2}, // a new one, but not before the old
		{app(3, 1, 30, 10), false, 2},     // without a limit
		{app(3, 1, commit-5, 2), false, 2},
		{app(4, 1, commit-paceLag, 1), false, 2}, // a small gap
	} {
		if held := p.holds(step.m, commit); held != step.held || len(p.behind[2].held) != step.len {
			t.Errorf("step %d: held %v, %d wait", i, held, len(p.behind[2].held))
		}
	}
	var got []uint64
	for range 50 { // 20 kB are owed, at 10 kB/s
		for _, m := range p.Release() {
			got = append(got, m.GetIndex())
		}
		if now += 100 * time.Millisecond; len(got) > 0 && now < time.Hour+1900*time.Millisecond {
			t.Fatalf("%v after %v", got, now-time.Hour)
		}
	}
	if len(got) != 2 || got[0] != 30 || got[1] != 40 {
		t.Errorf("released %v", got)
	}
	p.holds(app(2, 1, 100, 30), commit)
	p.holds(app(2, 1, 130, 1), commit)
	p.holds(app(2, 2, 20, 1), commit) // a new term, from further back
	if held := p.behind[2].held; len(held) != 1 || held[0].GetTerm() != 2 {
		t.Errorf("%d wait", len(held))
	}
	p.Lost(2)
	if len(p.behind[2].held) != 0 {
		t.Error("what was lost waits")
	}
}

// TestNeededVotersAreNotPaced: a voter that writes wait for is not slowed down; progress
// is shown while a follower is behind.
func TestNeededVotersAreNotPaced(t *testing.T) {
	now := time.Hour
	p := NewPace(func() time.Duration { return now }, func(uint64) int64 { return 1000 })
	status := func(second uint64) *Status {
		return &Status{Role: Role{Leads: true}, Commit: 10_000, Followers: []Follower{
			{ID: 1, Match: 10_000, State: StateReplicate, Voter: true},
			{ID: 2, Match: second, State: StateReplicate, Voter: true},
			{ID: 3, Match: 500, State: StateReplicate, Voter: true},
			{ID: 4, Match: 500, State: StateReplicate},
		}}
	}
	sending := func(uint64) bool { return false }
	s := status(9_990)
	p.Update(s, sending)
	if p.behind[3].limit.Load() != 1000 || p.behind[4].limit.Load() != 1000 || s.Followers[1].Progress != nil {
		t.Error("with two of three voters, the others are to be slowed down")
	}
	if pr := s.Followers[2].Progress; pr == nil || pr.Done != 0 || pr.Total != 9_500 {
		t.Errorf("progress %+v", pr)
	}
	s = status(600)
	p.Update(s, sending)
	if p.behind[2].limit.Load() != 0 || p.behind[3].limit.Load() != 0 || p.behind[4].limit.Load() != 1000 {
		t.Error("voters that writes wait for are slowed down")
	}
	p.behind[4].add(5000, false)
	now += 2 * time.Second
	s = status(9_990)
	s.Followers[3].Match = 2_500
	p.Update(s, sending)
	if pr := s.Followers[3].Progress; pr == nil || pr.Done != 2_000 || pr.Total != 9_500 || pr.Rate != 2_500 {
		t.Errorf("progress %+v", pr)
	}
	s.Followers[3].Match = 9_900
	if p.Update(s, sending); p.behind[4] != nil {
		t.Error("node 4 is still behind")
	}
	if p.Update(&Status{}, sending); len(p.behind) != 0 {
		t.Error("a follower has others behind it")
	}
}

// TestSnapshotsArePaced: a snapshot takes as long as its rate says, and a change of the
// rate counts at once.
func TestSnapshotsArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		c := &chase{}
		c.limit.Store(1 << 20)
		c.begin(bytes.NewReader(make([]byte, 10<<20)))
		r := &pacedReader{t.Context(), bytes.NewReader(make([]byte, 10<<20)), c, func() time.Duration { return time.Since(began) }}
		if n, err := io.Copy(io.Discard, io.LimitReader(r, 5<<20)); n != 5<<20 || err != nil {
			t.Fatal(n, err)
		}
		if d := time.Since(began); d < 4700*time.Millisecond || d > 5*time.Second {
			t.Errorf("5 MiB took %v", d)
		}
		c.limit.Store(0)
		if n, err := io.Copy(io.Discard, r); n != 5<<20 || err != nil {
			t.Fatal(n, err)
		}
		if d := time.Since(began); d > 5*time.Second || c.done != 10<<20 || c.total != 10<<20 {
			t.Errorf("%v, %d of %d bytes", d, c.done, c.total)
		}
	})
}

// TestPacedUntilUpToDate: from when a follower is behind until it has everything, its rate
// holds for new entries too, and not after that. A voter that waits for tokens when the
// others need it gets everything at once.
func TestPacedUntilUpToDate(t *testing.T) {
	now := time.Hour
	p := NewPace(func() time.Duration { return now }, func(uint64) int64 { return 10_000 })
	status := func(match, third uint64) *Status {
		return &Status{Role: Role{Leads: true}, Commit: 10_000, Followers: []Follower{
			{ID: 1, Match: 10_000, State: StateReplicate, Voter: true},
			{ID: 2, Match: match, State: StateReplicate, Voter: true},
			{ID: 3, Match: third, State: StateReplicate, Voter: true},
		}}
	}
	sending := func(uint64) bool { return false }
	if p.holds(app(2, 1, 9_700, 30), 10_000) {
		t.Error("the first waits")
	}
	if !p.holds(app(2, 1, 9_990, 10), 10_000) {
		t.Error("a new entry does not wait, though the follower is behind")
	}
	s := status(9_800, 10_000)
	if p.Update(s, sending); p.Limit(2) != 10_000 || s.Followers[1].Progress == nil {
		t.Error("a follower for which entries wait is up to date")
	}
	if p.Update(status(9_800, 9), sending); p.Limit(2) != 0 || len(p.Release()) != 1 {
		t.Error("a voter that writes wait for is slowed down")
	}
	p.Update(status(9_800, 10_000), sending)
	if p.behind[2] != nil || p.holds(app(2, 1, 10_000, 50), 10_000) || p.holds(app(2, 1, 10_050, 50), 10_000) {
		t.Error("a follower that is up to date is slowed down")
	}
}

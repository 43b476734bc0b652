package raft

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// memLog is a Log in memory. Tests can make its Sync fail as if the disk were full.
type memLog struct {
	mu      sync.Mutex // guards the fields below
	first   uint64
	entries []Entry
	synced  int // of entries
	vote    Vote
	full    bool
}

var errNoRoom, errGone = errors.New("no room"), errors.New("no longer kept")

func (l *memLog) Append(entries []Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.entries) == 0 && l.first == 0 {
		l.first = entries[0].Index
	}
	keep := int(entries[0].Index - l.first)
	l.entries = append(l.entries[:keep:keep], entries...)
	l.synced = min(l.synced, keep)
	return nil
}

func (l *memLog) Sync() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full {
		l.entries = l.entries[:l.synced]
		return errNoRoom
	}
	l.synced = len(l.entries)
	return nil
}

func (l *memLog) SetVote(v Vote) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.vote = v
	return nil
}

func (l *memLog) First() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.first, 1)
}

func (l *memLog) Last() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.first, 1) + uint64(l.synced) - 1
}

func (l *memLog) Read(from uint64) iter.Seq2[Entry, error] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if from < max(l.first, 1) {
		return func(yield func(Entry, error) bool) { yield(Entry{}, errGone) }
	}
	all := slices.Clone(l.entries[from-max(l.first, 1) : l.synced])
	return func(yield func(Entry, error) bool) {
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (l *memLog) Reset(next uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.first, l.entries, l.synced = next, nil, 0
	return nil
}

func (l *memLog) truncateBefore(index uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := int(index - l.first)
	l.entries, l.first, l.synced = slices.Clone(l.entries[n:]), index, l.synced-n
}

// cluster is a number of nodes in one process.
type cluster struct {
	t     *testing.T
	mu    sync.Mutex // guards the fields below
	nodes map[uint64]*member
	cut   map[uint64]bool // isolated nodes
	lease time.Duration
}

const testTick = 5 * time.Millisecond

var epoch = time.Now()

// member is one node: a machine that keeps all data that it is given.
type member struct {
	c    *cluster
	id   uint64
	log  *memLog
	node *Node
	tick *time.Ticker

	mu      sync.Mutex // guards the fields below
	up      chan struct{}
	state   []string
	base    Base
	files   map[string][]string
	leads   uint64
	since   time.Time // when it began to lead
	leader  uint64
	refused int
	poison  string // it cannot be applied
	tried   bool   // Install was called, and has to be called again
	ended   bool
	failed  error
}

func newCluster(t *testing.T) *cluster {
	return &cluster{t: t, nodes: map[uint64]*member{}, cut: map[uint64]bool{}}
}

// start starts a node that begins from base.
func (c *cluster) start(id uint64, log *memLog, base Base, state []string) *member {
	c.t.Helper()
	m := &member{c: c, id: id, log: log, base: base, state: slices.Clone(state), up: make(chan struct{}), files: map[string][]string{}}
	store, err := NewStore(log, log.vote, base)
	if err != nil {
		c.t.Fatal(err)
	}
	ticker := time.NewTicker(testTick)
	node, err := Start(NodeConfig{
		Config: Config{ID: id, Start: uint64(time.Now().UnixNano()), Applied: base.Index, Leases: c.lease > 0, Log: store, Logger: slog.New(slog.DiscardHandler)},
		Lease:  c.lease, Clock: func() time.Duration { return time.Since(epoch) },
		Net: link{c, id}, Machine: m, Tick: ticker.C, Lone: slices.Equal(base.Members.Voters, []uint64{id}),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	m.node, m.tick = node, ticker
	close(m.up)
	c.mu.Lock()
	c.nodes[id] = m
	c.mu.Unlock()
	c.t.Cleanup(func() { node.Close(); ticker.Stop() })
	return m
}

func (c *cluster) member(id uint64) *member {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut[id] {
		return nil
	}
	return c.nodes[id]
}

func (c *cluster) isolate(id uint64, yes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut[id] = yes
}

// link is a Net in memory.
type link struct {
	c    *cluster
	from uint64
}

func (l link) Send(to uint64, msg []byte) bool {
	m, from := l.c.member(to), l.c.member(l.from)
	if m == nil || from == nil {
		return false
	}
	<-m.up
	<-from.up
	if err := m.node.Receive(l.from, msg); err != nil {
		l.c.t.Error(err)
	}
	for i := range msg {
		msg[i] = 0xdb // it will be used again
	}
	from.node.Written(msg)
	return true
}

func (l link) Urgent(to uint64, msg []byte) bool { return l.Send(to, msg) }

func (l link) SendSnapshot(_ context.Context, to uint64, msg []byte, r io.Reader) error {
	m := l.c.member(to)
	if m == nil || l.c.member(l.from) == nil {
		return errors.New("unreachable")
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	m.mu.Lock()
	name := fmt.Sprintf("file %d", len(m.files))
	var state []string
	for _, s := range bytes.Split(b, []byte{0}) {
		state = append(state, string(s))
	}
	m.files[name] = state[:len(state)-1]
	m.mu.Unlock()
	return m.node.ReceiveSnapshot(l.from, msg, []byte(name))
}

func (m *member) Apply(entries []Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range entries {
		if m.poison != "" && string(e.Data) == m.poison {
			return errPoison
		}
		if e.Kind == Data && len(e.Data) > 0 {
			m.state = append(m.state, string(e.Data))
		}
		if e.Kind == Change {
			m.base.Members = *e.Members
		}
		m.base.Index, m.base.Term = e.Index, e.Term
	}
	return nil
}

func (m *member) Install(b Base, file []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tried = !m.tried; m.tried {
		return errNoRoom // the first time
	}
	m.base, m.state = b, m.files[string(file)]
	return nil
}

func (m *member) Lead(term uint64) {
	m.set(func() { m.leads, m.leader, m.since = term, m.id, time.Now() })
}
func (m *member) Hold() { m.set(func() { m.leads = 0 }) }
func (m *member) Follow(term, leader uint64) {
	m.set(func() { m.leads, m.leader, m.ended = 0, leader, term == 0 })
}
func (m *member) Refused(*Proposal, error) { m.set(func() { m.refused++ }) }
func (m *member) Temporary(err error) bool { return errors.Is(err, errNoRoom) }
func (m *member) Fail(err error)           { m.set(func() { m.failed = err }) }

func (m *member) set(fn func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fn()
}

func (m *member) OpenSnapshot(uint64) (Base, io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b bytes.Buffer
	for _, s := range m.state {
		b.WriteString(s + "\x00")
	}
	return m.base, io.NopCloser(&b), nil
}

func (m *member) have() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.state)
}

// leader waits until one node leads that everybody can hear.
func (c *cluster) leader() (l *member, term uint64) {
	c.t.Helper()
	eventually.True(c.t, "a leader", func() bool {
		for id := range uint64(10) {
			if m := c.member(id); m != nil {
				m.set(func() { l, term = m, m.leads })
				if term != 0 {
					return true
				}
			}
		}
		return false
	})
	return l, term
}

// put proposes until it is applied at the leader. A value can be applied twice.
func (c *cluster) put(v string) {
	c.t.Helper()
	eventually.True(c.t, "proposal "+v, func() bool {
		l, term := c.leader()
		l.node.Propose(&Proposal{term, []byte(v)})
		return eventually.Within(100*time.Millisecond, func() bool { return slices.Contains(l.have(), v) })
	})
}

func (c *cluster) same(ids ...uint64) {
	c.t.Helper()
	want, _ := c.leader()
	for _, id := range ids {
		eventually.True(c.t, fmt.Sprintf("node %d to have what the leader has", id), func() bool { return slices.Equal(c.nodes[id].have(), want.have()) })
	}
}

func three(t *testing.T) *cluster {
	return newCluster(t).three()
}

func (c *cluster) three() *cluster {
	for id := range uint64(3) {
		c.start(id+1, &memLog{}, Base{Members: Members{Voters: []uint64{1, 2, 3}}}, nil)
	}
	return c
}

func TestThreeNodes(t *testing.T) {
	t.Parallel()
	c := three(t)
	for i := range 50 {
		c.put(fmt.Sprint(i))
	}
	c.same(1, 2, 3)
	for id := range uint64(3) {
		if _, err := c.nodes[id+1].node.ReadIndex(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(c.nodes[id+1].have(), "49") {
			t.Errorf("node %d: a confirmed read does not see the last value", id+1)
		}
	}
}

// TestDeposed: an isolated leader loses its role. Its proposals are refused or never
// committed, and it confirms no read.
func TestDeposed(t *testing.T) {
	t.Parallel()
	c := three(t)
	c.put("a")
	old, term := c.leader()
	c.isolate(old.id, true)
	old.node.Propose(&Proposal{term, []byte("lost")})
	confirmed := make(chan error, 1)
	old.node.Confirm(term, func(err error) { confirmed <- err })
	c.put("b")
	if err := <-confirmed; !errors.Is(err, ErrNotLeader) {
		t.Errorf("a leader that was cut off was confirmed: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := old.node.ReadIndex(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a read without a majority: %v", err)
	}
	old.node.Propose(&Proposal{term, []byte("late")})
	eventually.True(c.t, "the late proposal to be refused", func() (ok bool) { old.set(func() { ok = old.refused > 0 }); return ok })
	c.isolate(old.id, false)
	c.put("c")
	c.same(1, 2, 3)
	for _, v := range old.have() {
		if v == "lost" || v == "late" {
			t.Errorf("%s was committed", v)
		}
	}
}

// TestLease: a leader with a lease serves reads without a majority, but none that begins
// after another node has become the leader.
func TestLease(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.lease = LeaseOf(DefaultElectionTicks, testTick)
	c.three()
	alone := 0
	for round := range 12 {
		c.put(fmt.Sprint(round))
		old, term := c.leader()
		if _, err := old.node.ReadIndex(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.isolate(old.id, true)
		cut := time.Now()
		var last time.Time
		deposed := make(chan struct{})
		go func() {
			defer close(deposed)
			for time.Since(cut) < 4*DefaultElectionTicks*testTick {
				began := time.Now()
				ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
				if _, err := old.node.ReadIndex(ctx); err == nil {
					last = began
				}
				cancel()
			}
		}()
		var next *member
		eventually.True(t, "a leader of a later term", func() bool { // another node may not know yet that old deposed it
			m, later := c.leader()
			next = m
			return later > term
		})
		var since time.Time
		next.set(func() { since = next.since })
		<-deposed
		if last.After(cut) {
			alone++
		}
		if last.After(since) {
			t.Fatalf("round %d: node %d answered a read that began %v after node %d led", round, old.id, last.Sub(since), next.id)
		}
		c.isolate(old.id, false)
	}
	if alone == 0 {
		t.Error("no read was ever answered by a lease")
	}
}

// TestLogForgetsFirst: the log drops entries that a follower needs just before Compacted is
// called. That must not stop the node.
func TestLogForgetsFirst(t *testing.T) {
	log := &memLog{}
	s, err := NewStore(log, Vote{}, Base{Members: Members{Voters: []uint64{1}}})
	if err != nil {
		t.Fatal(err)
	}
	const last = 40 // entries, of which the tail holds 32
	for i := range uint64(last) {
		w := &Save{Entries: []*raftpb.Entry{toPB(Entry{Index: i + 1, Term: 1, Data: make([]byte, 1<<20)})}}
		if err := errors.Join(s.Append(w), s.Sync(w)); err != nil {
			t.Fatal(err)
		}
	}
	if some, err := s.Entries(3, last+1, 1); err != nil || len(some) != 1 {
		t.Fatalf("before: %d entries, %v", len(some), err)
	}
	log.truncateBefore(6)
	if some, err := s.Entries(3, last+1, 1); err != raft.ErrCompacted {
		t.Errorf("entry 3: %d entries, %v", len(some), err)
	}
	if _, err := s.Term(4); err != raft.ErrCompacted {
		t.Errorf("the term of entry 4: %v", err)
	}
	if some, err := s.Entries(6, last+1, 1); err != nil || len(some) != 1 || some[0].GetIndex() != 6 {
		t.Errorf("entry 6: %v, %v", some, err)
	}
}

// TestGrow: a lone node gets two more, which become voters by themselves, one by
// a snapshot; then it leaves.
func TestGrow(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	first := c.start(1, &memLog{}, Base{Members: Members{Voters: []uint64{1}}}, nil)
	for i := range 20 {
		c.put(fmt.Sprint(i))
	}
	first.mu.Lock()
	base := first.base
	first.mu.Unlock()
	first.log.truncateBefore(base.Index)
	first.node.store.Compacted(base)
	for id := range uint64(2) {
		c.start(id+2, &memLog{}, Base{}, nil)
		c.change(Step{AddLearner, id + 2})
		eventually.True(c.t, "the learner's vote", func() bool { return slices.Contains(c.members().Voters, id+2) })
		c.put(fmt.Sprintf("after %d", id))
	}
	c.same(1, 2, 3)
	if err := c.tryChange(Step{Remove, 1}, Step{Remove, 2}, Step{Remove, 3}); err == nil {
		t.Error("the last voters could be removed")
	}
	if l, _ := c.leader(); l == first {
		if err := l.node.Do(t.Context(), func(core *Core) { core.Transfer(0) }); err != nil {
			t.Fatal(err)
		}
		eventually.True(c.t, "the hand-over", func() (ok bool) { first.set(func() { ok = first.leads == 0 }); return ok })
	}
	c.change(Step{Remove, 1})
	c.isolate(1, true)
	c.put("without 1")
	c.same(2, 3)
}

func (c *cluster) members() (m Members) {
	l, _ := c.leader()
	l.set(func() { m = l.base.Members })
	return m
}

func (c *cluster) tryChange(steps ...Step) (err error) {
	l, _ := c.leader()
	if doErr := l.node.Do(c.t.Context(), func(core *Core) { err = core.ProposeChange(steps, nil) }); doErr != nil {
		return doErr
	}
	return err
}

func (c *cluster) change(steps ...Step) {
	c.t.Helper()
	eventually.True(c.t, "a change of the members", func() bool { return c.tryChange(steps...) == nil })
}

// TestRestart: a node that comes back with its log has what it acknowledged, also
// one that was the only one.
func TestRestart(t *testing.T) {
	t.Parallel()
	c := three(t)
	for i := range 20 {
		c.put(fmt.Sprint(i))
	}
	c.same(1, 2, 3)
	for _, m := range c.nodes {
		m.node.Close()
	}
	old := c.nodes
	c.mu.Lock()
	c.nodes = map[uint64]*member{}
	c.mu.Unlock()
	for id := range uint64(3) {
		c.start(id+1, old[id+1].log, Base{Members: Members{Voters: []uint64{1, 2, 3}}}, nil)
	}
	c.put("again")
	c.same(1, 2, 3)
	if have := c.nodes[2].have(); !slices.Contains(have, "19") {
		t.Errorf("after a restart there is only %v", have)
	}
}

// TestGarbage: invalid messages are refused and do not stop a node.
func TestGarbage(t *testing.T) {
	t.Parallel()
	c := three(t)
	c.put("a")
	n := c.nodes[1].node
	if err := n.Receive(2, []byte("garbage")); err == nil {
		t.Error("garbage was accepted")
	}
	for typ := range uint64(30) { // every type, with nothing else in it, as from a node that goes wrong
		msg := append([]byte{1 << 3}, binary.AppendUvarint(nil, typ)...)
		msg = append(msg, 2<<3, 1, 3<<3, 2)
		_ = n.Receive(2, msg) // it may be refused at once, or later
	}
	c.put("b")
	c.same(1, 2, 3)
}

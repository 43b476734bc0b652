package raft

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/skerrydb/skerry/ci/eventually"
)

// TestFullDisk: a leader without disk space transfers its leadership, and catches up when
// there is space again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	c := three(t)
	c.put("a")
	old, _ := c.leader()
	full := func(yes bool) { old.log.mu.Lock(); old.log.full = yes; old.log.mu.Unlock() }
	full(true)
	for i := 0; ; i++ {
		c.put(fmt.Sprint(i)) // the others are a majority
		if l, _ := c.leader(); l != old {
			break
		}
	}
	full(false)
	c.put("z")
	c.same(1, 2, 3)
	if old.failed != nil {
		t.Error(old.failed)
	}
}

// TestFullDisks: without disk space on a majority proposals are soon refused, under any
// leader, and reads continue. With space again writes continue under the same leader.
func TestFullDisks(t *testing.T) {
	t.Parallel()
	for name, skip := range map[string]uint64{"all": 0, "followers": 1, "the leader and one more": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := three(t)
			c.put("before")
			old, term := c.leader()
			var lacking []*member
			for i := range uint64(3) { // the leader, then the others
				if i+1 != skip {
					lacking = append(lacking, c.member((old.id-1+i)%3+1))
				}
			}
			full := func(yes bool) {
				for _, m := range lacking {
					m.log.mu.Lock()
					m.log.full = yes
					m.log.mu.Unlock()
				}
			}
			full(true)
			old.node.Propose(&Proposal{term, []byte("caught in it")})
			refused := func(m *member) (n int) { m.set(func() { n = m.refused }); return n }
			eventually.True(c.t, "refusals", func() bool {
				old.node.Propose(&Proposal{term, []byte("refused")})
				return refused(old) > 10
			})
			if _, err := old.node.ReadIndex(t.Context()); err != nil {
				t.Errorf("a read while the disks are full: %v", err)
			}
			full(false)
			c.put("after")
			c.same(1, 2, 3)
		})
	}
}

// TestHoldIsRunBeforeRoomReturns: a majority that lacks room for a moment only, while
// the machine has not come to Hold yet, does not let a proposal pass that the machine
// made before it: after Lead the machine counts on everything being applied.
func TestHoldIsRunBeforeRoomReturns(t *testing.T) {
	t.Parallel()
	c := three(t)
	c.put("before")
	old, term := c.leader()
	busy, let := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(let) })
	t.Cleanup(release) // or the node does not close
	old.node.Run(func() { close(busy); <-let })
	<-busy
	quiet := false
	do := func(fn func(*Core)) {
		if err := old.node.Do(t.Context(), fn); err != nil {
			t.Fatal(err)
		}
	}
	eventually.True(c.t, "the leader to be quiet", func() bool {
		do(func(core *Core) { quiet = core.applied >= old.node.room.last })
		return quiet
	})
	do(func(*Core) {
		r := &old.node.room
		r.lacking = map[uint64]bool{old.id%3 + 1: true, (old.id+1)%3 + 1: true}
		old.node.weigh()
		if !r.held {
			t.Error("proposals are accepted although the disks of a majority are full")
		}
		clear(r.lacking)
		old.node.weigh()
	})
	old.node.Propose(&Proposal{term, []byte("between")})
	do(func(*Core) {})
	release()
	eventually.True(c.t, "a refusal", func() (ok bool) {
		old.set(func() { ok = old.refused > 0 || slices.Contains(old.state, "between") })
		return ok
	})
	c.put("after")
	if l, now := c.leader(); l == old && now == term && slices.Contains(l.have(), "between") {
		t.Error("what was proposed before Hold was committed after Lead")
	}
}

package embedded

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/raft"
)

// This file simulates raft.Node's disk goroutine, and passes reads to raft.Reads.

func (n *simNode) diskTakes() time.Duration {
	return n.slow + n.w.between(50*time.Microsecond, n.w.plan.diskDelay)
}

// save begins to make the waiting Saves durable, unless that is already in progress.
func (n *simNode) save() {
	if n.saving || len(n.saves) == 0 {
		return
	}
	n.saving = true
	n.after(n.w.between(0, time.Millisecond), func() {
		k := 1
		for k < len(n.saves) && n.saves[k].Snapshot == nil {
			k++
		}
		group := n.saves[:k:k]
		n.saves = n.saves[k:]
		if failpoint("ack-before-fsync") {
			n.answer(group)
		}
		if s := group[0].Snapshot; s != nil {
			n.do(simTask{fn: func() { n.install(group) }})
			return
		}
		n.write(group)
	})
}

// install installs the snapshot of the first Save in the applying goroutine.
func (n *simNode) install(group []*raft.Save) {
	base, file := raft.BaseOf(group[0].Snapshot)
	n.w.logf("n%d installs %+v", n.id, base)
	n.maybeStop(0.3)
	n.endFuzzy()
	if err := n.db.group.Install(base, file); err != nil {
		n.db.group.Fail(err)
		return
	}
	n.w.truth.install(n, base)
	n.installed(group, base)
}

// installed resets the log. It waits while the disk is full.
func (n *simNode) installed(group []*raft.Save, base raft.Base) {
	err := n.db.group.store.Installed(base)
	if err == nil {
		n.after(n.diskTakes(), func() { n.write(group) })
		return
	}
	n.tryAgain(err, func() { n.installed(group, base) })
}

// write appends a group to the log, and sync makes it durable.
func (n *simNode) write(group []*raft.Save) {
	for _, s := range group {
		if err := n.db.group.store.Append(s); err != nil {
			n.tryAgain(err, func() { n.write(group) })
			return
		}
	}
	n.after(n.diskTakes(), func() { n.sync(group) })
}

func (n *simNode) sync(group []*raft.Save) {
	if err := n.db.group.store.Sync(group...); err != nil {
		n.tryAgain(err, func() { n.write(group) })
		return
	}
	n.full = false
	if !failpoint("ack-before-fsync") {
		n.answer(group)
	}
	n.post(func() {
		for _, s := range group {
			n.core.Saved(s)
		}
		n.reads.Applied(n.core)
	})
	n.saving = false
	n.save()
}

// tryAgain retries if the disk is full. After any other error the node stops.
func (n *simNode) tryAgain(err error, again func()) {
	n.w.logf("n%d cannot save: %v", n.id, err)
	if engine.CodeOf(err) == engine.CodeDiskFull && !n.limited {
		n.w.violated("node %d says that its disk is full: %v", n.id, err)
	}
	if !n.db.group.Temporary(err) {
		n.db.group.Fail(err)
		return
	}
	n.full = true
	n.after(200*time.Millisecond, again)
}

// answer sends the replies that other nodes wait for.
func (n *simNode) answer(group []*raft.Save) {
	for _, s := range group {
		for _, m := range s.Others(n.id) {
			n.send(m)
		}
	}
}

// shortages makes nodes of every fourth seed sometimes report, several of them at once,
// that their disks lack space, although they do not. It has a separate random source, so
// that it does not change the other seeds.
func (w *world) shortages() {
	if w.seed%4 != 0 {
		return
	}
	r := rand.New(rand.NewPCG(w.seed, 3))
	most := []time.Duration{2 * simTick, 20 * simTick}[r.IntN(2)]
	var next func()
	next = func() {
		for _, n := range w.nodes {
			n.lacks = !w.healed && !n.lacks && r.IntN(4) > 0
		}
		if !w.healed {
			w.after(time.Duration(r.Int64N(int64(most))), next)
		}
	}
	w.after(time.Second, next)
}

// Confirm implements proposer.
func (n *simNode) Confirm(term uint64, done func(error)) {
	n.post(func() {
		n.reads.Add(context.Background(), term, func(_ uint64, err error) {
			n.do(simTask{fn: func() { done(err) }})
		})
	})
}

// ask requests the confirmation that a linearizable View waits for.
func (n *simNode) ask(done func(stamp uint64)) {
	n.post(func() {
		n.reads.Add(context.Background(), 0, func(stamp uint64, _ error) {
			n.after(n.w.between(0, 2*time.Millisecond), func() { done(stamp) })
		})
	})
}

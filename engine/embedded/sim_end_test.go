package embedded

import (
	"context"
	"slices"
	"time"

	"github.com/skerrydb/skerry/engine"
	hist "github.com/skerrydb/skerry/workload/history"
)

// heal ends all faults: from now on the cluster must work.
func (w *world) heal() {
	w.logf("heal")
	w.healed, w.lull = true, false
	w.net.set(false, func(int, int) bool { return true })
	w.net.loss, w.net.twice, w.net.late, w.net.voters = 0, 0, 0, 0
	for _, n := range w.nodes {
		n.slow, n.trapped = 0, false
		n.setRate(1)
		n.fs.StopAfter(-1)
		n.fs.FailSync(0)
		n.fs.LimitSpace(-1)
		if n.up {
			n.after(time.Second, func() { n.harmed, n.limited = false, false })
		}
	}
}

// members returns the machines that the newest roster names.
func (w *world) members() (out []*simNode) {
	r := w.roster()
	for _, n := range w.nodes {
		if r.Members.Has(n.id) {
			out = append(out, n)
		}
	}
	return out
}

// roster returns the newest roster that any node knows.
func (w *world) roster() *roster {
	r, newest := w.truth.base, uint64(0)
	for _, n := range w.nodes {
		if n.up && n.db.exec.at.index > newest && len(n.db.exec.at.roster.Members.Voters) > 0 {
			newest, r = n.db.exec.at.index, n.db.exec.at.roster
		}
	}
	return r
}

// recovery is the time after the last fault within which the cluster must accept writes
// and all nodes must have the same state. It allows for elections of 1 to 2 seconds, some
// of which fail, and for OutcomeWait.
const recovery = 60 * time.Second

// converge waits until a write has gone through and every member has it.
func (w *world) converge() {
	for _, n := range w.nodes {
		if !n.up && !n.gone && (n.life > 0 || w.roster().Members.Has(n.id)) {
			w.after(w.between(0, time.Second), n.start)
		}
	}
	end := w.now + recovery
	for !w.write() {
		if w.now > end {
			w.violated("no write went through within %v after the last fault", recovery)
		}
		w.until(w.now+200*time.Millisecond, nil)
	}
	w.reachHome()
	w.until(w.now+OutcomeWait+patience, w.quiet)
	if !w.until(end+OutcomeWait+patience, w.same) && !w.same() {
		for _, n := range w.members() {
			if n.up {
				w.logf("n%d: %+v status %+v", n.id, n.db.exec.at, n.core.Status())
			}
		}
		w.violated("the nodes do not have the same state within %v after the last fault", recovery)
	}
}

// quiet reports whether all calls have returned.
func (w *world) quiet() bool {
	for _, n := range w.nodes {
		if len(n.calls) > 0 {
			return false
		}
	}
	return true
}

// write lets a client write to the leader, and reports whether it succeeded.
func (w *world) write() bool {
	n := w.leader()
	if !n.up || !n.db.group.view.Load().serves {
		return false
	}
	op := &simOp{w: w, client: &simClient{w: w, id: 1000, ends: true}, node: n}
	op.rec.Step = hist.Step{Kind: hist.Set, Key: "end", Value: w.text()}
	op.begin()
	w.until(w.now+2*time.Second, func() bool { return op.finished })
	return op.rec.Outcome == hist.OK
}

// same reports whether all members have applied all entries.
func (w *world) same() bool {
	last := uint64(len(w.truth.entries)) + 1
	for _, n := range w.members() {
		if !n.up || n.db.exec.at.index != last || slices.ContainsFunc(n.db.exec.at.roster.Members.Learners, n.db.group.mayVote) || len(n.saves) > 0 {
			return false
		}
	}
	return true
}

// finalReads reads every key on every member, linearizably.
func (w *world) finalReads() {
	var keys []string
	for _, op := range w.ops {
		for _, s := range append(slices.Clone(op.rec.Steps), op.rec.Step) {
			keys = append(keys, append([]string{s.Key, s.To}, s.Keys...)...)
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	for _, n := range w.members() {
		client := &simClient{w: w, id: 1000 + int64(n.id), ends: true}
		for _, key := range keys {
			kind, ok := map[byte]hist.Kind{'l': hist.List, 's': hist.SetRead}[append([]byte(key), 0)[0]]
			switch {
			case key == "":
				continue
			case !ok:
				kind = hist.Get
			}
			op := &simOp{w: w, client: client, node: n, view: &simView{read: engine.Read{Level: engine.Linearizable}}}
			op.rec.Step = hist.Step{Kind: kind, Key: key}
			op.begin()
			w.until(w.now+5*time.Second, func() bool { return op.finished })
			if op.rec.Outcome != hist.OK {
				w.violated("%v: a read of a healthy cluster: %v", op, op.rec.Outcome)
			}
		}
	}
}

// checkWithin bounds the search for an order of one history.
const checkWithin = 2 * time.Second

// verdict checks the recorded history.
func (w *world) verdict() {
	ops := make([]hist.Op, len(w.ops))
	for i, op := range w.ops {
		ops[i] = op.rec
		if err := ops[i].Validate(); err != nil {
			w.violated("the record of %v is not valid: %v", op, err)
		}
	}
	switch r := hist.Check(context.Background(), ops, hist.Options{Timeout: checkWithin}); r.Verdict {
	case hist.Violation:
		w.violated("%s", r.Explanation)
	case hist.Undecided:
		w.undecided = true
	}
}

package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	hist "github.com/skerrydb/skerry/workload/history"
)

// simClient makes one call after the other, to any node.
type simClient struct {
	w    *world
	id   int64
	seen uint64 // highest position that it received
	ends bool
}

// simOp is one operation of a client.
type simOp struct {
	w        *world
	client   *simClient
	rec      hist.Op
	node     *simNode
	call     *call // of an Update
	view     *simView
	began    time.Duration
	pos      uint64
	judged   judgement
	finished bool // the client knows, or has given up
}

// simView is a View on its way.
type simView struct {
	read      engine.Read
	asked     time.Duration
	confirmed bool
	stamp     uint64
}

func (o *simOp) String() string {
	return fmt.Sprintf("client %d %s %s %s level %q on n%d", o.client.id, o.rec.Kind, o.rec.Key, o.rec.Value, o.rec.Level, o.node.id)
}

// patience is after how long a client considers an outcome unknown.
const patience = 8 * time.Second

// next makes the client's next call.
func (c *simClient) next() {
	w := c.w
	if c.ends || w.healed {
		return
	}
	n := w.pick(c.id)
	if n == nil {
		w.after(w.between(10*time.Millisecond, time.Second), c.next)
		return
	}
	op := &simOp{w: w, client: c, node: n}
	w.plan.choose(w, op)
	op.begin()
}

// pick returns the node that a client calls: usually a leader, if there is one.
func (w *world) pick(id int64) *simNode {
	var up, lead []*simNode
	for _, n := range w.nodes {
		if n.up && (id%2 == 1 || n != w.hidden) {
			up = append(up, n)
			if n.db.group.view.Load().serves {
				lead = append(lead, n)
			}
		}
	}
	if len(lead) > 0 && w.chance(0.8) {
		slices.SortFunc(lead, func(a, b *simNode) int { return int(b.db.group.view.Load().term) - int(a.db.group.view.Load().term) })
		if id%2 == 0 && w.chance(0.8) {
			return lead[0] // of the newest term
		}
		return lead[len(lead)-1]
	}
	if len(up) == 0 {
		return nil
	}
	return up[w.rng.IntN(len(up))]
}

// begin makes the call.
func (o *simOp) begin() {
	w := o.w
	o.began = w.now
	o.rec.Client = o.client.id
	o.rec.Call = w.mark()
	o.rec.Outcome = hist.Unknown
	w.ops = append(w.ops, o)
	o.judged = judgement{floor: w.clocks.judged, lost: w.clocks.lost, ends: w.clocks.endsBy()}
	w.after(patience, func() {
		if !o.finished {
			w.logf("%v: given up", o)
			o.finish()
		}
	})
	if o.node.frozen > w.now {
		o.node.after(0, o.submit) // it comes when the program goes on
		return
	}
	o.submit()
}

// submit passes the call to the node.
func (o *simOp) submit() {
	if o.finished {
		return
	}
	if o.view != nil {
		o.look()
		return
	}
	x := o.node.db.exec
	o.call = x.take()
	o.call.one = o.run
	if err := x.submit(o.call); err != nil {
		o.ended(err)
		return
	}
	o.node.calls = append(o.node.calls, o)
	o.node.settle()
}

var errUnmet = errors.New("the condition is not met")

// run is the transaction.
func (o *simOp) run(tx engine.Tx) error {
	o.judged.look(tx)
	done, err := runOp(tx, &o.rec)
	if err != nil {
		o.w.violated("%v: %v", o, err)
	}
	if !done && o.rec.Kind != hist.Txn && o.w.chance(0.5) {
		return errUnmet // nothing was written: failing is the same
	}
	return nil
}

// answered handles the outcome of an Update.
func (o *simOp) answered(n *simNode, err error) {
	c := o.call
	if c.panicked != nil {
		panic(c.panicked.value)
	}
	pos := uint64(c.pos)
	if err == nil && c.err != nil && !errors.Is(c.err, errUnmet) {
		o.w.violated("%v: %v", o, c.err)
	}
	n.db.exec.give(c)
	if err == nil && !o.finished {
		o.pos = pos
	}
	o.ended(err)
}

// ended records an outcome.
func (o *simOp) ended(err error) {
	w := o.w
	if o.finished {
		return
	}
	w.logf("%v: %v, position %d, got %v %v %d %v %v", o, err, o.pos, o.rec.Got, o.rec.Done, o.rec.Sum, o.rec.List, o.rec.Values)
	switch code := engine.CodeOf(err); {
	case err == nil:
		o.rec.Outcome = hist.OK
		o.rec.Pos = o.pos
		if o.pos == 0 && o.rec.Level == hist.Session {
			o.rec.Level = hist.Local // of nothing: a record of a session read needs a position
		}
		o.client.seen = max(o.client.seen, o.pos)
		w.clocks.judge(o)
		if o.view == nil {
			w.truth.acked = append(w.truth.acked, truthAck{w.now, o.pos})
		}
	case code == engine.CodeOutcomeUnknown, code == engine.CodeStopped:
		o.rec.Outcome = hist.Unknown
	case code == engine.CodeNotLeader, code == engine.CodeQueueFull, code == engine.CodeDiskFull, code == engine.CodePositionTimeout, errors.Is(err, errAsk):
		o.rec.Outcome = hist.Fail
	default:
		w.violated("%v: an error that nobody expects: %v", o, err)
	}
	o.finish()
}

// lost ends a call whose node has ended.
func (o *simOp) lost() {
	if !o.finished {
		o.w.logf("%v: lost", o)
		o.finish()
	}
}

func (o *simOp) finish() {
	o.finished = true
	o.rec.Return = o.w.mark()
	o.w.after(o.w.between(0, o.w.plan.think), o.client.next)
}

// look reads by View.
func (o *simOp) look() {
	n := o.node
	if o.finished {
		return
	}
	n.viewing = o.view
	pos, err := n.db.View(context.Background(), o.view.read, func(tx engine.Tx) error {
		o.judged.look(tx)
		_, err := runOp(tx, &o.rec)
		return err
	})
	n.viewing = nil
	switch {
	case err == nil:
		o.pos = uint64(pos)
		o.checkWeak()
		o.ended(nil)
	case errors.Is(err, errAsk):
		o.view.asked = n.w.now
		n.ask(func(stamp uint64) {
			o.view.confirmed, o.view.stamp = true, stamp
			o.look()
		})
		n.after(patience/2, func() { o.ended(err) })
	case engine.CodeOf(err) == engine.CodePositionTimeout && n.w.now-o.began < patience/2:
		n.after(20*time.Millisecond, o.look)
	default:
		o.ended(err)
	}
}

// checkWeak checks the promises of a read below linearizable.
func (o *simOp) checkWeak() {
	r := o.view.read
	if o.pos < uint64(r.AtLeast) {
		o.w.violated("%v shows position %d, asked for was %d", o, o.pos, r.AtLeast)
	}
	stale := cmp.Or(r.MaxStale, localStale)
	if newest := o.w.truth.ackedBefore(o.began - stale); r.Level == engine.Local && o.pos < newest {
		o.w.violated("%v shows position %d, but %d was acknowledged more than %v before", o, o.pos, newest, stale)
	}
}

// runOp runs an operation and sets its results. done reports whether it changed
// something, or had nothing to change.
func runOp(tx engine.Tx, op *hist.Op) (done bool, err error) {
	if op.Kind != hist.Txn {
		return runStep(tx, &op.Step)
	}
	for i := range op.Steps {
		if _, err := runStep(tx, &op.Steps[i]); err != nil {
			return false, err
		}
	}
	return true, nil
}

func runStep(tx engine.Tx, s *hist.Step) (done bool, err error) {
	old, err := simGet(tx, s.Key)
	if err != nil {
		return false, err
	}
	done = true
	switch s.Kind {
	case hist.Get:
		s.Got = old
	case hist.Set:
		err = simPut(tx, s.Key, s.Value)
	case hist.Delete:
		if s.Done = old.Present; s.Done {
			err = simPut(tx, s.Key, hist.Value{})
		}
		done = s.Done
	case hist.CAS:
		if s.Done = old == s.Expect; s.Done {
			err = simPut(tx, s.Key, s.Value)
		}
		done = s.Done
	case hist.Add:
		s.Sum = number(old) + s.Delta
		err = simPut(tx, s.Key, hist.Some(strconv.FormatInt(s.Sum, 10)))
	case hist.Append:
		err = simPut(tx, s.Key, hist.Some(strings.TrimPrefix(old.Text+" "+s.Value.Text, " ")))
	case hist.List, hist.SetRead:
		s.List = strings.Fields(old.Text)
	case hist.SetAdd:
		list := strings.Fields(old.Text)
		if s.Done = !slices.Contains(list, s.Value.Text); s.Done {
			err = simPut(tx, s.Key, hist.Some(strings.Join(append(list, s.Value.Text), " ")))
		}
		done = s.Done
	case hist.MGet:
		s.Values = nil
		for _, key := range s.Keys {
			v, err := simGet(tx, key)
			if err != nil {
				return false, err
			}
			s.Values = append(s.Values, v)
		}
	case hist.MSet:
		for _, p := range s.Pairs {
			if err := simPut(tx, p.Key, p.Value); err != nil {
				return false, err
			}
		}
	case hist.Transfer:
		if s.Done = number(old) >= s.Delta; s.Done {
			err = transfer(tx, s, old)
		}
		done = s.Done
	}
	return done, err
}

func transfer(tx engine.Tx, s *hist.Step, old hist.Value) error {
	if err := simPut(tx, s.Key, hist.Some(strconv.FormatInt(number(old)-s.Delta, 10))); err != nil {
		return err
	}
	to, err := simGet(tx, s.To)
	if err != nil {
		return err
	}
	return simPut(tx, s.To, hist.Some(strconv.FormatInt(number(to)+s.Delta, 10)))
}

func number(v hist.Value) int64 {
	n, _ := strconv.ParseInt(v.Text, 10, 64) // absent is 0
	return n
}

func simGet(tx engine.Tx, key string) (hist.Value, error) {
	if key == "" {
		return hist.Value{}, nil // of a kind that has none
	}
	v, ok, err := tx.Get([]byte(key))
	return hist.Value{Text: string(v), Present: ok}, err
}

func simPut(tx engine.Tx, key string, v hist.Value) error {
	if !v.Present {
		return tx.Delete([]byte(key))
	}
	return tx.Put([]byte(key), []byte(v.Text))
}

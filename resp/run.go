package resp

import (
	"context"
	"errors"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// errLater is returned by runEach for a command that has to wait because the output is
// full. Its transaction has done nothing.
var errLater = errors.New("the output is full")

// runState is the progress of the ops. Those before from have final replies; an attempt
// runs the ops starting there.
type runState struct {
	from   int   // the first op of the attempt
	at     int   // the first op after the attempt
	stop   int   // the first op that has to wait; -1: none
	until  int   // where the running View has to end at the latest
	ahead  int   // the first op whose keys the engine has not been told
	begun  int   // calls that were begun with the last keys that it has been told
	mark   int   // where the output of from begins
	starts []int // where the output of each op since from begins
	hits   int64
	misses int64
}

// beginRun begins an attempt to run the ops from i on.
func (c *conn) beginRun(i int) {
	r := &c.run
	r.from, r.at, r.stop, r.until, r.mark = i, i, -1, len(c.ops), len(c.out.Buf)
}

// settle makes the replies of the ops before i final, regardless of how the attempt ends.
func (c *conn) settle(i int) { c.run.from, c.run.at, c.run.mark = i, i, len(c.out.Buf) }

// abandon gives up the ops without replies, because the client is gone.
func (c *conn) abandon() { c.run.at = len(c.ops) }

// takeBack removes the replies of the attempt.
func (c *conn) takeBack() { c.out.Buf = c.out.Buf[:c.run.mark] }

// runOps runs all ops and appends their replies and those between them.
func (c *conn) runOps() {
	if len(c.ops) > 0 {
		c.runAll()
	}
	if len(c.pre.Buf) > 0 {
		c.out.Raw(c.preOf(len(c.ops)))
		c.pre.Buf = c.pre.Buf[:0]
	}
	clear(c.ops)
	c.ops = c.ops[:0]
	c.multi.tidy()
}

func (c *conn) runAll() {
	r := &c.run
	r.hits, r.misses = 0, 0
	for i := 0; i < len(c.ops); i = r.at {
		c.beginRun(i)
		c.noteBefore(i)
		switch {
		case !c.ops[i].write:
			c.view()
		case c.cl.Cluster == nil:
			c.update()
		default:
			c.lead()
		}
		if c.cl.deposed {
			break
		}
		if r.at < len(c.ops) && !c.flush() {
			c.closing = true
			break
		}
	}
	if r.hits != 0 {
		c.tally().hits.Add(r.hits)
	}
	if r.misses != 0 {
		c.tally().misses.Add(r.misses)
	}
}

// preOf returns the replies that precede op i.
func (c *conn) preOf(i int) []byte {
	from, to := 0, len(c.pre.Buf)
	if i > 0 {
		from = c.ops[i-1].pre
	}
	if i < len(c.ops) {
		to = c.ops[i].pre
	}
	return c.pre.Buf[from:to]
}

// view runs the reading ops from run.from on in one snapshot.
func (c *conn) view() {
	r := &c.run
	pos, level, err := c.tryView()
	for err != nil {
		if _, called := errors.AsType[*callError](err); !called {
			end := r.from
			for end < len(c.ops) && !c.ops[end].write {
				end++
			}
			c.failOps(end, err)
			return
		}
		// A procedure returned this error for its own call. The neighbors have their
		// replies.
		if r.at == r.from {
			c.failOps(r.from+1, err)
			return
		}
		r.until = r.at
		pos, level, err = c.tryView()
	}
	c.cl.saw(pos, level)
	c.noteAfter(r.from, r.at, pos)
}

// tryView is like view but leaves the replies to the caller when it fails. If the error is
// a callError, it belongs to op run.at.
func (c *conn) tryView() (engine.Position, engine.Level, error) {
	read := c.read()
	began := c.viewBegins()
	pos, err := c.srv.store.View(context.Background(), read, 0, c.viewFn)
	if err != nil && c.cl.Cluster != nil {
		pos, err = c.viewAgain(began, err, func() (engine.Position, error) {
			return c.srv.store.View(context.Background(), c.read(), 0, c.viewFn)
		})
	}
	c.watch.drop(c) // it was aborted
	return pos, read.Level, err
}

// runView is the function that view passes to the store.
func (c *conn) runView(t *kv.Tx) error {
	r := &c.run
	c.takeBack()
	r.ahead = r.from
	for r.at = r.from; r.at < r.until && !c.ops[r.at].write; r.at++ {
		if r.at > r.from && len(c.out.Buf)-r.mark > flushBytes {
			break
		}
		if err := c.runOp(t, r.at); err != nil && engine.CodeOf(err) == engine.CodeConflict {
			return err // the engine may want to retry
		}
	}
	c.watch.end(c)
	return nil
}

// update runs all ops from run.from on, each as its own transaction. Reads see the writes
// before them.
func (c *conn) update() {
	if err := c.tryUpdate(); err != nil {
		c.failOps(c.run.at, err)
	}
}

// tryUpdate is like update but leaves the replies to the caller when it fails.
func (c *conn) tryUpdate() error {
	r := &c.run
	n := len(c.ops) - r.from
	r.starts, r.stop, r.ahead = r.starts[:0], -1, r.from
	pos, err := c.srv.store.UpdateEach(context.Background(), n, c.eachFn)
	c.watch.drop(c) // it was aborted
	r.at = len(c.ops)
	if r.stop >= 0 {
		r.at = r.stop
	}
	if err != nil {
		return err
	}
	c.cl.saw(pos, engine.Session)
	c.noteAfter(r.from, r.at, pos)
	return nil
}

// runEach is the function that update passes to the store. It may be called again for the
// same i, or start over.
func (c *conn) runEach(t *kv.Tx, i int) error {
	r := &c.run
	if i < len(r.starts) {
		c.out.Buf = c.out.Buf[:r.starts[i]]
		r.starts = r.starts[:i]
		if r.stop >= r.from+i {
			r.stop = -1
		}
	}
	if r.stop < 0 && i > 0 && len(c.out.Buf)-r.mark > flushBytes {
		r.stop = r.from + i
	}
	r.starts = append(r.starts, len(c.out.Buf))
	if r.stop >= 0 {
		c.watch.end(c)
		return errLater
	}
	err := c.runOp(t, r.from+i)
	if r.from+i == len(c.ops)-1 {
		c.watch.end(c)
	}
	return err
}

// runOp runs op i and appends its reply. If it returns an error, the transaction must be
// undone; the reply already contains the error.
func (c *conn) runOp(t *kv.Tx, i int) error {
	o := &c.ops[i]
	if len(c.pre.Buf) > 0 {
		c.out.Raw(c.preOf(i))
	}
	c.expect(t, i)
	start := len(c.out.Buf)
	t.Select(o.db)
	x := &c.x
	x.conn, x.srv, x.cmd, x.args, x.tx, x.db, x.out, x.exec = c, c.srv, o.cmd, o.args, t, o.db, &c.out, o.exec
	x.begun, o.begun = o.begun, nil
	var err error
	c.watch.begin(c, o.cmd, o.args)
	if o.exec {
		err = x.execQueue(o.queue, o.watched)
	} else {
		err = o.cmd.run(x)
	}
	c.watch.ran(c)
	if err != nil {
		c.fail(o.cmd, &c.out, start, err)
	} else if o.write && (c.track.noloop || c.cl.node) {
		c.wrote(t.Now())
	}
	if o.mute {
		c.out.Buf = c.out.Buf[:start]
	}
	return err
}

// failOps replies to the ops of the attempt up to to with an error, because none of their
// results may be used.
func (c *conn) failOps(to int, err error) {
	c.takeBack()
	for i := c.run.from; i < to; i++ {
		c.out.Raw(c.preOf(i))
		switch o := &c.ops[i]; {
		case o.mute:
		case o.doubt.Raised(): // whatever err says, it may have run before
			c.unknown(&c.out)
		default:
			c.fail(o.cmd, &c.out, len(c.out.Buf), err)
		}
	}
	c.run.at = to
}

// runAlone runs a command that cannot be combined with others. Those before it have their
// replies.
func (c *conn) runAlone(cmd *command, args [][]byte, mute bool) {
	start := len(c.out.Buf)
	c.x = call{conn: c, srv: c.srv, cmd: cmd, args: args, db: c.db, out: &c.out}
	if cmd.kind == kindScan {
		c.ops = append(c.ops, op{cmd: cmd, args: args, db: c.db, mute: mute, note: c.track.on && c.track.notes(cmd)})
		c.runOps()
		return
	}
	if c.cl.Cluster != nil && cmd.write() {
		c.leadAlone(cmd, args, mute)
		return
	}
	c.watch.begin(c, cmd, args)
	c.invoke(start)
	if cmd.name == "wait" {
		c.watch.drop(c) // the command only waits
	}
	c.watch.end(c)
	if cmd.name == "client|reply" {
		mute = c.replyOff || c.skipNext
	}
	if mute {
		c.out.Buf = c.out.Buf[:min(start, len(c.out.Buf))]
	}
	c.show()
}

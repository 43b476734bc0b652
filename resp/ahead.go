package resp

import (
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
)

// This file announces keys to the engine before commands use them. In a large map the
// engine then waits for memory once for many keys; see decision 45.

// expect announces the keys of the ops from i on that run together with it, unless that has
// been done.
func (c *conn) expect(t *kv.Tx, i int) {
	r := &c.run
	if i < r.ahead {
		return
	}
	if !t.Expects() {
		r.ahead = len(c.ops)
		return
	}
	r.begun = 0
	view := !c.ops[r.from].write
	end := min(len(c.ops), i+kv.MaxExpected)
	for r.ahead = i; r.ahead < end && (!view || !c.ops[r.ahead].write); r.ahead++ {
		if !c.expectOp(t, &c.ops[r.ahead]) {
			break // the next time begins with this op
		}
	}
	r.ahead = max(r.ahead, i+1)
	t.Announce()
}

// expectOp adds the op's keys to those to be announced, and reports whether there is room
// for more.
func (c *conn) expectOp(t *kv.Tx, o *op) bool {
	if o.exec {
		return c.expectQueue(t, o.db, o.queue)
	}
	return c.expectCommand(t, o.cmd, o.db, o.args, &o.begun)
}

func (c *conn) expectQueue(t *kv.Tx, db uint8, queue []queued) bool {
	for i := range min(len(queue), kv.MaxExpected) {
		if q := &queue[i]; !c.expectCommand(t, q.cmd, db, q.args, &q.begun) {
			return false
		}
	}
	return true
}

func (c *conn) expectCommand(t *kv.Tx, cmd *command, db uint8, args [][]byte, begun **proc.Call) bool {
	if cmd.kind == kindCall {
		if *begun == nil {
			*begun = c.beginAhead(cmd, args)
		}
		if *begun != nil {
			return (*begun).Expect(t)
		}
	}
	room := true
	cmd.eachKey(args, func(key []byte) bool {
		room = t.Expect(db, key)
		return room
	})
	return room
}

// maxAheadBytes is the maximum bytes of the arguments of a call that is begun ahead. With
// kv.MaxExpected, which is also how many of them there may be, it bounds their memory.
const maxAheadBytes = 4 << 10

// beginAhead begins a call that can name its keys, and sets its arguments. If it can not,
// or something is wrong with it, beginAhead returns nil, and the command begins the call.
// Calls that never run, because their connection ends, are left to the collector.
func (c *conn) beginAhead(cmd *command, args [][]byte) *proc.Call {
	set := c.srv.opts.Procedures
	if c.run.begun == kv.MaxExpected || set == nil || !cmd.once() && !set.Hinted(args[cmd.procedure]) {
		return nil
	}
	size := 0
	for _, a := range args {
		size += len(a)
	}
	if size > maxAheadBytes {
		return nil
	}
	x := call{conn: c, srv: c.srv, cmd: cmd, args: args}
	p, err := x.begin()
	if err != nil {
		return nil
	}
	if x.arguments(p) != nil {
		p.End()
		return nil
	}
	c.run.begun++
	return p
}

// expectMore announces further keys of a command that has many, before it uses its key i.
func (x *call) expectMore(i int) {
	if i == 0 || i%kv.MaxExpected != 0 || !x.tx.Expects() {
		return
	}
	k := x.cmd.keys
	for j := k.first + i*k.step; j < len(x.args) && x.tx.Expect(x.db, x.args[j]); j += k.step {
	}
	x.tx.Announce()
}

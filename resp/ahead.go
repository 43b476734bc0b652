package resp

import "github.com/skerrydb/skerry/kv"

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
	view := !c.ops[r.from].write
	end := min(len(c.ops), i+kv.MaxExpected)
	for r.ahead = i; r.ahead < end && (!view || !c.ops[r.ahead].write); r.ahead++ {
		if !c.ops[r.ahead].expect(t) {
			break // the next time begins with this op
		}
	}
	r.ahead = max(r.ahead, i+1)
	t.Announce()
}

// expect adds the op's keys to those to be announced, and reports whether there is room for
// more.
func (o *op) expect(t *kv.Tx) bool {
	if o.exec {
		return expectQueue(t, o.db, o.queue)
	}
	return o.cmd.expect(t, o.db, o.args)
}

func expectQueue(t *kv.Tx, db uint8, queue []queued) bool {
	for i := range queue {
		if !queue[i].cmd.expect(t, db, queue[i].args) {
			return false
		}
	}
	return true
}

func (c *command) expect(t *kv.Tx, db uint8, args [][]byte) bool {
	room := true
	c.eachKey(args, func(key []byte) bool {
		room = t.Expect(db, key)
		return room
	})
	return room
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

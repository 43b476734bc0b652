package resp

import (
	"bytes"
	"context"
	"slices"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
)

func transactionCommands() []command {
	return []command{
		{name: "multi", arity: 1, kind: kindState, flags: flagLight | flagNow, run: multiCmd},
		{name: "exec", arity: 1, kind: kindExec, flags: flagNow},
		{name: "discard", arity: 1, kind: kindState, flags: flagLight | flagNow, run: discardCmd},
		{name: "watch", arity: -2, kind: kindScan, flags: flagNow | flagUntrack, keys: keyRange{1, -1, 1}, run: watchCmd},
		{name: "unwatch", arity: 1, kind: kindState, flags: flagLight, run: unwatchCmd},
	}
}

// queued is one command that waits for EXEC.
type queued struct {
	cmd   *command
	args  [][]byte   // own copies
	begun *proc.Call // see expectCommand
}

// multi is the transaction that a connection is queuing. Complete transactions that have
// not run yet are in list before from.
type multi struct {
	count  int // commands so far; -1: not in a transaction
	bytes  int // their size
	spoilt bool
	write  bool // one of them may write
	admin  bool // one of them does more than read or write data

	list []queued
	from int
	args [][]byte // memory for the arguments in list
	buf  []byte   // memory for their bytes
}

func (m *multi) begin() {
	m.count, m.bytes, m.spoilt, m.write, m.admin = 0, 0, false, false, false
	m.from = len(m.list)
}

// add copies one command, which may write, to the queue.
func (m *multi) add(cmd *command, args [][]byte, write bool) {
	start := len(m.args)
	for _, a := range args {
		at := len(m.buf)
		m.buf = append(m.buf, a...)
		m.args = append(m.args, m.buf[at:len(m.buf):len(m.buf)])
	}
	m.list = append(m.list, queued{cmd: cmd, args: m.args[start:len(m.args):len(m.args)]})
	m.count++
	m.write = m.write || write
	m.admin = m.admin || cmd.kind == kindState || cmd.kind == kindAdmin
}

// end ends the queuing and returns the queued commands. They stay valid until the ops have
// run.
func (m *multi) end() []queued {
	q := m.list[m.from:]
	m.count = -1
	m.from = len(m.list)
	return q
}

// keepQueue is the size of the queue's memory that a connection keeps for later.
const keepQueue = 64 << 10

// tidy removes the transactions that have run.
func (m *multi) tidy() {
	switch {
	case len(m.list) == 0:
	case m.count >= 0 && m.from > 0 || cap(m.buf) > keepQueue || cap(m.args) > keepQueue:
		// The transaction being queued keeps the old buffers alive.
		var rest []queued
		if m.count >= 0 {
			rest = slices.Clone(m.list[m.from:])
		}
		m.list, m.from, m.args, m.buf = rest, 0, nil, nil
	case m.count < 0:
		clear(m.list)
		clear(m.args)
		m.list, m.from, m.args, m.buf = m.list[:0], 0, m.args[:0], m.buf[:0]
	}
}

// queue adds a command to the transaction.
func (c *conn) queue(cmd *command, args [][]byte, mute bool) {
	m := &c.multi
	size := 0
	for _, a := range args {
		size += len(a) + 24
	}
	switch {
	case cmd.flags&flagNoMulti != 0:
		c.reject(cmd, string(errNoTxn))
		return
	case m.count >= MaxQueued || m.bytes+size > MaxQueuedBytes:
		c.reject(cmd, "ERR the transaction is over the limit of 64 MiB or 100,000 commands [limit]")
		return
	case !c.srv.input.take(size, !c.authed):
		c.reject(cmd, c.srv.replyText(errInputMemory))
		return
	}
	m.bytes += size
	m.add(cmd, args, c.writes(cmd, args))
	if !mute {
		c.now().RawString("+QUEUED\r\n")
	}
}

func multiCmd(x *call) error {
	if x.conn.multi.count >= 0 {
		return replyError("ERR MULTI calls can not be nested")
	}
	x.conn.multi.begin()
	x.out.OK()
	return nil
}

func discardCmd(x *call) error {
	if x.conn.multi.count < 0 {
		return replyError("ERR DISCARD without MULTI")
	}
	x.conn.discard()
	x.out.OK()
	return nil
}

// discard drops the queued transaction and the watched keys.
func (c *conn) discard() {
	if c.multi.count >= 0 {
		c.endMulti()
	}
	c.watched = nil
}

// endMulti is multi.end, and releases the input room of the commands.
func (c *conn) endMulti() []queued {
	c.srv.input.take(-c.multi.bytes, false)
	c.multi.bytes = 0
	return c.multi.end()
}

func unwatchCmd(x *call) error {
	x.conn.watched = nil
	x.out.OK()
	return nil
}

// planExec decides how to run EXEC: a transaction of data commands runs with its neighbors,
// one with other commands runs alone.
func (c *conn) planExec(cmd *command, args [][]byte, mute bool) {
	m := &c.multi
	w := c.now()
	start := len(w.Buf)
	if m.count < 0 || m.spoilt {
		c.tally().commands[cmd.index].calls.Add(1) // it does not run, so it is counted here
	}
	if m.count < 0 {
		c.fail(cmd, w, start, replyError("ERR EXEC without MULTI"))
	} else if m.spoilt {
		c.discard()
		c.fail(cmd, w, start, errExecAbort)
	} else {
		if m.admin {
			c.runOps()
		}
		o := op{cmd: cmd, args: args, mute: mute, exec: true, watched: c.watched, write: m.write}
		o.queue = c.endMulti()
		c.watched = nil
		if m.admin && o.write && c.cl.Cluster != nil {
			c.leadExec(o)
		} else if m.admin {
			c.execAlone(o)
		} else {
			c.addOp(o)
		}
		return
	}
	if mute {
		w.Buf = w.Buf[:start]
	}
}

// execAlone runs a transaction with commands other than data commands. A transaction may
// run more than once, so changes to the connection are reverted before each run.
func (c *conn) execAlone(o op) {
	start := len(c.out.Buf)
	if err := c.tryExec(o); err != nil {
		c.fail(o.cmd, &c.out, start, err)
	}
	if o.mute {
		c.out.Buf = c.out.Buf[:start]
	}
	c.multi.tidy()
	c.show()
}

// tryExec is like execAlone but leaves an error to the caller.
func (c *conn) tryExec(o op) error {
	c.ops = append(c.ops, o)
	c.ops[0].note = c.track.on && c.track.notes(o.cmd)
	c.noteBefore(0)
	start, db, resp3 := len(c.out.Buf), c.db, c.out.RESP3
	run := func(t *kv.Tx) error {
		c.out.Buf, c.db, c.out.RESP3, c.flushed = c.out.Buf[:start], db, resp3, false
		c.x = call{conn: c, srv: c.srv, cmd: o.cmd, args: o.args, tx: t, db: db, out: &c.out, exec: true}
		c.watch.begin(c, o.cmd, o.args)
		err := c.x.execQueue(o.queue, o.watched)
		c.watch.end(c)
		if o.write && (c.track.noloop || c.cl.node) {
			c.wrote(t.Now())
		}
		return err
	}
	var pos engine.Position
	var err error
	if o.write {
		pos, err = c.srv.store.Update(context.Background(), db, run)
	} else {
		view := func() (engine.Position, error) { return c.srv.store.View(context.Background(), c.read(), db, run) }
		began := c.viewBegins()
		if pos, err = view(); err != nil && c.cl.Cluster != nil {
			pos, err = c.viewAgain(began, err, view)
		}
	}
	if err == nil {
		c.cl.saw(pos, engine.Session)
		c.noteAfter(0, 1, pos)
		if c.flushed {
			c.srv.tracker.flushed()
		}
	} else {
		c.out.Buf, c.db, c.out.RESP3 = c.out.Buf[:start], db, resp3
	}
	c.ops = c.ops[:0]
	return err
}

// execQueue runs the commands of a transaction, unless a watched key has changed. If it
// returns an error, all of it must be undone.
func (x *call) execQueue(queue []queued, watched []watch) error {
	for _, w := range watched {
		x.tx.Select(w.db)
		rev, err := revision(x.tx, w.key)
		if err != nil {
			return err
		}
		if rev != w.rev {
			x.out.NullArray()
			return nil
		}
	}
	defer x.conn.inner.end(x.conn)
	head := len(x.out.Buf)
	x.out.Array(len(queue))
	for i, q := range queue {
		if i > 0 && i%kv.MaxExpected == 0 && x.tx.Expects() {
			x.conn.run.begun = 0
			x.conn.expectQueue(x.tx, x.db, queue[i:])
			x.tx.Announce()
		}
		start := len(x.out.Buf)
		if start-head > MaxReplyBytes {
			return errReplyTooBig
		}
		x.cmd, x.args, x.begun = q.cmd, q.args, queue[i].begun
		queue[i].begun = nil
		x.tx.Select(x.db)
		err := x.checkKeys()
		if err == nil {
			x.conn.inner.begin(x.conn, q.cmd, q.args)
			err = q.cmd.run(x)
			x.conn.inner.ran(x.conn)
		}
		if err != nil && spoils(err) {
			return err
		}
		if err != nil {
			x.conn.fail(q.cmd, x.out, start, err)
		}
	}
	return nil
}

// checkKeys finds invalid keys before a command with several keys has written the first of
// them. Within EXEC, the command could not be undone alone.
func (x *call) checkKeys() error {
	if !x.cmd.write() {
		return nil
	}
	var bad error
	x.cmd.eachKey(x.args, func(key []byte) bool {
		if len(key) == 0 {
			bad = engine.ErrKeyEmpty
		} else if len(key) > kv.MaxKeyBytes {
			bad = engine.Errorf(engine.CodeKeyTooLarge, "key of %d bytes is over the limit of %d", len(key), kv.MaxKeyBytes)
		}
		return bad == nil
	})
	return bad
}

// watch is a watched key and its revision; 0: it did not exist.
type watch struct {
	db  uint8
	key []byte
	rev kv.Revision
}

func watchCmd(x *call) error {
	if x.conn.multi.count >= 0 {
		return replyError("ERR WATCH inside MULTI is not allowed")
	}
	list := x.conn.watched
	for _, key := range x.args[1:] {
		if slices.ContainsFunc(list, func(w watch) bool { return w.db == x.db && bytes.Equal(w.key, key) }) {
			continue
		}
		if len(list) >= MaxWatched {
			return replyError("ERR too many watched keys: the limit is 10,000 [limit]")
		}
		rev, err := revision(x.tx, key)
		if err != nil {
			return err
		}
		list = append(list, watch{x.db, bytes.Clone(key), rev})
	}
	x.conn.watched = list
	x.out.OK()
	return nil
}

func revision(t *kv.Tx, key []byte) (kv.Revision, error) {
	e, ok, err := t.Get(key)
	if err != nil || !ok {
		return 0, err
	}
	return e.Rev, nil
}

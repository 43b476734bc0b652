package resp

import (
	"bytes"
	"errors"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/resp/wire"
)

// Replies to commands whose connection to the leader broke.
const (
	textUnknown = "ERR the connection to the node that leads broke before its reply: the command may or may not have run [outcome_unknown]"
	textBroken  = "CLUSTERDOWN the connection to the node that leads broke before its reply; nothing was written [not_leader]"
)

// errBroken is why forward did not get all replies: the rest of the ops has not
// run, or has only read.
var errBroken = engine.Errorf(engine.CodeNotLeader, "the connection to the node that leads broke; nothing was written")

// errUnknownThere is what the other node said: it does not know what became of a
// write.
var errUnknownThere = engine.Errorf(engine.CodeNotLeader, "the node that was asked does not know the outcome")

// errThere is what the other node said: it does not lead. Nothing was written.
var errThere = engine.Errorf(engine.CodeNotLeader, "the node that was asked does not lead")

// lead runs the ops from run.from on, the first of which writes, where the
// leader is, or answers them with an error.
func (c *conn) lead() {
	if c.cl.leads && c.updateHere() {
		return
	}
	r := &c.run
	s := search{c: c}
	defer s.end()
	for {
		node, here, err := s.leader()
		switch {
		case err != nil:
		case here:
			if c.updateHere() {
				return
			}
			err = engine.ErrNotLeader
		default:
			to := c.forwardEnd()
			if err = c.forward(node, to); err == nil {
				return
			}
			if !c.ops[r.from].write { // it is read here
				r.at = r.from
				return
			}
		}
		if err = s.again(err); err != nil {
			r.at = len(c.ops)
			c.failOps(err)
			return
		}
	}
}

// updateHere is update that answers nothing and reports false if this node does
// not lead. Nothing was written then, or it may be sent again.
func (c *conn) updateHere() bool {
	err := c.tryUpdate()
	code := engine.CodeOf(err)
	again := code == engine.CodeOutcomeUnknown && c.againFrom(c.run.from, c.run.at) == c.run.from
	if again {
		c.mayHaveRun(c.run.from, c.run.at)
	}
	c.cl.leads = code != engine.CodeNotLeader && !again
	if !c.cl.leads {
		c.out.Buf = c.out.Buf[:c.run.outStart]
	} else if err != nil {
		c.failOps(err)
	}
	return c.cl.leads
}

// forwardEnd returns how far the ops from run.from on are forwarded together: up
// to a read whose keys the client wants to be told of, because the tracker has to
// know what state was read.
func (c *conn) forwardEnd() int {
	for i := c.run.from; i < len(c.ops); i++ {
		if o := &c.ops[i]; o.note && !o.exec && !o.write && i > c.run.from {
			return i
		}
	}
	return len(c.ops)
}

// forward has another node run the ops from run.from to to, and passes its
// replies on. Where they end early run.from is moved behind the ops that were
// answered, and the others may be tried again.
func (c *conn) forward(node uint64, to int) error {
	r := &c.run
	u, err := c.srv.ups.get(c, node)
	if err != nil {
		return err
	}
	from := r.from
	u.encode(c, from, to)
	c.srv.stats.forwarded.Add(int64(to - from))
	c.track.hold()
	defer c.releaseHeld()
	sent := u.send()
	i := from
	for err = nil; i < to; i++ {
		var reply []byte
		if reply, err = u.replyAfter(c, u.skips[i-from]); err != nil {
			break
		}
		if isNotLeader(reply) {
			err = errThere
			break
		}
		if isError(reply, engine.CodeOutcomeUnknown) && c.againFrom(i, to) == i {
			err = errUnknownThere
			break
		}
		if !c.relay(i, reply, node) {
			err = errors.New("the client is gone")
			break
		}
	}
	if err == nil {
		err = c.takeMark(u)
	}
	if err == nil {
		sent.wait()
		c.srv.ups.put(u)
		r.at = to
		return nil
	}
	c.srv.ups.drop(u)
	c.cl.lost = true
	return c.afterBreak(err, i, to, u.ends[i-from:], sent.wait())
}

// afterBreak answers, of the ops from i to to, those that may have run. ends are
// the ends of their bytes, of which n were sent.
func (c *conn) afterBreak(err error, i, to int, ends []int, n int) error {
	r := &c.run
	next := i // the first one that may be tried again
	if err != errThere {
		sent := i
		for sent < to && ends[sent-i] <= n {
			sent++
		}
		c.mayHaveRun(i, sent)
		if err != errUnknownThere {
			c.countBreak(i, sent)
		}
		next, err = c.againFrom(i, sent), errBroken
	}
	for ; i < next; i++ {
		w := wire.Writer{}
		if c.ops[i].write {
			c.unknown(&w)
		} else {
			c.srv.erred(textBroken)
			w.Error(textBroken)
		}
		c.relay(i, w.Buf, 0)
	}
	r.from, r.outStart, r.at = i, len(c.out.Buf), i
	if i == to {
		return nil
	}
	if c.closing {
		r.at = len(c.ops)
		return nil
	}
	return err
}

// repeatable reports whether a write may be sent again without knowing whether it
// has run: it carries the key by which the leader knows it again. One that has
// broken too many connections may be what ends each leader.
func (o *op) repeatable() bool { return o.cmd.name == "callonce" && o.broke < MaxCallBreaks }

// againFrom returns from which of the ops from from to to on all can be run again
// without knowing whether they have run. A read before a write is not among them:
// it might see what was written after it.
func (c *conn) againFrom(from, to int) int {
	wrote := false
	for ; to > from; to-- {
		o := &c.ops[to-1]
		if o.write && !o.repeatable() || !o.write && wrote {
			break
		}
		wrote = wrote || o.write
	}
	return to
}

// mayHaveRun notes that of the writes from from to to.
func (c *conn) mayHaveRun(from, to int) {
	for i := from; i < to; i++ {
		c.ops[i].maybe = c.ops[i].write
	}
}

// countBreak notes that a connection to a leader broke to which the ops from from
// to to were sent, and had no reply. None of them can be told to be innocent: they
// may have run together.
func (c *conn) countBreak(from, to int) {
	told := false
	for i := from; i < to; i++ {
		o := &c.ops[i]
		if o.broke++; o.broke == MaxCallBreaks && o.cmd.name == "callonce" && !told {
			told = true
			c.logger().Warn("connections to leaders broke before the reply to a call with a key; it is not sent again",
				"procedure", cText(o.args[o.cmd.procedureAt()], proc.MaxNameBytes), "breaks", o.broke)
		}
	}
}

// unknown answers a write that may or may not have run.
func (c *conn) unknown(w *wire.Writer) {
	c.srv.stats.unknown.Add(1)
	c.srv.erred(textUnknown)
	w.Error(textUnknown)
}

// relay appends node's reply to op i, or this one's if node is 0, and those
// before it that are known already. It reports false if the client is gone.
func (c *conn) relay(i int, reply []byte, node uint64) bool {
	o := &c.ops[i]
	c.out.Raw(c.preOf(i))
	if o.maybe && didNotRun(reply) {
		w := wire.Writer{}
		c.unknown(&w)
		reply = w.Buf
	}
	if o.cmd.kind == kindCall {
		reply = c.ownFault(o, reply)
	}
	if !o.mute {
		c.tellLeader(node)
		c.out.Raw(reply)
	}
	c.cl.replied = len(reply) > 1 && reply[0] == wire.KindArray && reply[1] != '-'
	if o.exec && o.note {
		c.disown(o)
	}
	if len(c.out.Buf) > flushBytes && !c.flush() {
		c.closing = true
	}
	return !c.closing
}

// disown tells the client at once to forget what it has read in a transaction
// that another node ran: here is not known in which state it was read.
func (c *conn) disown(o *op) {
	tr := &c.srv.tracker
	tr.mu.Lock()
	defer tr.mu.Unlock()
	o.eachRead(func(key []byte) bool {
		tr.disown(c.track.session, key)
		return true
	})
}

// takeMark takes the leader's reply to SKERRY MARK: the position that the
// commands before it have reached, and the times of their writes.
func (c *conn) takeMark(u *upstream) error {
	raw, err := u.next(c)
	if err != nil {
		return err
	}
	rd := wire.NewReplies(bytes.NewReader(raw), &c.srv.bufs, 0)
	defer rd.Release()
	v, err := rd.Read()
	if err != nil || len(v.List) == 0 {
		return errBroken
	}
	pos := engine.Position(v.List[0].Int)
	c.cl.saw(pos, engine.Session)
	c.srv.acknowledged(pos)
	if c.track.noloop {
		for _, at := range v.List[1:] {
			c.track.wroteMicro(at.Int)
		}
	}
	return nil
}

// didNotRun knows the replies to commands that were refused without looking at
// what has run before, or whose look at it was lost.
func didNotRun(reply []byte) bool {
	for _, code := range [...]engine.Code{engine.CodeQueueFull, engine.CodeClosed, engine.CodeStopped, engine.CodeDiskFull, engine.CodeFilesFull, engine.CodeInternal} {
		if isError(reply, code) {
			return true
		}
	}
	return len(reply) > 0 && reply[0] == wire.KindError && bytes.Contains(reply, []byte(otherProgramTail+" ["))
}

// isError knows the reply that is an error of a code.
func isError(reply []byte, code engine.Code) bool {
	return len(reply) > 0 && reply[0] == wire.KindError && bytes.HasSuffix(reply, []byte("["+string(code)+"]\r\n"))
}

// isNotLeader knows the reply of a node that does not lead.
func isNotLeader(reply []byte) bool {
	return isError(reply, engine.CodeNotLeader) && bytes.HasPrefix(reply, []byte("-CLUSTERDOWN "))
}

// leadOne runs one command where the leader is: by local if that is here.
func (c *conn) leadOne(o op, local func() error) {
	start := len(c.out.Buf)
	s := search{c: c}
	defer s.end()
	for {
		node, here, err := s.leader()
		switch {
		case err != nil:
		case here:
			err = local()
		case o.exec && !forwardable(o.queue):
			err = replyError("ERR a transaction that writes and changes the connection runs only on the node that leads [unsupported]")
		default:
			c.ops = append(c.ops[:0], o)
			c.run = runState{outStart: start, stop: -1}
			err = c.forward(node, 1)
			if err == nil && o.exec && c.cl.replied {
				c.selected(o.queue)
			}
			c.ops = c.ops[:0]
		}
		if err == nil {
			break
		}
		c.out.Buf = c.out.Buf[:min(start, len(c.out.Buf))]
		if err = s.again(err); err != nil {
			c.fail(o.cmd, &c.out, len(c.out.Buf), err)
			break
		}
	}
	if o.mute {
		c.out.Buf = c.out.Buf[:min(start, len(c.out.Buf))]
	}
	c.show()
}

// leadAlone runs a command that writes and does not mix with others.
func (c *conn) leadAlone(cmd *command, args [][]byte, mute bool) {
	c.leadOne(op{cmd: cmd, args: args, mute: mute, db: c.db, write: true}, func() error {
		c.x = call{conn: c, cmd: cmd, args: args, db: c.db, out: &c.out}
		c.watch.begin(c, cmd, args)
		defer c.watch.end(c)
		return cmd.run(&c.x)
	})
	if cmd.name == "flushall" || cmd.name == "flushdb" {
		c.srv.tracker.flushed()
	}
}

// leadExec runs a transaction that writes and is not about data only.
func (c *conn) leadExec(o op) {
	o.db = c.db
	c.leadOne(o, func() error { return c.tryExec(o) })
	c.multi.tidy()
}

// forwardable reports whether no command of a transaction is about the
// connection itself, but SELECT.
func forwardable(queue []queued) bool {
	for _, q := range queue {
		if q.cmd.kind == kindAdmin && !q.cmd.write() && q.cmd.name != "info" && q.cmd.name != "wait" {
			return false
		}
	}
	return true
}

// selected does here what SELECT has done in a transaction on the leader.
func (c *conn) selected(queue []queued) {
	for _, q := range queue {
		if q.cmd.name != "select" {
			continue
		}
		if n, err := intArg(q.args[1]); err == nil && c.isDatabase(int64(n)) {
			c.db = uint8(n)
		}
	}
}

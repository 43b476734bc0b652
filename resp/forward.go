package resp

import (
	"bytes"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/forward"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/resp/wire"
)

// Replies to commands whose connection to the leader broke.
const (
	textUnknown = "ERR the connection to the leader broke before its reply: the command may or may not have run [outcome_unknown]"
	textBroken  = "CLUSTERDOWN the connection to the leader broke before its reply; nothing was written [not_leader]"
)

// Reasons why the leader has not replied to all ops.
var (
	errThere        = engine.Errorf(engine.CodeNotLeader, "the node is not the leader")
	errUnknownThere = engine.Errorf(engine.CodeOutcomeUnknown, "the leader does not know the outcome")
	errBroken       = engine.Errorf(engine.CodeNotLeader, "the connection to the leader broke; nothing was written")
	errClientGone   = engine.Errorf(engine.CodeClosed, "the client has disconnected")
)

// lead runs the ops from run.from on, the first of which writes, on the leader, or replies
// to them with an error.
func (c *conn) lead() {
	if c.cl.leads && c.updateHere() == forward.Answered {
		return
	}
	err := c.toLeader(0, func(leader uint64, here bool) (forward.Outcome, error) {
		if here {
			return c.updateHere(), nil
		}
		return c.forward(leader, c.forwardEnd())
	})
	if err != nil {
		c.failOps(len(c.ops), err)
	}
}

// updateHere is like update, but writes no replies unless it returns forward.Answered.
// Otherwise nothing was written, or it may be sent again.
func (c *conn) updateHere() forward.Outcome {
	r := &c.run
	err := c.tryUpdate()
	outcome := forward.OutcomeOf(err)
	if outcome == forward.MayHaveRun {
		if c.againFrom(r.from, r.at) == r.from {
			c.raiseDoubt(r.from, r.at)
			outcome = forward.NotRun
		} else {
			outcome = forward.Answered
		}
	}
	c.cl.leads = outcome == forward.Answered
	if !c.cl.leads {
		c.takeBack()
	} else if err != nil {
		c.failOps(r.at, err)
	}
	return outcome
}

// forwardEnd returns the end of the ops from run.from on that are forwarded together. It
// stops before a read whose keys are tracked for the client, because the tracker has to
// know which state was read.
func (c *conn) forwardEnd() int {
	for i := c.run.from; i < len(c.ops); i++ {
		if o := &c.ops[i]; o.note && !o.exec && !o.write && i > c.run.from {
			return i
		}
	}
	return len(c.ops)
}

// forward has the leader run the ops from run.from to to, and settles those that it replies
// to. If it returns forward.NotRun, the next op writes and may be tried again.
func (c *conn) forward(leader uint64, to int) (forward.Outcome, error) {
	r := &c.run
	u, err := c.srv.ups.get(c, leader)
	if err != nil {
		return forward.NotRun, err
	}
	u.encode(c, r.from, to)
	c.srv.stats.forwarded.Add(int64(to - r.from))
	c.track.bufferChanges()
	defer c.releaseBuffered()
	sent := u.send()
	if err = c.takeReplies(u, to); err == nil {
		sent.wait()
		c.srv.ups.put(u)
		return forward.Answered, nil
	}
	c.srv.ups.drop(u)
	c.cl.lost = true
	err = c.afterBreak(err, u.unsent(sent.wait()))
	switch {
	case c.closing:
		c.abandon()
		return forward.Answered, nil
	case r.from == to || !c.ops[r.from].write: // reads run on this node
		return forward.Answered, nil
	}
	return forward.NotRun, err
}

// takeReplies delivers the replies to the ops from run.from to to.
func (c *conn) takeReplies(u *upstream, to int) error {
	for i := c.run.from; i < to; i++ {
		reply, err := u.replyTo(c, i)
		switch {
		case err != nil:
			return err
		case isNotLeader(reply):
			return errThere
		case codeOfReply(reply) == engine.CodeOutcomeUnknown && c.againFrom(i, to) == i:
			return errUnknownThere
		}
		if c.deliver(c.judge(&c.ops[i], reply, u), u.node); c.closing {
			return errClientGone
		}
	}
	return c.takeMark(u)
}

// afterBreak handles the ops up to sent, which the leader may have run. It replies to those
// that cannot be retried. It returns the reason why the others have no reply.
func (c *conn) afterBreak(err error, sent int) error {
	from := c.run.from
	if err == errThere || sent <= from {
		return err
	}
	c.raiseDoubt(from, sent)
	if err != errUnknownThere {
		c.countBreak(from, sent)
	}
	for next := c.againFrom(from, sent); from < next && !c.closing; from++ {
		w := wire.Writer{}
		if c.ops[from].write {
			c.unknown(&w)
		} else {
			c.srv.erred(textBroken)
			w.Error(textBroken)
		}
		c.deliver(w.Buf, 0)
	}
	return errBroken
}

// repeatable reports whether a write may be sent again although it may have run, because it
// has a key by which the leader detects the repetition.
func (o *op) repeatable() bool { return o.cmd.name == "callonce" && !o.doubt.Exhausted() }

// againFrom returns the first of the ops in [from, to) from which all can be run again
// although they may have run. This excludes a read before a write, because it could see the
// result of a later write.
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

// raiseDoubt records that the writes in [from, to) may have run.
func (c *conn) raiseDoubt(from, to int) {
	for i := from; i < to; i++ {
		if c.ops[i].write {
			c.ops[i].doubt.Raise()
		}
	}
}

// countBreak records that a connection broke after the ops in [from, to) were sent and
// before they got replies. Any of them may be the cause, because they may have run
// together.
func (c *conn) countBreak(from, to int) {
	logged := false
	for i := from; i < to; i++ {
		o := &c.ops[i]
		if o.doubt.Break(); o.doubt.Exhausted() && o.cmd.name == "callonce" && !logged {
			logged = true
			c.logger().Warn("connections to the leader broke too often before the reply to a call with an idempotency key; it is not sent again",
				"procedure", cText(o.args[o.cmd.procedureAt()], proc.MaxNameBytes), "breaks", forward.MaxBreaks)
		}
	}
}

// unknown writes the reply to a write that may or may not have run.
func (c *conn) unknown(w *wire.Writer) {
	c.srv.stats.unknown.Add(1)
	c.srv.erred(textUnknown)
	w.Error(textUnknown)
}

// deliver appends the reply to op run.from, after the known replies before it, and settles
// the op. The reply is from leader or, if leader is 0, from this node.
func (c *conn) deliver(reply []byte, leader uint64) {
	i := c.run.from
	o := &c.ops[i]
	c.out.Raw(c.preOf(i))
	if !o.mute {
		c.pushLeader(leader)
		c.out.Raw(reply)
	}
	c.cl.replied = len(reply) > 1 && reply[0] == wire.KindArray && reply[1] != '-'
	if o.exec && o.note {
		c.disown(o)
	}
	if len(c.out.Buf) > flushBytes && !c.flush() {
		c.closing = true
	}
	c.settle(i + 1)
}

// judge returns the client's reply for the leader's reply to an op.
func (c *conn) judge(o *op, reply []byte, u *upstream) []byte {
	refused := bytes.HasPrefix(reply, []byte("-"+refusedWord))
	uncoded := !u.coded && len(reply) > 0 && reply[0] == wire.KindError // it can be a refusal
	if o.doubt.Remains(codeOfReply(reply)) || o.doubt.Raised() && (refused || uncoded) {
		w := wire.Writer{}
		c.unknown(&w)
		return w.Buf
	}
	if refused {
		return c.refusal(o, reply, u.node)
	}
	return reply
}

// disown invalidates at once the keys that the client has read in a transaction on another
// node, because this node does not know in which state they were read.
func (c *conn) disown(o *op) {
	tr := &c.srv.tracker
	tr.mu.Lock()
	defer tr.mu.Unlock()
	o.eachRead(func(key []byte) bool {
		tr.disown(c.track.session, key)
		return true
	})
}

// takeMark handles the leader's reply to SKERRY MARK: the position of the commands before
// it, and the times of their writes.
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

// codeOfReply returns the code at the end of an error reply, or "".
func codeOfReply(reply []byte) engine.Code {
	if len(reply) == 0 || reply[0] != wire.KindError {
		return ""
	}
	text, ok := bytes.CutSuffix(reply, []byte("]\r\n"))
	if !ok {
		return ""
	}
	return engine.Code(text[bytes.LastIndexByte(text, '[')+1:])
}

// isNotLeader recognizes the reply of a node that is not the leader.
func isNotLeader(reply []byte) bool {
	return codeOfReply(reply) == engine.CodeNotLeader && bytes.HasPrefix(reply, []byte("-CLUSTERDOWN "))
}

// leadOne runs one command on the leader, using local if that is this node.
func (c *conn) leadOne(o op, local func() error) {
	start := len(c.out.Buf)
	takeBack := func() { c.out.Buf = c.out.Buf[:min(start, len(c.out.Buf))] }
	err := c.toLeader(0, func(leader uint64, here bool) (forward.Outcome, error) {
		takeBack()
		if here {
			err := local()
			return forward.OutcomeOf(err), err
		}
		if o.exec && !forwardable(o.queue) {
			return forward.Answered, replyError("ERR a transaction that both writes and uses commands about the connection runs only on the leader [unsupported]")
		}
		c.ops = append(c.ops[:0], o)
		defer func() { c.ops = c.ops[:0] }()
		c.beginRun(0)
		outcome, err := c.forward(leader, 1)
		if outcome == forward.Answered && o.exec && c.cl.replied {
			c.selected(o.queue)
		}
		return outcome, err
	})
	if err != nil {
		takeBack()
		c.fail(o.cmd, &c.out, len(c.out.Buf), err)
	}
	if o.mute {
		takeBack()
	}
	c.show()
}

// leadAlone runs a command that writes and cannot be combined with others.
func (c *conn) leadAlone(cmd *command, args [][]byte, mute bool) {
	c.leadOne(op{cmd: cmd, args: args, mute: mute, db: c.db, write: true}, func() error {
		c.x = call{conn: c, srv: c.srv, cmd: cmd, args: args, db: c.db, out: &c.out}
		c.watch.begin(c, cmd, args)
		defer c.watch.end(c)
		return cmd.run(&c.x)
	})
	if cmd.name == "flushall" || cmd.name == "flushdb" {
		c.srv.tracker.flushed()
	}
}

// leadExec runs a transaction that writes and contains commands other than data commands.
func (c *conn) leadExec(o op) {
	o.db = c.db
	c.leadOne(o, func() error { return c.tryExec(o) })
	c.multi.tidy()
}

// forwardable reports whether no command of a transaction concerns the connection itself,
// except SELECT.
func forwardable(queue []queued) bool {
	for _, q := range queue {
		if q.cmd.kind == kindAdmin && !q.cmd.write() && q.cmd.name != "info" && q.cmd.name != "wait" {
			return false
		}
	}
	return true
}

// selected applies the SELECTs of a transaction that ran on the leader to this connection.
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

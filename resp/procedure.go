package resp

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/skerrydb/skerry/decimal"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/proc"
)

func procedureCommands() []command {
	name, arg := Arg{Name: "procedure", Type: "string"}, Arg{Name: "arg", Type: "string", Optional: true, Multiple: true}
	key := Arg{Name: "idempotency-key", Type: "string"}
	return []command{
		{name: "call", arity: -2, kind: kindCall, procedure: 1, run: callCmd, doc: scriptingDoc("Call a procedure", name, arg)},
		{name: "callonce", arity: -3, kind: kindCall, procedure: 2, run: callOnceCmd,
			doc: scriptingDoc("Call a procedure once per idempotency key, even if the call is repeated", key, name, arg)},
		{name: "fcall", arity: -3, kind: kindCall, flags: flagMovable, procedure: 1, run: fcallCmd},
		{name: "fcall_ro", arity: -3, kind: kindCall, flags: flagMovable, procedure: 1, run: fcallCmd},
		{name: "function", arity: -2, subs: functionCommands()},
		{name: "proc", arity: -2, subs: procCommands(), doc: scriptingDoc("A container for procedure commands")},
	}
}

func scriptingDoc(summary string, args ...Arg) *Doc {
	return &Doc{Summary: summary, Group: "scripting", Args: args}
}

// Replies to calls in the words that Redis uses for functions.
const (
	errKeyCount    replyError = "ERR Bad number of keys provided"
	errTooManyKeys replyError = "ERR Number of keys can't be greater than number of args"
	errFewerKeys   replyError = "ERR Number of keys can't be negative"
)

// callWrites returns the error of FCALL_RO for a procedure that writes. It begins with
// Redis's words.
func (x *call) callWrites(name []byte) error {
	e := x.refused(engine.Errorf(engine.CodeReadOnly, "Can not execute a script with write flag using *_ro command. Procedure %s writes: call it with FCALL", name))
	e.plain = true
	return e
}

// writes reports whether a command may change data, as far as this node knows. It returns
// true for a call of a procedure that only another program knows.
func (c *conn) writes(cmd *command, args [][]byte) bool {
	if cmd.kind != kindCall {
		return cmd.write()
	}
	set := c.srv.opts.Procedures
	return set == nil || !set.ReadOnly(args[cmd.procedureAt()])
}

// procedureAt returns the index of the argument of a kindCall that names the procedure.
func (c *command) procedureAt() int { return c.procedure }

// noProcedures returns the error of a program without procedures.
func noProcedures(name []byte) error {
	return engine.Errorf(engine.CodeUnknownProcedure, "there is no procedure %s: this program has none", cText(name, proc.MaxNameBytes))
}

// argsAt returns the index of the first argument of the procedure of a kindCall.
func (c *command) argsAt() int {
	if c.flags&flagMovable != 0 {
		return 3 // FCALL: after the number of keys
	}
	return c.procedure + 1
}

// once reports whether a kindCall has an idempotency key, as its argument 1.
func (c *command) once() bool { return c.procedure == 2 }

// begin returns a call of the procedure that the command names. The caller must End it.
func (x *call) begin() (*proc.Call, error) {
	if x.begun != nil {
		return x.begun, nil
	}
	name := x.args[x.cmd.procedureAt()]
	set := x.srv.opts.Procedures
	if set == nil {
		return nil, noProcedures(name)
	}
	return set.Begin(name)
}

func callCmd(x *call) error {
	p, err := x.begin()
	if err != nil {
		return x.refused(err)
	}
	err = x.finish(p)
	p.End()
	return err
}

// callOnceCmd implements CALLONCE KEY NAME [ARG …].
func callOnceCmd(x *call) error {
	p, err := x.begin()
	if err != nil {
		return x.refused(x.keyFirst(err))
	}
	err = x.finish(p)
	p.End()
	return err
}

// keyFirst adds to err, for an unknown name in a CALLONCE, a hint that the key is missing
// if a procedure name stands in its place.
func (x *call) keyFirst(err error) error {
	if !x.conn.isProcedure(x.args[1]) {
		return err
	}
	text := err.Error()
	if e, ok := errors.AsType[*engine.Error](err); ok {
		text = e.Msg
	}
	return engine.Errorf(engine.CodeOf(err), "%s; the arguments of CALLONCE are the idempotency key, the name of the procedure and its arguments", text)
}

// isProcedure reports whether this program has a procedure with that name.
func (c *conn) isProcedure(name []byte) bool {
	set := c.srv.opts.Procedures
	if set == nil || len(name) > proc.MaxNameBytes {
		return false
	}
	_, err := set.Schema(string(name))
	return err == nil
}

// callHint returns a hint for the error of an unknown command that has the name of a
// procedure, or "". Clients that have not authenticated do not get it, because it reveals
// which procedures exist.
func (c *conn) callHint(name []byte) string {
	if !c.authed || !c.isProcedure(name) {
		return ""
	}
	return "(it is a procedure: CALL " + string(name) + " …)"
}

// fcallCmd implements FCALL NAME NUMKEYS [KEY …] [ARG …] and FCALL_RO. Keys are the first
// arguments.
func fcallCmd(x *call) error {
	p, err := x.begin()
	if err != nil {
		return x.refused(err)
	}
	if _, err = keyCount(x.args); err == nil {
		if x.cmd.name == "fcall_ro" && !p.ReadOnly() {
			err = x.callWrites(x.args[1])
		} else {
			err = x.finish(p)
		}
	}
	p.End()
	return err
}

// keyCount parses FCALL's number of keys, args[2].
func keyCount(args [][]byte) (int, error) {
	n, ok := decimal.Parse(args[2])
	switch {
	case !ok:
		return 0, errKeyCount
	case n > int64(len(args)-3):
		return 0, errTooManyKeys
	case n < 0:
		return 0, errFewerKeys
	}
	return int(n), nil
}

// arguments sets the arguments of p, and its idempotency key if it has one.
func (x *call) arguments(p *proc.Call) error {
	if err := p.Arguments(x.args[x.cmd.argsAt():]); err != nil {
		return x.refused(err)
	}
	if x.cmd.once() {
		if err := p.Once(x.args[1]); err != nil {
			return &callError{err: err, undone: true}
		}
	}
	return nil
}

// finish runs p in the transaction of the command and writes its result.
func (x *call) finish(p *proc.Call) error {
	if p != x.begun {
		if err := x.arguments(p); err != nil {
			return err
		}
	}
	return x.runCall(p)
}

// runCall runs p, whose arguments are set. Outside EXEC, an error undoes the transaction,
// which belongs to the call.
func (x *call) runCall(p *proc.Call) error {
	if x.exec {
		return x.runWithin(p)
	}
	err := p.Run(x.tx.Engine())
	if err == nil {
		err = x.writeResult(p)
	}
	if err != nil {
		return &callError{err: err}
	}
	return nil
}

// runWithin runs p as one command of EXEC. If it fails, its writes are undone, and those of
// the others stay.
func (x *call) runWithin(p *proc.Call) error {
	tx := x.tx.Engine()
	sp, ok := tx.(engine.Savepointer)
	mark := 0
	if ok {
		mark = sp.Savepoint()
	}
	spoilt, err := p.RunWithin(tx)
	if err == nil {
		if err = x.writeResult(p); err != nil && !p.ReadOnly() {
			spoilt = !ok || sp.RollbackTo(mark) != nil
		}
	}
	if err != nil {
		spoilt = spoilt || engine.CodeOf(err) == engine.CodeConflict // the engine may want to retry
		return &callError{err: err, undone: !spoilt}
	}
	return nil
}

// writeResult writes the result of p, or the error that is the remembered answer of a call
// with a key. In the latter case the transaction is committed.
func (x *call) writeResult(p *proc.Call) error {
	err := p.Verdict()
	if err == nil {
		return p.Write(x.out)
	}
	x.conn.fail(x.cmd, x.out, len(x.out.Buf), &callError{err: err})
	return nil
}

// refusedWord is the first word of the leader's reply to a call that it refused to begin.
// The node that forwarded the call decides whether its own program would have refused it
// too. Do not change.
const refusedWord = "REFUSED "

// refused returns the error of a call that did not begin. It informs another node that
// forwarded the call; for a node of an earlier version, it does so in the text.
func (x *call) refused(err error) *callError {
	e := &callError{err: err, undone: true}
	if x.conn.cl.node && !x.exec {
		e.refused = x.conn.cl.coded
		if !e.refused {
			st := x.srv.opts.Cluster.State()
			e.by = st.Self
		}
	}
	return e
}

// otherProgram returns the text in a refusal that is due to the leader's program. Nodes of
// the previous version look for it.
func otherProgram(leader uint64) string {
	return " (node " + strconv.FormatUint(leader, 10) + " leads and runs another version of the program)"
}

// refusal returns the client's reply for the leader's refusal of a call. If this node's
// program would not refuse the call, the reply says that the programs differ. Otherwise the
// client is at fault.
func (c *conn) refusal(o *op, reply []byte, leader uint64) []byte {
	rest := reply[len("-"+refusedWord):]
	b := append(make([]byte, 0, len(reply)+64), '-')
	if at := bytes.LastIndexByte(rest, '[') - 1; at > 0 && c.refusalHere(o) != codeOfReply(reply) {
		b = append(append(b, rest[:at]...), otherProgram(leader)...)
		rest = rest[at:]
	}
	return append(b, rest...)
}

// refusalHere returns the code with which this node's program would refuse a call.
func (c *conn) refusalHere(o *op) engine.Code {
	x := call{conn: c, srv: c.srv, cmd: o.cmd, args: o.args}
	p, err := x.begin()
	if err != nil {
		return engine.CodeOf(err)
	}
	defer p.End()
	if o.cmd.name == "fcall_ro" && !p.ReadOnly() {
		return engine.CodeReadOnly
	}
	return engine.CodeOf(p.Arguments(o.args[o.cmd.argsAt():]))
}

package resp

import (
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/proc"
)

func procedureCommands() []command {
	return []command{
		{name: "call", arity: -2, kind: kindCall, run: callCmd},
		{name: "callonce", arity: -3, kind: kindCall, run: callOnceCmd},
		{name: "fcall", arity: -3, kind: kindCall, flags: flagMovable, run: fcallCmd},
		{name: "fcall_ro", arity: -3, kind: kindCall, flags: flagMovable, run: fcallCmd},
		{name: "function", arity: -2, subs: functionCommands()},
		{name: "proc", arity: -2, subs: procCommands()},
	}
}

// Replies to calls as Redis words them for functions.
const (
	errKeyCount    replyError = "ERR Bad number of keys provided"
	errTooManyKeys replyError = "ERR Number of keys can't be greater than number of args"
	errFewerKeys   replyError = "ERR Number of keys can't be negative"
	errCallWrites  replyError = "ERR Can not execute a script with write flag using *_ro command. [read_only]"
)

// writes reports whether a command may change data, as far as this node knows: a
// call of a procedure that only another program knows may.
func (c *conn) writes(cmd *command, args [][]byte) bool {
	if cmd.kind != kindCall {
		return cmd.write()
	}
	set := c.srv.opts.Procedures
	return set == nil || !set.ReadOnly(args[cmd.procedureAt()])
}

// procedureAt is which argument of a kindCall names the procedure.
func (c *command) procedureAt() int {
	if c.name == "callonce" {
		return 2
	}
	return 1
}

// noProcedures is the error of a program without any.
func noProcedures(name []byte) error {
	return engine.Errorf(engine.CodeUnknownProcedure, "there is no procedure %s: this program has none", cText(name, proc.MaxNameBytes))
}

// begin takes the procedure that the command names. The caller must End it.
func (x *call) begin() (*proc.Call, error) {
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
		return x.alone(err)
	}
	err = x.finish(p, x.args[2:])
	p.End()
	return err
}

// callOnceCmd is CALLONCE KEY NAME [ARG …].
func callOnceCmd(x *call) error {
	p, err := x.begin()
	if err != nil {
		return x.alone(err)
	}
	err = x.finishOnce(p, x.args[1], x.args[3:])
	p.End()
	return err
}

// fcallCmd is FCALL NAME NUMKEYS [KEY …] [ARG …] and FCALL_RO: keys are
// arguments like others, which come first.
func fcallCmd(x *call) error {
	p, err := x.begin()
	if err != nil {
		return x.alone(err)
	}
	if _, err = keyCount(x.args); err == nil {
		if x.cmd.name == "fcall_ro" && !p.ReadOnly() {
			err = errCallWrites
		} else {
			err = x.finish(p, x.args[3:])
		}
	}
	p.End()
	return err
}

// keyCount reads FCALL's number of keys, args[2].
func keyCount(args [][]byte) (int, error) {
	n, ok := parseInt(args[2])
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

// finish runs p in the transaction of the command and writes its result.
func (x *call) finish(p *proc.Call, args [][]byte) error {
	if err := p.Arguments(args); err != nil {
		return x.alone(err)
	}
	return x.runCall(p)
}

func (x *call) finishOnce(p *proc.Call, key []byte, args [][]byte) error {
	if err := p.Arguments(args); err != nil {
		return x.alone(err)
	}
	if err := p.Once(key); err != nil {
		return x.alone(err)
	}
	return x.runCall(p)
}

func (x *call) runCall(p *proc.Call) error {
	if err := p.Run(x.tx.Engine()); err != nil {
		return err
	}
	return p.Write(x.out)
}

// alone marks an error of a call that has written nothing, so that within EXEC
// the other commands stand.
func (x *call) alone(err error) error {
	if x.cmd.kind != kindCall || err == nil {
		return err
	}
	return replyError(x.srv.replyText(err))
}

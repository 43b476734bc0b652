package resp

import (
	"bytes"
	"errors"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/forward"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/resp/wire"
)

// op is one command that waits to run together with its neighbors.
type op struct {
	cmd  *command
	args [][]byte
	db   uint8
	mute bool // no reply is sent
	note bool // its keys are tracked for the client
	pre  int  // end in conn.pre of the replies that precede this one

	// For EXEC: its commands and watched keys.
	exec    bool
	queue   []queued
	watched []watch

	begun *proc.Call    // see expectCommand
	write bool          // it may write
	doubt forward.Doubt // for a write that was sent to a leader without getting a reply
}

// plan decides how to run one command: reply at once, queue it for EXEC, add it to ops to
// run with its neighbors, or run it alone after those before it.
func (c *conn) plan(args [][]byte) {
	cmd, err := c.find(args)
	if err != "" {
		c.reject(cmd, err)
		return
	}
	if !c.authed && cmd.flags&flagNoAuth == 0 {
		c.reject(cmd, string(errNoAuth))
		return
	}
	if c.subs > 0 && !c.out.RESP3 && cmd.flags&flagSubOK == 0 {
		c.reject(cmd, "ERR Can't execute '"+cmd.name+"': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
		return
	}
	c.lastCmd.Store(cmd)
	if c.srv.pause.active.Load() {
		c.waitPaused(cmd, args)
	}
	if c.cl.moves && c.movedAway(cmd, args) {
		return
	}
	mute := c.replyOff || c.skipNext
	c.skipNext = false
	if c.multi.count >= 0 && cmd.flags&flagNow == 0 {
		c.queue(cmd, args, mute)
		return
	}
	switch cmd.kind {
	case kindRead, kindWrite:
		c.addOp(op{cmd: cmd, args: args, mute: mute, write: cmd.kind == kindWrite})
	case kindCall:
		c.addOp(op{cmd: cmd, args: args, mute: mute, write: c.writes(cmd, args)})
	case kindPlain, kindState:
		if c.receives.Load() {
			c.runOps()
			c.barrier()
		}
		c.answer(cmd, args, mute)
	case kindExec:
		c.planExec(cmd, args, mute)
	default:
		c.runOps()
		c.runAlone(cmd, args, mute)
	}
	c.afterCommand(cmd)
}

// find looks a command up and checks the number of its words. On failure it returns the
// text of the error reply, and the intended command if it exists.
func (c *conn) find(args [][]byte) (*command, string) {
	cmd := find(c.srv.table, args[0])
	if cmd == nil && c.cl.node {
		cmd = find(c.srv.ups.table, args[0])
	}
	if cmd == nil {
		return nil, unknownCommand(args) + c.callHint(args[0])
	}
	if cmd.byName != nil && len(args) > 1 {
		sub := find(cmd.byName, args[1])
		if sub == nil {
			if text, ok := refusedFunction(args[1]); ok && cmd.name == "function" {
				return cmd, text
			}
			return cmd, "ERR unknown subcommand '" + cText(args[1], 128) + "'. Try " + strings.ToUpper(cmd.name) + " HELP."
		}
		cmd = sub
	}
	if !cmd.arityOK(len(args)) {
		return cmd, wrongArity(cmd.name)
	}
	return cmd, ""
}

func wrongArity(name string) string {
	return "ERR wrong number of arguments for '" + name + "' command"
}

// unknownCommand returns Redis's error text, which shows the beginning of the arguments.
func unknownCommand(args [][]byte) string {
	var b strings.Builder
	n := 0
	for _, a := range args[1:] {
		if n >= 128 {
			break
		}
		s := "'" + cText(a, 128-n) + "' "
		n += len(s)
		b.WriteString(s)
	}
	return "ERR unknown command '" + cText(args[0], 128) + "', with args beginning with: " + b.String()
}

// cText returns what C prints for a string: up to its first zero byte, at most n bytes.
func cText(b []byte, n int) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b[:min(len(b), n)])
}

// reject replies to a command that is not run. It spoils a transaction that is being
// queued.
func (c *conn) reject(cmd *command, text string) {
	mute := c.replyOff || c.skipNext
	c.skipNext = false
	if cmd != nil && cmd.name == "exec" {
		c.discard()
		text = "EXECABORT Transaction discarded because of: " + strings.TrimPrefix(text, "ERR ")
	} else if c.multi.count >= 0 {
		c.multi.spoilt = true
	}
	if cmd == nil && c.httpRequest(text) {
		return
	}
	if cmd != nil && cmd.byName != nil && text != wrongArity(cmd.name) {
		c.rejected(nil, text) // an unknown subcommand
	} else {
		c.rejected(cmd, text)
	}
	if w := c.now(); !mute {
		w.Error(text)
	}
}

// httpRequest closes the connection at a line of HTTP, as Redis does, so that a browser
// cannot be tricked into sending commands.
func (c *conn) httpRequest(text string) bool {
	low := strings.ToLower(text)
	const head = "err unknown command '"
	if strings.HasPrefix(low, head+"post'") || strings.HasPrefix(low, head+"host:'") {
		c.runOps()
		c.closing, c.dropOut = true, true
		c.logger().Warn("HTTP on the Redis port; the connection is closed")
		return true
	}
	return false
}

// now returns the writer for a reply that is already known, so that replies stay in order.
func (c *conn) now() *wire.Writer {
	if len(c.ops) == 0 {
		return &c.out
	}
	return &c.pre
}

// addOp adds a command with data to those that run together.
func (c *conn) addOp(o op) {
	o.pre = len(c.pre.Buf)
	o.db = c.db
	o.note = c.track.on && c.track.notes(o.cmd)
	c.ops = append(c.ops, o)
}

// answer runs a command that needs no data at once.
func (c *conn) answer(cmd *command, args [][]byte, mute bool) {
	w := c.now()
	start := len(w.Buf)
	c.x = call{conn: c, srv: c.srv, cmd: cmd, args: args, db: c.db, out: w}
	c.measured(start)
	if mute {
		w.Buf = w.Buf[:start]
	}
}

// invoke runs c.x and converts its error to a reply.
func (c *conn) invoke(start int) {
	if err := c.x.cmd.run(&c.x); err != nil {
		c.fail(c.x.cmd, c.x.out, start, err)
	}
}

// fail replaces cmd's reply, which began at start, by an error. If a command on a
// connection from another node found no leader, the connection is closed, but input is
// still read, because the reply could otherwise get lost.
func (c *conn) fail(cmd *command, w *wire.Writer, start int, err error) {
	w.Buf = w.Buf[:start]
	text := c.srv.replyText(err)
	c.failed(cmd, strings.TrimPrefix(text, refusedWord))
	w.Error(text)
	if _, called := errors.AsType[*callError](err); c.cl.node && !called && engine.CodeOf(err) == engine.CodeNotLeader {
		c.cl.deposed, c.closing, c.linger = true, true, true
	}
}

// afterCommand clears the effect of CLIENT CACHING, which is for one command.
func (c *conn) afterCommand(cmd *command) {
	if c.track.caching && c.multi.count < 0 && !strings.HasPrefix(cmd.name, "client|") {
		c.track.caching = false
	}
}

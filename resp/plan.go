package resp

import (
	"bytes"
	"errors"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/forward"
	"github.com/skerrydb/skerry/resp/wire"
)

// op is one command that waits to run, together with those around it.
type op struct {
	cmd  *command
	args [][]byte
	db   uint8
	mute bool // its reply is not wanted
	note bool // its keys are remembered for CLIENT TRACKING
	pre  int  // end in conn.pre of the replies that come before this one

	// Of EXEC: its commands and what it depends on.
	exec    bool
	queue   []queued
	watched []watch

	write bool          // it may write
	doubt forward.Doubt // of a write that was sent to a leader whose reply did not come
}

// plan decides on one command: it is answered, queued for EXEC, put among ops
// to run with its neighbours, or run by itself after those before it.
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
		if c.told.Load() {
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

// find looks a command up and checks the number of its words. The error is the
// text of the reply; the command is then the one that was meant, if it exists.
func (c *conn) find(args [][]byte) (*command, string) {
	cmd := find(c.srv.table, args[0])
	if cmd == nil && c.cl.node {
		cmd = find(c.srv.ups.table, args[0])
	}
	if cmd == nil {
		return nil, unknownCommand(args) + c.meantCall(args[0])
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

// unknownCommand is Redis's text, which shows the beginning of the arguments.
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

// cText is what C prints of a string: up to its first zero byte, at most n bytes.
func cText(b []byte, n int) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b[:min(len(b), n)])
}

// reject answers a command that is not run. It spoils a transaction that is
// being gathered.
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
		c.rejected(nil, text) // a subcommand that there is not
	} else {
		c.rejected(cmd, text)
	}
	if w := c.now(); !mute {
		w.Error(text)
	}
}

// httpRequest ends the connection at a line of HTTP, as Redis does, so that a
// browser cannot be made to send commands.
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

// now returns where a reply that is known already has to be written so that it
// stands in its place.
func (c *conn) now() *wire.Writer {
	if len(c.ops) == 0 {
		return &c.out
	}
	return &c.pre
}

// addOp puts a command with data among those that run together.
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

// invoke runs c.x and turns its error into a reply.
func (c *conn) invoke(start int) {
	if err := c.x.cmd.run(&c.x); err != nil {
		c.fail(c.x.cmd, c.x.out, start, err)
	}
}

// fail replaces cmd's reply, which began at start, by an error. A node's connection on
// which a command found no leader ends, but takes what is still being sent: else
// the reply might get lost.
func (c *conn) fail(cmd *command, w *wire.Writer, start int, err error) {
	w.Buf = w.Buf[:start]
	text := c.srv.replyText(err)
	c.failed(cmd, strings.TrimPrefix(text, refusedWord))
	w.Error(text)
	if _, called := errors.AsType[*callError](err); c.cl.node && !called && engine.CodeOf(err) == engine.CodeNotLeader {
		c.cl.deposed, c.closing, c.linger = true, true, true
	}
}

// afterCommand forgets what CLIENT CACHING said, which holds for one command.
func (c *conn) afterCommand(cmd *command) {
	if c.track.caching && c.multi.count < 0 && !strings.HasPrefix(cmd.name, "client|") {
		c.track.caching = false
	}
}

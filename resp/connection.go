package resp

import (
	"crypto/sha256"
	"crypto/subtle"

	"github.com/skerrydb/skerry/decimal"
)

func connectionCommands() []command {
	const always = flagNoAuth | flagNow | flagSubOK
	return []command{
		{name: "auth", arity: -2, kind: kindAdmin, flags: flagNoAuth, run: authCmd},
		{name: "client", arity: -2, kind: kindAdmin, subs: clientCommands()},
		{name: "echo", arity: 2, kind: kindPlain, flags: flagLight, run: echoCmd},
		{name: "hello", arity: -1, kind: kindAdmin, flags: flagNoAuth, run: helloCmd},
		{name: "ping", arity: -1, kind: kindPlain, flags: flagLight | flagSubOK, run: pingCmd},
		{name: "quit", arity: -1, kind: kindAdmin, flags: always, run: quitCmd},
		{name: "reset", arity: 1, kind: kindAdmin, flags: always, run: resetCmd},
		{name: "select", arity: 2, kind: kindState, flags: flagLight | flagLooks, run: selectCmd},
		{name: "subscribe", arity: -2, kind: kindAdmin, flags: flagSubOK, run: subscribeCmd},
		{name: "unsubscribe", arity: -1, kind: kindAdmin, flags: flagSubOK, run: unsubscribeCmd},
	}
}

func pingCmd(x *call) error {
	switch {
	case len(x.args) > 2:
		return replyError(wrongArity("ping"))
	case x.conn.subs > 0 && !x.out.RESP3:
		x.out.Array(2)
		x.out.BulkString("pong")
		if len(x.args) == 2 {
			x.out.Bulk(x.args[1])
		} else {
			x.out.BulkString("")
		}
	case len(x.args) == 2:
		x.out.Bulk(x.args[1])
	default:
		x.out.RawString("+PONG\r\n")
	}
	return nil
}

func echoCmd(x *call) error {
	x.out.Bulk(x.args[1])
	return nil
}

func quitCmd(x *call) error {
	x.out.OK()
	x.conn.closing = true
	return nil
}

func selectCmd(x *call) error {
	n, err := intArg(x.args[1])
	if err != nil {
		return err
	}
	if !x.conn.isDatabase(int64(n)) {
		return errDBRange
	}
	x.conn.db, x.db = uint8(n), uint8(n)
	x.conn.show()
	x.out.OK()
	return nil
}

// resetCmd restores the initial state of the connection.
func resetCmd(x *call) error {
	c := x.conn
	c.discard()
	c.stopTracking()
	c.db, x.db, c.subs = 0, 0, 0
	c.replyOff, c.skipNext = false, false
	c.cl = membership{Cluster: c.cl.Cluster, node: c.cl.node}
	was := c.authed
	if c.authed = c.srv.opts.Password == "" || c.cl.node; was && !c.authed {
		c.demote()
	}
	c.rd.SetGuest(!c.authed)
	c.out.RESP3, c.pre.RESP3 = false, false
	c.mu.Lock()
	c.name, c.noEvict = "", false
	c.mu.Unlock()
	x.out.Simple("RESET")
	return nil
}

// checkPassword compares in constant time.
func (s *Server) checkPassword(user, password []byte) bool {
	sum := sha256.Sum256(password)
	same := subtle.ConstantTimeCompare(sum[:], s.password[:]) == 1
	return (same || s.opts.Password == "") && string(user) == "default"
}

func authCmd(x *call) error {
	user, password := []byte("default"), x.args[1]
	switch len(x.args) {
	case 2:
		if x.srv.opts.Password == "" {
			return replyError("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
		}
	case 3:
		user, password = x.args[1], x.args[2]
	default:
		return errSyntax
	}
	return x.replyOK(x.conn.authenticate(user, password))
}

func helloCmd(x *call) error {
	resp3 := x.out.RESP3
	if len(x.args) > 1 {
		n, ok := decimal.Parse(x.args[1])
		switch {
		case !ok:
			return replyError("ERR Protocol version is not an integer or out of range")
		case n != 2 && n != 3:
			return replyError("NOPROTO unsupported protocol version")
		}
		resp3 = n == 3
	}
	for i := 2; i < len(x.args); i++ {
		more := len(x.args) - 1 - i
		switch {
		case x.is(i, "AUTH") && more >= 2:
			if err := x.conn.authenticate(x.args[i+1], x.args[i+2]); err != nil {
				return err
			}
			i += 2
		case x.is(i, "SETNAME") && more >= 1:
			if err := x.conn.setName(x.args[i+1]); err != nil {
				return err
			}
			i++
		default:
			return replyError("ERR Syntax error in HELLO option '" + cText(x.args[i], 1024) + "'")
		}
	}
	if !x.conn.authed {
		return replyError("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
	}
	x.out.RESP3, x.conn.pre.RESP3 = resp3, resp3
	x.writeHello()
	return nil
}

func (x *call) writeHello() {
	w, mode, role := x.out, "standalone", "master"
	if cl := x.srv.opts.Cluster; cl != nil {
		mode = "cluster"
		if st := cl.State(); st.Leader != st.Self {
			role = "replica"
		}
	}
	w.Map(7)
	writeField(w, "server", "redis")
	writeField(w, "version", Version)
	w.BulkString("proto")
	if w.RESP3 {
		w.Int(3)
	} else {
		w.Int(2)
	}
	w.BulkString("id")
	w.Int(x.conn.id)
	writeField(w, "mode", mode)
	writeField(w, "role", role)
	w.BulkString("modules")
	w.Array(0)
}

// subscribeCmd lets a RESP2 connection receive invalidations that other connections
// redirect to it. No other publishing and subscribing is supported.
func subscribeCmd(x *call) error {
	for _, ch := range x.args[1:] {
		if string(ch) != invalidateChannel {
			return replyError("ERR only " + invalidateChannel + " can be subscribed to, because Pub/Sub is not supported [unsupported]")
		}
	}
	for range x.args[1:] {
		x.conn.subs = 1
		x.subscribed("subscribe")
	}
	return nil
}

func unsubscribeCmd(x *call) error {
	if len(x.args) == 1 && x.conn.subs == 0 {
		x.out.Push(3)
		x.out.BulkString("unsubscribe")
		x.out.Null()
		x.out.Int(0)
		return nil
	}
	if len(x.args) == 1 {
		x.conn.subs = 0
		x.subscribed("unsubscribe")
		return nil
	}
	for _, ch := range x.args[1:] {
		if string(ch) == invalidateChannel {
			x.conn.subs = 0
		}
		x.out.Push(3)
		x.out.BulkString("unsubscribe")
		x.out.Bulk(ch)
		x.out.Int(int64(x.conn.subs))
	}
	return nil
}

func (x *call) subscribed(what string) {
	x.out.Push(3)
	x.out.BulkString(what)
	x.out.BulkString(invalidateChannel)
	x.out.Int(int64(x.conn.subs))
}

// isDatabase reports whether this client may use database n. For a connection from another
// node, that node has already checked it. Operators may use all.
func (c *conn) isDatabase(n int64) bool {
	most := c.srv.opts.Databases
	if c.cl.node || c.console {
		most = MaxDatabases
	}
	return n >= 0 && n < int64(most)
}

package resp

import (
	"bytes"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/skerrydb/skerry/decimal"
)

func clientCommands() []command {
	sub := func(name string, arity int, run func(*call) error) command {
		return command{name: "client|" + name, arity: arity, kind: kindAdmin, run: run}
	}
	own := func(name string, arity int, run func(*call) error, summary string, args ...Arg) command {
		c := sub(name, arity, run)
		c.doc = &Doc{Summary: summary, Group: "connection", Args: args}
		return c
	}
	return []command{
		sub("caching", 3, clientCaching),
		looks(sub("getname", 2, clientGetName)),
		looks(sub("getredir", 2, clientGetRedir)),
		looks(sub("help", 2, helpCmd)),
		looks(sub("id", 2, clientID)),
		looks(sub("info", 2, clientInfo)),
		operates(sub("kill", -3, clientKill)),
		looks(sub("list", -2, clientList)),
		own("moved", 3, clientMoved, "Enable or disable MOVED replies to writes, instead of forwarding them to the leader", Arg{Name: "on|off", Type: "string"}),
		sub("no-evict", 3, clientNoEvict),
		operates(sub("pause", -3, clientPause)),
		looks(own("position", -2, clientPosition, "Get the position up to which the connection has read and written, or set the position that its reads at level SESSION wait for",
			Arg{Name: "position", Type: "string", Optional: true})),
		looks(own("read", -2, clientRead, "Get or set the level of the connection's reads: LINEARIZABLE, SESSION, or LOCAL with the maximum staleness in milliseconds",
			Arg{Name: "level", Type: "string", Optional: true}, Arg{Name: "milliseconds", Type: "integer", Optional: true})),
		sub("reply", 3, clientReply),
		own("setinfo", 4, clientSetInfo, "Accept and ignore the name or version of the client library", Arg{Name: "attribute", Type: "string"}, Arg{Name: "value", Type: "string"}),
		sub("setname", 3, clientSetName),
		sub("tracking", -3, clientTracking),
		looks(sub("trackinginfo", 2, clientTrackingInfo)),
		operates(sub("unblock", -3, clientUnblock)),
		operates(sub("unpause", 2, clientUnpause)),
	}
}

func clientID(x *call) error {
	x.out.Int(x.conn.id)
	return nil
}

func clientGetName(x *call) error {
	x.conn.mu.Lock()
	name := x.conn.name
	x.conn.mu.Unlock()
	if name == "" {
		x.out.Null()
	} else {
		x.out.BulkString(name)
	}
	return nil
}

// movedName is the suffix of a connection's name that requests MOVED. Every client library
// can set a name on all its connections.
const movedName = "+moved"

// setName sets the name of the connection. An empty name removes it.
func (c *conn) setName(name []byte) error {
	for _, b := range name {
		if b < '!' || b > '~' {
			return replyError("ERR Client names cannot contain spaces, newlines or special characters.")
		}
	}
	c.mu.Lock()
	c.name = string(name)
	c.mu.Unlock()
	if bytes.HasSuffix(name, []byte(movedName)) {
		c.cl.asksCluster()
	}
	return nil
}

func clientSetName(x *call) error {
	return x.replyOK(x.conn.setName(x.args[2]))
}

// clientSetInfo is CLIENT SETINFO of Redis 7.2. Clients for that version send it when they
// connect.
func clientSetInfo(x *call) error {
	if !x.is(2, "LIB-NAME") && !x.is(2, "LIB-VER") {
		return replyError("ERR Unrecognized option '" + cText(x.args[2], 128) + "'")
	}
	x.out.OK()
	return nil
}

func clientInfo(x *call) error {
	x.conn.show()
	x.out.Verbatim("txt", string(x.conn.appendInfo(nil))+"\n")
	return nil
}

// appendInfo appends the line of CLIENT LIST. Any goroutine may call it.
func (c *conn) appendInfo(b []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	str := func(k, v string) { b = append(append(append(append(b, ' '), k...), '='), v...) }
	num := func(k string, n int64) { str(k, strconv.FormatInt(n, 10)) }
	now := time.Now()
	b = append(b, "id="...)
	b = strconv.AppendInt(b, c.id, 10)
	str("addr", c.nc.RemoteAddr().String())
	str("laddr", c.nc.LocalAddr().String())
	num("fd", c.fd())
	str("name", c.name)
	num("age", int64(now.Sub(c.created)/time.Second))
	num("idle", int64(now.Sub(time.Unix(0, c.active.Load()))/time.Second))
	str("flags", c.flagLetters())
	num("db", int64(c.shown.db))
	num("sub", int64(c.shown.subs))
	num("psub", 0)
	num("ssub", 0)
	num("multi", int64(c.shown.multi))
	num("qbuf", c.qbuf.Load())
	num("qbuf-free", c.qfree.Load())
	num("argv-mem", 0)
	num("multi-mem", int64(c.shown.multiMem))
	out := c.raw.waiting()
	num("rbs", flushBytes)
	num("rbp", 0)
	num("obl", 0)
	num("oll", number(out > 0))
	num("omem", out)
	num("tot-mem", c.memory())
	str("events", "r")
	cmd := "NULL"
	if p := c.lastCmd.Load(); p != nil {
		cmd = p.name
	}
	str("cmd", cmd)
	str("user", "default")
	redirect := int64(-1)
	if c.shown.tracking {
		redirect = c.shown.redirect
	}
	num("redir", redirect)
	num("resp", int64(c.shown.resp))
	return b
}

// memory returns the approximate size of the connection's buffers. The caller holds c.mu.
func (c *conn) memory() int64 {
	return c.qbuf.Load() + c.qfree.Load() + int64(c.shown.multiMem) + c.raw.waiting()
}

// flagLetters returns the flags field of CLIENT LIST. The caller holds c.mu.
func (c *conn) flagLetters() string {
	var f []byte
	add := func(on bool, letter byte) {
		if on {
			f = append(f, letter)
		}
	}
	add(c.shown.subs > 0, 'P')
	add(c.shown.multi >= 0, 'x')
	add(c.blocked || c.paused, 'b')
	add(c.shown.tracking, 't')
	add(c.shown.tracking && c.shown.broken, 'R')
	add(c.shown.bcast, 'B')
	add(c.noEvict, 'e')
	if len(f) == 0 {
		return "N"
	}
	return string(f)
}

// kindOf returns the type of the connection for TYPE filters.
func (c *conn) kindOf() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shown.subs > 0 {
		return "pubsub"
	}
	return "normal"
}

// clientType parses a TYPE filter. No connection has one of the other two types.
func clientType(arg []byte) (string, error) {
	switch t := string(bytes.ToLower(arg)); t {
	case "normal", "pubsub", "master", "replica":
		return t, nil
	case "slave":
		return "replica", nil
	}
	return "", replyError("ERR Unknown client type '" + cText(arg, 1024) + "'")
}

func clientList(x *call) error {
	kind := ""
	var ids []int64
	switch {
	case len(x.args) == 4 && x.is(2, "TYPE"):
		var err error
		if kind, err = clientType(x.args[3]); err != nil {
			return err
		}
	case len(x.args) > 3 && x.is(2, "ID"):
		for _, a := range x.args[3:] {
			id, ok := decimal.Parse(a)
			if !ok {
				return replyError("ERR Invalid client ID")
			}
			ids = append(ids, id)
		}
	case len(x.args) != 2:
		return errSyntax
	}
	x.conn.show()
	var b []byte
	for _, c := range x.srv.clients() {
		if kind != "" && c.kindOf() != kind || ids != nil && !slices.Contains(ids, c.id) {
			continue
		}
		b = append(c.appendInfo(b), '\n')
	}
	x.out.Verbatim("txt", string(b))
	return nil
}

func clientNoEvict(x *call) error {
	on := x.is(2, "ON")
	if !on && !x.is(2, "OFF") {
		return errSyntax
	}
	x.conn.mu.Lock()
	x.conn.noEvict = on
	x.conn.mu.Unlock()
	x.out.OK()
	return nil
}

func clientReply(x *call) error {
	switch {
	case x.is(2, "ON"):
		x.conn.replyOff, x.conn.skipNext = false, false
		x.out.OK()
	case x.is(2, "OFF"):
		x.conn.replyOff = true
	case x.is(2, "SKIP"):
		x.conn.skipNext = !x.conn.replyOff
	default:
		return errSyntax
	}
	return nil
}

func clientPause(x *call) error {
	all := true
	switch {
	case len(x.args) > 4:
		return x.wrongSub()
	case len(x.args) == 4 && x.is(3, "WRITE"):
		all = false
	case len(x.args) == 4 && !x.is(3, "ALL"):
		return replyError("ERR CLIENT PAUSE mode must be WRITE or ALL")
	}
	ms, err := timeoutArg(x.args[2])
	if err != nil {
		return err
	}
	x.srv.pause.set(time.Now().Add(ms), all)
	x.out.OK()
	return nil
}

func clientUnpause(x *call) error {
	x.srv.pause.clear()
	x.out.OK()
	return nil
}

// timeoutArg parses a timeout in milliseconds.
func timeoutArg(arg []byte) (time.Duration, error) {
	n, ok := decimal.Parse(arg)
	switch {
	case !ok:
		return 0, replyError("ERR timeout is not an integer or out of range")
	case n < 0:
		return 0, replyError("ERR timeout is negative")
	}
	const longest = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(n, longest)) * time.Millisecond, nil
}

// killFilter selects the connections that CLIENT KILL closes.
type killFilter struct {
	id          int64
	addr, laddr string
	kind        string
	keepMe      bool
}

func clientKill(x *call) error {
	f := killFilter{keepMe: true}
	old := len(x.args) == 3
	if old {
		f.addr, f.keepMe = string(x.args[2]), false
	} else if err := f.parse(x.args[2:]); err != nil {
		return err
	}
	n := int64(0)
	for _, c := range x.srv.clients() {
		switch {
		case f.id != 0 && c.id != f.id,
			f.addr != "" && c.nc.RemoteAddr().String() != f.addr,
			f.laddr != "" && c.nc.LocalAddr().String() != f.laddr,
			f.kind != "" && c.kindOf() != f.kind,
			f.keepMe && c == x.conn:
			continue
		}
		n++
		if c == x.conn {
			c.closing = true // after its reply
		} else {
			c.kill()
			x.srv.remove(c)
		}
	}
	switch {
	case !old:
		x.out.Int(n)
	case n == 0:
		return replyError("ERR No such client")
	default:
		x.out.OK()
	}
	return nil
}

func (f *killFilter) parse(args [][]byte) error {
	for ; len(args) > 0; args = args[2:] {
		if len(args) == 1 {
			return errSyntax
		}
		v := args[1]
		switch word := string(bytes.ToUpper(args[0])); word {
		case "ID":
			id, ok := decimal.Parse(v)
			if !ok || id < 1 {
				return replyError("ERR client-id should be greater than 0")
			}
			f.id = id
		case "TYPE":
			kind, err := clientType(v)
			if err != nil {
				return err
			}
			f.kind = kind
		case "ADDR":
			f.addr = string(v)
		case "LADDR":
			f.laddr = string(v)
		case "USER":
			if string(v) != "default" {
				return replyError("ERR No such user '" + cText(v, 1024) + "'")
			}
		case "SKIPME":
			if !wordIs(v, "YES") && !wordIs(v, "NO") {
				return errSyntax
			}
			f.keepMe = wordIs(v, "YES")
		default:
			return errSyntax
		}
	}
	return nil
}

// unblock is how CLIENT UNBLOCK ends a WAIT.
type unblock struct{ asError bool }

func clientUnblock(x *call) error {
	u := unblock{}
	if len(x.args) == 4 && !x.is(3, "TIMEOUT") {
		if u.asError = x.is(3, "ERROR"); !u.asError {
			return replyError("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
		}
	}
	if len(x.args) > 4 {
		return x.wrongSub()
	}
	id, ok := decimal.Parse(x.args[2])
	if !ok {
		return errNotInteger
	}
	done := int64(0)
	if c := x.srv.client(id); c != nil {
		c.mu.Lock()
		if c.blocked {
			select {
			case c.unblocked <- u:
				done = 1
			default:
			}
		}
		c.mu.Unlock()
	}
	x.out.Int(done)
	return nil
}

// fd returns the connection's file descriptor, or -1 if it has none.
func (c *conn) fd() int64 {
	n := int64(-1)
	if s, ok := c.raw.Conn.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { n = int64(fd) }) // n stays -1 if it is closed
		}
	}
	return n
}

package resp

import (
	"strings"

	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/resp/wire"
)

// kind says what a command needs to run.
type kind uint8

const (
	// kindRead reads data: runs of them share one View.
	kindRead kind = iota
	// kindWrite may write data: a transaction of its own, many in one hand-over.
	kindWrite
	// kindScan reads much data or has an effect beside its reply: a View of its
	// own, never the executor's time, unless it stands in a MULTI.
	kindScan
	// kindCall calls a procedure: a kindRead if that only reads, else a kindWrite.
	kindCall
	// kindPlain needs no data and has no effect but its reply.
	kindPlain
	// kindState needs no data and changes what the commands behind it mean, in
	// ways that are known when it is read: SELECT, MULTI, DISCARD.
	kindState
	// kindExec is EXEC.
	kindExec
	// kindAdmin is all else; the commands before it are answered first.
	kindAdmin
)

// flag is a property of a command.
type flag uint16

const (
	flagNoAuth   flag = 1 << iota // allowed before AUTH
	flagNow                       // runs inside MULTI instead of being queued
	flagNoMulti                   // refused inside MULTI
	flagMovable                   // its keys are found by movableKeys
	flagSubOK                     // allowed while subscribed in RESP2
	flagUntrack                   // its keys are not tracked for the client
	flagLight                     // its work is about the same whatever its arguments and the data are
	flagMayWrite                  // held back by CLIENT PAUSE WRITE though it is no kindWrite
)

// keyRange says which arguments are keys: from first to last in steps, the
// name being number 0; a negative last counts from the end. Zero: no keys.
type keyRange struct{ first, last, step int }

// command is one line of the command table. It is never changed once its index is set.
type command struct {
	name  string // in lower case; of a subcommand: "client|id"
	arity int    // words that it takes, the name's among them; negative: at least
	kind  kind
	flags flag
	keys  keyRange
	run   func(*call) error
	subs  []command // of a container such as CLIENT; run is nil then
	doc   *Doc      // of a command that Redis does not have; nil: it is in the reference

	procedure int // of a kindCall: which word names the procedure
	index     int // in tally.commands; 0: it is not counted

	byName map[string]*command // of subs, by the part behind "|"
}

// write reports whether the command may change data.
func (c *command) write() bool { return c.kind == kindWrite || c.flags&flagMayWrite != 0 }

func (c *command) arityOK(n int) bool { return n == c.arity || c.arity < 0 && n >= -c.arity }

// commands is the table of all commands that clients may send.
func commands() map[string]*command {
	return table(connectionCommands(), genericCommands(), stringCommands(), transactionCommands(), serverCommands(), procedureCommands())
}

// table makes a table of groups of commands.
func table(groups ...[]command) map[string]*command {
	table := map[string]*command{}
	for _, group := range groups {
		for i := range group {
			table[group[i].name] = &group[i]
			group[i].indexSubs()
		}
	}
	return table
}

// indexSubs makes byName.
func (c *command) indexSubs() {
	if len(c.subs) == 0 {
		return
	}
	c.byName = map[string]*command{}
	for i := range c.subs {
		_, short, _ := strings.Cut(c.subs[i].name, "|")
		c.byName[short] = &c.subs[i]
	}
}

// maxName is the longest name in bytes that is looked up.
const maxName = 32

// find returns the command with the given name in any case, or nil.
func find(table map[string]*command, name []byte) *command {
	var low [maxName]byte
	if len(name) > len(low) {
		return nil
	}
	for i, c := range name {
		if c-'A' <= 'Z'-'A' {
			c += 'a' - 'A'
		}
		low[i] = c
	}
	return table[string(low[:len(name)])]
}

// call is one command being run.
type call struct {
	conn *conn
	srv  *Server
	cmd  *command
	args [][]byte // args[0] is the name; they alias the connection's buffer
	tx   *kv.Tx   // nil for commands without data outside of MULTI
	db   uint8    // the database that tx works on
	out  *wire.Writer
	exec bool // it is one of a transaction's
}

// is reports whether argument i is the given word, which is in upper case.
func (x *call) is(i int, word string) bool { return wordIs(x.args[i], word) }

func wordIs(arg []byte, upper string) bool {
	if len(arg) != len(upper) {
		return false
	}
	for i, c := range arg {
		if c-'a' <= 'z'-'a' {
			c -= 'a' - 'A'
		}
		if c != upper[i] {
			return false
		}
	}
	return true
}

// room reports whether n more bytes fit into the reply that began at start.
func (x *call) room(start, n int) bool { return len(x.out.Buf)-start+n <= MaxReplyBytes }

// eachKey calls fn for the keys among args, until it returns false.
func (c *command) eachKey(args [][]byte, fn func(key []byte) bool) {
	if c.flags&flagMovable != 0 {
		movableKeys(c, args, fn)
		return
	}
	if c.keys.first == 0 {
		return
	}
	last := c.keys.last
	if last < 0 {
		last += len(args)
	}
	for i := c.keys.first; i <= last && i < len(args); i += c.keys.step {
		if !fn(args[i]) {
			return
		}
	}
}

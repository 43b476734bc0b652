package resp

import (
	"strings"

	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/resp/wire"
)

// kind defines what a command needs to run.
type kind uint8

const (
	// kindRead reads data. Consecutive ones share one View.
	kindRead kind = iota
	// kindWrite may write data. Each is its own transaction; many are passed to the engine
	// at once.
	kindWrite
	// kindScan reads a lot of data or has an effect besides its reply. It has its own View
	// and does not use the executor's time, except in a MULTI.
	kindScan
	// kindCall calls a procedure. It is a kindRead if the procedure only reads, else a
	// kindWrite.
	kindCall
	// kindPlain needs no data and has no effect besides its reply.
	kindPlain
	// kindState needs no data and changes the meaning of the following commands in a way
	// that is known when it is read: SELECT, MULTI, DISCARD.
	kindState
	// kindExec is EXEC.
	kindExec
	// kindAdmin is all other commands. The commands before it are finished first.
	kindAdmin
)

// flag is a property of a command.
type flag uint16

const (
	flagNoAuth   flag = 1 << iota // allowed before AUTH
	flagNow                       // runs inside MULTI instead of being queued
	flagNoMulti                   // rejected inside MULTI
	flagMovable                   // movableKeys finds its keys
	flagSubOK                     // allowed while subscribed in RESP2
	flagUntrack                   // its keys are not tracked for the client
	flagLight                     // its cost hardly depends on its arguments and the data
	flagMayWrite                  // blocked by CLIENT PAUSE WRITE although it is not a kindWrite
	flagLooks                     // it changes nothing that outlives the connection, although it is not a kindRead; see Effect
	flagOperates                  // it changes the server or other connections; likewise
)

// keyRange defines which arguments are keys: from first to last by step. The name is
// argument 0, and a negative last counts from the end. The zero value means no keys.
type keyRange struct{ first, last, step int }

// command is an entry of the command table. It is never modified once its index is set.
type command struct {
	name  string // in lower case; of a subcommand: "client|id"
	arity int    // number of words, including the name; negative: minimum
	kind  kind
	flags flag
	keys  keyRange
	run   func(*call) error
	subs  []command // of a container such as CLIENT; run is nil then
	doc   *Doc      // of a command that Redis does not have; nil: see the reference

	procedure int // of a kindCall: index of the word that names the procedure
	index     int // in tally.commands; 0: not counted

	byName map[string]*command // index of subs by the part after "|"
}

// write reports whether the command may change data.
func (c *command) write() bool { return c.kind == kindWrite || c.flags&flagMayWrite != 0 }

func (c *command) arityOK(n int) bool { return n == c.arity || c.arity < 0 && n >= -c.arity }

// commands returns the table of all commands that clients may send.
func commands() map[string]*command {
	return table(connectionCommands(), genericCommands(), stringCommands(), transactionCommands(), serverCommands(), procedureCommands())
}

// table builds a table from groups of commands.
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

// indexSubs sets byName.
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

// maxName is the maximum length in bytes of a name that is looked up.
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

// call is one execution of a command.
type call struct {
	conn *conn
	srv  *Server
	cmd  *command
	args [][]byte // args[0] is the name; they alias the connection's buffer
	tx   *kv.Tx   // nil for commands without data outside MULTI
	db   uint8    // the database of tx
	out  *wire.Writer
	exec bool // part of a transaction

	begun *proc.Call // of a kindCall: begun ahead, with its arguments; nil: not yet
}

// is reports whether argument i is the given word, which must be in upper case.
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

// replyOK replies OK unless err is not nil.
func (x *call) replyOK(err error) error {
	if err == nil {
		x.out.OK()
	}
	return err
}

// replyNull replies nil unless err is not nil.
func (x *call) replyNull(err error) error {
	if err == nil {
		x.out.Null()
	}
	return err
}

// replyBool replies 1 if ok, and otherwise 0, unless err is not nil.
func (x *call) replyBool(ok bool, err error) error {
	if err == nil {
		x.out.Int(number(ok))
	}
	return err
}

// fits reports whether n more bytes fit into the reply that began at start.
func (x *call) fits(start, n int) bool { return len(x.out.Buf)-start+n <= MaxReplyBytes }

// eachKey calls fn for the keys among args until it returns false.
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

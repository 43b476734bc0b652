package resp

import (
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/resp/wire"
)

// Command is a command that another package adds with Options.Commands.
type Command struct {
	Name  string // in lower case; for a subcommand only its own word
	Arity int    // number of words, including the name; negative: minimum

	// Write means that the command may write. It then runs in its own transaction on the
	// leader. Other commands only read and run on any node.
	Write bool

	// FirstKey, LastKey and KeyStep define which words are keys of the selected database.
	// Word 0 is the name, and a negative LastKey counts from the end. If all are 0, there
	// are no keys.
	FirstKey, LastKey, KeyStep int

	Doc Doc

	// Run runs the command in tx and writes one reply to w. words[0] is the name; the words
	// are valid until Run returns. If Run returns an error, it must not write a reply; the
	// error's code determines the reply. Run may be called more than once; see
	// engine.Engine's Update.
	Run func(w *wire.Writer, tx *kv.Tx, words [][]byte) error

	// Subcommands makes the command a container. The second word selects the subcommand,
	// and a subcommand's Arity counts both words. Run, Write and the keys of a container
	// are ignored. HELP is added automatically.
	Subcommands []Command
}

// Doc documents a command that Redis does not have, for COMMAND DOCS, COMMAND INFO and HELP.
type Doc struct {
	Summary    string // one sentence without a period
	Since      string // version of Skerry; "" means Version
	Group      string // a group of Redis, e.g. "generic", or the capability's name
	Complexity string // e.g. "O(1)"; "" is omitted
	Args       []Arg
}

// Arg is an argument in COMMAND DOCS.
type Arg struct {
	Name               string
	Type               string // a type of Redis: "key", "string", "integer", "double", "pure-token"
	Optional, Multiple bool
}

// usage returns the arguments in the format of HELP.
func (d *Doc) usage() string {
	var b strings.Builder
	for _, a := range d.Args {
		text := "<" + a.Name + ">"
		if a.Type == "pure-token" {
			text = strings.ToUpper(a.Name)
		}
		if a.Multiple {
			text += " ..."
		}
		if a.Optional {
			text = "[" + text + "]"
		}
		b.WriteString(" " + text)
	}
	return b.String()
}

// extend adds commands to the table.
func extend(table map[string]*command, added []Command) error {
	for i := range added {
		c := &added[i]
		if table[c.Name] != nil {
			return engine.Errorf(engine.CodeInvalid, "resp: command %s is defined twice", c.Name)
		}
		entry, err := c.entry("")
		if err != nil {
			return err
		}
		table[c.Name] = &entry
		entry.indexSubs()
	}
	return nil
}

// entry returns the command's table entry. parent is the name of its container and "|".
func (c *Command) entry(parent string) (command, error) {
	e := command{name: parent + c.Name, arity: c.Arity, keys: keyRange{c.FirstKey, c.LastKey, c.KeyStep}, doc: &c.Doc}
	if c.Name == "" || len(c.Name) > maxName || strings.ToLower(c.Name) != c.Name || strings.ContainsAny(c.Name, "| ") || c.Arity == 0 ||
		c.Doc.Summary == "" || c.Doc.Group == "" || (c.Run == nil) == (c.Subcommands == nil) {
		return e, engine.Errorf(engine.CodeInvalid, "resp: command %q needs a name in lower case, an arity, a summary, a group, and either Run or Subcommands", e.name)
	}
	if c.Write {
		e.kind = kindWrite
	}
	if c.Run != nil {
		e.run = func(x *call) error {
			defer x.tx.Select(x.db) // Run may have selected the capability's space
			return c.Run(x.out, x.tx, x.args)
		}
		return e, nil
	}
	for i := range c.Subcommands {
		sub, err := c.Subcommands[i].entry(e.name + "|")
		if err != nil {
			return e, err
		}
		e.subs = append(e.subs, sub)
	}
	help := command{name: e.name + "|help", arity: 2, kind: kindPlain, run: helpCmd, doc: helpDoc(c.Doc.Group)}
	e.subs = append(e.subs, help)
	return e, nil
}

// helpDoc documents the subcommand HELP of a container that Redis does not have.
func helpDoc(group string) *Doc {
	return &Doc{Summary: "Show helpful text about the different subcommands", Group: group}
}

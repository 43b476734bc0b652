package resp

import "github.com/skerrydb/skerry/resp/wire"

// ownDoc describes a command that Redis does not have, as COMMAND does.
type ownDoc struct {
	summary string
	args    []ownArg
}

// ownArg is one argument in COMMAND DOCS.
type ownArg struct {
	name           string
	kind           string // as Redis calls it: string, integer, pure-token
	optional, many bool
}

// ownDocOf returns the description of a command or subcommand, if it is one of
// those that Redis does not have.
func ownDocOf(name string) (ownDoc, bool) {
	procedure, arg := ownArg{name: "procedure", kind: "string"}, ownArg{name: "arg", kind: "string", optional: true, many: true}
	switch name {
	case "call":
		return ownDoc{"Call a procedure", []ownArg{procedure, arg}}, true
	case "callonce":
		return ownDoc{"Call a procedure that is carried out once, however often it is called with the same idempotency key",
			[]ownArg{{name: "idempotency-key", kind: "string"}, procedure, arg}}, true
	case "proc":
		return ownDoc{"A container for commands that tell of procedures", nil}, true
	case "proc|help":
		return ownDoc{"Show helpful text about the different subcommands", nil}, true
	case "proc|list":
		return ownDoc{"List the names of all procedures", nil}, true
	case "proc|schema":
		return ownDoc{"Describe procedures in JSON: all, or those named", []ownArg{{name: "procedure", kind: "string", optional: true, many: true}}}, true
	}
	return ownDoc{}, false
}

// writeOwnInfo writes an element of COMMAND INFO for a command that Redis 7.0
// does not have.
func (x *call) writeOwnInfo(c *command) {
	w := x.out
	w.Array(10)
	w.BulkString(c.name)
	w.Int(int64(c.arity))
	var flags, categories []string
	if _, ok := ownDocOf(c.name); ok && c.subs == nil {
		flags, categories = []string{"noscript"}, []string{"@slow", "@scripting"}
	}
	writeSet(w, flags)
	w.Int(int64(c.keys.first))
	w.Int(int64(c.keys.last))
	w.Int(int64(c.keys.step))
	writeSet(w, categories)
	w.Set(0)
	w.Set(0)
	w.Array(len(c.subs))
	for i := range c.subs {
		x.writeInfo(&c.subs[i])
	}
}

func writeSet(w *wire.Writer, words []string) {
	w.Set(len(words))
	for _, s := range words {
		w.Simple(s)
	}
}

// writeOwnDoc writes a value of COMMAND DOCS for a command that Redis 7.0 does
// not have.
func (x *call) writeOwnDoc(c *command) {
	d, ok := ownDocOf(c.name)
	if !ok {
		x.out.Map(0)
		return
	}
	w := x.out
	w.Map(3 + int(number(len(d.args) > 0)) + int(number(len(c.subs) > 0)))
	writeField(w, "summary", d.summary)
	writeField(w, "since", Version)
	writeField(w, "group", "scripting")
	if len(d.args) > 0 {
		w.BulkString("arguments")
		w.Array(len(d.args))
		for _, a := range d.args {
			a.write(w)
		}
	}
	if len(c.subs) > 0 {
		w.BulkString("subcommands")
		w.Map(len(c.subs))
		for i := range c.subs {
			w.BulkString(c.subs[i].name)
			x.writeOwnDoc(&c.subs[i])
		}
	}
}

func (a ownArg) write(w *wire.Writer) {
	var flags []string
	if a.optional {
		flags = append(flags, "optional")
	}
	if a.many {
		flags = append(flags, "multiple")
	}
	w.Map(2 + int(number(len(flags) > 0)))
	writeField(w, "name", a.name)
	writeField(w, "type", a.kind)
	if len(flags) > 0 {
		w.BulkString("flags")
		writeSet(w, flags)
	}
}

func writeField(w *wire.Writer, name, value string) {
	w.BulkString(name)
	w.BulkString(value)
}

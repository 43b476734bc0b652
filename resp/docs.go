package resp

import (
	"cmp"
	_ "embed" // the reference below
	"slices"
	"strings"
	"sync"

	"github.com/skerrydb/skerry/resp/wire"
)

// reference contains the replies of Redis 7.0.15 about its commands, as recorded by
// TestReference: for each command its name, its element of COMMAND INFO and its value in
// COMMAND DOCS, in RESP3. Subcommands that do not exist here were left out.
//
//go:embed commands.resp3
var reference string

// docs is the reference, parsed on first use.
type docs struct {
	once sync.Once
	info map[string]wire.Value
	doc  map[string]wire.Value
}

func (d *docs) load() {
	d.once.Do(func() {
		d.info, d.doc = map[string]wire.Value{}, map[string]wire.Value{}
		rd := wire.NewReplies(strings.NewReader(reference), &wire.Buffers{}, 0)
		for rd.Fill() == nil { // the buffer is never released: the values alias it
			continue
		}
		next := func() (wire.Value, bool) {
			v, ok, err := rd.Next()
			return v, ok && err == nil
		}
		for {
			name, ok := next()
			info, ok2 := next()
			doc, ok3 := next()
			if !ok || !ok2 || !ok3 {
				return
			}
			d.info[string(name.Str)], d.doc[string(name.Str)] = info, doc
			for _, sub := range listOf(info, 9) {
				d.info[string(sub.List[0].Str)] = sub
			}
		}
	})
}

func listOf(v wire.Value, i int) []wire.Value {
	if i < len(v.List) {
		return v.List[i].List
	}
	return nil
}

// writeValue writes v in the writer's protocol.
func writeValue(w *wire.Writer, v wire.Value) {
	switch v.Kind {
	case wire.KindSimple:
		w.Simple(string(v.Str))
	case wire.KindInt:
		w.Int(v.Int)
	case wire.KindNull:
		w.Null()
	case wire.KindArray:
		w.Array(len(v.List))
	case wire.KindSet:
		w.Set(len(v.List))
	case wire.KindMap:
		w.Map(len(v.List) / 2)
	default:
		w.Bulk(v.Str)
	}
	for _, e := range v.List {
		writeValue(w, e)
	}
}

func commandCommands() []command {
	sub := func(name string, arity int, run func(*call) error) command {
		return command{name: "command|" + name, arity: arity, kind: kindPlain, run: run}
	}
	return []command{
		sub("count", 2, commandCount),
		sub("docs", -2, commandDocs),
		sub("getkeys", -4, commandGetKeys),
		sub("getkeysandflags", -4, commandGetKeysAndFlags),
		sub("help", 2, helpCmd),
		sub("info", -2, commandInfo),
		sub("list", -2, commandList),
	}
}

// names returns the names of all commands, sorted.
func (s *Server) names() []string {
	names := make([]string, 0, len(s.table))
	for name := range s.table {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// lookup returns the command or subcommand ("client|id") of the given name.
func (s *Server) lookup(name []byte) *command {
	head, tail, isSub := strings.Cut(string(name), "|")
	c := find(s.table, []byte(head))
	if c != nil && isSub {
		c = find(c.byName, []byte(tail))
	}
	return c
}

func commandCount(x *call) error {
	x.out.Int(int64(len(x.srv.table)))
	return nil
}

func commandCmd(x *call) error {
	x.srv.docs.load()
	x.out.Array(len(x.srv.table))
	for _, name := range x.srv.names() {
		x.writeInfo(x.srv.table[name])
	}
	return nil
}

func commandInfo(x *call) error {
	if len(x.args) == 2 {
		return commandCmd(x)
	}
	x.srv.docs.load()
	x.out.Array(len(x.args) - 2)
	for _, name := range x.args[2:] {
		if c := x.srv.lookup(name); c != nil {
			x.writeInfo(c)
		} else {
			x.out.Null()
		}
	}
	return nil
}

// writeInfo writes one element of COMMAND INFO. It comes from Redis or, for a command that
// Redis does not have, from the table.
func (x *call) writeInfo(c *command) {
	if v, ok := x.srv.docs.info[c.name]; ok {
		writeValue(x.out, v)
		return
	}
	w := x.out
	w.Array(10)
	w.BulkString(c.name)
	w.Int(int64(c.arity))
	writeSet(w, c.infoFlags())
	w.Int(int64(c.keys.first))
	w.Int(int64(c.keys.last))
	w.Int(int64(c.keys.step))
	writeSet(w, c.categories())
	w.Set(0)
	w.Set(0)
	w.Array(len(c.subs))
	for i := range c.subs {
		x.writeInfo(&c.subs[i])
	}
}

// infoFlags returns the flags in COMMAND INFO of a command that Redis does not have.
func (c *command) infoFlags() []string {
	switch {
	case c.subs != nil:
		return nil
	case c.kind == kindWrite:
		return []string{"write", "noscript"}
	case c.kind == kindRead:
		return []string{"readonly", "noscript"}
	}
	return []string{"noscript"}
}

// categories returns the ACL categories of a command that Redis does not have.
func (c *command) categories() []string {
	if c.subs != nil || c.doc == nil {
		return nil
	}
	return []string{"@slow", "@" + c.doc.Group}
}

func writeSet(w *wire.Writer, words []string) {
	w.Set(len(words))
	for _, s := range words {
		w.Simple(s)
	}
}

func commandDocs(x *call) error {
	x.srv.docs.load()
	names := x.srv.names()
	if len(x.args) > 2 {
		names = names[:0]
		for _, a := range x.args[2:] {
			if c := x.srv.lookup(a); c != nil {
				names = append(names, c.name)
			}
		}
	}
	x.out.Map(len(names))
	for _, name := range names {
		x.out.BulkString(name)
		if v, ok := x.srv.docs.find(name); ok {
			writeValue(x.out, v)
		} else {
			x.srv.lookup([]byte(name)).writeDoc(x.out)
		}
	}
	return nil
}

// writeDoc writes the value in COMMAND DOCS of a command that Redis does not have.
func (c *command) writeDoc(w *wire.Writer) {
	d := c.doc
	if d == nil { // a later version of Redis than the reference has it
		w.Map(0)
		return
	}
	w.Map(3 + int(number(d.Complexity != "")) + int(number(len(d.Args) > 0)) + int(number(len(c.subs) > 0)))
	writeField(w, "summary", d.Summary)
	writeField(w, "since", cmp.Or(d.Since, Version))
	writeField(w, "group", d.Group)
	if d.Complexity != "" {
		writeField(w, "complexity", d.Complexity)
	}
	if len(d.Args) > 0 {
		w.BulkString("arguments")
		w.Array(len(d.Args))
		for _, a := range d.Args {
			a.write(w)
		}
	}
	if len(c.subs) > 0 {
		w.BulkString("subcommands")
		w.Map(len(c.subs))
		for i := range c.subs {
			w.BulkString(c.subs[i].name)
			c.subs[i].writeDoc(w)
		}
	}
}

func (a Arg) write(w *wire.Writer) {
	var flags []string
	if a.Optional {
		flags = append(flags, "optional")
	}
	if a.Multiple {
		flags = append(flags, "multiple")
	}
	w.Map(2 + int(number(len(flags) > 0)))
	writeField(w, "name", a.Name)
	writeField(w, "type", a.Type)
	if len(flags) > 0 {
		w.BulkString("flags")
		writeSet(w, flags)
	}
}

func writeField(w *wire.Writer, name, value string) {
	w.BulkString(name)
	w.BulkString(value)
}

// writeList writes an array of strings.
func writeList(w *wire.Writer, list []string) {
	w.Array(len(list))
	for _, s := range list {
		w.BulkString(s)
	}
}

// find returns the documentation of a command or subcommand.
func (d *docs) find(name string) (wire.Value, bool) {
	head, _, isSub := strings.Cut(name, "|")
	v, ok := d.doc[head]
	if !ok || !isSub {
		return v, ok
	}
	subs, _ := field(v, "subcommands")
	return field(subs, name)
}

// field returns the value of a key of a map.
func field(m wire.Value, key string) (wire.Value, bool) {
	for i := 0; i+1 < len(m.List); i += 2 {
		if string(m.List[i].Str) == key {
			return m.List[i+1], true
		}
	}
	return wire.Value{}, false
}

func commandList(x *call) error {
	var keep func(name string) bool
	switch {
	case len(x.args) == 2:
		keep = func(string) bool { return true }
	case len(x.args) == 5 && x.is(2, "FILTERBY") && x.is(3, "MODULE"):
		keep = func(string) bool { return false }
	case len(x.args) == 5 && x.is(2, "FILTERBY") && x.is(3, "PATTERN"):
		keep = func(name string) bool { return globMatch(lower(x.args[4]), []byte(name)) }
	case len(x.args) == 5 && x.is(2, "FILTERBY") && x.is(3, "ACLCAT"):
		x.srv.docs.load()
		keep = func(name string) bool { return x.srv.inCategory(name, "@"+string(lower(x.args[4]))) }
	default:
		return errSyntax
	}
	var found []string
	for _, name := range x.srv.names() {
		for _, n := range append([]string{name}, subNames(x.srv.table[name])...) {
			if keep(n) {
				found = append(found, n)
			}
		}
	}
	writeList(x.out, found)
	return nil
}

func subNames(c *command) []string {
	var names []string
	for _, s := range c.subs {
		names = append(names, s.name)
	}
	return names
}

// inCategory reports whether a command or subcommand is in an ACL category.
func (s *Server) inCategory(name, category string) bool {
	if v, ok := s.docs.info[name]; ok {
		return slices.ContainsFunc(listOf(v, 6), func(v wire.Value) bool { return string(v.Str) == category })
	}
	return slices.Contains(s.lookup([]byte(name)).categories(), category)
}

// keysOf returns the command in args[2:] and its keys.
func (x *call) keysOf() (*command, [][]byte, error) {
	args := x.args[2:]
	c, text := x.conn.find(args)
	switch {
	case c == nil || c.byName != nil && len(args) > 1:
		return nil, nil, replyError("ERR Invalid command specified")
	case text != "":
		return nil, nil, replyError("ERR Invalid number of arguments specified for command")
	}
	var keys [][]byte
	c.eachKey(args, func(key []byte) bool {
		keys = append(keys, key)
		return true
	})
	if len(keys) == 0 && c.kind != kindCall {
		return nil, nil, replyError("ERR The command has no key arguments")
	}
	return c, keys, nil
}

func commandGetKeys(x *call) error {
	_, keys, err := x.keysOf()
	if err != nil {
		return err
	}
	x.out.Array(len(keys))
	for _, key := range keys {
		x.out.Bulk(key)
	}
	return nil
}

func commandGetKeysAndFlags(x *call) error {
	c, keys, err := x.keysOf()
	if err != nil {
		return err
	}
	x.srv.docs.load()
	specs := listOf(x.srv.docs.info[c.name], 8)
	x.out.Array(len(keys))
	for i, key := range keys {
		x.out.Array(2)
		x.out.Bulk(key)
		if c.name == "set" { // its flags depend on the arguments
			if slices.ContainsFunc(x.args[5:], func(a []byte) bool { return wordIs(a, "GET") }) {
				writeSet(x.out, []string{"RW", "access", "update"})
			} else {
				writeSet(x.out, []string{"OW", "update"})
			}
			continue
		}
		writeValue(x.out, keyFlags(c, specs, i))
	}
	return nil
}

// keyFlags returns what a command does with its i-th key.
func keyFlags(c *command, specs []wire.Value, i int) wire.Value {
	if len(specs) == 0 {
		return wire.Value{Kind: wire.KindSet}
	}
	spec := specs[min(i, len(specs)-1)]
	switch {
	case c.name == "migrate":
		spec = specs[0]
	case c.name == "sort" && i == 1: // STORE is its third key specification
		spec = specs[len(specs)-1]
	}
	v, _ := field(spec, "flags")
	return v
}

package resp

import (
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/resp/wire"
)

// Effect is what a command may do besides its reply.
type Effect uint8

const (
	// EffectReads: nothing that outlives the connection.
	EffectReads Effect = iota
	// EffectChanges: it may change data, the server or other connections.
	EffectChanges
	// EffectHolds: it blocks or changes how its connection works, as WAIT, MULTI and
	// SUBSCRIBE do. Every kindAdmin is one unless the table says otherwise.
	EffectHolds
)

// Explanation is what is known of a command without running it.
type Explanation struct {
	Name       string // in upper case, with its subcommand: "CLIENT ID"
	Syntax     string // of its arguments
	Summary    string
	Complexity string // "" if nothing is known
	Flags      []string
	Categories []string // of ACL
	Keys       []string // among the arguments
	Effect     Effect
}

// replyCode is the code of an error whose text is what clients get as reply.
const replyCode = engine.CodeInvalid

// Explain explains a command. The error has the text with which the server rejects it, if it
// does not exist or has the wrong number of words.
func (s *Server) Explain(words ...string) (Explanation, error) {
	if len(words) == 0 {
		return Explanation{}, engine.Errorf(replyCode, "there is no command")
	}
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	c := &conn{srv: s, authed: true}
	cmd, text := c.find(args)
	if text != "" {
		return Explanation{}, engine.Errorf(replyCode, "%s", text)
	}
	e := s.explain(cmd)
	e.Effect = c.effect(cmd, args)
	cmd.eachKey(args, func(key []byte) bool {
		e.Keys = append(e.Keys, string(key))
		return true
	})
	return e, nil
}

// Explanations explains all commands and subcommands, sorted by name. A procedure call
// counts as one that changes something.
func (s *Server) Explanations() []Explanation {
	c := &conn{srv: s, authed: true}
	var all []Explanation
	add := func(cmd *command) {
		e := s.explain(cmd)
		if e.Effect = EffectChanges; cmd.kind != kindCall {
			e.Effect = c.effect(cmd, nil)
		}
		all = append(all, e)
	}
	for _, name := range s.names() {
		cmd := s.table[name]
		if cmd.run != nil || cmd.kind == kindExec {
			add(cmd)
		}
		for i := range cmd.subs {
			add(&cmd.subs[i])
		}
	}
	return all
}

func (c *conn) effect(cmd *command, args [][]byte) Effect {
	switch {
	case cmd.flags&flagNow != 0: // MULTI and what belongs to it
		return EffectHolds
	case cmd.flags&flagOperates != 0 || c.writes(cmd, args):
		return EffectChanges
	case cmd.flags&flagLooks != 0 || cmd.kind == kindRead || cmd.kind == kindScan || cmd.kind == kindCall || cmd.kind == kindPlain:
		return EffectReads
	}
	return EffectHolds
}

// Allowed returns an error if a console may not run the command. Those that change something
// need changes.
func (e *Explanation) Allowed(changes bool) error {
	switch {
	case e.Effect == EffectHolds:
		return engine.Errorf(replyCode, "the console does not run %s: it blocks, or changes how its connection works, and each run has a connection of its own", e.Name)
	case e.Effect == EffectChanges && !changes:
		return engine.Errorf(engine.CodeReadOnly, "%s may change something, and this console only reads", e.Name)
	}
	return nil
}

// looks marks a command as one that only reads; see flagLooks.
func looks(c command) command {
	c.flags |= flagLooks
	return c
}

// operates marks a command as one that changes the server or other connections.
func operates(c command) command {
	c.flags |= flagOperates
	return c
}

// explain returns what the table and the reference say of a command.
func (s *Server) explain(cmd *command) Explanation {
	s.docs.load()
	e := Explanation{Name: strings.ToUpper(strings.ReplaceAll(cmd.name, "|", " "))}
	if info, ok := s.docs.info[cmd.name]; ok {
		e.Flags, e.Categories = textsOf(listOf(info, 2)), textsOf(listOf(info, 6))
	} else {
		e.Flags, e.Categories = cmd.infoFlags(), cmd.categories()
	}
	doc, ok := s.docs.find(cmd.name)
	switch {
	case ok:
		e.Summary, e.Complexity = textOf(doc, "summary"), textOf(doc, "complexity")
		args, _ := field(doc, "arguments")
		var all []param
		for _, v := range args.List {
			all = append(all, paramOf(v))
		}
		e.Syntax = syntax(all)
	case cmd.doc != nil:
		e.Summary, e.Complexity = cmd.doc.Summary, cmd.doc.Complexity
		var all []param
		for _, a := range cmd.doc.Args {
			all = append(all, a.param())
		}
		e.Syntax = syntax(all)
	}
	return e
}

func textOf(m wire.Value, key string) string {
	v, _ := field(m, key)
	return strings.TrimSpace(string(v.Str))
}

func textsOf(list []wire.Value) []string {
	var all []string
	for _, v := range list {
		all = append(all, string(v.Str))
	}
	return all
}

// param is an argument of a command for its syntax.
type param struct {
	name, kind, token  string
	optional, multiple bool
	parts              []param // of a "block" or "oneof"
}

// paramOf reads an argument in COMMAND DOCS.
func paramOf(v wire.Value) param {
	p := param{name: textOf(v, "name"), kind: textOf(v, "type"), token: textOf(v, "token")}
	flags, _ := field(v, "flags")
	for _, f := range flags.List {
		p.optional = p.optional || string(f.Str) == "optional"
		p.multiple = p.multiple || string(f.Str) == "multiple"
	}
	parts, _ := field(v, "arguments")
	for _, part := range parts.List {
		p.parts = append(p.parts, paramOf(part))
	}
	return p
}

func (a Arg) param() param {
	p := param{name: a.Name, kind: a.Type, optional: a.Optional, multiple: a.Multiple}
	if a.Type == "pure-token" {
		p.token = strings.ToUpper(a.Name)
	}
	return p
}

func syntax(all []param) string {
	var texts []string
	for _, p := range all {
		texts = append(texts, p.text())
	}
	return strings.Join(texts, " ")
}

// text returns the argument in Redis's notation: [optional], a | b, repeated ….
func (p param) text() string {
	text := p.name
	switch p.kind {
	case "pure-token":
		if text = p.token; text == "" {
			text = `""`
		}
	case "block":
		text = syntax(p.parts)
	case "oneof":
		var texts []string
		for _, part := range p.parts {
			part.optional = false
			texts = append(texts, part.text())
		}
		if text = strings.Join(texts, " | "); !p.optional || p.multiple {
			text = "<" + text + ">"
		}
	}
	if p.token != "" && p.kind != "pure-token" {
		text = p.token + " " + text
	}
	if p.multiple {
		text += " [" + text + " …]"
	}
	if p.optional {
		text = "[" + text + "]"
	}
	return text
}

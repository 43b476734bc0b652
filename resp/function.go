package resp

import (
	"encoding/json"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/proc"
)

// The name of the only library of functions, and its language.
const (
	library         = "skerry"
	libraryLanguage = "GO"
)

func functionCommands() []command {
	return []command{
		{name: "function|help", arity: 2, kind: kindPlain, run: helpCmd},
		{name: "function|list", arity: -2, kind: kindPlain, run: functionList},
		{name: "function|stats", arity: 2, kind: kindPlain, run: functionStats},
	}
}

func procCommands() []command {
	return []command{
		{name: "proc|help", arity: 2, kind: kindPlain, run: helpCmd, doc: helpDoc("scripting")},
		{name: "proc|list", arity: 2, kind: kindPlain, run: procList, doc: scriptingDoc("List the names of all procedures")},
		{name: "proc|schema", arity: -2, kind: kindPlain, run: procSchema,
			doc: scriptingDoc("Get the JSON schema of all procedures or of the given ones", Arg{Name: "procedure", Type: "string", Optional: true, Multiple: true})},
	}
}

// refusedFunction returns the error of subcommands of FUNCTION that would change the set of
// functions.
func refusedFunction(sub []byte) (text string, ok bool) {
	for _, name := range [...]string{"DELETE", "DUMP", "FLUSH", "KILL", "LOAD", "RESTORE"} {
		if wordIs(sub, name) {
			return "ERR FUNCTION " + name + " is not supported: procedures are compiled into the program [unsupported]", true
		}
	}
	return "", false
}

// schemas returns the schemas of all procedures, sorted by name.
func (s *Server) schemas() []proc.Schema {
	if s.opts.Procedures == nil {
		return []proc.Schema{}
	}
	return s.opts.Procedures.Schemas()
}

func procList(x *call) error {
	list := x.srv.schemas()
	x.out.Array(len(list))
	for _, p := range list {
		x.out.BulkString(p.Name)
	}
	return nil
}

// procSchema implements PROC SCHEMA [NAME …]. It returns the JSON schemas of all
// procedures, or of those named; a name may be repeated.
func procSchema(x *call) error {
	names := x.args[2:]
	if len(names) == 0 {
		for _, p := range x.srv.schemas() {
			names = append(names, []byte(p.Name))
		}
	}
	b := []byte{'['}
	texts := map[string][]byte{}
	for i, name := range names {
		text, err := x.srv.schemaText(texts, name)
		if err != nil {
			return err
		}
		if i > 0 {
			b = append(b, ',')
		}
		if b = append(b, text...); len(b) > MaxReplyBytes {
			return errReplyTooBig
		}
	}
	x.out.Bulk(append(b, ']'))
	return nil
}

// schemaText returns one schema as JSON. known caches schemas requested before.
func (s *Server) schemaText(known map[string][]byte, name []byte) ([]byte, error) {
	if text := known[string(name)]; text != nil {
		return text, nil
	}
	set := s.opts.Procedures
	if set == nil {
		return nil, noProcedures(name)
	}
	p, err := set.Schema(string(name))
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(p)
	if err != nil {
		return nil, engine.Errorf(engine.CodeInternal, "write the schema of %s: %w", p.Name, err)
	}
	known[p.Name] = text
	return text, nil
}

// functionList implements FUNCTION LIST [LIBRARYNAME PATTERN] [WITHCODE]. There is one
// library, without code.
func functionList(x *call) error {
	var pattern []byte
	code := false
	for i := 2; i < len(x.args); i++ {
		switch {
		case x.is(i, "WITHCODE") && !code:
			code = true
		case x.is(i, "LIBRARYNAME") && pattern == nil:
			if i++; i == len(x.args) {
				return replyError("ERR library name argument was not given")
			}
			pattern = x.args[i]
		default:
			return replyError("ERR Unknown argument " + cText(x.args[i], 1024))
		}
	}
	list := x.srv.schemas()
	if len(list) == 0 || pattern != nil && !globMatch(lower(pattern), []byte(library)) {
		x.out.Array(0)
		return nil
	}
	w := x.out
	w.Array(1)
	w.Map(3 + int(number(code)))
	w.BulkString("library_name")
	w.BulkString(library)
	w.BulkString("engine")
	w.BulkString(libraryLanguage)
	w.BulkString("functions")
	w.Array(len(list))
	for _, p := range list {
		w.Map(3)
		w.BulkString("name")
		w.BulkString(p.Name)
		w.BulkString("description")
		if p.Text == "" {
			w.Null()
		} else {
			w.BulkString(p.Text)
		}
		w.BulkString("flags")
		w.Set(int(number(p.ReadOnly)))
		if p.ReadOnly {
			w.Simple("no-writes")
		}
	}
	if code {
		w.BulkString("library_code")
		w.BulkString("")
	}
	return nil
}

// functionStats reports no running function: only the executor knows which one runs, and it
// cannot be killed.
func functionStats(x *call) error {
	n := len(x.srv.schemas())
	w := x.out
	w.Map(2)
	w.BulkString("running_script")
	w.Null()
	w.BulkString("engines")
	w.Map(1)
	w.BulkString(libraryLanguage)
	w.Map(2)
	w.BulkString("libraries_count")
	w.Int(number(n > 0))
	w.BulkString("functions_count")
	w.Int(int64(n))
	return nil
}

package resp_test

import (
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/resp"
	"github.com/skerrydb/skerry/resp/wire"
)

// noteSpace is the space of the commands below.
const noteSpace = 100

// noteCommands are the commands of a capability that stores texts in its own space.
func noteCommands() []resp.Command {
	name := resp.Arg{Name: "name", Type: "string"}
	return []resp.Command{{Name: "note", Arity: -2, Doc: resp.Doc{Summary: "A container for notes", Group: "note"}, Subcommands: []resp.Command{
		{
			Name: "put", Arity: 4, Write: true, Doc: resp.Doc{Summary: "Store a note", Group: "note", Since: "9.9.9", Complexity: "O(1)", Args: []resp.Arg{name, {Name: "text", Type: "string"}}},
			Run: func(w *wire.Writer, tx *kv.Tx, words [][]byte) error {
				tx.Select(noteSpace)
				_, err := tx.Set(words[2], words[3], kv.SetOptions{})
				w.OK()
				return err
			},
		},
		{
			Name: "get", Arity: 3, Doc: resp.Doc{Summary: "Return a note", Group: "note", Args: []resp.Arg{name}},
			Run: func(w *wire.Writer, tx *kv.Tx, words [][]byte) error {
				tx.Select(noteSpace)
				e, ok, err := tx.Get(words[2])
				if err == nil && !ok {
					err = engine.Errorf("note_missing", "there is no note %s", words[2])
				}
				if err == nil {
					w.Bulk(e.Val)
				}
				return err
			},
		},
	}}}
}

// TestAddedCommands checks that commands of other packages work and are documented like the
// server's own.
func TestAddedCommands(t *testing.T) {
	eng := openEngine(t, embedded.Options{})
	errs := [][]engine.Meaning{{{Code: "note_missing", Kind: engine.KindBusy}}}
	a := newAsker(t, serveOn(t, eng, resp.Options{Commands: noteCommands(), Errors: errs}))
	a.want("OK", "NOTE", "PUT", "k", "text")
	a.want("text", "note", "get", "k")
	a.want("nil", "GET", "k")
	a.want("BUSY there is no note x [note_missing]", "NOTE", "GET", "x")
	a.want("ERR wrong number of arguments for 'note|get' command", "NOTE", "GET")
	a.want("ERR unknown subcommand 'x'. Try NOTE HELP.", "NOTE", "x")
	a.want("OK", "MULTI")
	a.want("QUEUED", "NOTE", "PUT", "k", "2")
	a.want("QUEUED", "SET", "k", "in database 0")
	a.want("QUEUED", "NOTE", "GET", "k")
	a.want("[OK OK 2]", "EXEC")
	a.want("in database 0", "GET", "k")
	if got, want := show(t, a.ask("NOTE", "HELP")), "Store a note."; !strings.Contains(got, want) || !strings.Contains(got, "PUT <name> <text>") {
		t.Errorf("NOTE HELP: %s", got)
	}
	a.want("[[note|put 4 [write noscript] 0 0 0 [@slow @note] [] [] []]]", "COMMAND", "INFO", "note|put")
	a.want("[note|put [summary Store a note since 9.9.9 group note complexity O(1) arguments [[name name type string] [name text type string]]]]", "COMMAND", "DOCS", "note|put")
	a.want("[note|put note|get note|help]", "COMMAND", "LIST", "FILTERBY", "ACLCAT", "note")
}

// TestAddedCommandsAreChecked checks that New rejects commands that are incomplete or not
// new.
func TestAddedCommandsAreChecked(t *testing.T) {
	for name, change := range map[string]func(c *resp.Command){
		"name of Redis":        func(c *resp.Command) { c.Name = "get" },
		"name in upper case":   func(c *resp.Command) { c.Name = "NOTE" },
		"no arity":             func(c *resp.Command) { c.Arity = 0 },
		"no summary":           func(c *resp.Command) { c.Doc.Summary = "" },
		"no subcommands":       func(c *resp.Command) { c.Subcommands = nil },
		"a bad subcommand":     func(c *resp.Command) { c.Subcommands[0].Run = nil },
		"a subcommand of two|": func(c *resp.Command) { c.Subcommands[1].Name = "a|b" },
	} {
		list := noteCommands()
		change(&list[0])
		if _, err := resp.New(nil, nil, resp.Options{Commands: list}); engine.CodeOf(err) != engine.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEveryCommandIsDocumented checks that COMMAND DOCS has a summary and a group for each
// command.
func TestEveryCommandIsDocumented(t *testing.T) {
	a := newAsker(t, startSkerry(t, resp.Options{}))
	var names []string // the reply is valid until the next one
	for _, v := range a.ask("COMMAND", "LIST").List {
		names = append(names, string(v.Str))
	}
	for _, name := range names {
		text := show(t, a.ask("COMMAND", "DOCS", name))
		if !strings.Contains(text, "[summary ") || !strings.Contains(text, " group ") {
			t.Errorf("COMMAND DOCS %s: %s", name, text)
		}
	}
	if len(names) < 100 {
		t.Errorf("only %d commands", len(names))
	}
}

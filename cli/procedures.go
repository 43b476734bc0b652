package cli

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/proc"
)

// listing is a server's list of its procedures, and the output of `skerry procedures --json`.
type listing struct {
	Procedures []proc.Schema `json:"procedures"`
}

// procedures asks the server for the procedures of its program.
func (r *remote) procedures(ctx context.Context) (listing, error) {
	var list listing
	err := r.askJSON(ctx, "/api/procedures", &list)
	return list, err
}

var proceduresVerb = verb.Verb{
	Name: "procedures", Short: "list the procedures of a running server",
	Long: `ARGUMENTS are in the order in which skerry call takes them; those in brackets are
optional. Procedures that read run on any node, those that write on the leader.`,
	Start: func(app verb.App) verb.Action {
		var r remote
		var asJSON bool
		settings := append([]verb.Setting{urlSetting(&r.url, defaultURL(app)), verb.JSON(&asJSON)}, r.accessSettings()...)
		check := func(rest []string) error { return verb.Mistakes(verb.NoArguments(rest), r.check("url")) }
		return verb.Action{Settings: settings, Check: check, Do: func(ctx context.Context, p verb.Process, _ []string) error {
			list, err := r.procedures(ctx)
			if err != nil {
				return err
			}
			if asJSON {
				return verb.PrintJSON(p.Stdout, list)
			}
			return printProcedures(p, list)
		}}
	},
}

func printProcedures(p verb.Process, list listing) error {
	if len(list.Procedures) == 0 {
		_, err := fmt.Fprintln(p.Stdout, "the program of this server has no procedures")
		return err
	}
	t := tabwriter.NewWriter(p.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tDOES\tARGUMENTS\tRESULT\tDESCRIPTION")
	for _, s := range list.Procedures {
		does := "writes"
		if s.ReadOnly {
			does = "reads"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", s.Name, does, verb.Dash(fieldWords(s.Args)), typeWords(s.Result), verb.Dash(s.Text))
	}
	return t.Flush()
}

// fieldWords formats fields for a list in brackets.
func fieldWords(fields []proc.Field) string {
	var words []string
	for _, f := range fields {
		word := f.Name + " " + typeWords(f.Type)
		if f.Optional {
			word = "[" + f.Name + " " + typeWords(notNull(f.Type)) + "]"
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// notNull returns a type without the note that it may be null, which is obvious for an optional value.
func notNull(t proc.Type) proc.Type {
	t.Nullable = false
	return t
}

// typeWords formats a type much as Go does.
func typeWords(t proc.Type) string {
	word := string(t.Kind)
	switch t.Kind {
	case proc.KindInt, proc.KindUint, proc.KindFloat:
		if t.Bits != 0 && t.Bits != 64 {
			word += fmt.Sprint(t.Bits)
		}
	case proc.KindList:
		word = "[]" + elementWords(t)
	case proc.KindMap:
		word = "map[string]" + elementWords(t)
	case proc.KindObject:
		word = "{" + fieldWords(t.Fields) + "}"
	}
	if t.Nullable {
		word += " or null"
	}
	return word
}

func elementWords(t proc.Type) string {
	switch {
	case t.Of == nil:
		return string(proc.KindJSON)
	case t.Of.Nullable:
		return "(" + typeWords(*t.Of) + ")"
	}
	return typeWords(*t.Of)
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/record"
)

var rulesVerb = verb.Verb{
	Name: "rules", Args: "explain …", Short: "show why a rule allows or refuses an operation",
	Subs: []verb.Verb{rulesExplainVerb},
}

var rulesExplainVerb = verb.Verb{
	Name: "rules explain", Args: "COLLECTION OPERATION [ID]", Short: "evaluate a rule for a user, clause by clause",
	Long: `OPERATION is list, view, create, update, delete, history or subscribe. Without the id of a
record, clauses on fields depend on the record. Without --as, the user is a stranger.
Superadmins are not subject to rules.`,
	Start: func(app verb.App) verb.Action {
		o := &usersOptions{}
		var as string
		settings := o.settings(app, verb.Setting{Name: "as", Arg: "USER", Help: "the user's email address or id", Set: verb.Text(&as)})
		check := func(rest []string) error {
			var what error
			if len(rest) < 2 || len(rest) > 3 {
				what = errors.New("needs a collection, an operation and optionally the id of a record")
			}
			return verb.Mistakes(what, o.check("url"))
		}
		return verb.Action{Settings: settings, Check: check, Do: func(ctx context.Context, p verb.Process, rest []string) error {
			q := url.Values{"as": {as}, "collection": {rest[0]}, "operation": {rest[1]}}
			if len(rest) == 3 {
				q.Set("id", rest[2])
			}
			var e record.Explanation
			if err := o.askJSON(ctx, "/records/rules?"+q.Encode(), &e); err != nil {
				return err
			}
			if o.json {
				return verb.PrintJSON(p.Stdout, e)
			}
			if _, err := fmt.Fprintln(p.Stdout, e.Text); err != nil || e.Clause == nil {
				return err
			}
			return printClause(p.Stdout, *e.Clause, "")
		}}
	},
}

// printClause prints a clause and its parts.
func printClause(w io.Writer, c record.Clause, indent string) error {
	if _, err := fmt.Fprintf(w, "%s%-7s  %s\n", indent, c.Result, c.Text); err != nil {
		return err
	}
	for _, t := range c.Terms {
		if err := printClause(w, t, indent+"  "); err != nil {
			return err
		}
	}
	return nil
}

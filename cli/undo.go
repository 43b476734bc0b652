package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/web/api"
)

var undoVerb = verb.Verb{
	Name: "undo", Short: "undo the changes that a user made to records since a time",
	Long: `One transaction undoes all changes that the user has made to records since then. The history
keeps it like any other change. If someone else has since changed the same fields of a
record, that record is left unchanged and listed. --dry-run only shows what would be done.`,
	Start: func(app verb.App) verb.Action {
		o := &usersOptions{}
		var u api.UndoRequest
		settings := o.settings(app,
			verb.Setting{Name: "actor", Arg: "USER", Help: "the user's email address or id", Set: verb.Text(&u.Actor)},
			verb.Setting{Name: "since", Arg: "TIME", Help: "a time like 2026-01-02T15:04:05Z, or how long ago, like 90m", Set: verb.Text(&u.Since)},
			verb.Setting{Name: "dry-run", Help: "only show what would be done", Set: verb.Toggle(&u.DryRun)})
		check := func(rest []string) error {
			var what error
			if u.Actor == "" || u.Since == "" {
				what = errors.New("needs --actor and --since")
			}
			return verb.Mistakes(verb.NoArguments(rest), what, o.check("url"))
		}
		return verb.Action{Settings: settings, Check: check, Do: func(ctx context.Context, p verb.Process, _ []string) error {
			done, err := o.undo(ctx, u)
			if err != nil {
				return err
			}
			if o.json {
				return verb.PrintJSON(p.Stdout, done)
			}
			return printUndone(p.Stdout, done, u.DryRun)
		}}
	},
}

// undo sends the request and returns what was done.
func (o *usersOptions) undo(ctx context.Context, u api.UndoRequest) (done api.Undone, err error) {
	err = o.sendJSON(ctx, http.MethodPost, "/records/undo", u, &done)
	return done, err
}

func printUndone(w io.Writer, done api.Undone, dry bool) error {
	taken, conflicts := 0, 0
	for _, r := range done.Records {
		switch {
		case r.Conflict != "":
			conflicts++
		case r.Op != "":
			taken++
		}
		if _, err := fmt.Fprintln(w, r); err != nil {
			return err
		}
	}
	did := "undid"
	if dry {
		did = "would undo"
	}
	_, err := fmt.Fprintf(w, "%s the changes of %d records; %d left unchanged\n", did, taken, conflicts)
	return err
}

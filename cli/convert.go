package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/web/api"
)

var migrateConvertVerb = verb.Verb{
	Name: "migrate convert", Args: "[COLLECTION…]", Short: "move the records of collections from keys to tables, or back",
	Long: `PostgreSQL stores records in tables, which psql can read, or in keys, as every engine does.
This verb moves all collections, or those named, to the place that --to names. The server
copies documents and history in small steps while it serves; nothing else changes, and
subscribers see nothing. If it is stopped it continues after the next start. The opposite
--to gives up a conversion that has not finished. migrate status shows the progress.`,
	Start: func(app verb.App) verb.Action {
		o := &usersOptions{}
		var to string
		var wait bool
		settings := o.settings(app,
			verb.Setting{Name: "to", Arg: "PLACE", Help: "tables or keys", Set: verb.Text(&to)},
			verb.Setting{Name: "wait", Help: "wait until all work is done; fail if some of it fails", Set: verb.Toggle(&wait)})
		check := func([]string) error {
			var where error
			if to != string(record.InTables) && to != string(record.InKeys) {
				where = errors.New("needs --to tables or --to keys")
			}
			return verb.Mistakes(where, o.check("url"))
		}
		return verb.Action{Settings: settings, Check: check, Do: func(ctx context.Context, p verb.Process, rest []string) error {
			done, err := o.migrate(ctx, api.MigrationRequest{Collections: rest, Convert: record.Place(to)})
			if err != nil {
				return err
			}
			if wait {
				_, err = o.migrations(ctx, true, newProgress(p))
			}
			if err != nil {
				return err
			}
			if o.json {
				return verb.PrintJSON(p.Stdout, done)
			}
			return printConverted(p.Stdout, done.Migrations, to, wait)
		}}
	},
}

func printConverted(w io.Writer, begun []record.Migration, to string, done bool) error {
	var names []string
	for _, m := range begun {
		names = append(names, m.Collection)
	}
	text := "converting %s to %s while requests are served; migrate status shows the progress\n"
	switch {
	case len(begun) == 0:
		_, err := fmt.Fprintf(w, "nothing to do: the records are in %s\n", to)
		return err
	case done:
		text = "the records of %s are in %s\n"
	}
	_, err := fmt.Fprintf(w, text, strings.Join(names, ", "), to)
	return err
}

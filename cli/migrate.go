package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/web/api"
)

var migrateVerb = verb.Verb{
	Name: "migrate", Args: "status|diff|up|down|drop|convert …", Short: "update the stored collections to match the program",
	Long: `The program defines its collections; the store keeps them as the last migration left them.
These verbs use the server's admin address. A migration does not stop requests: the server
builds indexes and rewrites records afterwards, in small steps. migrate status shows the
progress.`,
	Subs: []verb.Verb{migrateStatusVerb, migrateDiffVerb, migrateUpVerb, migrateDownVerb, migrateDropVerb, migrateConvertVerb},
}

var migrateStatusVerb = verb.Verb{
	Name: "migrate status", Short: "show the collections and pending work",
	Start: func(app verb.App) verb.Action {
		o := &usersOptions{}
		var wait bool
		settings := o.settings(app, verb.Setting{Name: "wait", Help: "wait until all work is done; fail if some of it fails", Set: verb.Toggle(&wait)})
		check := func(rest []string) error { return verb.Mistakes(verb.NoArguments(rest), o.check("url")) }
		return verb.Action{Settings: settings, Check: check, Do: func(ctx context.Context, p verb.Process, _ []string) error {
			all, err := o.migrations(ctx, wait, newProgress(p))
			if err != nil {
				return err
			}
			if o.json {
				return verb.PrintJSON(p.Stdout, all)
			}
			return printMigrations(p.Stdout, all.Migrations)
		}}
	},
}

// migrationPause is how long migrate status --wait waits before it asks again.
const migrationPause = 200 * time.Millisecond

// migrations asks for the collections. If wait is set it asks until all work is done, and shows how far that is.
func (o *usersOptions) migrations(ctx context.Context, wait bool, bar *progress) (api.Migrations, error) {
	if bar != nil {
		defer bar.end()
	}
	for {
		var all api.Migrations
		if err := o.askJSON(ctx, "/records/migrations", &all); err != nil || !wait {
			return all, err
		}
		busy := false
		for _, m := range all.Migrations {
			if m.Progress != nil && m.Progress.Failed != "" {
				return all, engine.Errorf(record.CodeMigration, "the migration of collection %s has failed: %s", m.Collection, m.Progress.Failed)
			}
			if m.Progress != nil && !busy && bar != nil {
				bar.show("%s: %s", m.Collection, strings.Join(migrationState(m), "; "))
			}
			busy = busy || m.Progress != nil
		}
		if !busy {
			return all, nil
		}
		select {
		case <-ctx.Done():
			return all, ctx.Err()
		case <-time.After(migrationPause):
		}
	}
}

func printMigrations(w io.Writer, all []record.Migration) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "there are no collections")
		return err
	}
	for _, m := range all {
		if _, err := fmt.Fprintf(w, "%s: %s\n", m.Collection, strings.Join(migrationState(m), "; ")); err != nil {
			return err
		}
	}
	return nil
}

// migrationState returns the state of a collection in words.
func migrationState(m record.Migration) (parts []string) {
	switch {
	case m.Refused != "":
		parts = append(parts, "cannot be migrated: "+m.Refused)
	case len(m.Steps) > 0:
		parts = append(parts, fmt.Sprintf("version %d, pending steps: %d", m.Version, len(m.Steps)))
	case m.Version > 0:
		parts = append(parts, fmt.Sprintf("version %d, up to date", m.Version))
	}
	if m.Place == record.InTables {
		parts = append(parts, "in tables")
	}
	if p := m.Progress; p != nil {
		what := strings.Join(p.What, ", ")
		switch {
		case p.Failed != "":
			parts = append(parts, what+" failed: "+p.Failed)
		case p.Of > 0:
			parts = append(parts, fmt.Sprintf("%s: %d of %d records", what, p.Done, p.Of))
		default:
			parts = append(parts, what)
		}
	}
	return parts
}

var migrateDiffVerb = verb.Verb{
	Name: "migrate diff", Short: "show the steps that migrate up would take",
	Start: func(app verb.App) verb.Action {
		o := &usersOptions{}
		check := func(rest []string) error { return verb.Mistakes(verb.NoArguments(rest), o.check("url")) }
		return verb.Action{Settings: o.settings(app), Check: check, Do: func(ctx context.Context, p verb.Process, _ []string) error {
			all, err := o.migrations(ctx, false, nil)
			if err != nil {
				return err
			}
			if o.json {
				return verb.PrintJSON(p.Stdout, all)
			}
			return printSteps(p.Stdout, all.Migrations, "nothing to do")
		}}
	},
}

// printSteps prints the steps of migrations, or none if there are none.
func printSteps(w io.Writer, all []record.Migration, none string) error {
	printed := false
	for _, m := range all {
		if m.Refused != "" {
			if _, err := fmt.Fprintf(w, "%s cannot be migrated: %s\n", m.Collection, m.Refused); err != nil {
				return err
			}
			printed = true
		}
		for _, s := range m.Steps {
			if _, err := fmt.Fprintln(w, s); err != nil {
				return err
			}
			printed = true
		}
	}
	if printed {
		return nil
	}
	_, err := fmt.Fprintln(w, none)
	return err
}

var migrateUpVerb = migrating("migrate up", false, "update collections to match the program", `A step that may lose data is refused if a record would lose any or become invalid. With
--allow-loss it is carried out anyway.`)
var migrateDownVerb = migrating("migrate down", true, "undo the last migration of collections", `Values that the last migration lost do not come back; they are only in the history. A step
that may lose data is refused if a record would lose any. With --allow-loss it is carried
out anyway.`)

func migrating(name string, down bool, short, long string) verb.Verb {
	return verb.Verb{
		Name: name, Args: "[COLLECTION…]", Short: short, Long: long,
		Start: func(app verb.App) verb.Action {
			o := &usersOptions{}
			m := api.MigrationRequest{Down: down}
			check := func(rest []string) error {
				var what error
				if down && len(rest) == 0 {
					what = errors.New("needs the names of the collections")
				}
				return verb.Mistakes(what, o.check("url"))
			}
			return verb.Action{Settings: o.settings(app, lossSetting(&m)), Check: check, Do: func(ctx context.Context, p verb.Process, rest []string) error {
				m.Collections = rest
				done, err := o.migrate(ctx, m)
				if err != nil {
					return err
				}
				if o.json {
					return verb.PrintJSON(p.Stdout, done)
				}
				return printSteps(p.Stdout, done.Migrations, "nothing to do")
			}}
		},
	}
}

func lossSetting(m *api.MigrationRequest) verb.Setting {
	return verb.Setting{Name: "allow-loss", Help: "migrate even if records lose data or become invalid", Set: verb.Toggle(&m.AllowLoss)}
}

var migrateDropVerb = verb.Verb{
	Name: "migrate drop", Args: "COLLECTION", Short: "delete a collection with all its records and their history",
	Long: `The program must not define it any more, or it is created again. A collection with records
is deleted only with --allow-loss.`,
	Start: func(app verb.App) verb.Action {
		o := &usersOptions{}
		var m api.MigrationRequest
		check := func(rest []string) error {
			return verb.Mistakes(verb.OneArgument(rest, "the name of a collection"), o.check("url"))
		}
		return verb.Action{Settings: o.settings(app, lossSetting(&m)), Check: check, Do: func(ctx context.Context, p verb.Process, rest []string) error {
			m.Drop = rest[0]
			done, err := o.migrate(ctx, m)
			if err != nil {
				return err
			}
			if o.json {
				return verb.PrintJSON(p.Stdout, done)
			}
			_, err = fmt.Fprintf(p.Stdout, "dropped %s\n", m.Drop)
			return err
		}}
	},
}

// migrate sends a migration and returns what was done.
func (o *usersOptions) migrate(ctx context.Context, m api.MigrationRequest) (done api.Migrations, err error) {
	err = o.sendJSON(ctx, http.MethodPost, "/records/migrations", m, &done)
	return done, err
}

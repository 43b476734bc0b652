package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/skerrydb/skerry/backups"
	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/journal"
)

// backupOptions are the options of `skerry backup`.
type backupOptions struct {
	from remote
	data string
	to   string
	json bool
}

func (o *backupOptions) settings(app verb.App) []verb.Setting {
	return append([]verb.Setting{
		{Name: "from", Arg: "URL", Help: "HTTP address of a running server, like " + defaultURL(app) + "; the admin address if it serves a web application", Set: verb.Text(&o.from.url)},
		{Name: "data", Arg: "DIR", Help: "data folder to back up instead of --from; it must not be in use", Set: verb.Text(&o.data)},
		{Name: "to", Arg: "FILE", Help: "file to write; it must not exist yet", Set: verb.Text(&o.to)},
		verb.JSON(&o.json),
	}, o.from.accessSettings()...)
}

var backupVerb = verb.Verb{
	Name: "backup", Short: "write all data of a running server or a data folder to one file",
	Long: `The file contains one consistent state, with checksums. It is read back and verified
before it gets its name, so a file with that name is always complete. For a continuous
backup of every change, see serve --archive DIR.`,
	Start: func(app verb.App) verb.Action {
		o := &backupOptions{}
		return verb.Action{Settings: o.settings(app), Check: o.check, Do: func(ctx context.Context, p verb.Process, _ []string) error {
			return backup(ctx, p, o)
		}}
	},
}

func (o *backupOptions) check(rest []string) error {
	var source error
	switch {
	case o.from.url == "" && o.data == "":
		source = errors.New("needs --from URL or --data DIR")
	case o.from.url != "" && o.data != "":
		source = errors.New("takes --from or --data, not both")
	}
	if o.to == "-" {
		source = verb.Mistakes(source, errors.New("--to: must be a file, to be verified after writing; to stream a backup, use curl URL/backup"))
	}
	return verb.Mistakes(verb.NoArguments(rest), source, o.from.check("from"), verb.Needs("to", o.to))
}

// backup writes and verifies a backup.
func backup(ctx context.Context, p verb.Process, o *backupOptions) error {
	if _, err := os.Lstat(o.to); !errors.Is(err, os.ErrNotExist) {
		if err != nil {
			return err
		}
		return fmt.Errorf("%s already exists; backup never overwrites a file", o.to)
	}
	var sum embedded.Summary
	_, err := backups.WriteWhole(journal.OS(), o.to, func(w io.Writer) error {
		if o.from.url != "" {
			return backupServer(ctx, o, w)
		}
		return backupFolder(ctx, p, o.data, w)
	}, func(r io.Reader) (err error) {
		sum, err = embedded.VerifyBackup(r)
		return err
	})
	if err != nil {
		return err
	}
	return printSummary(p.Stdout, o.json, o.to, sum)
}

// createWhole writes a file by fill; see backups.WriteWhole.
func createWhole(name string, fill func(w io.Writer) error) error {
	_, err := backups.WriteWhole(journal.OS(), name, fill, nil)
	return err
}

func backupServer(ctx context.Context, o *backupOptions, w io.Writer) error {
	resp, err := o.from.ask(ctx, http.MethodGet, "/backup", nil, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(w, resp.Body); err != nil {
		return fmt.Errorf("read %s: %w", resp.Request.URL.Redacted(), err)
	}
	return nil
}

func backupFolder(ctx context.Context, p verb.Process, dir string, w io.Writer) (err error) {
	if _, err := os.Stat(dir); err != nil {
		return err // opening it would create it
	}
	_, err = embedded.BackupFolder(ctx, dir, w, embedded.Options{MemoryBytes: verb.NoLimit, Logger: verb.Quiet(p.Stderr)})
	return err
}

func printSummary(w io.Writer, asJSON bool, file string, sum embedded.Summary) error {
	if asJSON {
		return verb.PrintJSON(w, sum)
	}
	_, err := fmt.Fprintf(w, "%s: position %d of %s, %s, %d bytes of keys and values\n", file, sum.Position,
		sum.Time.Format(time.RFC3339Nano), verb.Plural(sum.Keys, "key"), sum.Bytes)
	return err
}

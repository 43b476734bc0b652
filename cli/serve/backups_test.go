package serve

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/archive"
	"github.com/skerrydb/skerry/backups"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
)

// TestBackupSettings: what contradicts itself is refused by name.
func TestBackupSettings(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--data d --backups b", ""},
		{"--data d --backups b --backup-every 24h --backup-keep 3", ""},
		{"--data d --backups d2 --archive d3", ""},
		{"--backup-every 24h", "need --backups"},
		{"--backup-keep 3", "need --backups"},
		{"--backups b --backup-keep 3", "needs --backup-every"},
		{"--data d --backups d", "must not be in one another"},
		{"--data d --backups d/b", "must not be in one another"},
		{"--data d/b --backups d", "must not be in one another"},
		{"--data d --archive b/../b --backups b", "folder of --archive"},
	} {
		o := &Options{}
		if _, err := verb.Configure(o.Settings(), nil, strings.Fields(c.args), nil); err != nil {
			t.Fatal(err)
		}
		err := o.backups.fits(o.folder(), o.archive.dir)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
	}
	for args, want := range map[string]string{"--backups=": "must not be empty", "--backup-every 1s": "is not a duration", "--backup-keep 0": "is not a whole number"} {
		if _, err := verb.Configure((&Options{}).Settings(), nil, strings.Fields(args), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// TestKeeping: a server with both folders takes a backup by itself, its archive can be verified and restored by people, and all ends.
func TestKeeping(t *testing.T) {
	t.Parallel()
	quiet := slog.New(slog.DiscardHandler)
	db, err := embedded.Open(t.TempDir(), embedded.Options{Logger: quiet, LogReserveBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() // the end of the test
	if _, err := db.Update(t.Context(), func(tx engine.Tx) error { return tx.Put([]byte("fish"), []byte("cod")) }); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	o := &Options{archive: archiveOptions{dir: filepath.Join(dir, "archive")}, backups: backupOptions{dir: filepath.Join(dir, "backups"), every: time.Hour}}
	k, err := o.startKeeping(db, quiet)
	if err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "a backup by the schedule, and a base", func() bool {
		r, err := k.archive.Reach()
		return err == nil && len(r.Spans) == 1 && k.backups.Status().Taken == 1 && k.archiver.Status().Bases == 1
	})
	names := map[string]float64{}
	for m := range k.metrics() {
		names[m.Name] = m.Value
	}
	if names["backup_files"] != 1 || names["backup_taken_total"] != 1 || names["backup_failing"] != 0 || names["backup_next_time_seconds"] == 0 || names["archive_bases_total"] != 1 {
		t.Errorf("%v", names)
	}
	p := &backups.Progress{}
	rep, err := k.archive.Check(t.Context(), p)
	if done, total := p.Bytes(); err != nil || !rep.OK() || len(rep.Ranges) != 1 || done == 0 || total == 0 {
		t.Errorf("%+v, %v, %d of %d", rep, err, done, total)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := k.archive.Check(stopped, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a check that was stopped: %v", err)
	}
	to := filepath.Join(dir, "new")
	sum, note, err := k.archive.Restore(t.Context(), archive.Latest(), to, p)
	if err != nil || sum.Keys != 1 || note != "" {
		t.Errorf("%+v %q %v", sum, note, err)
	}
	if rep, err := embedded.Check(to, embedded.Options{}, nil); err != nil || !rep.OK() || rep.Keys != 1 {
		t.Errorf("%+v %v", rep, err)
	}
	if _, _, err := k.archive.Restore(stopped, archive.Latest(), filepath.Join(dir, "other"), p); !errors.Is(err, context.Canceled) {
		t.Errorf("a restore that was stopped: %v", err)
	}
	if err := k.end(); err != nil {
		t.Error(err)
	}
	if err := (&backupOptions{dir: dir}).reopened(db, quiet); err != nil {
		t.Error(err)
	}
}

// reopened opens the folder again, which its end has unlocked.
func (o *backupOptions) reopened(db *embedded.DB, log *slog.Logger) error {
	o.dir = filepath.Join(o.dir, "backups")
	_, stop, err := o.start(db, 0, log)
	if err != nil {
		return err
	}
	return stop()
}

// TestRoomFor: what is more than the machine has is refused before it is read.
func TestRoomFor(t *testing.T) {
	t.Parallel()
	if err := roomFor(0)(1 << 10); err != nil {
		t.Error(err)
	}
	if err := roomFor(0)(math.MaxInt64 / 4); engine.CodeOf(err) != engine.CodeMemoryFull || !strings.Contains(err.Error(), "skerry restore") {
		t.Errorf("%v", err)
	}
	if err := roomFor(MinSpill)(math.MaxInt64 / 4); err != nil {
		t.Errorf("with long values in files: %v", err)
	}
	if _, err := verifyBackup(strings.NewReader("no backup")); engine.CodeOf(err) != engine.CodeCorrupt {
		t.Errorf("%v", err)
	}
	if _, err := io.ReadAll((*backups.Progress)(nil).Reader(t.Context(), strings.NewReader("x"))); err != nil {
		t.Error(err)
	}
}

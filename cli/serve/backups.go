package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/archive"
	"github.com/skerrydb/skerry/backups"
	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
)

// backupOptions are the settings of a server's folder of backups.
type backupOptions struct {
	dir   string
	every time.Duration
	keep  int
}

func (o *backupOptions) settings() []verb.Setting {
	return []verb.Setting{
		{Name: "backups", Arg: "DIR", Help: "folder for verified backups, written by --backup-every and from the admin page, which also restores below it", Server: true, Set: verb.Text(&o.dir)},
		{Name: "backup-every", Arg: "TIME", Help: "take a backup whenever the newest verified one is this old, like 24h (default never)", Server: true, Set: verb.Duration(&o.every, backups.MinEvery, maxKeep)},
		{Name: "backup-keep", Arg: "N", Help: "how many scheduled backups to keep (default " + strconv.Itoa(backups.DefaultKeep) + ")", Server: true, Set: verb.Whole(&o.keep, 1, backups.MaxKeep)},
	}
}

// fits returns an error if the settings contradict each other or those of other folders.
func (o *backupOptions) fits(folder, archive string) error {
	if o.dir == "" {
		if o.every != 0 || o.keep != 0 {
			return errors.New("backup-every, backup-keep: need --backups, the folder of the backups")
		}
		return nil
	}
	var wrong []error
	for _, other := range []struct{ name, dir string }{{"data", folder}, {"archive", archive}} {
		if other.dir != "" && (inside(o.dir, other.dir) || inside(other.dir, o.dir)) {
			wrong = append(wrong, fmt.Errorf("backups: %s and the folder of --%s, %s, must not be in one another", o.dir, other.name, other.dir))
		}
	}
	if o.keep != 0 && o.every == 0 {
		wrong = append(wrong, errors.New("backup-keep: needs --backup-every, whose backups it counts"))
	}
	return verb.Mistakes(wrong...)
}

// inside reports whether dir is parent or below it.
func inside(dir, parent string) bool {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return false // the current folder is gone: opening the folders reports that
	}
	parent, err = filepath.Abs(parent)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(parent, dir)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// start opens the folder of backups, if there is one, and follows its schedule in the background until stop.
func (o *backupOptions) start(eng engine.Engine, spill int64, log *slog.Logger) (f *backups.Folder, stop func() error, err error) {
	if o.dir == "" {
		return nil, func() error { return nil }, nil
	}
	src, ok := eng.(engine.Backuper)
	if !ok {
		return nil, nil, engine.Errorf(engine.CodeUnsupported, "this engine has no backups")
	}
	f, err = backups.Open(o.dir, backups.Options{Backup: src.Backup, Verify: verifyBackup, Restore: restoring(spill), Room: roomFor(spill), Every: o.every, Keep: o.keep, Logger: log})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := f.Run(ctx); err != nil {
			log.Error("the schedule of backups ended", "folder", f.Dir(), "err", err)
		}
	}()
	return f, func() error {
		cancel()
		<-ended
		return f.Close()
	}, nil
}

func verifyBackup(r io.Reader) (backups.Summary, error) {
	sum, err := embedded.VerifyBackup(r)
	return backups.Summary(sum), err
}

// restoring returns the function that restores a backup while this server runs, keeping long values in files as the server does.
func restoring(spill int64) func(ctx context.Context, r io.Reader, dir string) (backups.Summary, error) {
	return func(ctx context.Context, r io.Reader, dir string) (backups.Summary, error) {
		sum, err := embedded.Restore(ctx, r, dir, embedded.Options{SpillBytes: spill, Logger: slog.New(slog.DiscardHandler)})
		return backups.Summary(sum), err
	}
}

// RestoreArchive creates a data folder with the state of a plan.
func RestoreArchive(ctx context.Context, plan *archive.Plan, dir string, o embedded.Options) (embedded.Summary, error) {
	base, err := plan.OpenBase()
	if err != nil {
		return embedded.Summary{}, err
	}
	defer base.Close()
	sum, err := embedded.RestoreChanges(ctx, base, plan.Changes(), dir, o)
	if err != nil {
		return embedded.Summary{}, fmt.Errorf("restore %s from %s: %w", plan.Target, plan.BaseFile, err)
	}
	return sum, nil
}

// roomFor returns a function that returns an error if restoring so many bytes beside the running server could take more memory than
// the machine has. With spill, long values are not in memory, and a restore of about the server's own data takes what the server has.
func roomFor(spill int64) func(bytes int64) error {
	return func(bytes int64) error {
		sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
		metrics.Read(sample)
		used := int64(sample[0].Value.Uint64() - sample[1].Value.Uint64())
		need := restoreFactor * bytes
		if spill > 0 {
			need = min(need, used)
		}
		if left := machineMemory("/") - used; need > left {
			return engine.Errorf(engine.CodeMemoryFull, "restoring can take %s of memory, and this server leaves %s: run `skerry restore` on another machine, or here with --spill", about(need), about(max(left, 0)))
		}
		return nil
	}
}

// about returns a size in whole MiB.
func about(bytes int64) string { return strconv.FormatInt(bytes>>20, 10) + " MiB" }

// restoreFactor is how much memory a restore takes for each byte that it reads: a page of the tree, and as much again for the
// garbage of building it.
const restoreFactor = 2

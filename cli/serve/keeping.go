package serve

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"path/filepath"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/archive"
	"github.com/skerrydb/skerry/backups"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/journal"
)

// keeping is the archive and the folder of backups of a server.
type keeping struct {
	archiver *archive.Archiver
	backups  *backups.Folder // nil: there is none
	archive  *skerry.Archive // nil: there is none
	ends     []func() error  // in the order of the start
}

// startKeeping starts what is configured.
func (o *Options) startKeeping(eng engine.Engine, log *slog.Logger) (*keeping, error) {
	k := &keeping{}
	a, end, err := o.archive.start(eng, log)
	if err != nil {
		return nil, err
	}
	k.archiver, k.ends = a, append(k.ends, end)
	if a != nil {
		k.archive = o.archive.forPeople(a, o.spill)
	}
	if k.backups, end, err = o.backups.start(eng, o.spill, log); err != nil {
		return nil, errors.Join(err, k.end())
	}
	k.ends = append(k.ends, end)
	return k, nil
}

// end ends all, in the reverse order.
func (k *keeping) end() error {
	var errs []error
	for i := len(k.ends) - 1; i >= 0; i-- {
		errs = append(errs, k.ends[i]())
	}
	return errors.Join(errs...)
}

// metrics yields the metrics of all.
func (k *keeping) metrics() iter.Seq[engine.Metric] {
	return func(yield func(engine.Metric) bool) {
		if k.archiver != nil {
			for m := range archiveMetrics(k.archiver.Status()) {
				if !yield(m) {
					return
				}
			}
		}
		if k.backups != nil {
			for m := range k.backups.Metrics() {
				if !yield(m) {
					return
				}
			}
		}
	}
}

// forPeople returns what the admin page does with the archive.
func (o *archiveOptions) forPeople(a *archive.Archiver, spill int64) *skerry.Archive {
	dir, err := filepath.Abs(o.dir)
	if err != nil {
		dir = o.dir // the current folder is gone
	}
	reach := func() (archive.Reach, error) { return archive.ReachOf(nil, dir, a.Status()) }
	return &skerry.Archive{
		Dir: dir, Reach: reach,
		Check: func(ctx context.Context, p *backups.Progress) (archive.Report, error) {
			if r, err := reach(); err == nil {
				p.Expect(r.BaseBytes + r.LogBytes)
			}
			rep, err := archive.Check(&countingFS{journal.OS(), ctx, p}, dir, VerifyBase, nil)
			return rep, errors.Join(err, ctx.Err())
		},
		Restore: func(ctx context.Context, t archive.Target, to string, p *backups.Progress) (archive.Summary, string, error) {
			plan, err := archive.Find(&countingFS{journal.OS(), ctx, p}, dir, t)
			if err != nil {
				return archive.Summary{}, "", err
			}
			bytes, err := plan.Bytes()
			if err != nil {
				return archive.Summary{}, "", err
			}
			if err := roomFor(spill)(bytes); err != nil {
				return archive.Summary{}, "", err
			}
			p.Expect(bytes)
			sum, err := RestoreArchive(ctx, plan, to, embedded.Options{SpillBytes: spill, Logger: slog.New(slog.DiscardHandler)})
			return archive.Summary(sum), plan.Note, err
		},
	}
}

// countingFS counts what is read of its files, and stops reading when ctx ends: an archive is read without a context.
type countingFS struct {
	journal.FS
	ctx context.Context
	p   *backups.Progress
}

// OpenFile implements journal.FS.
func (f *countingFS) OpenFile(path string, flag int) (journal.File, error) {
	if err := f.ctx.Err(); err != nil {
		return nil, err
	}
	file, err := f.FS.OpenFile(path, flag)
	if err != nil {
		return nil, err
	}
	return &countingFile{file, f}, nil
}

type countingFile struct {
	journal.File
	fs *countingFS
}

// ReadAt implements journal.File.
func (f *countingFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.fs.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := f.File.ReadAt(p, off)
	f.fs.p.Add(int64(n))
	return n, err
}

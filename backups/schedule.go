package backups

import (
	"context"
	"errors"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"time"

	"github.com/skerrydb/skerry/engine"
)

const (
	firstRetry = time.Minute // the pause after a failure; it doubles up to lastRetry, and is never longer than Options.Every
	lastRetry  = time.Hour
	lookEvery  = time.Minute // how often the schedule looks at the clock and at the folder: a machine may have slept
)

// Take takes a backup into the folder now. It returns once the file was read back, is durable and has its name.
func (f *Folder) Take(ctx context.Context, p *Progress) (File, error) {
	end, err := f.begin()
	if err != nil {
		return File{}, err
	}
	defer end()
	defer f.changed()
	return f.take(ctx, Manual, p)
}

// take is Take of an operation that has begun.
func (f *Folder) take(ctx context.Context, kind Kind, p *Progress) (File, error) {
	one := File{Kind: kind, Taken: f.o.Now().UTC().Truncate(time.Millisecond)}
	for one.Name = fileName(kind, one.Taken); ; one.Name = fileName(kind, one.Taken) {
		if _, err := f.find(one.Name); engine.CodeOf(err) == engine.CodeNotFound {
			break
		} else if err != nil {
			return File{}, err
		}
		one.Taken = one.Taken.Add(time.Millisecond) // a backup never overwrites a file
	}
	var pos engine.Position
	size, err := WriteWhole(f.o.FS, filepath.Join(f.dir, one.Name), func(w io.Writer) (err error) {
		pos, err = f.o.Backup(ctx, p.Writer(w))
		return err
	}, func(r io.Reader) (err error) {
		if one.Summary, err = f.o.Verify((*Progress)(nil).Reader(ctx, r)); err != nil {
			return err
		}
		if one.Summary.Position != pos {
			return engine.Errorf(engine.CodeInternal, "the backup is of position %d, but says %d", pos, one.Summary.Position)
		}
		return nil
	})
	if err != nil {
		return File{}, fileError("take a backup into "+f.dir, err)
	}
	one.Size, one.Verified = size, f.o.Now().UTC()
	if err := f.note(one.Name, check{At: one.Verified, Size: size, Summary: one.Summary}); err != nil {
		return one, err
	}
	_, err = f.Files() // counts again
	return one, err
}

// Run takes backups by the schedule until ctx ends, and then returns nil. A backup is due Options.Every after the newest good one was
// taken, whoever took it: a restart takes none early, and one that was missed is taken at once. Failures are logged and retried.
func (f *Folder) Run(ctx context.Context) error {
	if f.o.Every == 0 {
		<-ctx.Done()
		return nil
	}
	var pause time.Duration // after a failure
	var failed time.Time    // when the last attempt failed
	for ctx.Err() == nil {
		next, err := f.due(ctx)
		if err == nil {
			if retry := failed.Add(pause); pause > 0 && retry.After(next) {
				next = retry
			}
			f.update(func(s *Status) { s.Next = next })
			if wait := next.Sub(f.o.Now()); wait > 0 {
				f.sleep(ctx, min(wait, lookEvery))
				continue
			}
			err = f.takeScheduled(ctx)
		}
		if err == nil || ctx.Err() != nil {
			pause = 0
			continue
		}
		pause = min(max(2*pause, firstRetry), lastRetry, f.o.Every)
		failed = f.o.Now()
		f.update(func(s *Status) { s.Failed, s.Last, s.Err, s.Next = s.Failed+1, failed, err, failed.Add(pause) })
		f.o.Logger.Error("the scheduled backup failed and will be retried; the server is not affected", "folder", f.dir, "err", err, "pause", pause)
		f.sleep(ctx, pause)
	}
	return nil
}

// sleep waits, but no longer than until files change.
func (f *Folder) sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-f.woken:
	case <-timer.C:
	}
}

// due returns when the next backup is due. It reads files that nobody has verified, newest first, until one is good.
func (f *Folder) due(ctx context.Context) (time.Time, error) {
	now := f.o.Now()
	all, err := f.Files()
	if err != nil {
		return now, err
	}
	for _, one := range all {
		if one.Kind == Foreign {
			continue
		}
		if one.Verified.IsZero() {
			if one, err = f.verifyScheduled(ctx, one.Name); err != nil {
				return now, err
			}
		}
		if one.Good() {
			at := one.Taken
			if at.After(now) {
				at = now // the clock was wrong then
			}
			return at.Add(f.o.Every), nil
		}
	}
	return now, nil
}

func (f *Folder) verifyScheduled(ctx context.Context, name string) (File, error) {
	end, err := f.wait(ctx)
	if err != nil {
		return File{}, err
	}
	defer end()
	return f.verify(ctx, name, nil)
}

// takeScheduled takes a backup and removes old ones.
func (f *Folder) takeScheduled(ctx context.Context) error {
	end, err := f.wait(ctx)
	if err != nil {
		return err
	}
	defer end()
	p := &Progress{}
	f.update(func(s *Status) { s.Taking = p })
	defer f.update(func(s *Status) { s.Taking = nil })
	begin := time.Now()
	one, err := f.take(ctx, Scheduled, p)
	if err != nil {
		return err
	}
	f.update(func(s *Status) { s.Taken, s.Last, s.Err = s.Taken+1, one.Taken, nil })
	f.o.Logger.Info("backup taken and verified", "file", filepath.Join(f.dir, one.Name), "position", one.Summary.Position, "bytes", one.Size, "took", time.Since(begin).Round(time.Millisecond))
	if err := f.prune(ctx); err != nil && ctx.Err() == nil {
		f.o.Logger.Error("old backups cannot be removed", "folder", f.dir, "err", err)
	}
	return nil
}

// prune removes backups of the schedule that are older than the Keep newest good ones of it. It removes only what is whole: a damaged
// file stays for somebody to look at.
func (f *Folder) prune(ctx context.Context) error {
	all, err := f.Files()
	if err != nil {
		return err
	}
	kept := 0
	var errs []error
	for _, one := range all {
		if one.Kind != Scheduled {
			continue
		}
		if one.Verified.IsZero() {
			if one, err = f.verify(ctx, one.Name, nil); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		if !one.Good() {
			continue
		}
		if kept++; kept <= f.o.Keep {
			continue
		}
		if err := f.remove(one.Name); err != nil {
			errs = append(errs, err)
			continue
		}
		f.o.Logger.Info("old backup removed", "file", filepath.Join(f.dir, one.Name), "keep", f.o.Keep)
	}
	return errors.Join(errs...)
}

// Metrics yields the metrics for /metrics.
func (f *Folder) Metrics() iter.Seq[engine.Metric] {
	s := f.Status()
	failing := 0.0
	if s.Err != nil {
		failing = 1
	}
	all := []engine.Metric{
		{Name: "backup_files", Help: "Backups in the folder of --backups.", Value: float64(s.Files)},
		{Name: "backup_bytes", Help: "Size of all of them.", Value: float64(s.Bytes)},
		{Name: "backup_newest_time_seconds", Help: "When the newest good backup was taken, since the Unix epoch; 0: there is none.", Value: seconds(s.Newest)},
	}
	if s.Every > 0 {
		all = append(all,
			engine.Metric{Name: "backup_next_time_seconds", Help: "When the schedule takes the next backup, since the Unix epoch.", Value: seconds(s.Next)},
			engine.Metric{Name: "backup_taken_total", Help: "Backups that the schedule has taken since the start.", Counter: true, Value: float64(s.Taken)},
			engine.Metric{Name: "backup_failed_total", Help: "Scheduled backups that failed since the start.", Counter: true, Value: float64(s.Failed)},
			engine.Metric{Name: "backup_failing", Help: "1 while scheduled backups fail; the log has the cause.", Value: failing})
	}
	return slices.Values(all)
}

func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1e3
}

package archive

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
)

// pruneEvery is how often data older than Options.Keep is pruned.
const pruneEvery = time.Minute

// basing takes a base whenever one is wanted, and retries until it succeeds.
func (s *session) basing(ctx context.Context) {
	tick := time.NewTicker(pruneEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.report(ctx)
		case <-s.wantBase:
			if !s.insist(ctx) {
				return
			}
		}
		if err := s.prune(); err != nil && ctx.Err() == nil {
			s.a.failed("cannot remove old parts of the archive", err)
		}
	}
}

// insist takes a base, retrying until it succeeds. It returns false if ctx ended first.
func (s *session) insist(ctx context.Context) bool {
	for pause := time.Second; ; pause = min(2*pause, s.a.o.Retry) {
		size, err := s.takeBase(ctx)
		if err == nil {
			s.due.Store(max(s.a.o.BaseBytes, size))
			s.based.Store(false)
			s.a.works()
			return true
		}
		if ctx.Err() != nil || errors.Is(err, engine.ErrClosed) {
			return false
		}
		pause = min(pause, s.a.o.Retry)
		s.a.failed("cannot take a base; will retry", err, "pause", pause)
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
	}
}

// takeBase writes a base, verifies it by reading it, and only then gives it its name.
func (s *session) takeBase(ctx context.Context) (size int64, err error) {
	fs, begin := s.a.o.FS, time.Now()
	tmp := filepath.Join(s.a.dir, basesDir, nextBase)
	f, err := fs.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return 0, fileError("write base", err)
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			fs.Remove(tmp) // the next one replaces it
		}
	}()
	w := &fileWriter{file: f}
	pos, err := s.src.Backup(ctx, w)
	if err != nil {
		return 0, fileError("write base", err)
	}
	if err := f.Sync(); err != nil {
		return 0, fileError("write base", err)
	}
	sum, err := s.a.o.Verify(io.NewSectionReader(f, 0, w.n))
	if err != nil {
		return 0, fileError("verify the new base", err)
	}
	if sum.Position != pos || pos < s.startOfRun() {
		return 0, engine.Errorf(engine.CodeInternal, "the base is at position %d, but says %d; the run began at %d", pos, sum.Position, s.startOfRun())
	}
	name := baseName(s.a.dir, pos, sum.Time)
	if err := fs.Rename(tmp, name); err != nil {
		return 0, fileError("write base", err)
	}
	if err := fs.SyncDir(filepath.Dir(name)); err != nil {
		return 0, fileError("write base", err)
	}
	s.a.status.base.Store(int64(pos))
	s.a.status.bases.Add(1)
	s.a.o.Logger.Info("base taken and verified", "archive", s.a.dir, "position", pos, "keys", sum.Keys,
		"bytes", w.n, "took", time.Since(begin).Round(time.Millisecond))
	return w.n, nil
}

// fileWriter writes a file from its beginning.
type fileWriter struct {
	file journal.File
	n    int64
}

func (w *fileWriter) Write(p []byte) (int, error) {
	n, err := w.file.WriteAt(p, w.n)
	w.n += int64(n)
	return n, err
}

// report logs how far the archive lags behind.
func (s *session) report(ctx context.Context) {
	pos, err := s.position(ctx)
	if err != nil {
		return // the session handles the error
	}
	st := s.a.Status()
	s.a.o.Logger.Info("archived", "archive", s.a.dir, "position", st.Position, "time", st.Time.UTC(),
		"behind", max(pos, st.Position)-st.Position, "base", st.Base)
}

// prune removes bases and parts that only states older than Options.Keep need. If the
// clock is ahead of the newest change, it uses the time of that change: an idle server
// loses nothing, and a clock that jumps ahead removes at most what is older than the
// newest base.
func (s *session) prune() error {
	o := s.a.o
	if o.Keep == 0 {
		return nil
	}
	newest := o.Now()
	if at := time.UnixMicro(s.lastTime.Load()); at.Before(newest) {
		newest = at
	}
	cutoff := newest.Add(-o.Keep)
	f, err := scan(o.FS, s.a.dir, func(error) {})
	if err != nil {
		return err
	}
	keep := -1
	for i, b := range f.bases {
		if !b.time.After(cutoff) {
			keep = i
		}
	}
	if keep < 1 {
		return nil
	}
	for _, b := range f.bases[:keep] {
		if err := o.FS.Remove(b.path); err != nil {
			return fileError("remove old base", err)
		}
	}
	if err := o.FS.SyncDir(filepath.Join(s.a.dir, basesDir)); err != nil {
		return fileError("remove old base", err)
	}
	parts := 0
	for _, p := range f.parts[:max(0, f.holding(f.bases[keep].pos))] {
		gone := strings.TrimSuffix(p.head, partExt) + goneExt
		if err := o.FS.Rename(p.head, gone); err != nil {
			return fileError("remove old part", err)
		}
		if err := o.FS.SyncDir(filepath.Dir(gone)); err != nil {
			return fileError("remove old part", err)
		}
		if err := removePart(o.FS, gone); err != nil {
			return err
		}
		parts++
	}
	o.Logger.Info("old states removed from the archive", "archive", s.a.dir, "bases", keep, "parts", parts,
		"oldest_kept", f.bases[keep].time)
	return nil
}

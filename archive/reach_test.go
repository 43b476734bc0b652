package archive_test

import (
	"testing"

	"github.com/skerrydb/skerry/archive"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/journal"
	"github.com/skerrydb/skerry/journal/memfs"
)

// noLog is a file system on which the log of parts cannot be read: names and heads must do.
type noLog struct {
	*memfs.FS
	t *testing.T
}

// OpenFile implements journal.FS.
func (f *noLog) OpenFile(path string, flag int) (journal.File, error) {
	file, err := f.FS.OpenFile(path, flag)
	return &unread{file, f.t, path}, err
}

type unread struct {
	journal.File
	t    *testing.T
	path string
}

// ReadAt implements journal.File.
func (f *unread) ReadAt(p []byte, off int64) (int, error) {
	if n, err := f.Size(); err != nil || n > 4<<10 {
		f.t.Errorf("%s is read, of %d bytes, %v", f.path, n, err)
	}
	return f.File.ReadAt(p, off)
}

// agrees fails the test unless the reach by names and heads is within what Check finds by reading everything, and has as many spans.
func (w *world) agrees(now archive.Status) archive.Reach {
	w.t.Helper()
	rep, err := archive.Check(w.fs, "archive", verify, nil)
	if err != nil || !rep.OK() {
		w.t.Fatalf("check: %+v %v", rep, err)
	}
	r, err := archive.ReachOf(&noLog{w.fs, w.t}, "archive", now)
	if err != nil || len(r.Problems) > 0 {
		w.t.Fatalf("reach: %+v %v", r, err)
	}
	if len(r.Spans) != len(rep.Ranges) || r.Bases != rep.Bases || r.BaseBytes != rep.BaseBytes || r.Parts != rep.Parts {
		w.t.Fatalf("reach: %+v\ncheck: %+v", r, rep)
	}
	for i, s := range r.Spans {
		is := rep.Ranges[i]
		if s.From != is.From || s.To.Position > is.To.Position || s.To.Time.After(is.To.Time) || s.To.Position < s.From.Position || !s.Open && s.To != is.To {
			w.t.Errorf("span %d: %+v, want within %v", i, s, is)
		}
		w.expect(archive.AtPosition(s.To.Position), s.To.Position)
		if i == len(r.Spans)-1 { // the last time before a gap may have more changes, which are missing
			w.expect(archive.AtTime(s.To.Time), lastAt(w, s.To))
		}
	}
	return r
}

// lastAt returns the last position with the time of a point.
func lastAt(w *world, p archive.Point) engine.Position {
	pos := p.Position
	for int(pos) < len(w.truth) && w.truth[pos].Time.Equal(p.Time) {
		pos++
	}
	return pos
}

// TestReach: names and heads say what can be restored, also around a gap, and never too much.
func TestReach(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.Options{HistoryBytes: 16 << 10})
	a := w.start(w.options())
	a.based()
	for range 8 {
		w.write(20)
		a.caughtUp()
	}
	now := a.Status()
	a.stop()
	r := w.agrees(archive.Status{})
	if len(r.Spans) != 1 || !r.Spans[0].Open || r.Spans[0].To.Position == 0 || r.Waiting || r.LogBytes == 0 {
		t.Errorf("%+v", r)
	}
	r = w.agrees(now)
	if s := r.Spans[0]; s.Open || s.To.Position != 160 || s.Why != "" {
		t.Errorf("%+v", s)
	}
	w.write(300)
	w.lose(160)
	a = w.start(w.options())
	a.await("a base after the gap", func(s archive.Status) bool { return s.Base >= 460 && s.Lost == 1 })
	a.stop()
	r = w.agrees(archive.Status{})
	if len(r.Spans) != 2 || r.Spans[1].Why == "" || r.Spans[0].To.Position > 160 || r.Spans[1].From.Position != 460 {
		t.Errorf("%+v", r)
	}
}

// TestReachOfNothing: a folder that is no archive is an error, one without a base waits, and a head that is damaged is a problem.
func TestReachOfNothing(t *testing.T) {
	t.Parallel()
	if _, err := archive.ReachOf(memfs.New(1), "archive", archive.Status{}); engine.CodeOf(err) != engine.CodeNotFound {
		t.Errorf("no archive: %v", err)
	}
	w, files := archived(t)
	for _, name := range files {
		if len(name) > 5 && name[len(name)-5:] == ".base" {
			if err := w.fs.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	r, err := archive.ReachOf(w.fs, "archive", archive.Status{})
	if err != nil || len(r.Spans) != 0 || !r.Waiting || r.Bases != 0 {
		t.Errorf("without bases: %+v %v", r, err)
	}
	for _, name := range files {
		if len(name) > 5 && name[len(name)-5:] == ".part" {
			w.fs.WriteFile(name, []byte("damaged"))
			break
		}
	}
	if r, err := archive.ReachOf(w.fs, "archive", archive.Status{}); err != nil || len(r.Problems) != 1 {
		t.Errorf("a damaged head: %+v %v", r, err)
	}
}

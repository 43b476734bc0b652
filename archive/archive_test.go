package archive_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/skerrydb/skerry/archive"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/journal"
	"github.com/skerrydb/skerry/journal/memfs"
)

var quiet = slog.New(slog.DiscardHandler)

func verify(r io.Reader) (archive.Summary, error) {
	s, err := embedded.VerifyBackup(r)
	return archive.Summary(s), err
}

func openDB(t *testing.T, o embedded.Options) *embedded.DB {
	t.Helper()
	o.Logger = quiet
	if o.FS == nil {
		o.FS = memfs.New(1)
	}
	db, err := embedded.Open("data", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() }) // the tests that care close it themselves
	return db
}

// world is a database, the truth about it, and an archive of it.
type world struct {
	t     *testing.T
	rng   *rand.Rand
	db    *embedded.DB
	fs    *memfs.FS // of the archive
	truth []engine.Change
}

func newWorld(t *testing.T, o embedded.Options) *world {
	n := seed.Of(t)
	return &world{t: t, rng: rand.New(rand.NewPCG(n, 1)), db: openDB(t, o), fs: memfs.New(n)}
}

// write commits n random transactions.
func (w *world) write(n int) {
	w.t.Helper()
	for range n {
		c := engine.Change{}
		pos, err := w.db.Update(w.t.Context(), func(tx engine.Tx) error {
			c = engine.Change{Time: tx.Now()}
			for range 1 + w.rng.IntN(3) {
				key := fmt.Appendf(nil, "key %02d", w.rng.IntN(40))
				if slices.ContainsFunc(c.Writes, func(o engine.Write) bool { return string(o.Key) == string(key) }) {
					continue
				}
				_, there, err := tx.Get(key)
				if err != nil {
					return err
				}
				write := engine.Write{Key: key, Val: make([]byte, 1+w.rng.IntN(200))}
				for i := range write.Val {
					write.Val[i] = byte(w.rng.Uint32())
				}
				if there && w.rng.IntN(3) == 0 {
					write = engine.Write{Key: key, Deleted: true}
					err = tx.Delete(key)
				} else {
					err = tx.Put(key, write.Val)
				}
				if err != nil {
					return err
				}
				c.Writes = append(c.Writes, write)
			}
			return nil
		})
		if err != nil {
			w.t.Fatal(err)
		}
		if c.Pos = pos; int(pos) != len(w.truth)+1 {
			w.t.Fatalf("position %d after %d", pos, len(w.truth))
		}
		w.truth = append(w.truth, c)
	}
}

// state returns the data of the database at a position.
func (w *world) state(pos engine.Position) map[string]string {
	m := map[string]string{}
	for _, c := range w.truth[:pos] {
		for _, wr := range c.Writes {
			if wr.Deleted {
				delete(m, string(wr.Key))
			} else {
				m[string(wr.Key)] = string(wr.Val)
			}
		}
	}
	return m
}

func (w *world) options() archive.Options {
	return archive.Options{
		Verify: verify, FS: w.fs, Logger: quiet,
		SyncEvery: time.Millisecond, BaseBytes: 8 << 10, Retry: 20 * time.Millisecond, Drain: 20 * time.Second,
	}
}

// running is a running archiver.
type running struct {
	*archive.Archiver
	w      *world
	cancel context.CancelFunc
	ended  chan error
}

func (w *world) start(o archive.Options) *running {
	w.t.Helper()
	a, err := archive.Open("archive", o)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{a, w, cancel, make(chan error, 1)}
	go func() { r.ended <- a.Run(ctx, w.db) }()
	w.t.Cleanup(cancel)
	return r
}

// stop ends the archiver, which first archives all committed changes.
func (r *running) stop() {
	r.w.t.Helper()
	r.halt()
	if err := r.Close(); err != nil {
		r.w.t.Fatal(err)
	}
}

// halt is stop that ignores the result.
func (r *running) halt() {
	r.w.t.Helper()
	r.cancel()
	select {
	case err := <-r.ended:
		if err != nil {
			r.w.t.Fatal(err)
		}
	case <-time.After(time.Minute):
		r.w.t.Fatal("Run does not end")
	}
}

func (r *running) await(what string, cond func(archive.Status) bool) {
	r.w.t.Helper()
	if !eventually.Within(eventually.Limit, func() bool { return cond(r.Status()) }) {
		r.w.t.Fatalf("waited %v in vain: %s: %+v", eventually.Limit, what, r.Status())
	}
}

// based waits for the first base and for the newest change.
func (r *running) based() {
	r.w.t.Helper()
	r.await("a base", func(s archive.Status) bool { return s.Bases > 0 && s.Err == nil })
}

func (r *running) caughtUp() {
	r.w.t.Helper()
	r.await("all changes", func(s archive.Status) bool { return int(s.Position) == len(r.w.truth) && s.Err == nil })
}

// restore restores a folder from the archive and returns its data.
func restore(fsys journal.FS, target archive.Target) (archive.Summary, map[string]string, *archive.Plan, error) {
	plan, err := archive.Find(fsys, "archive", target)
	if err != nil {
		return archive.Summary{}, nil, nil, err
	}
	base, err := plan.OpenBase()
	if err != nil {
		return archive.Summary{}, nil, plan, err
	}
	defer base.Close()
	to := embedded.Options{FS: memfs.New(1), Logger: quiet}
	sum, err := embedded.RestoreChanges(context.Background(), base, plan.Changes(), "new", to)
	if err != nil {
		if names, _ := to.FS.List("new/snap"); len(names) > 0 {
			err = fmt.Errorf("a restore that failed has written %v: %v", names, err)
		}
		return archive.Summary{}, nil, plan, err
	}
	m, err := content(to.FS, "new")
	return archive.Summary(sum), m, plan, err
}

// content reads the pairs of a restored folder, which are in its one snapshot:
// opening it hundreds of times would cost the reserve of its log each time.
func content(fsys journal.FS, dir string) (map[string]string, error) {
	names, err := fsys.List(filepath.Join(dir, "snap"))
	if err != nil || len(names) != 1 {
		return nil, fmt.Errorf("restored snapshots: %v, %v", names, err)
	}
	sr, err := journal.ReadSnapshot(fsys, filepath.Join(dir, "snap", names[0]))
	if err != nil {
		return nil, err
	}
	defer sr.Close()
	r, m := bufio.NewReader(sr), map[string]string{}
	field := func() (string, error) {
		n, err := binary.ReadUvarint(r)
		if err != nil {
			return "", err
		}
		b := make([]byte, n)
		_, err = io.ReadFull(r, b)
		return string(b), err
	}
	for {
		key, err := field()
		if errors.Is(err, io.EOF) {
			return m, nil
		}
		if err == nil {
			m[key], err = field()
		}
		if err != nil {
			return nil, err
		}
	}
}

// expect restores a target, which must be the state at pos.
func (w *world) expect(target archive.Target, pos engine.Position) {
	w.t.Helper()
	sum, got, _, err := restore(w.fs, target)
	if err != nil {
		w.t.Fatalf("restore %s: %v", target, err)
	}
	if sum.Position != pos || !maps.Equal(got, w.state(pos)) {
		w.t.Fatalf("restore %s: position %d, want %d, %d keys, want %d", target, sum.Position, pos, len(got), len(w.state(pos)))
	}
	if pos > 0 && !sum.Time.Equal(w.truth[pos-1].Time) {
		w.t.Fatalf("restore %s: time %v, want %v", target, sum.Time, w.truth[pos-1].Time)
	}
}

// sound checks the archive, and that these ranges can be restored.
func (w *world) sound(ranges ...[2]int) archive.Report {
	w.t.Helper()
	rep, err := archive.Check(w.fs, "archive", verify, nil)
	if err != nil || !rep.OK() {
		w.t.Fatalf("check: %v, %v", err, rep.Problems)
	}
	var got [][2]int
	for _, r := range rep.Ranges {
		got = append(got, [2]int{int(r.From.Position), int(r.To.Position)})
	}
	if !slices.Equal(got, ranges) {
		w.t.Fatalf("ranges %v, want %v", got, ranges)
	}
	return rep
}

// TestEveryPosition: with several bases, each position can be restored.
func TestEveryPosition(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.Options{})
	a := w.start(w.options())
	a.based()
	for range 6 {
		w.write(50)
		a.caughtUp()
	}
	a.stop()
	rep := w.sound([2]int{0, 300})
	if rep.Bases < 3 || rep.Parts < 3 {
		t.Errorf("only %d bases, %d parts", rep.Bases, rep.Parts)
	}
	for pos := range len(w.truth) + 1 {
		w.expect(archive.AtPosition(engine.Position(pos)), engine.Position(pos))
	}
	w.expect(archive.Latest(), 300)
	if _, _, _, err := restore(w.fs, archive.AtPosition(301)); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("a position beyond the end: %v", err)
	}
}

// TestBaseInTheMiddle: what was before the archive began cannot be restored.
func TestBaseInTheMiddle(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.Options{})
	w.write(20)
	a := w.start(w.options())
	a.based()
	w.write(5)
	a.stop()
	w.sound([2]int{20, 25})
	w.expect(archive.AtPosition(20), 20)
	for _, early := range []archive.Target{archive.AtPosition(19), archive.AtTime(w.truth[18].Time)} {
		if _, _, _, err := restore(w.fs, early); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("%s: %v", early, err)
		}
	}
}

// TestPowerLoss: the archiver's machine loses power, or the archiver is killed, at random
// points. In the end no change is missing or duplicated.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.Options{})
	first := w.start(w.options())
	first.based()
	first.stop()
	rounds := 40
	if testing.Short() {
		rounds = 12
	}
	for range rounds {
		w.fs.StopAfter(w.rng.IntN(60))
		a, err := archive.Open("archive", w.options())
		if err == nil {
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- a.Run(ctx, w.db) }()
			w.write(w.rng.IntN(20))
			if w.rng.IntN(2) == 0 {
				time.Sleep(time.Duration(w.rng.IntN(3)) * time.Millisecond)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
		} else if !errors.Is(err, memfs.ErrStopped) {
			t.Fatal(err)
		}
		if w.rng.IntN(2) == 0 {
			w.fs.Crash()
		} else {
			w.fs.Kill()
		}
		if rep, err := archive.Check(w.fs, "archive", verify, nil); err != nil || !rep.OK() {
			t.Fatalf("after a crash: %v, %v", err, rep.Problems)
		}
	}
	a := w.start(w.options())
	a.caughtUp()
	a.stop()
	w.sound([2]int{0, len(w.truth)})
	for pos := range len(w.truth) + 1 {
		w.expect(archive.AtPosition(engine.Position(pos)), engine.Position(pos))
	}
}

// TestTimes: a time means the last transaction that is not later, whatever the
// clock does.
func TestTimes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	clock := make(chan time.Duration, 1)
	w := newWorld(t, embedded.Options{Now: func() time.Time {
		select {
		case d := <-clock:
			now = now.Add(d)
		default:
		}
		return now
	}})
	a := w.start(w.options())
	a.based()
	for _, jump := range []time.Duration{time.Second, -time.Hour, time.Minute, 0, 1000 * time.Hour, -2000 * time.Hour, 3000 * time.Hour} {
		clock <- jump
		w.write(12)
		a.caughtUp()
	}
	a.stop()
	w.sound([2]int{0, len(w.truth)})
	for i, c := range w.truth {
		pos := engine.Position(i + 1)
		w.expect(archive.AtTime(c.Time), pos)
		w.expect(archive.AtTime(c.Time.Add(-time.Nanosecond)), pos-1)
		if i+1 < len(w.truth) {
			w.expect(archive.AtTime(c.Time.Add(w.truth[i+1].Time.Sub(c.Time)/2)), pos)
		}
	}
	end := w.truth[len(w.truth)-1].Time
	w.expect(archive.AtTime(end.Add(time.Hour)), engine.Position(len(w.truth)))
	if _, _, plan, err := restore(w.fs, archive.AtTime(end.Add(time.Hour))); err != nil || plan.Note == "" {
		t.Errorf("a time after the end has no note: %v", err)
	}
}

// lose makes the database drop the change after pos from its history.
func (w *world) lose(pos engine.Position) {
	w.t.Helper()
	if _, err := w.db.View(w.t.Context(), engine.Read{}, func(engine.Tx) error { return nil }); err != nil {
		w.t.Fatal(err)
	}
	for _, err := range w.db.Changes(w.t.Context(), pos) {
		if !errors.Is(err, engine.ErrTruncated) {
			w.t.Fatalf("the database has not forgotten: %v", err)
		}
		return
	}
}

// TestHistoryLost: a gap is reported, a new base is taken, and both sides of the gap can
// be restored.
func TestHistoryLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.Options{HistoryBytes: 16 << 10})
	a := w.start(w.options())
	a.based()
	w.write(20)
	a.stop()
	w.write(300)
	w.lose(20)
	a = w.start(w.options())
	a.await("a base after the gap", func(s archive.Status) bool { return s.Base >= 320 && s.Lost == 1 })
	w.write(10)
	a.stop()
	w.sound([2]int{0, 20}, [2]int{320, 330})
	const before, after = 20, 320
	for pos := engine.Position(0); int(pos) <= len(w.truth); pos++ {
		if pos <= before || pos >= after {
			w.expect(archive.AtPosition(pos), pos)
			continue
		}
		for _, target := range []archive.Target{archive.AtPosition(pos), archive.AtTime(w.truth[pos-1].Time)} {
			if _, _, _, err := restore(w.fs, target); !errors.Is(err, engine.ErrNotFound) {
				t.Fatalf("%s is in the gap: %v", target, err)
			}
		}
	}
	w.expect(archive.Latest(), 330)
}

// TestDiskFull: the server continues, and the archiver reports the error and catches up.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.Options{})
	a := w.start(w.options())
	a.based()
	w.write(20)
	a.caughtUp()
	w.fs.LimitSpace(2 << 10)
	w.write(5000)
	a.await("disk full", func(s archive.Status) bool { return errors.Is(s.Err, engine.ErrDiskFull) })
	w.write(50)
	w.fs.LimitSpace(-1)
	a.caughtUp()
	a.stop()
	w.sound([2]int{0, len(w.truth)})
	for range 20 {
		pos := engine.Position(w.rng.IntN(len(w.truth) + 1))
		w.expect(archive.AtPosition(pos), pos)
	}
	w.expect(archive.Latest(), engine.Position(len(w.truth)))
}

// TestFailedSync: a failed fsync ends only one attempt.
func TestFailedSync(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.Options{})
	a := w.start(w.options())
	a.based()
	for range 10 {
		w.fs.FailSync(1 + w.rng.IntN(4))
		w.write(40)
		time.Sleep(2 * time.Millisecond)
	}
	w.fs.FailSync(0)
	a.caughtUp()
	a.stop()
	w.sound([2]int{0, 400})
	for pos := 0; pos <= 400; pos += 7 {
		w.expect(archive.AtPosition(engine.Position(pos)), engine.Position(pos))
	}
}

// TestOtherHistory: an archive is of one history only.
func TestOtherHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, embedded.Options{})
	a := w.start(w.options())
	a.based()
	w.write(20)
	a.stop()
	other := &world{t: t, rng: w.rng, db: openDB(t, embedded.Options{}), fs: w.fs}
	other.write(10)
	a = other.start(w.options())
	conflict := func(s archive.Status) bool { return errors.Is(s.Err, engine.ErrConflict) }
	a.await("a server that is behind", conflict)
	other.write(20)
	a.await("another history", conflict)
	a.stop()
	w.sound([2]int{0, 20})
	w.expect(archive.Latest(), 20)
}

// TestKeep: data older than Keep is removed, and the rest stays.
func TestKeep(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	w := newWorld(t, embedded.Options{Now: func() time.Time { now = now.Add(time.Minute); return now }})
	o := w.options()
	o.Keep = 5 * time.Hour
	o.Now = func() time.Time { return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) } // ahead: does no harm
	a := w.start(o)
	a.based()
	for range 12 {
		w.write(100)
		a.caughtUp()
	}
	a.stop()
	rep, err := archive.Check(w.fs, "archive", verify, nil)
	if err != nil || !rep.OK() || len(rep.Ranges) != 1 {
		t.Fatalf("check: %v, %+v", err, rep)
	}
	first, last := rep.Ranges[0].From, rep.Ranges[0].To
	if first.Position == 0 {
		t.Error("nothing was removed")
	}
	if int(last.Position) != len(w.truth) || last.Time.Sub(first.Time) < o.Keep {
		t.Errorf("kept %v", rep.Ranges[0])
	}
	for pos := first.Position; int(pos) <= len(w.truth); pos += 13 {
		w.expect(archive.AtPosition(pos), pos)
	}
	names, err := w.fs.List("archive/log")
	if err != nil || slices.ContainsFunc(names, func(n string) bool { return filepath.Ext(n) == ".gone" }) {
		t.Errorf("files left: %v, %v", names, err)
	}
}

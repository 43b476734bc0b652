package backups

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal/memfs"
)

const day = 24 * time.Hour

// fake is a folder on a test disk, in a bubble with a fake clock. Its backups are 9 bytes: a mark and the position.
type fake struct {
	t     *testing.T
	fs    *memfs.FS
	f     *Folder
	pos   atomic.Uint64
	fails atomic.Pointer[error] // of every backup; nil: none
	stop  func()
}

func (k *fake) options() Options {
	return Options{
		FS: k.fs, Every: day, Keep: 3, Logger: quiet(),
		Backup: func(_ context.Context, w io.Writer) (engine.Position, error) {
			if fails := k.fails.Load(); fails != nil {
				return 0, *fails
			}
			pos := k.pos.Add(1)
			_, err := w.Write(binary.BigEndian.AppendUint64([]byte{'B'}, pos))
			return engine.Position(pos), err
		},
		Verify: func(r io.Reader) (Summary, error) {
			text, err := io.ReadAll(r)
			if err != nil || len(text) != 9 || text[0] != 'B' {
				return Summary{}, errors.Join(errors.New("not a backup"), err)
			}
			return Summary{Position: engine.Position(binary.BigEndian.Uint64(text[1:]))}, nil
		},
		Restore: func(context.Context, io.Reader, string) (Summary, error) { return Summary{}, nil },
	}
}

// start opens the folder and runs the schedule until stop.
func (k *fake) start() {
	k.t.Helper()
	f, err := Open("/b", k.options())
	if err != nil {
		k.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(k.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	k.f = f
	k.stop = func() {
		cancel()
		if err := errors.Join(<-ended, f.Close()); err != nil {
			k.t.Error(err)
		}
	}
	synctest.Wait()
}

// pass lets time go by.
func (k *fake) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// kinds returns the kinds of files, newest first.
func (k *fake) kinds() string {
	k.t.Helper()
	all, err := k.f.Files()
	if err != nil {
		k.t.Fatal(err)
	}
	var names []string
	for _, one := range all {
		name := string(one.Kind[:1])
		if !one.Good() {
			name += "!"
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

func (k *fake) expect(when, want string) {
	k.t.Helper()
	if got := k.kinds(); got != want {
		k.t.Errorf("%s: %q, want %q", when, got, want)
	}
}

// TestSchedule: one a day, also across restarts; one that was missed is made up at once; only as many stay as should.
func TestSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &fake{t: t, fs: memfs.New(1)}
		k.start()
		k.expect("at the first start", "s")
		k.pass(day - time.Second)
		k.expect("before a day is over", "s")
		k.pass(2 * time.Minute)
		k.expect("after a day", "s s")
		k.stop()
		k.start()
		k.expect("after a restart", "s s")
		k.stop()
		time.Sleep(3 * day)
		k.start()
		k.expect("after three days without a server", "s s s")
		if s := k.f.Status(); s.Taken != 1 || s.Files != 3 || s.Err != nil || !s.Next.After(time.Now().Add(day-2*time.Minute)) || s.Taking != nil {
			t.Errorf("%+v", s)
		}
		if _, err := k.f.Take(t.Context(), nil); err != nil {
			t.Error(err)
		}
		k.pass(day + 2*time.Minute)
		k.expect("the oldest of the schedule has gone, and none that people took", "s m s s")
		k.stop()
	})
}

// TestManualCounts: one that somebody takes moves the schedule, and deleting the newest does so, too.
func TestManualCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &fake{t: t, fs: memfs.New(1)}
		k.start()
		k.pass(day / 2)
		one, err := k.f.Take(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		k.pass(day - time.Minute)
		k.expect("a day after the first", "m s")
		if err := k.f.Remove(one.Name, true); err != nil {
			t.Fatal(err)
		}
		k.pass(time.Second)
		k.expect("the newest is gone", "s s")
		k.stop()
	})
}

// TestFailures: failures are retried with a growing pause, are in the status, and leave no file.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &fake{t: t, fs: memfs.New(1)}
		fire := errors.New("the disk is on fire")
		k.fails.Store(&fire)
		k.start()
		begin := time.Now()
		var at []int // minutes
		for failed := 1; failed < 10; k.pass(time.Second) {
			if s := k.f.Status(); s.Failed == failed {
				at = append(at, int(time.Since(begin).Round(time.Minute)/time.Minute))
				failed++
				if s.Err == nil || !strings.Contains(s.Err.Error(), "on fire") || !s.Next.After(time.Now()) {
					t.Errorf("%+v", s)
				}
			}
		}
		want := []int{0, 1, 3, 7, 15, 31, 63, 123, 183}
		if !slices.Equal(at, want) {
			t.Errorf("failures after %v minutes, want %v", at, want)
		}
		names, err := k.fs.List("/b")
		if err != nil || !slices.Equal(names, []string{"LOCK"}) && len(names) > 0 {
			t.Errorf("%q %v", names, err)
		}
		failing := func() (n float64) {
			for m := range k.f.Metrics() {
				if m.Name == "backup_failing" {
					n = m.Value
				}
			}
			return n
		}
		if failing() != 1 {
			t.Error("the metric does not say that it fails")
		}
		k.fails.Store(nil)
		k.pass(lastRetry + time.Minute)
		k.expect("the disk is well again", "s")
		if s := k.f.Status(); s.Err != nil || failing() != 0 {
			t.Errorf("%+v", s)
		}
		k.stop()
	})
}

// TestGoodOnesStay: whatever happens to files, the newest good ones stay, and so do damaged ones.
func TestGoodOnesStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &fake{t: t, fs: memfs.New(1)}
		k.start()
		k.pass(2*day + 5*time.Minute)
		k.expect("three days", "s s s")
		all, err := k.f.Files()
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range all[:2] { // the newest two
			k.fs.WriteFile("/b/"+one.Name, []byte("damaged"))
		}
		k.pass(2 * time.Minute)
		k.expect("the schedule has noticed, and made one up", "s s! s! s")
		k.pass(3*day + 10*time.Minute)
		k.expect("damaged ones stay, and three good ones", "s s s s! s!")
		k.stop()
	})
}

// TestFullDisk: the error says that the disk is full, nothing is left of the file, and the good one stays.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(fs *memfs.FS)
		want engine.Code
	}{
		"full":           {func(fs *memfs.FS) { fs.LimitSpace(4) }, engine.CodeDiskFull},
		"read-only":      {func(fs *memfs.FS) { fs.SetReadOnly(true) }, engine.CodeUnavailable},
		"an fsync fails": {func(fs *memfs.FS) { fs.FailSync(1) }, engine.CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := &fake{t: t, fs: memfs.New(1)}
			f, err := Open("/b", k.options())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Take(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			before, _ := k.fs.List("/b")
			c.do(k.fs)
			if one, err := f.Take(t.Context(), nil); engine.CodeOf(err) != c.want || !strings.Contains(err.Error(), "/b") {
				t.Errorf("%+v: %v", one, err)
			}
			k.fs.SetReadOnly(false)
			after, err := k.fs.List("/b")
			if err != nil || !slices.Equal(before, after) {
				t.Errorf("before %q, after %q: %v", before, after, err)
			}
			if all, err := f.Files(); err != nil || len(all) != 1 || !all[0].Good() {
				t.Errorf("%+v %v", all, err)
			}
		})
	}
}

// TestKilled: a power loss or a kill at any point of a backup leaves the old ones, and a start removes what is unfinished.
func TestKilled(t *testing.T) {
	t.Parallel()
	for steps := range 40 {
		k := &fake{t: t, fs: memfs.New(uint64(steps))}
		f, err := Open("/b", k.options())
		if err != nil {
			t.Fatal(err)
		}
		now := time.Date(2026, 11, 30, 3, 30, 0, 0, time.UTC)
		f.o.Now = func() time.Time { return now }
		if _, err := f.Take(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		now = now.Add(day)
		k.fs.StopAfter(steps)
		_, took := f.Take(t.Context(), nil)
		if steps%2 == 0 {
			k.fs.Crash()
		} else {
			k.fs.Kill()
		}
		f, err = Open("/b", k.options())
		if err != nil {
			t.Fatal(err)
		}
		all, err := f.Files()
		if err != nil || len(all) == 0 || took == nil && len(all) != 2 {
			t.Fatalf("killed after %d steps, take %v: %+v %v", steps, took, all, err)
		}
		for _, one := range all {
			if got, err := f.Verify(t.Context(), one.Name, nil); err != nil || !got.Good() {
				t.Errorf("killed after %d steps: %+v %v", steps, got, err)
			}
		}
		names, _ := k.fs.List("/b")
		for _, name := range names {
			if strings.HasSuffix(name, ".tmp") {
				t.Errorf("killed after %d steps: %s is left", steps, name)
			}
		}
		if took == nil && steps > 20 {
			return
		}
	}
	t.Error("no backup was completed")
}

package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal/memfs"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// TestPowerLoss cuts the power after a random number of changes to the disk,
// also during recovery, snapshots and log rotation, again and again on the same
// folder. What was not synced is dropped or torn. Nothing acknowledged may be
// missing, nothing that failed may be there, no transaction half.
func TestPowerLoss(t *testing.T) { powerLoss(t, 150, crashOptions) }

func powerLoss(t *testing.T, folders int, options func(*memfs.FS) Options) {
	first := seed.Of(t)
	lives := 12
	if testing.Short() {
		folders = 5
	}
	for f := range folders {
		rng := rand.New(rand.NewPCG(first, uint64(f)))
		fs := memfs.New(rng.Uint64())
		var acked [killWriters]uint64
		for life := range lives {
			fs.StopAfter(rng.IntN(150))
			if db, err := Open("data", options(fs)); err == nil {
				writeUntilOff(t, db, &acked)
				_ = db.Close()
			}
			fs.Crash()
			checkAfterCrash(t, options(fs.Clone(0)), fmt.Sprintf("folder %d, life %d", f, life), &acked)
			if t.Failed() {
				return
			}
		}
	}
}

func crashOptions(fs *memfs.FS) Options {
	return Options{FS: fs, SnapshotBytes: 4 << 10, HistoryBytes: 4 << 10, segmentBytes: 16 << 10, Logger: quiet()}
}

// writeUntilOff has every writer count up until the disk is gone.
func writeUntilOff(t *testing.T, db *DB, acked *[killWriters]uint64) {
	t.Helper()
	var writers sync.WaitGroup
	for w := range killWriters {
		writers.Go(func() {
			for {
				var n uint64
				_, err := db.Update(t.Context(), func(tx engine.Tx) (err error) {
					n, err = step(tx, w)
					return err
				})
				if err != nil {
					return
				}
				acked[w] = n
			}
		})
	}
	writers.Wait()
}

// checkAfterCrash checks the folder without changing it: on a copy. A counter
// may be one ahead of what was acknowledged: its call had an unknown outcome.
func checkAfterCrash(t *testing.T, o Options, when string, acked *[killWriters]uint64) {
	t.Helper()
	db, err := Open("data", o)
	if err != nil {
		t.Errorf("%s: reopen: %v", when, err)
		return
	}
	defer db.Close()
	if _, err := db.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		keys := 0
		for w := range killWriters {
			n, err := counter(tx, w)
			if err != nil {
				return err
			}
			if n != acked[w] && n != acked[w]+1 {
				t.Errorf("%s: writer %d has %d, acknowledged was %d", when, w, n, acked[w])
			}
			acked[w] = n
			for i := uint64(1); i <= n; i++ {
				if val, ok, err := tx.Get(numberKey(w, i)); !ok || len(val) != int(i%200) {
					t.Errorf("%s: writer %d: number %d of %d is missing or wrong: %v", when, w, i, n, err)
				}
			}
			if n > 0 {
				keys += int(n) + 1
			}
		}
		if have, err := tx.(engine.Ranker).Count(nil, nil); have != keys || err != nil {
			t.Errorf("%s: %d keys (%v), want %d", when, have, err, keys)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// TestFsyncError: one failed fsync stops the node, even if later ones would succeed.
func TestFsyncError(t *testing.T) {
	fs := memfs.New(1)
	o := Options{FS: fs, random: rand.NewChaCha8([32]byte{})} // no background work: the next fsync is that of the write
	db := open(t, "data", o)
	put(t, db, "a", "1")
	fs.FailSync(1)
	_, err := db.Update(t.Context(), putting("b", "2"))
	if !errors.Is(err, engine.ErrOutcomeUnknown) {
		t.Errorf("the write whose fsync failed: %v", err)
	}
	if _, err := db.Update(t.Context(), putting("c", "3")); !errors.Is(err, engine.ErrStopped) {
		t.Errorf("the next write: %v", err)
	}
	select {
	case <-db.Stopped():
	default:
		t.Error("the node has not stopped")
	}
	if !errors.Is(db.Err(), engine.ErrStopped) {
		t.Errorf("Err() = %v", db.Err())
	}
	want(t, db, "a", "1")
	_ = db.Close()
	fs.Crash()
	db = open(t, "data", o)
	want(t, db, "a", "1")
	if _, ok := get(t, db, "c"); ok {
		t.Error("a refused write came back")
	}
}

// TestDiskFull: writes are refused with a clear error while the disk is full, nothing is
// lost, and writes continue when there is space.
func TestDiskFull(t *testing.T) {
	fs := memfs.New(1)
	db := open(t, "data", Options{FS: fs})
	fs.LimitSpace(300 << 10)
	val := make([]byte, 10<<10)
	var stored []string
	for i := 0; ; i++ {
		key := fmt.Sprintf("key %06d", i)
		_, err := db.Update(t.Context(), putting(key, string(val)))
		if err == nil {
			stored = append(stored, key)
			if len(stored) > 10_000 {
				t.Fatal("the disk never became full")
			}
			continue
		}
		if !errors.Is(err, engine.ErrDiskFull) || !errors.Is(err, syscall.ENOSPC) || !engine.Retryable(err) {
			t.Fatalf("on a full disk: %v", err)
		}
		break
	}
	if _, ok := get(t, db, fmt.Sprintf("key %06d", len(stored))); ok {
		t.Error("a refused write can be read")
	}
	fs.LimitSpace(-1)
	put(t, db, "after", "room")
	_ = db.Close()
	fs.Crash()
	db = open(t, "data", Options{FS: fs})
	for _, key := range append(slices.Clone(stored), "after") {
		if _, ok := get(t, db, key); !ok {
			t.Errorf("%s is lost", key)
		}
	}
}

func TestReadOnlyFolder(t *testing.T) {
	fs := memfs.New(1)
	db := open(t, "data", Options{FS: fs})
	put(t, db, "a", "1")
	_ = db.Close()
	fs.SetReadOnly(true)
	if _, err := Open("data", Options{FS: fs, Logger: quiet()}); !errors.Is(err, syscall.EROFS) {
		t.Errorf("open a read-only folder: %v", err)
	}
	fs.SetReadOnly(false)
	want(t, open(t, "data", Options{FS: fs}), "a", "1")
}

// TestDamage flips one bit at a time in every file: the folder is refused with
// the file's name, or opens with all that it held. Only the last frame of the
// log may be taken for a torn one.
func TestDamage(t *testing.T) {
	fs := memfs.New(1)
	db := open(t, "data", Options{FS: fs, SnapshotBytes: 2 << 10, HistoryBytes: 256})
	for i := range 60 {
		put(t, db, fmt.Sprintf("key %03d", i), "some value of some length, so that there is a snapshot")
	}
	awaitSnapshot(t, db)
	_ = db.Close()
	for _, dir := range []string{"data/log", "data/snap"} {
		names, err := fs.List(dir)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v, %v", dir, names, err)
		}
		for _, name := range names {
			damageFile(t, fs, dir+"/"+name)
		}
	}
}

func damageFile(t *testing.T, fs *memfs.FS, path string) {
	t.Helper()
	data, err := fs.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused, stride := 0, 31
	if testing.Short() {
		stride = 331
	}
	for off := 0; off < len(data) && off < 16<<10; off += stride {
		bad := slices.Clone(data)
		bad[off] ^= 1 << (off % 8)
		c := fs.Clone(0)
		c.WriteFile(path, bad)
		db, err := Open("data", Options{FS: c, Logger: quiet()})
		if err != nil {
			refused++
			if code := engine.CodeOf(err); code != engine.CodeCorrupt && code != engine.CodeFormatNewer {
				t.Errorf("%s, bit at %d: %v", path, off, err)
			}
			continue
		}
		for i := range 60 {
			want(t, db, fmt.Sprintf("key %03d", i), "some value of some length, so that there is a snapshot")
		}
		_ = db.Close()
		if t.Failed() {
			t.Fatalf("%s: a bit at offset %d was flipped unnoticed", path, off)
		}
	}
	t.Logf("%s: %d flips refused", path, refused)
}

// TestLogKeptBehindSnapshot: with log files of one or two records, a snapshot
// must not take a record with it that it does not hold.
func TestLogKeptBehindSnapshot(t *testing.T) {
	for s := range uint64(10) {
		fs := memfs.New(s)
		o := Options{FS: fs, SnapshotBytes: 12 << 10, HistoryBytes: 1, segmentBytes: 8 << 10}
		db := open(t, "data", o)
		val := string(make([]byte, 3000))
		for i := range 40 {
			put(t, db, fmt.Sprintf("key %02d", i%10), val)
			put(t, db, "last", fmt.Sprint(i))
		}
		fs.Crash()
		_ = db.Close()
		db = open(t, "data", o)
		want(t, db, "last", "39")
		if db.snap.Load().pos != 80 {
			t.Errorf("position %d after 80 transactions", db.snap.Load().pos)
		}
		_ = db.Close()
	}
}

// TestTooManyFiles: whichever file cannot be opened because too many are open, a
// write is made or refused as retryable, the node goes on, and nothing is lost.
func TestTooManyFiles(t *testing.T) {
	refused := 0
	for n := 1; n <= 40; n++ {
		fs := memfs.New(uint64(n))
		db := open(t, "data", crashOptions(fs))
		fs.FailOpen(n, 1+n%3)
		for i := range 40 {
			key, val := fmt.Sprintf("key %d", i), string(make([]byte, 2000))
			_, err := db.Update(t.Context(), putting(key, val))
			for tries := 0; err != nil && tries < 10; tries++ {
				refused++
				if !errors.Is(err, engine.ErrFilesFull) || !engine.Retryable(err) {
					t.Fatalf("opening %d, %s: %v", n, key, err)
				}
				_, err = db.Update(t.Context(), putting(key, val))
			}
			if err != nil || db.Err() != nil {
				t.Fatalf("opening %d, %s: %v; the node says %v", n, key, err, db.Err())
			}
		}
		fs.FailOpen(0, 0)
		_ = db.Close()
		fs.Crash()
		db = open(t, "data", crashOptions(fs))
		for i := range 40 {
			if _, ok := get(t, db, fmt.Sprintf("key %d", i)); !ok {
				t.Errorf("opening %d: key %d is lost", n, i)
			}
		}
		_ = db.Close()
	}
	if refused == 0 {
		t.Error("no write was ever refused: the test does not test")
	}
}

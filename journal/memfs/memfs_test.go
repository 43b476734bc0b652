package memfs_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/skerrydb/skerry/journal"
	"github.com/skerrydb/skerry/journal/memfs"
)

func create(t *testing.T, m *memfs.FS, path string) journal.File {
	t.Helper()
	f, err := m.OpenFile(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func write(t *testing.T, f journal.File, data []byte, off int64) {
	t.Helper()
	if n, err := f.WriteAt(data, off); n != len(data) || err != nil {
		t.Fatalf("wrote %d of %d: %v", n, len(data), err)
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestSyncedSurvives: what was synced is there after every crash; of what was
// not, over many crashes, all of it, none of it and parts of it.
func TestSyncedSurvives(t *testing.T) {
	const sectors = 16
	all, none, parts, gone := 0, 0, 0, 0
	for seed := range uint64(500) {
		m := memfs.New(seed)
		f := create(t, m, "d/kept")
		write(t, f, bytes.Repeat([]byte{1}, sectors*4096), 0)
		ok(t, f.Sync())
		ok(t, m.SyncDir("d"))
		write(t, f, bytes.Repeat([]byte{2}, sectors*4096), 0)
		ok(t, create(t, m, "d/new").Sync())
		m.Crash()
		b, err := m.ReadFile("d/kept")
		if err != nil || len(b) != sectors*4096 {
			t.Fatalf("seed %d: %d bytes, %v", seed, len(b), err)
		}
		twos := bytes.Count(b, []byte{2})
		if ones := bytes.Count(b, []byte{1}); ones+twos != len(b) || ones%512 != 0 {
			t.Fatalf("seed %d: %d ones, %d twos", seed, ones, twos)
		}
		switch twos {
		case 0:
			none++
		case len(b):
			all++
		default:
			parts++
		}
		if _, err := m.ReadFile("d/new"); errors.Is(err, fs.ErrNotExist) {
			gone++
		}
		if _, err := f.Size(); !errors.Is(err, memfs.ErrStopped) {
			t.Fatalf("a handle lives on after a crash: %v", err)
		}
	}
	if all == 0 || none == 0 || parts == 0 || gone == 0 || gone == 500 {
		t.Errorf("all %d, none %d, parts %d, name gone %d", all, none, parts, gone)
	}
}

// TestNames: a rename that was not synced has happened or not; one that was, has.
func TestNames(t *testing.T) {
	before, after := 0, 0
	for seed := range uint64(100) {
		m := memfs.New(seed)
		m.WriteFile("d/a", []byte("old"))
		f := create(t, m, "d/a.tmp")
		write(t, f, []byte("new"), 0)
		ok(t, f.Sync())
		ok(t, m.SyncDir("d"))
		ok(t, m.Rename("d/a.tmp", "d/a"))
		if seed%2 == 0 {
			ok(t, m.SyncDir("d"))
		}
		m.Crash()
		b, err := m.ReadFile("d/a")
		names, _ := m.List("d")
		switch {
		case err == nil && string(b) == "new" && len(names) == 1:
			after++
		case err == nil && string(b) == "old" && len(names) == 2 && seed%2 == 1:
			before++
		default:
			t.Fatalf("seed %d: %q, files %q, %v", seed, b, names, err)
		}
	}
	if before == 0 || after <= 50 {
		t.Errorf("before %d, after %d", before, after)
	}
}

// TestSameSeed: the same work and seed give the same crash.
func TestSameSeed(t *testing.T) {
	run := func() []byte {
		m := memfs.New(42)
		f := create(t, m, "a")
		ok(t, m.SyncDir("."))
		for i := range byte(20) {
			write(t, f, bytes.Repeat([]byte{i + 1}, 3000), int64(i)*1500)
		}
		m.Crash()
		b, err := m.ReadFile("a")
		ok(t, err)
		return b
	}
	if a, b := run(), run(); !bytes.Equal(a, b) {
		t.Errorf("%d and %d bytes, and not the same", len(a), len(b))
	}
}

// TestFaults: each fault shows as the error it stands for, and only then.
func TestFaults(t *testing.T) {
	m := memfs.New(1)
	f := create(t, m, "a")
	m.LimitSpace(10)
	if n, err := f.WriteAt(make([]byte, 15), 0); n != 10 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("write beyond the space: %d, %v", n, err)
	}
	write(t, f, make([]byte, 10), 0) // over what is there
	ok(t, f.Truncate(5))
	write(t, f, make([]byte, 5), 5) // what was freed
	m.LimitSpace(-1)

	m.ShortWrite(2, 3)
	write(t, f, make([]byte, 9), 0)
	if n, err := f.WriteAt(make([]byte, 9), 0); n != 6 || !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("short write: %d, %v", n, err)
	}
	ok(t, f.Sync())
	write(t, f, []byte("lost"), 0)
	other := create(t, m, "a")
	m.FailSync(1)
	if err := f.Sync(); !errors.Is(err, syscall.EIO) {
		t.Errorf("sync: %v", err)
	}
	if err := other.Sync(); !errors.Is(err, syscall.EIO) {
		t.Errorf("sync of another handle: %v", err)
	}
	for _, f := range []journal.File{f, other, create(t, m, "a")} {
		ok(t, f.Sync()) // and yet nothing is written
	}
	ok(t, m.SyncDir("."))
	if b, _ := m.ReadFile("a"); string(b[:4]) != "lost" {
		t.Errorf("before the crash: %q", b)
	}
	m.SetReadOnly(true)
	if _, err := f.WriteAt([]byte("x"), 0); !errors.Is(err, syscall.EROFS) {
		t.Errorf("write: %v", err)
	}
	if _, err := m.OpenFile("b", os.O_RDWR|os.O_CREATE); !errors.Is(err, syscall.EROFS) {
		t.Errorf("create: %v", err)
	}
	m.Crash()
	if b, _ := m.ReadFile("a"); string(b[:4]) != "\x00\x00\x00\x00" {
		t.Errorf("after the crash: %q", b)
	}
	f = create(t, m, "a")
	m.StopAfter(1)
	write(t, f, []byte("x"), 0)
	if err := f.Sync(); !errors.Is(err, memfs.ErrStopped) {
		t.Errorf("sync without power: %v", err)
	}
	m.Kill()
	if b, _ := m.ReadFile("a"); b[0] != 'x' {
		t.Errorf("after a kill: %q", b)
	}
}

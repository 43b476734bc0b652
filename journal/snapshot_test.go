package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/journal"
	"github.com/skerrydb/skerry/journal/memfs"
)

// zerosTo returns a fill function that writes n zeros in odd pieces.
func zerosTo(n int) func(io.Writer) error {
	return func(w io.Writer) error {
		for n > 0 {
			m, err := w.Write(make([]byte, min(n, 10_007)))
			if err != nil {
				return err
			}
			n -= m
		}
		return nil
	}
}

// stream returns a snapshot of data.
func stream(t testing.TB, meta string, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := journal.NewSnapshotWriter(&b, []byte(meta))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := w.Write(data); n != len(data) || err != nil {
		t.Fatalf("wrote %d of %d: %v", n, len(data), err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("x")); !errors.Is(err, journal.ErrClosed) {
		t.Fatalf("write after close: %v", err)
	}
	return b.Bytes()
}

func readStream(b []byte) (meta string, data []byte, err error) {
	r, err := journal.NewSnapshotReader(bytes.NewReader(b))
	if err != nil {
		return "", nil, err
	}
	data, err = io.ReadAll(r)
	return string(r.Meta), data, err
}

func TestSnapshotStream(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{0, 1, 256<<10 - 1, 256 << 10, 256<<10 + 1, 600 << 10} {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		b := stream(t, "meta", data)
		r, err := journal.NewSnapshotReader(iotest.HalfReader(bytes.NewReader(b))) // it comes in small pieces
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, data) || string(r.Meta) != "meta" {
			t.Fatalf("%d bytes: %d came back, meta %q, %v", n, len(got), r.Meta, err)
		}
		var corrupt *journal.CorruptError
		if _, _, err := readStream(append(slices.Clone(b), 0)); !errors.As(err, &corrupt) || corrupt.Offset != int64(len(b)) {
			t.Fatalf("%d bytes: a stream with data after the snapshot: %v", n, err)
		}
	}
}

// TestDamagedSnapshot flips a bit of each byte, and ends the stream at each
// length: no reader takes it for whole.
func TestDamagedSnapshot(t *testing.T) {
	data := bytes.Repeat([]byte("block"), 300)
	b := stream(t, "some meta data", data)
	var corrupt *journal.CorruptError
	for i := range b {
		if _, _, err := readStream(b[:i]); !errors.As(err, &corrupt) || corrupt.Offset > int64(i) {
			t.Fatalf("ended after %d bytes: %v", i, err)
		}
		bad := slices.Clone(b)
		bad[i] ^= 1 << (i % 8)
		if _, _, err := readStream(bad); !errors.As(err, &corrupt) || corrupt.Offset > int64(i) {
			t.Fatalf("bit flipped in byte %d: %v", i, err)
		}
	}
	var e *journal.NewerError
	if _, _, err := readStream(newer(b)); !errors.As(err, &e) {
		t.Fatalf("newer version: %v", err)
	}
	// Blocks that are whole but not where they were written.
	many := stream(t, "", append(bytes.Repeat([]byte{1}, 256<<10), bytes.Repeat([]byte{2}, 256<<10)...))
	block := 8 + 256<<10
	swapped := slices.Concat(many[:32], many[32+block:32+2*block], many[32:32+block], many[32+2*block:])
	missing := slices.Concat(many[:32], many[32+block:])
	for _, bad := range [][]byte{swapped, missing} {
		if _, _, err := readStream(bad); !errors.As(err, &corrupt) {
			t.Fatalf("blocks out of place: %v", err)
		}
	}
}

// TestSnapshotCrash loses power at every step of replacing a snapshot: what is
// there is the old one or the new one, whole.
func TestSnapshotCrash(t *testing.T) {
	start := seed.Of(t)
	old, fresh := 0, 0
	for run := range uint64(300) {
		fs := memfs.New(start + run)
		write := func(s string) error {
			return journal.WriteSnapshot(fs, "dir/a.snap", []byte(s), func(w io.Writer) error {
				_, err := w.Write(bytes.Repeat([]byte(s), 2000))
				return err
			})
		}
		if err := write("old"); err != nil {
			t.Fatal(err)
		}
		fs.StopAfter(int(run % 12))
		err := write("fresh")
		fs.Crash()
		if e := journal.RemoveTemp(fs, "dir"); e != nil {
			t.Fatal(e)
		}
		if names, e := fs.List("dir"); e != nil || len(names) != 1 {
			t.Fatalf("run %d: files %q, %v", run, names, e)
		}
		r, e := journal.ReadSnapshot(fs, "dir/a.snap")
		if e != nil {
			t.Fatalf("run %d: %v", run, e)
		}
		got, e := io.ReadAll(r)
		if e != nil || !bytes.Equal(got, bytes.Repeat(r.Meta, 2000)) {
			t.Fatalf("run %d: %d bytes under %q, %v", run, len(got), r.Meta, e)
		}
		if err == nil && string(r.Meta) != "fresh" {
			t.Fatalf("run %d: the new snapshot was acknowledged and is lost", run)
		}
		if string(r.Meta) == "old" {
			old++
		} else {
			fresh++
		}
	}
	if old == 0 || fresh == 0 {
		t.Errorf("old %d, fresh %d: the test does not test", old, fresh)
	}
}

// TestSnapshotFails: no failure leaves anything but the snapshot before.
func TestSnapshotFails(t *testing.T) {
	mine := errors.New("mine")
	var failed *journal.FailedError
	var limit *journal.LimitError
	for name, c := range map[string]struct {
		plan func(*memfs.FS)
		meta int
		fill func(io.Writer) error
		ok   func(error) bool
	}{
		"no space":  {plan: func(fs *memfs.FS) { fs.LimitSpace(50_000) }, ok: func(err error) bool { return errors.Is(err, syscall.ENOSPC) }},
		"short":     {plan: func(fs *memfs.FS) { fs.ShortWrite(2, 1) }, ok: func(err error) bool { return errors.Is(err, syscall.ENOSPC) }},
		"sync":      {plan: func(fs *memfs.FS) { fs.FailSync(1) }, ok: func(err error) bool { return errors.As(err, &failed) }},
		"read-only": {plan: func(fs *memfs.FS) { fs.SetReadOnly(true) }, ok: func(err error) bool { return errors.Is(err, syscall.EROFS) }},
		"fill":      {fill: func(io.Writer) error { return mine }, ok: func(err error) bool { return errors.Is(err, mine) }},
		"meta":      {meta: journal.MaxMetaBytes + 1, ok: func(err error) bool { return errors.As(err, &limit) }},
	} {
		t.Run(name, func(t *testing.T) {
			fs := memfs.New(1)
			if err := journal.WriteSnapshot(fs, "dir/a.snap", nil, zerosTo(100)); err != nil {
				t.Fatal(err)
			}
			if c.plan != nil {
				c.plan(fs)
			}
			if c.fill == nil {
				c.fill = zerosTo(400 << 10)
			}
			if err := journal.WriteSnapshot(fs, "dir/a.snap", make([]byte, c.meta), c.fill); !c.ok(err) {
				t.Fatalf("error %v", err)
			}
			fs.SetReadOnly(false)
			r, err := journal.ReadSnapshot(fs, "dir/a.snap")
			if err != nil {
				t.Fatal(err)
			}
			if n, err := io.Copy(io.Discard, r); n != 100 || err != nil {
				t.Fatalf("the snapshot before has %d bytes, %v", n, err)
			}
			if names, err := fs.List("dir"); len(names) != 1 {
				t.Fatalf("files %q, %v", names, err)
			}
		})
	}
}

// TestSnapshotFileTail: bytes after the footer of a file are damage.
func TestSnapshotFileTail(t *testing.T) {
	fs := memfs.New(1)
	fs.WriteFile("a.snap", append(stream(t, "", []byte("data")), 0))
	r, err := journal.ReadSnapshot(fs, "a.snap")
	if err != nil {
		t.Fatal(err)
	}
	var corrupt *journal.CorruptError
	if _, err := io.ReadAll(r); !errors.As(err, &corrupt) || corrupt.File != "a.snap" {
		t.Fatalf("read: %v", err)
	}
	rep, err := journal.Verify(fs, ".", nil)
	if err != nil || len(rep.Problems) != 1 {
		t.Fatalf("verify: %+v, %v", rep, err)
	}
}

func FuzzSnapshotReader(f *testing.F) {
	f.Add([]byte{})
	f.Add(stream(f, "meta", nil))
	f.Add(stream(f, "", []byte("data")))
	f.Add(newer(stream(f, "", []byte("data"))))
	f.Fuzz(func(t *testing.T, b []byte) {
		meta, data, err := readStream(b)
		var corrupt *journal.CorruptError
		var newer *journal.NewerError
		if err != nil {
			if !errors.As(err, &corrupt) && !errors.As(err, &newer) {
				t.Fatal(err)
			}
			return
		}
		// What is accepted is what would be written, but for how blocks are cut.
		m2, d2, err := readStream(stream(t, meta, data))
		if err != nil || m2 != meta || !bytes.Equal(d2, data) {
			t.Fatal(fmt.Errorf("accepted, but does not come back: %w", err))
		}
	})
}

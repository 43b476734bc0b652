package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/skerrydb/skerry/journal"
)

// read returns the records of l from index from on.
func read(t testing.TB, l *journal.Log, from uint64) (got []string) {
	t.Helper()
	for r, err := range l.Read(from) {
		if err != nil {
			t.Fatalf("read from %d: %v", from, err)
		}
		if want := from + uint64(len(got)); r.Index != want {
			t.Fatalf("read record %d, want %d", r.Index, want)
		}
		got = append(got, string(r.Data))
	}
	return got
}

func appendSync(t testing.TB, l *journal.Log, from, to uint64, val string) {
	t.Helper()
	for i := from; i <= to; i++ {
		if err := l.Append(i, fmt.Appendf(nil, "%s-%d", val, i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, dir string, o journal.Options) *journal.Log {
	t.Helper()
	l, err := journal.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// TestRealFiles goes through the whole of a log's life on the real file system.
func TestRealFiles(t *testing.T) {
	dir := t.TempDir()
	o := journal.Options{SegmentBytes: 16 << 10, ReserveBytes: 8 << 10}
	l := open(t, dir, o)
	if l.First() != 1 || l.Last() != 0 {
		t.Fatalf("a new log has records %d to %d", l.First(), l.Last())
	}
	for i := uint64(10); i < 5000; i += 10 {
		appendSync(t, l, i, i+9, "first")
	}
	if err := l.TruncateAfter(4004); err != nil {
		t.Fatal(err)
	}
	appendSync(t, l, 4005, 4010, "second")
	if err := l.TruncateBefore(2000); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(4011, nil); !errors.Is(err, journal.ErrClosed) {
		t.Fatalf("append after close: %v", err)
	}
	l = open(t, dir, o)
	if l.First() < 1000 || l.First() > 2000 || l.Last() != 4010 {
		t.Fatalf("after truncation the log has records %d to %d", l.First(), l.Last())
	}
	got := read(t, l, l.First())
	for i, s := range got {
		index, kind := l.First()+uint64(i), "first"
		if index > 4004 {
			kind = "second"
		}
		if want := fmt.Sprintf("%s-%d", kind, index); s != want {
			t.Fatalf("record %d is %q, want %q", index, s, want)
		}
	}
	if n := len(got); n != int(4010-l.First()+1) {
		t.Fatalf("%d records", n)
	}
	if s := read(t, l, 4009); len(s) != 2 {
		t.Fatalf("from 4009 on: %q", s)
	}
}

func TestSnapshotFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.snap")
	data := bytes.Repeat([]byte("0123456789abcdef"), 100_000)
	for range 2 { // the second replaces the first
		err := journal.WriteSnapshot(journal.OS(), path, []byte("meta"), func(w io.Writer) error {
			_, err := w.Write(data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	r, err := journal.ReadSnapshot(journal.OS(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(got, data) || string(r.Meta) != "meta" {
		t.Fatalf("%d bytes of %d, meta %q, error %v", len(got), len(data), r.Meta, err)
	}
	if _, err := os.Stat(path + ".tmp"); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the unfinished file: %v", err)
	}
}

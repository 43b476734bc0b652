package disk

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/journal"
	"github.com/skerrydb/skerry/journal/memfs"
)

// options returns those of a small store on fsys whose batches are written when the test
// says so.
func options(fsys journal.FS) Options {
	return Options{
		Dir: "cache", MaxBytes: 1 << 20, Identity: "test", BatchAge: 1 << 62,
		Logger: slog.New(slog.DiscardHandler), FS: fsys,
	}
}

// open opens a store and closes it at the end of the test.
func open(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() }) // fails after a simulated crash
	return s
}

func get(s *Store, key string) string {
	v, ok := s.Get(nil, key)
	if !ok {
		return "-"
	}
	return string(v)
}

// want checks what Get finds, as "key value" pairs with "-" for nothing.
func want(t *testing.T, s *Store, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if got := get(s, pairs[i]); got != pairs[i+1] {
			t.Errorf("%s is %.40q, want %q", pairs[i], got, pairs[i+1])
		}
	}
}

func put(t *testing.T, s *Store, key, value string) {
	t.Helper()
	if !s.Put(key, []byte(value)) {
		t.Fatalf("put %s: not kept", key)
	}
}

func syncStore(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
}

func closeStore(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRestart(t *testing.T) {
	for name, fsys := range map[string]journal.FS{"memory": memfs.New(1), "real": journal.OS()} {
		t.Run(name, func(t *testing.T) {
			o := options(fsys)
			o.Dir = t.TempDir() + "/a/b"
			s := open(t, o)
			if s.Marked() != "" {
				t.Errorf("a new store has the mark %q", s.Marked())
			}
			put(t, s, "a", "1")
			put(t, s, "b", "2")
			want(t, s, "a", "1", "b", "2", "c", "-")
			syncStore(t, s)
			put(t, s, "c", "")
			put(t, s, "d", "4")
			put(t, s, "e", "5")
			put(t, s, "b", "22")
			s.Delete("a")
			s.Delete("d")
			s.Mark("p1")
			want(t, s, "a", "-", "b", "22", "c", "", "d", "-", "e", "5")
			if got, ok := s.Get([]byte("x"), "e"); string(got) != "x5" || !ok {
				t.Errorf("Get appends %q", got)
			}
			closeStore(t, s)
			want(t, s, "b", "-")
			if s.Put("a", nil) || s.Sync() != ErrClosed || s.Close() != nil {
				t.Error("a closed store still works")
			}
			s = open(t, o)
			if s.Marked() != "p1" {
				t.Errorf("the mark is %q", s.Marked())
			}
			want(t, s, "a", "-", "b", "22", "c", "", "d", "-", "e", "5")
			closeStore(t, s)
			o.Identity = "other"
			s = open(t, o)
			want(t, s, "b", "-")
			if st := s.Stats(); s.Marked() != "" || st.Entries != 0 || st.Bytes != 0 {
				t.Errorf("another identity finds %q, %+v", s.Marked(), st)
			}
		})
	}
}

func TestLocked(t *testing.T) {
	o := options(journal.OS())
	o.Dir = t.TempDir()
	open(t, o)
	if _, err := Open(o); err == nil || !strings.Contains(err.Error(), o.Dir) {
		t.Errorf("opened twice: %v", err)
	}
}

func TestBadOptions(t *testing.T) {
	good := options(memfs.New(1))
	for name, change := range map[string]func(*Options){
		"no folder": func(o *Options) { o.Dir = "" },
		"too small": func(o *Options) { o.MaxBytes = minBytes - 1 },
		"too large": func(o *Options) { o.MaxBytes = MaxBytes + 1 },
		"negative":  func(o *Options) { o.BatchAge = -1 },
	} {
		o := good
		change(&o)
		if s, err := Open(o); err == nil {
			s.Close()
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestFlush(t *testing.T) {
	fsys := memfs.New(1)
	s := open(t, options(fsys))
	put(t, s, "a", "1")
	s.Mark("p1")
	syncStore(t, s)
	put(t, s, "b", "2")
	s.Flush()
	want(t, s, "a", "-", "b", "-")
	put(t, s, "c", "3")
	syncStore(t, s)
	want(t, s, "a", "-", "c", "3")
	if st := s.Stats(); st.Mark != "" || st.Entries != 1 || st.Segments != 1 {
		t.Errorf("after a flush: %+v", st)
	}
	fsys.Crash()
	s = open(t, options(fsys))
	if s.Marked() != "" || s.Stats().Entries != 0 {
		t.Errorf("entries without a mark came back: %+v", s.Stats())
	}
}

// TestModel compares a store with a map, over restarts, while old segments are dropped.
func TestModel(t *testing.T) {
	r := seed.Rand(t)
	o := options(memfs.New(r.Uint64()))
	o.MaxBytes, o.BatchEntries = 128<<10, 20
	s := open(t, o)
	model := map[string]string{}
	mark := ""
	for i := range 20_000 {
		key := fmt.Sprint(r.IntN(200))
		switch n := r.IntN(1000); {
		case n < 500:
			value := value(r, i)
			model[key] = string(value)
			if !s.Put(key, value) {
				delete(model, key)
			}
		case n < 900:
			if got := get(s, key); got == "-" {
				delete(model, key)
			} else if got != model[key] {
				t.Fatalf("step %d: %s is %.20q, want %.20q", i, key, got, model[key])
			}
		case n < 980:
			s.Delete(key)
			delete(model, key)
		case n < 990:
			mark = fmt.Sprint("p", i)
			s.Mark(mark)
		case n < 994:
			syncStore(t, s)
		case n < 996:
			s.Flush()
			clear(model)
			mark = ""
		case n < 998:
			closeStore(t, s)
			if mark == "" {
				clear(model)
			}
			s = open(t, o)
			if s.Marked() != mark {
				t.Fatalf("step %d: the mark is %q, want %q", i, s.Marked(), mark)
			}
		}
		if st := s.Stats(); st.Bytes > o.MaxBytes || st.Segments > MaxSegments || st.Failed != nil {
			t.Fatalf("step %d: %+v", i, st)
		}
	}
	if st := s.Stats(); st.Corrupt != 0 {
		t.Errorf("%+v", st)
	}
}

// value returns a random value that begins with i.
func value(r *rand.Rand, i int) []byte {
	return append(fmt.Appendf(nil, "%d ", i), bytes.Repeat([]byte{byte(i)}, r.IntN(600))...)
}

func TestHashCollisions(t *testing.T) {
	l := location{segment: 1, offset: 2, size: 3, number: 4}
	if !l.is(l.read()) || l.read().bytes() != 3 || l.wasRead() || l.is(location{segment: 1, offset: 2, size: 3, number: 5}) {
		t.Error("locations do not compare")
	}
	c := newCodec(randomID())
	if c.hash("a") == c.hash("b") || c.hash("a") != newCodec(c.id).hash("a") || c.hash("a") == newCodec(randomID()).hash("a") {
		t.Error("hash does not depend on the store and the key alone")
	}
	s := open(t, options(memfs.New(1)))
	put(t, s, "a", "1")
	s.mu.Lock()
	s.index[s.c.hash("b")] = s.index[s.c.hash("a")]
	s.mu.Unlock()
	want(t, s, "a", "1", "b", "-")
	syncStore(t, s)
	want(t, s, "a", "1", "b", "-")
}

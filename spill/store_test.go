package spill

import (
	"bytes"
	"errors"
	"fmt"
	iofs "io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/journal"
	"github.com/skerrydb/skerry/journal/memfs"
)

// stored is a value with its reference.
type stored struct {
	key, val []byte
	ref      Ref
}

func opened(t *testing.T, fs *memfs.FS, of ...stored) *Store {
	t.Helper()
	s, err := Open(fs, "vals", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Attach(usesOf(of)); err != nil {
		t.Fatal(err)
	}
	return s
}

func usesOf(of []stored) Uses {
	u := Uses{}
	for _, v := range of {
		u.Add(v.key, v.ref)
	}
	return u
}

func flush(t *testing.T, w *Writer, vals ...string) (out []stored) {
	t.Helper()
	for i, val := range vals {
		v := stored{key: fmt.Appendf(nil, "key %d", i), val: []byte(val)}
		if err := w.Add(v.key, v.val); err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	refs, err := w.Flush()
	if err != nil {
		t.Fatal(err)
	}
	for i := range out {
		out[i].ref = refs[i]
	}
	return out
}

func checkRead(t *testing.T, s *Set, of ...stored) {
	t.Helper()
	for _, v := range of {
		if val, err := s.Read(v.key, v.ref); err != nil || !bytes.Equal(val, v.val) {
			t.Errorf("%s at %+v: %.40q, %v", v.key, v.ref, val, err)
		}
	}
}

// TestRoundTrip writes values over several flushes and files, and reads them before and
// after a restart.
func TestRoundTrip(t *testing.T) {
	fs := memfs.New(1)
	s := opened(t, fs)
	w := s.NewWriter()
	all := flush(t, w, "one", "", strings.Repeat("long", 5000))
	all = append(all, flush(t, w, "two")...)
	w.Seal()
	all = append(all, flush(t, w, "three", "four")...)
	checkRead(t, s.Set(), all...)
	if got := w.Files(); !slices.Equal(got, []uint32{1, 2}) {
		t.Errorf("files %v", got)
	}
	for _, v := range all {
		if r, err := ParseRef(v.ref.Append(nil)); err != nil || r != v.ref || !r.Matches(v.val) || r.Matches([]byte("other")) {
			t.Errorf("reference %+v came back as %+v, %v", v.ref, r, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Set().Read(all[0].key, all[0].ref); err == nil {
		t.Error("a closed store reads")
	}
	fs.Crash()
	s = opened(t, fs, all...)
	checkRead(t, s.Set(), all...)
	if next := flush(t, s.NewWriter(), "five"); next[0].ref.File != 3 {
		t.Errorf("after a restart the writer continues file %d", next[0].ref.File)
	}
}

// TestRecords walks a file in steps of every size.
func TestRecords(t *testing.T) {
	fs := memfs.New(1)
	s := opened(t, fs)
	w := s.NewWriter()
	all := append(flush(t, w, "one", "", "three"), flush(t, w, strings.Repeat("x", 999), "five")...)
	for most := int64(1); most < 1200; most += 7 {
		var found []stored
		for at := int64(0); ; {
			recs, next, err := s.Set().Records(1, at, most)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range recs {
				found = append(found, stored{key: r.Key, ref: r.Ref})
			}
			if at = next; next == 0 {
				break
			}
		}
		if !slices.EqualFunc(found, all, func(a, b stored) bool { return bytes.Equal(a.key, b.key) && a.ref == b.ref }) {
			t.Fatalf("steps of %d bytes find %+v", most, found)
		}
	}
}

// TestDamage flips every bit of a value file: what can still be read is right, and
// everything else is refused with the file and the offset.
func TestDamage(t *testing.T) {
	fs := memfs.New(1)
	w := opened(t, fs).NewWriter()
	all := flush(t, w, "one", "two and some more")
	path := fileName("vals", 1)
	data, err := fs.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for bit := range 8 * len(data) {
		bad := slices.Clone(data)
		bad[bit/8] ^= 1 << (bit % 8)
		c := fs.Clone(0)
		c.WriteFile(path, bad)
		s, err := Open(c, "vals", 0)
		if err != nil {
			t.Fatal(err)
		}
		err = s.Attach(usesOf(all))
		if err == nil {
			for _, v := range all {
				var val []byte
				if val, err = s.Set().Read(v.key, v.ref); err != nil {
					break
				}
				if !bytes.Equal(val, v.val) {
					t.Fatalf("bit %d: wrong bytes", bit)
				}
			}
			if _, _, walk := s.Set().Records(1, 0, 1<<20); err == nil && walk != nil {
				t.Errorf("bit %d: every value can be read, but not the records: %v", bit, walk)
			}
		}
		corrupt, isCorrupt := errors.AsType[*journal.CorruptError](err)
		newer, isNewer := errors.AsType[*journal.NewerError](err)
		switch {
		case isCorrupt && corrupt.File == path, isNewer && newer.File == path:
			refused++
		default:
			t.Errorf("bit %d: %v", bit, err)
		}
	}
	if refused != 8*len(data) {
		t.Errorf("%d of %d flips refused", refused, 8*len(data))
	}
}

// TestWrongReferences: a reference to another record, or beyond the file, yields no bytes.
func TestWrongReferences(t *testing.T) {
	s := opened(t, memfs.New(1))
	all := flush(t, s.NewWriter(), "one", "two")
	a, b := all[0], all[1]
	for name, bad := range map[string]stored{
		"another key":     {key: a.key, ref: b.ref},
		"another length":  {key: a.key, ref: Ref{1, a.ref.Off, a.ref.Len + 1, a.ref.Sum}},
		"another sum":     {key: a.key, ref: Ref{1, a.ref.Off, a.ref.Len, a.ref.Sum + 1}},
		"another offset":  {key: a.key, ref: Ref{1, a.ref.Off + 1, a.ref.Len, a.ref.Sum}},
		"beyond the end":  {key: a.key, ref: Ref{1, 1 << 30, a.ref.Len, a.ref.Sum}},
		"a file that was": {key: a.key, ref: Ref{7, a.ref.Off, a.ref.Len, a.ref.Sum}},
	} {
		if val, err := s.Set().Read(bad.key, bad.ref); err == nil {
			t.Errorf("%s: read %q", name, val)
		} else if _, ok := errors.AsType[*journal.CorruptError](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMissingAndShortFiles(t *testing.T) {
	fs := memfs.New(1)
	s := opened(t, fs)
	all := flush(t, s.NewWriter(), "one", "two")
	path := fileName("vals", 1)
	data, err := fs.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(c *memfs.FS){
		"missing": func(c *memfs.FS) {
			if err := c.Remove(path); err != nil {
				t.Fatal(err)
			}
		},
		"short": func(c *memfs.FS) { c.WriteFile(path, data[:len(data)-1]) },
		"empty": func(c *memfs.FS) { c.WriteFile(path, nil) },
	} {
		c := fs.Clone(0)
		change(c)
		s, err := Open(c, "vals", 0)
		if err != nil {
			t.Fatal(err)
		}
		corrupt, ok := errors.AsType[*journal.CorruptError](s.Attach(usesOf(all)))
		if !ok || corrupt.File != path {
			t.Errorf("%s: %v", name, corrupt)
		}
		s, err = Open(c, "vals", 0)
		if err != nil {
			t.Fatal(err)
		}
		damaged, err := s.Salvage(usesOf(all))
		if corrupt, ok := errors.AsType[*journal.CorruptError](damaged[1]); err != nil || !ok || corrupt.File != path {
			t.Errorf("%s: salvaged: %v, %v", name, damaged, err)
		}
		for i, v := range all { // what is left can be read
			val, err := s.Set().Read(v.key, v.ref)
			corrupt, ok := errors.AsType[*journal.CorruptError](err)
			if whole := name == "short" && i == 0; whole && (err != nil || !bytes.Equal(val, v.val)) || !whole && (!ok || corrupt.File != path || corrupt.Offset != int64(v.ref.Off)) {
				t.Errorf("%s: value %d: %q, %v", name, i, val, err)
			}
		}
		if more := flush(t, s.NewWriter(), "three"); more[0].ref.File != 2 {
			t.Errorf("%s: file %d is used again", name, more[0].ref.File)
		}
	}
}

// TestFullDisk: values that did not fit are not stored, and the same file continues when
// there is room.
func TestFullDisk(t *testing.T) {
	fs := memfs.New(1)
	s := opened(t, fs)
	w := s.NewWriter()
	all := flush(t, w, "one")
	fs.LimitSpace(100)
	if err := w.Add([]byte("big"), make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	if refs, err := w.Flush(); !errors.Is(err, syscall.ENOSPC) || refs != nil {
		t.Fatalf("on a full disk: %v, %v", refs, err)
	}
	fs.LimitSpace(-1)
	all = append(all, flush(t, w, "two")...)
	if all[1].ref.File != 1 {
		t.Errorf("the next value is in file %d", all[1].ref.File)
	}
	fs.Crash()
	checkRead(t, opened(t, fs, all...).Set(), all...)
}

// TestFailedSync: a file whose sync failed gets no more values, of the file or its folder.
func TestFailedSync(t *testing.T) {
	for _, nth := range []int{1, 2} {
		fs := memfs.New(1)
		s := opened(t, fs)
		w := s.NewWriter()
		if err := w.Add([]byte("k"), []byte("v")); err != nil {
			t.Fatal(err)
		}
		fs.FailSync(nth)
		if refs, err := w.Flush(); !errors.Is(err, syscall.EIO) || refs != nil {
			t.Fatalf("sync %d fails: %v, %v", nth, refs, err)
		}
		all := flush(t, w, "one")
		if all[0].ref.File != 2 || !slices.Equal(s.Set().Unused(usesOf(all)), []uint32{1}) {
			t.Errorf("the next value is at %+v, unused are %v", all[0].ref, s.Set().Unused(usesOf(all)))
		}
		fs.Crash()
		checkRead(t, opened(t, fs, all...).Set(), all...)
	}
}

// TestDrop: a removed file stays readable for earlier sets, and Clean removes only files
// that nothing refers to.
func TestDrop(t *testing.T) {
	fs := memfs.New(1)
	s := opened(t, fs)
	w := s.NewWriter()
	first := flush(t, w, "one")
	if unused := s.Set().Unused(Uses{}); unused != nil {
		t.Errorf("files that get more values are unused: %v", unused)
	}
	w.Seal()
	second := flush(t, w, "two")
	old := s.Set()
	if unused := old.Unused(usesOf(second)); !slices.Equal(unused, []uint32{1}) {
		t.Errorf("unused: %v", unused)
	}
	if err := s.Drop(1); err != nil {
		t.Fatal(err)
	}
	checkRead(t, old, first[0], second[0])
	if _, err := s.Set().Read(first[0].key, first[0].ref); err == nil {
		t.Error("the new set has the file")
	}
	if _, err := fs.ReadFile(fileName("vals", 1)); !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
	w.Seal()
	flush(t, w, "three")
	s = opened(t, fs, second...)
	if err := s.Clean(); err != nil {
		t.Fatal(err)
	}
	if names, err := fs.List("vals"); err != nil || !slices.Equal(names, []string{"00000002.val"}) {
		t.Errorf("after Clean: %v, %v", names, err)
	}
}

// TestPlan: files that are half dead come first; small ones only if they can be merged.
func TestPlan(t *testing.T) {
	s := opened(t, memfs.New(1))
	w := s.NewWriter()
	half := flush(t, w, strings.Repeat("a", 1000), strings.Repeat("b", 1000), strings.Repeat("c", 1000))
	w.Seal()
	full := flush(t, w, strings.Repeat("d", 1000))
	if plan := s.Set().Plan(usesOf(append(full, half[0]))); !slices.Equal(plan, []uint32{1}) {
		t.Errorf("one file is half dead, another gets more values: %v", plan)
	}
	if plan := s.Set().Plan(usesOf(append(full, half...))); plan != nil {
		t.Errorf("one small file: %v", plan)
	}
	w.Seal()
	if plan := s.Set().Plan(usesOf(append(full, half...))); !slices.Equal(plan, []uint32{2, 1}) {
		t.Errorf("two small files: %v", plan)
	}
	if plan := s.Set().Plan(usesOf(full)); plan != nil {
		t.Errorf("an unused file is not compacted but dropped: %v", plan)
	}
	u := usesOf(append(full, half...))
	if total := u.Total(); total.Values != 4 || total.Bytes != 4*(recordHead+5+1000) {
		t.Errorf("total %+v", total)
	}
}

// TestPowerLoss cuts the power at every change of a random run: what Flush has returned
// is there afterwards.
func TestPowerLoss(t *testing.T) {
	rng := seed.Rand(t)
	for range 300 {
		fs := memfs.New(rng.Uint64())
		var all []stored
		for range 4 {
			s, err := Open(fs, "vals", 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Attach(usesOf(all)); err != nil {
				t.Fatal(err)
			}
			checkRead(t, s.Set(), all...)
			fs.StopAfter(rng.IntN(20))
			if s.Clean() == nil {
				all = append(all, untilOff(s.NewWriter(), rng)...)
			}
			fs.Crash()
		}
	}
}

func untilOff(w *Writer, rng *rand.Rand) (all []stored) {
	for {
		var batch []stored
		for range 1 + rng.IntN(3) {
			v := stored{key: fmt.Appendf(nil, "%d", rng.IntN(100)), val: bytes.Repeat([]byte{'v'}, rng.IntN(9000))}
			if w.Add(v.key, v.val) != nil {
				return all
			}
			batch = append(batch, v)
		}
		refs, err := w.Flush()
		if err != nil {
			return all
		}
		for i, r := range refs {
			batch[i].ref = r
		}
		all = append(all, batch...)
		if rng.IntN(3) == 0 {
			w.Seal()
		}
	}
}

func FuzzParseRef(f *testing.F) {
	f.Add(Ref{1, headerBytes, 3, 4}.Append(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := ParseRef(b); err == nil && !bytes.Equal(r.Append(nil), b) {
			t.Errorf("%x came back as %x", b, r.Append(nil))
		}
	})
}

// FuzzFile opens and walks a file of any content: each record that is found can be read,
// or its value is damaged.
func FuzzFile(f *testing.F) {
	whole := appendHeader(nil, 1)
	whole, _ = appendRecord(whole, []byte("key"), []byte("value"))
	whole, _ = appendRecord(whole, []byte("k"), bytes.Repeat([]byte("v"), 100))
	f.Add(whole)
	f.Add(whole[:len(whole)-7])
	f.Add(whole[:headerBytes])
	f.Fuzz(func(t *testing.T, b []byte) {
		fs := memfs.New(1)
		fs.WriteFile(fileName("vals", 1), b)
		s, err := Open(fs, "vals", 0)
		if err != nil {
			t.Fatal(err)
		}
		if s.Attach(Uses{1: {Values: 1, End: int64(len(b))}}) != nil {
			return
		}
		for at := int64(0); ; {
			recs, next, err := s.Set().Records(1, at, 1)
			for _, r := range recs {
				if val, err := s.Set().Read(r.Key, r.Ref); err == nil && !r.Ref.Matches(val) {
					t.Errorf("%+v: the value does not match", r.Ref)
				}
			}
			if err != nil || next == 0 {
				return
			}
			at = next
		}
	})
}

func TestNames(t *testing.T) {
	names := map[string]uint32{
		"00000001.val": 1, "4294967295.val": 4294967295, "00000000.val": 0, "1.val": 0, "00000001.tmp": 0, "+0000001.val": 0, "000000001.val": 0,
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if n, ok := fileNumber(name); n != names[name] || ok != (n > 0) {
			t.Errorf("%s: %d, %v", name, n, ok)
		}
	}
}

package disk

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/skerrydb/skerry/journal/memfs"
)

// history writes the calls to a new store of the smallest size and returns its disk, with
// the store closed.
func history(t *testing.T, calls string) (*generator, *memfs.FS) {
	t.Helper()
	fsys := memfs.New(1)
	s := reopen(t, smallest(fsys))
	g := newGenerator(1)
	g.calls(s, calls)
	closeStore(t, s)
	return g, fsys
}

// calls makes a call for each pair of letters: its kind and a key. P is a Put of about 1 kB.
func (g *generator) calls(s *Store, calls string) {
	for i := 0; i < len(calls); i += 2 {
		key := fmt.Sprint("k", calls[i+1]-'0')
		if calls[i] == 'P' {
			g.call(s, 'p', key, 1500)
		} else {
			g.call(s, calls[i], key, 20)
		}
	}
}

func smallest(fsys *memfs.FS) Options {
	o := options(fsys)
	o.MaxBytes = minBytes
	return o
}

// short is a history of four frames in one segment.
const short = "p1p2p3s-d1m-s-p4d2p1s-m-s-"

// long has three segments.
const long = "P1P2P3s-d1m-s-P4P1P5s-d2m-s-P6p7d4s-m-s-"

const segment1 = "cache/00000001.seg"

// damaged reopens a copy of a disk after a change, and checks the rule. It returns what
// was found.
func damaged(t *testing.T, g *generator, fsys *memfs.FS, what string, change func(fsys *memfs.FS)) (mark string, entries int) {
	t.Helper()
	c := fsys.Clone(1)
	change(c)
	s := reopen(t, smallest(c))
	g.check(t, s)
	mark, entries = s.Marked(), s.Stats().Entries
	if t.Failed() {
		t.Fatalf("after %s", what)
	}
	// The store works, and what it writes then is found again.
	put(t, s, "new", "1")
	s.Mark(fmt.Sprint(len(g.steps) - 1)) // the last step is a sync
	closeStore(t, s)
	s = reopen(t, smallest(c))
	if want(t, s, "new", "1"); t.Failed() {
		t.Fatalf("written after %s", what)
	}
	closeStore(t, s)
	return mark, entries
}

// file returns a change of one file.
func file(name string, change func(b []byte) []byte) func(*memfs.FS) {
	return func(fsys *memfs.FS) {
		b, err := fsys.ReadFile(name)
		if err != nil {
			panic(err)
		}
		fsys.WriteFile(name, change(b))
	}
}

func size(t *testing.T, fsys *memfs.FS, name string) int {
	t.Helper()
	b, err := fsys.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return len(b)
}

func TestHistories(t *testing.T) {
	for calls, files := range map[string]int{short: 1, long: 3} {
		g, fsys := history(t, calls)
		names, err := fsys.List("cache")
		if err != nil || len(names) != files {
			t.Errorf("%s: files %v, %v; want %d", calls, names, err, files)
		}
		mark, n := damaged(t, g, fsys, "nothing", func(*memfs.FS) {})
		if last := fmt.Sprint(len(g.steps) - 2); mark != last || n < 3 {
			t.Errorf("%s: mark %s, %d entries, want mark %s", calls, mark, n, last)
		}
	}
}

func TestCutAtEveryByte(t *testing.T) {
	g, fsys := history(t, short)
	marks := map[string]bool{}
	for n := range size(t, fsys, segment1) {
		mark, _ := damaged(t, g, fsys, fmt.Sprintf("a cut at byte %d", n), file(segment1, func(b []byte) []byte { return b[:n] }))
		marks[mark] = true
	}
	if !marks[""] || !marks["5"] || len(marks) != 2 {
		t.Errorf("found the marks %v", marks)
	}
	g, fsys = history(t, long)
	for i := 1; i <= 2; i++ {
		name := "cache/" + fileName(uint32(i))
		for n := 0; n < size(t, fsys, name); n += 7 {
			mark, _ := damaged(t, g, fsys, fmt.Sprintf("a cut of %s at byte %d", name, n), file(name, func(b []byte) []byte { return b[:n] }))
			if mark != "" {
				t.Errorf("%s cut at byte %d: the store comes back with %s", name, n, mark)
			}
		}
	}
}

func TestEveryBitFlipped(t *testing.T) {
	flips := func(g *generator, fsys *memfs.FS, name string, bits func(at int) []int) {
		for at := range size(t, fsys, name) {
			for _, bit := range bits(at) {
				damaged(t, g, fsys, fmt.Sprintf("a flip of bit %d of byte %d of %s", bit, at, name), file(name, func(b []byte) []byte {
					b[at] ^= 1 << bit
					return b
				}))
			}
		}
	}
	one := func(at int) []int { return []int{at % 8} }
	all := func(int) []int { return []int{0, 1, 2, 3, 4, 5, 6, 7} }
	if testing.Short() {
		all = one
	}
	g, fsys := history(t, short)
	flips(g, fsys, segment1, all)
	if testing.Short() {
		return
	}
	g, fsys = history(t, long)
	for i := 1; i <= 3; i++ {
		flips(g, fsys, "cache/"+fileName(uint32(i)), one)
	}
}

// frameEnds returns where the frames of the only segment end.
func frameEnds(t *testing.T, fsys *memfs.FS) (ends []int) {
	t.Helper()
	b, err := fsys.ReadFile(segment1)
	if err != nil {
		t.Fatal(err)
	}
	h, ok := parseHeader(b)
	if !ok {
		t.Fatal("no header")
	}
	p := &parser{c: newCodec(h.id), segment: 1, r: bytes.NewReader(b), size: int64(len(b)), at: headerBytes, next: h.start}
	if err := p.run(func([]op) { ends = append(ends, int(p.at)) }); err != nil {
		t.Fatal(err)
	}
	return ends
}

// TestDamagedMiddle: damage before a valid frame is no torn write.
func TestDamagedMiddle(t *testing.T) {
	g, fsys := history(t, short)
	ends := frameEnds(t, fsys)
	if len(ends) != 5 || ends[4] != size(t, fsys, segment1) {
		t.Fatalf("the frames end at %v", ends)
	}
	for at := range ends[len(ends)-2] {
		mark, _ := damaged(t, g, fsys, fmt.Sprintf("damage of byte %d", at), file(segment1, func(b []byte) []byte {
			b[at] ^= 0xff
			return b
		}))
		if mark != "" {
			t.Errorf("byte %d is damaged, and the store comes back with %s", at, mark)
		}
	}
}

func TestForeignFiles(t *testing.T) {
	g, fsys := history(t, long)
	_, other := history(t, long)
	name := func(i uint32) string { return "cache/" + fileName(i) }
	read := func(fsys *memfs.FS, i uint32) []byte {
		b, err := fsys.ReadFile(name(i))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	remove := func(fsys *memfs.FS, i uint32) {
		if err := fsys.Remove(name(i)); err != nil {
			t.Fatal(err)
		}
	}
	last := fmt.Sprint(len(g.steps) - 2)
	for what, c := range map[string]struct {
		change func(fsys *memfs.FS)
		mark   string
	}{
		"exchanged segments":       {func(f *memfs.FS) { a, b := read(f, 1), read(f, 2); f.WriteFile(name(1), b); f.WriteFile(name(2), a) }, ""},
		"a renamed segment":        {func(f *memfs.FS) { f.WriteFile(name(4), read(f, 3)) }, ""},
		"a missing middle":         {func(f *memfs.FS) { remove(f, 2) }, ""},
		"a missing beginning":      {func(f *memfs.FS) { remove(f, 1) }, last},
		"a missing end":            {func(f *memfs.FS) { remove(f, 3) }, "5"},
		"nothing but the end":      {func(f *memfs.FS) { remove(f, 1); remove(f, 2) }, last},
		"another store's first":    {func(f *memfs.FS) { f.WriteFile(name(1), read(other, 1)) }, ""},
		"another store's middle":   {func(f *memfs.FS) { f.WriteFile(name(2), read(other, 2)) }, ""},
		"another store's last":     {func(f *memfs.FS) { f.WriteFile(name(3), read(other, 3)) }, ""},
		"an empty first":           {func(f *memfs.FS) { f.WriteFile(name(1), nil) }, ""},
		"an empty last":            {func(f *memfs.FS) { f.WriteFile(name(3), nil) }, "5"},
		"an empty new one":         {func(f *memfs.FS) { f.WriteFile(name(4), nil) }, last},
		"a gap before an empty":    {func(f *memfs.FS) { f.WriteFile(name(9), nil) }, last},
		"a text":                   {func(f *memfs.FS) { f.WriteFile(name(2), []byte("hello")) }, ""},
		"a later version":          {file(name(1), func(b []byte) []byte { b[7]++; return b }), ""},
		"files of other names":     {func(f *memfs.FS) { f.WriteFile("cache/1.seg", nil); f.WriteFile("cache/note.txt", []byte("x")) }, last},
		"zeros at the end":         {file(name(3), func(b []byte) []byte { return append(b, make([]byte, 5000)...) }), last},
		"zeros before the end":     {file(name(2), func(b []byte) []byte { return append(b, make([]byte, 5000)...) }), ""},
		"an old state of a middle": {file(name(2), func(b []byte) []byte { return b[:headerBytes+frameBytes+recordBytes+8] }), ""},
		"an old state of the last": {file(name(3), func(b []byte) []byte { return b[:headerBytes] }), "5"},
	} {
		if mark, _ := damaged(t, g, fsys, what, c.change); mark != c.mark {
			t.Errorf("%s: the mark is %q, want %q", what, mark, c.mark)
		}
	}
}

// TestOldSegmentComesBack: entries of a dropped segment may have been deleted since without
// a record.
func TestOldSegmentComesBack(t *testing.T) {
	fsys := memfs.New(1)
	o := smallest(fsys)
	s := reopen(t, o)
	g := newGenerator(1)
	g.calls(s, "P1P2P3s-m-s-")
	old := map[string][]byte{}
	for s.segmentNumbers()[0] == 1 {
		for _, n := range s.segmentNumbers() {
			name := "cache/" + fileName(n)
			b, err := fsys.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			old[name] = b
		}
		g.calls(s, "P4P5P6s-")
	}
	dropped := s.segmentNumbers()[0]
	g.calls(s, "d1d2m-s-")
	closeStore(t, s)
	if mark, n := damaged(t, g, fsys, "nothing", func(*memfs.FS) {}); mark == "" || n == 0 {
		t.Fatalf("mark %q, %d entries", mark, n)
	}
	if mark, _ := damaged(t, g, fsys, "old segments came back", func(f *memfs.FS) {
		for n := uint32(1); n < dropped; n++ {
			name := "cache/" + fileName(n)
			f.WriteFile(name, old[name])
		}
	}); mark != "" {
		t.Errorf("the store came back with %s", mark)
	}
}

func (s *Store) segmentNumbers() (n []uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seg := range s.segments {
		n = append(n, seg.number)
	}
	return n
}

// TestDamagedWhileOpen: a record that cannot be read back is absent, now and after a
// restart in which it can be read again.
func TestDamagedWhileOpen(t *testing.T) {
	fsys := memfs.New(1)
	s := reopen(t, smallest(fsys))
	g := newGenerator(1)
	g.calls(s, "p1p2m-s-")
	f, err := fsys.OpenFile(segment1, os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	good, _ := fsys.ReadFile(segment1)
	first := headerBytes + frameBytes
	for at := first; at < first+recordBytes+2; at++ {
		if _, err := f.WriteAt([]byte{good[at] ^ 1}, int64(at)); err != nil {
			t.Fatal(err)
		}
		if got := get(s, "k1"); got != "-" {
			t.Fatalf("damage of byte %d is served: %q", at, got)
		}
		if _, err := f.WriteAt(good[at:at+1], int64(at)); err != nil {
			t.Fatal(err)
		}
		if got := get(s, "k1"); got != "-" {
			t.Fatalf("a dropped record is served: %q", got)
		}
	}
	if st := s.Stats(); st.Corrupt != 1 || st.Entries != 1 {
		t.Errorf("%+v", st)
	}
	// A later deletion finds no entry. The record must stay gone all the same.
	g.calls(s, "d1p3s-m-s-")
	closeStore(t, s)
	s = open(t, smallest(fsys))
	g.check(t, s)
	want(t, s, "k1", "-")
	if s.Stats().Entries != 2 {
		t.Errorf("%+v", s.Stats())
	}
}

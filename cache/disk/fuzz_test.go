package disk

import (
	"bytes"
	"testing"

	"github.com/skerrydb/skerry/journal/memfs"
)

// FuzzParser reads arbitrary bytes as a segment of a known store. Whatever it accepts is a
// whole number of frames that were written.
func FuzzParser(f *testing.F) {
	c := newCodec([16]byte{1, 2, 3})
	seg := &segment{number: 1, start: chain{number: 1, sum: 7}}
	var good []byte
	ends := map[int64]bool{0: true}
	at := seg.start
	for i := range 3 {
		b := newBatch(c, 0, seg, int64(len(good)), at, []string{"", "p1", "p2"}[i], true)
		b.add(kindPut, "key", bytes.Repeat([]byte{byte(i)}, 20*i))
		b.add(kindDelete, "8 bytes.", nil)
		b.finish(1)
		for _, c := range b.chunks {
			good = append(good, c.b...)
		}
		at = b.next
		ends[int64(len(good))] = true
	}
	f.Add(good)
	f.Add(good[:len(good)-3])
	f.Add(append(bytes.Clone(good), good...))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		p := &parser{c: c, segment: 1, r: bytes.NewReader(b), size: int64(len(b)), next: seg.start}
		ops := 0
		if err := p.run(func(o []op) { ops += len(o) }); err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(b, good[:min(p.at, int64(len(good)))]) || !ends[p.at] || p.next.number != uint64(1+ops) {
			t.Errorf("accepted %d of %d bytes, %d records", p.at, len(b), ops)
		}
		if _, err := laterFrame(c, bytes.NewReader(b), 0, int64(len(b)), 0); err != nil {
			t.Error(err)
		}
	})
}

// FuzzOpen opens a folder with an arbitrary segment.
func FuzzOpen(f *testing.F) {
	fsys := memfs.New(1)
	s, err := Open(smallest(fsys))
	if err != nil {
		f.Fatal(err)
	}
	g := newGenerator(1)
	g.calls(s, short)
	s.Close() // cannot fail
	good, err := fsys.ReadFile(segment1)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:headerBytes])
	f.Add(good[:headerBytes-1])
	f.Fuzz(func(t *testing.T, b []byte) {
		fsys := memfs.New(1)
		fsys.WriteFile(segment1, b)
		s := reopen(t, smallest(fsys))
		g.check(t, s)
		closeStore(t, s)
	})
}

package btree

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
)

// family is some trees that come from one by clones and share blobs, and what each must
// have. Builds with the race detector or the tag poison also overwrite what no tree may read.
type family struct {
	members []*member
	stamp   byte // changes with every write, so that no two values are equal
}

// member is a tree, its pairs, and slices that the tree returned and that must not change
// until their key is written.
type member struct {
	tree *Pairs
	want map[string]Value
	held map[string]Value
}

func newFamily() *family {
	return &family{members: []*member{{NewPairs(), map[string]Value{}, map[string]Value{}}}}
}

// step does one operation: bits of op choose the tree and the kind, key and size what is
// written.
func (f *family) step(op byte, key []byte, size int) error {
	m := f.members[int(op>>4)%len(f.members)]
	f.stamp++
	v := Value{bytes.Repeat([]byte{f.stamp}, size), f.stamp%3 == 0}
	switch op % 16 {
	case 0, 1: // a clone, which takes the place of another if there are many
		c := &member{m.tree.Clone(), map[string]Value{}, map[string]Value{}}
		for k, v := range m.want {
			c.want[k] = v
		}
		if len(f.members) < 6 {
			f.members = append(f.members, c)
		} else {
			f.members[int(f.stamp)%len(f.members)] = c
		}
	case 2, 3, 4:
		delete(m.held, string(key))
		old, ok := m.tree.Delete(key)
		if was, had := m.want[string(key)]; ok != had || old != len(was.Bytes) {
			return fmt.Errorf("Delete(%q) = %d, %v, want %d, %v", key, old, ok, len(was.Bytes), had)
		}
		delete(m.want, string(key))
	case 5:
		delete(m.held, string(key))
		m.tree.Apply([]Write{{Key: key, Value: v}})
		m.want[string(key)] = v
	case 6, 7:
		if got, ok := m.tree.Find(key); ok {
			m.held[string(key)] = got
		}
	default:
		delete(m.held, string(key))
		old, ok := m.tree.Set(key, v)
		if was, had := m.want[string(key)]; ok != had || old != len(was.Bytes) {
			return fmt.Errorf("Set(%q) = %d, %v, want %d, %v", key, old, ok, len(was.Bytes), had)
		}
		m.want[string(key)] = v
	}
	return m.checkHeld()
}

func (m *member) checkHeld() error {
	for k, v := range m.held {
		if want := m.want[k]; !v.Equal(want) {
			return fmt.Errorf("the slice for %q, which was not written since, has become %q, was %q", k, v.Bytes, want.Bytes)
		}
	}
	return nil
}

// check compares all members with what they must have.
func (f *family) check() error {
	for i, m := range f.members {
		if err := m.check(); err != nil {
			return fmt.Errorf("member %d of %d: %w", i, len(f.members), err)
		}
	}
	return nil
}

func (m *member) check() error {
	if err := m.tree.Check(); err != nil {
		return err
	}
	n := 0
	for k, v := range m.tree.Ascend(nil, nil) {
		if want, ok := m.want[string(k)]; !ok || !v.Equal(want) {
			return fmt.Errorf("%q = %q, marked %v; want %q, marked %v, %v", k, v.Bytes, v.Marked, want.Bytes, want.Marked, ok)
		}
		n++
	}
	if n != len(m.want) {
		return fmt.Errorf("%d keys, want %d", n, len(m.want))
	}
	return m.checkHeld()
}

// sizes of values: within a record, at the limit of a blob, outside of it.
func randomSize(r *rand.Rand) int {
	switch r.IntN(12) {
	case 0:
		return maxInline + r.IntN(3) - 1
	case 1:
		return 0
	}
	return r.IntN(60)
}

// TestSharedBlobs writes trees that share blobs by turns: leaf by leaf they compete for the
// room behind the records, overwrite in place what is theirs, and must copy what is not.
func TestSharedBlobs(t *testing.T) {
	r := seed.Rand(t)
	for round := range 40 {
		f, keys := newFamily(), 1+r.IntN(3*leafKeys)
		for i := range 1500 {
			key := fmt.Appendf(nil, "key %03d", r.IntN(keys))
			if err := f.step(byte(r.Uint32()), key, randomSize(r)); err != nil {
				t.Fatalf("round %d, step %d: %v", round, i, err)
			}
			if i%50 == 0 {
				if err := f.check(); err != nil {
					t.Fatalf("round %d, step %d: %v", round, i, err)
				}
			}
		}
		if err := f.check(); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
}

func FuzzSharedBlobs(f *testing.F) {
	f.Add([]byte("\x08a\x20\x00a\x00\x08a\x10\x18a\x30\x18b\x40\x08b\x40"))
	f.Add(bytes.Repeat([]byte{8, 1, 9, 0, 0, 0, 24, 1, 200, 2, 1, 0, 40, 2, 255, 6, 2, 0}, 30))
	f.Fuzz(func(t *testing.T, in []byte) {
		fam := newFamily()
		for ; len(in) >= 3; in = in[3:] {
			if err := fam.step(in[0], in[1:2], int(in[2])*int(in[2])/32); err != nil {
				t.Fatal(err)
			}
		}
		if err := fam.check(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestWritersOfOneBlob lets clones that share all blobs be written by goroutines at the same
// time, while others read the original. All of them want the same room.
func TestWritersOfOneBlob(t *testing.T) {
	const writers, readers = 4, 2
	r := seed.Rand(t)
	key := func(i int) []byte { return binary.BigEndian.AppendUint16([]byte("k"), uint16(i)) }
	for range 60 {
		base, n := newFamily().members[0], 1+r.IntN(2*leafKeys)
		for i := range n {
			base.want[string(key(i))] = Value{Bytes: bytes.Repeat([]byte{byte(i)}, randomSize(r))}
			base.tree.Set(key(i), base.want[string(key(i))])
		}
		var done sync.WaitGroup
		start := make(chan struct{})
		for w := range writers {
			own := &member{base.tree.Clone(), map[string]Value{}, nil}
			for k, v := range base.want {
				own.want[k] = v
			}
			random := rand.New(rand.NewPCG(r.Uint64(), uint64(w)))
			done.Go(func() {
				<-start
				for i := range 200 {
					k, v := key(random.IntN(2*n)), Value{bytes.Repeat([]byte{byte(w), byte(i)}, random.IntN(20)), true}
					if own.tree.Set(k, v); i%40 == 39 {
						own.tree = own.tree.Clone()
					}
					own.want[string(k)] = v
				}
				if err := own.check(); err != nil {
					t.Errorf("writer %d: %v", w, err)
				}
			})
		}
		for range readers {
			view := &member{base.tree.Clone(), base.want, nil}
			done.Go(func() {
				<-start
				for range 5 {
					if err := view.check(); err != nil {
						t.Errorf("reader: %v", err)
					}
				}
			})
		}
		close(start)
		done.Wait()
	}
}

// TestOneWinsTheRoom forces the cases of the claim: the first copy of a leaf appends to the
// shared blob, the second moves to its own, and nobody reads what the other wrote.
func TestOneWinsTheRoom(t *testing.T) {
	base := NewPairs()
	base.Set([]byte("a"), Value{Bytes: make([]byte, 500)})
	base.Set([]byte("b"), Value{Bytes: []byte("base")}) // a new blob, with room
	leafOf := func(p *Pairs) *leaf { return (*leaf)(p.root) }
	first, second := base.Clone(), base.Clone()
	first.Set([]byte("b"), Value{Bytes: []byte("1st, longer")})
	second.Set([]byte("b"), Value{Bytes: []byte("2nd, longer")})
	base.Set([]byte("b"), Value{Bytes: []byte("base again")})
	if &leafOf(first).blob[0] == &leafOf(second).blob[0] || &leafOf(first).blob[0] == &leafOf(base).blob[0] {
		t.Error("two trees append to one blob")
	}
	for p, want := range map[*Pairs]string{first: "1st, longer", second: "2nd, longer", base: "base again"} {
		if v, _ := p.Get([]byte("b")); string(v.Bytes) != want {
			t.Errorf("got %q, want %q", v.Bytes, want)
		}
		if err := p.Check(); err != nil {
			t.Error(err)
		}
	}
	// A write in place: the record is newer than the last clone.
	before := leafOf(first).used
	first.Set([]byte("b"), Value{Bytes: []byte("1st, place")})
	if leafOf(first).used != before {
		t.Error("a record of this tree alone was not overwritten in place")
	}
	kept := first.Clone()
	first.Set([]byte("b"), Value{Bytes: []byte("1st, moved")})
	if v, _ := kept.Get([]byte("b")); string(v.Bytes) != "1st, place" {
		t.Errorf("the clone has %q", v.Bytes)
	}
}

// TestDeadBytesAreBounded overwrites with clones, shrinks and deletes for long, and checks the
// bound of Stats. Check verifies it leaf by leaf.
func TestDeadBytesAreBounded(t *testing.T) {
	r := seed.Rand(t)
	tree := NewPairs()
	const n = 3000
	for i := range 12 * n {
		size := r.IntN(300)
		if i/n%2 == 1 {
			size = r.IntN(5)
		}
		tree.Set(key8(r.IntN(n)), Value{Bytes: make([]byte, size)})
		if r.IntN(20) == 0 {
			tree.Clone()
		}
		if i%7 == 0 {
			tree.Delete(key8(r.IntN(n)))
		}
		if i%n == 0 {
			leaves := 0
			for w := (walk{p: tree, step: 1}); w.next(); leaves++ {
			}
			s := tree.Stats()
			if s.Dead+s.Room > s.Records+int64(leaves*staleRoom) {
				t.Errorf("%d leaves: %+v", leaves, s)
			}
			if err := tree.Check(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestLoadedLeavesAreDense bounds what size classes add to loaded leaves, for values of any
// length.
func TestLoadedLeavesAreDense(t *testing.T) {
	for size := 0; size < 400; size += 7 {
		const n = 5000
		tree := NewPairs()
		var m []Write
		for i := range n {
			m = append(m, Write{Key: key8(i)})
		}
		slices.SortFunc(m, func(a, b Write) int { return bytes.Compare(a.Key, b.Key) })
		if err := tree.Load(func(yield func([]byte, Value) bool) {
			for _, w := range m {
				if !yield(w.Key, Value{Bytes: make([]byte, size)}) {
					return
				}
			}
		}); err != nil {
			t.Fatal(err)
		}
		if each := float64(tree.Stats().Room) / n; each > 7 {
			t.Errorf("values of %d bytes: %.1f bytes of room for each key, want at most 7", size, each)
		}
	}
}

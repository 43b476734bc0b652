package btree

import (
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
)

func key8(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)*0x9E3779B97F4A7C15) }

// TestAllocations checks that reads and overwrites with values that are not longer do not
// allocate, and that inserts and deletes without splits or merges do so in less than one of two
// writes: when the room of a blob is used up.
func TestAllocations(t *testing.T) {
	const n = 20_000
	tree, nums := NewPairs(), NewMap[int, int]()
	val, other := Value{Bytes: make([]byte, 16)}, Value{[]byte("another value   "), true}
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = key8(i)
		tree.Set(keys[i], val)
		nums.Set(i*7919%n, i)
	}
	absent := []byte("absent")
	i, sum := 0, 0
	next := func() int { i = (i + 7919) % n; return i }
	for _, c := range []struct {
		name string
		fn   func()
	}{
		{"Get", func() { v, _ := tree.Get(keys[next()]); sum += len(v.Bytes) }},
		{"Get miss", func() { v, _ := tree.Get(absent); sum += len(v.Bytes) }},
		{"Find", func() { v, _ := tree.Find(keys[next()]); sum += len(v.Bytes) }},
		{"Set, overwrite", func() { tree.Set(keys[next()], other) }},
		{"Set, overwrite with less", func() { tree.Set(keys[next()], Value{other.Bytes[:8], true}) }},
		{"Set and Delete", func() { tree.Set(absent, val); tree.Delete(absent) }},
		{"Delete miss", func() { tree.Delete(absent) }},
		{"At", func() { _, v, _ := tree.At(next()); sum += len(v.Bytes) }},
		{"Rank", func() { sum += tree.Rank(keys[next()]) }},
		{"Seek", func() { _, v, _ := tree.Seek(keys[next()]); sum += len(v.Bytes) }},
		{"scan", func() {
			for _, v := range tree.Ascend(keys[next()], nil) {
				if sum += len(v.Bytes); sum%64 == 0 {
					break
				}
			}
		}},
		{"Map.Get", func() { v, _ := nums.Get(next()); sum += v }},
		{"Map.Set, overwrite", func() { nums.Set(next(), i) }},
		{"Map.Set and Delete", func() { nums.Set(-1, 1); nums.Delete(-1) }},
		{"Map.Seek", func() { _, v, _ := nums.Seek(next()); sum += v }},
		{"Map.At", func() { _, v, _ := nums.At(next()); sum += v }},
		{"Map scan", func() {
			for _, v := range nums.AscendFrom(next()) {
				if sum += v; v%64 == 0 {
					break
				}
			}
		}},
	} {
		c.fn() // what the first run has to grow
		if got := testing.AllocsPerRun(200, c.fn); got != 0 {
			t.Errorf("%s: %v allocations", c.name, got)
		}
	}
}

// TestCopiesAfterClone bounds what a clone makes the next write copy: the nodes of one
// path, once, and now and then a blob.
func TestCopiesAfterClone(t *testing.T) {
	const n = 20_000
	tree, val := NewPairs(), Value{Bytes: make([]byte, 16)}
	for i := range n {
		tree.Set(key8(i), val)
	}
	keep := make([]*Pairs, 0, 300)
	k := key8(77)
	got := testing.AllocsPerRun(200, func() {
		keep = append(keep, tree.Clone())
		tree.Set(k, val)
		tree.Set(k, val)
	})
	if want := float64(3 + tree.height); got > want { // the clone, a token, the leaf, inner nodes
		t.Errorf("%v allocations for a clone and two writes, want at most %v", got, want)
	}
}

// heapOf returns the live bytes that fn's result holds on to.
func heapOf(fn func() any) int {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	kept := fn()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(kept)
	return int(after.HeapAlloc) - int(before.HeapAlloc)
}

var entryVal = Value{Bytes: make([]byte, 16)}

func ascending(i int) []byte { return binary.BigEndian.AppendUint64(make([]byte, 8), uint64(i)) }

func inserted(n int, key func(int) []byte) *Pairs {
	tree := NewPairs()
	for i := range n {
		tree.Set(key(i), entryVal)
	}
	return tree
}

// TestBytesPerEntry bounds the memory beyond key and value: at random inserts,
// after a Load, and after churn at a constant size, which must not grow.
func TestBytesPerEntry(t *testing.T) {
	const n, keyLen, valLen = 20_000, 16, 16
	r := seed.Rand(t)
	key := func(i int) []byte { return append(key8(i), key8(i*3+1)...) }
	for _, c := range []struct {
		name  string
		bound int
		fn    func() any
	}{
		{"random inserts", 40, func() any { return inserted(n, key) }},
		{"ascending inserts", 20, func() any { return inserted(n, ascending) }},
		{"loaded", 22, func() any {
			tree := NewPairs()
			if err := tree.Load(func(yield func([]byte, Value) bool) {
				for i := range n {
					if !yield(ascending(i), entryVal) {
						return
					}
				}
			}); err != nil {
				t.Error(err)
			}
			return tree
		}},
		{"churn", 50, func() any { // every key replaced several times, with clones now and then
			tree := inserted(n, key)
			for i := n; i < 6*n; i++ {
				tree.Delete(key(i - n))
				tree.Set(key(i), entryVal)
				if r.IntN(100) == 0 {
					tree.Clone()
				}
			}
			return tree
		}},
		{"deletes", 90, func() any { // a tenth is left, spread over all leaves
			tree := inserted(10*n, key)
			for i := range 10 * n {
				if i%10 != 0 {
					tree.Delete(key(i))
				}
			}
			if err := tree.Check(); err != nil {
				t.Error(err)
			}
			return tree
		}},
	} {
		per := heapOf(c.fn)/n - keyLen - valLen
		t.Logf("%s: %d bytes an entry beyond key and value", c.name, per)
		if per > c.bound {
			t.Errorf("%s: %d bytes an entry beyond key and value, want at most %d", c.name, per, c.bound)
		}
	}
}

// TestLongKeysLeave fills leaves with long keys and replaces them by short ones: the
// memory of the long ones must be freed.
func TestLongKeysLeave(t *testing.T) {
	const n = 2000
	val := Value{Bytes: make([]byte, 8)}
	got := heapOf(func() any {
		tree := NewPairs()
		for i := range n {
			tree.Set(append(key8(i), make([]byte, 4096)...), val)
		}
		for i := range n {
			tree.Set(key8(i), val)
			tree.Delete(append(key8(i), make([]byte, 4096)...))
		}
		if err := tree.Check(); err != nil {
			t.Error(err)
		}
		return tree
	})
	if per := got / n; per > 250 {
		t.Errorf("%d bytes an entry after long keys, want at most 250", per)
	}
}

// TestMapBytesPerEntry is the same for a Map of 16-byte pairs.
func TestMapBytesPerEntry(t *testing.T) {
	const n = 50_000
	for _, c := range []struct {
		name  string
		bound int
		fn    func(m *Map[int, int])
	}{
		{"random inserts", 27, func(m *Map[int, int]) {
			for i := range n {
				m.Set(i*7919%n, i)
			}
		}},
		{"ascending inserts", 18, func(m *Map[int, int]) {
			for i := range n {
				m.Set(i, i)
			}
		}},
		{"deletes", 60, func(m *Map[int, int]) {
			for i := range 10 * n {
				m.Set(i*7919%(10*n), i)
			}
			for i := range 10 * n {
				if i%10 != 0 {
					m.Delete(i)
				}
			}
		}},
	} {
		per := heapOf(func() any {
			m := NewMap[int, int]()
			c.fn(m)
			if err := m.Check(); err != nil || m.Len() != n {
				t.Errorf("%s: %d keys, %v", c.name, m.Len(), err)
			}
			return m
		}) / n
		t.Logf("%s: %d bytes an entry", c.name, per)
		if per > c.bound {
			t.Errorf("%s: %d bytes an entry, want at most %d", c.name, per, c.bound)
		}
	}
}

package btree

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/skerrydb/skerry/ci/seed"
)

// TestSizeClasses compares the table with what the allocator really gives.
func TestSizeClasses(t *testing.T) {
	for n := 1; n < 140<<10; n += 1 + n/4096 {
		want := max(cap(slices.Grow([]byte(nil), n)), int(sizeClasses[0]))
		if got := sizeClass(n); got != want {
			t.Fatalf("%d bytes: %d, the allocator gives %d", n, got, want)
		}
		for _, room := range []int{0, 1, n / 16, n / 6, n} {
			got := roomyClass(n, room)
			if got < n || got != sizeClass(got) || got > n+room && got != sizeClass(n) {
				t.Fatalf("%d bytes and room for %d: %d", n, room, got)
			}
		}
	}
}

// TestNodeBytes compares the sizes of nodes with what the allocator really gives.
func TestNodeBytes(t *testing.T) {
	const n = 2000 // other goroutines allocate a little meanwhile
	var before, after runtime.MemStats
	for _, c := range []struct {
		name string
		want int
		make func() any
	}{
		{"leaf", leafBytes, func() any { return new(leaf) }},
		{"inner node", innerBytes, func() any { return new(inner) }},
		{"separators", separatorsBytes, func() any { return new(separators) }},
		{"outside values", outsideBytes, func() any { return new(outside) }},
	} {
		keep := make([]any, n)
		runtime.ReadMemStats(&before)
		for i := range keep {
			keep[i] = c.make()
		}
		runtime.ReadMemStats(&after)
		if got := int(after.TotalAlloc-before.TotalAlloc) / n; got < c.want || got > c.want+4 {
			t.Errorf("%s: %d bytes, the allocator gives %d", c.name, c.want, got)
		}
		runtime.KeepAlive(keep)
	}
	for _, room := range outsideRooms {
		keep := make([][][]byte, n)
		runtime.ReadMemStats(&before)
		for i := range keep {
			keep[i] = make([][]byte, 0, room)
		}
		runtime.ReadMemStats(&after)
		out := outside{vals: keep[0]}
		if got, want := int(after.TotalAlloc-before.TotalAlloc)/n, out.allocated()-outsideBytes; got < want || got > want+4 {
			t.Errorf("%d outside values: %d bytes, the allocator gives %d", room, want, got)
		}
	}
	if got := unsafe.Offsetof(leaf{}.heads) + pointerHeader; got%64 != 0 {
		t.Errorf("the heads of a leaf begin at byte %d of its allocation, not on a cache line", got)
	}
}

// TestMemory compares Memory with the heap, after inserts, overwrites with clones that are
// dropped, deletes and a load.
func TestMemory(t *testing.T) {
	r := seed.Rand(t)
	val := func(long int) Value { return Value{Bytes: make([]byte, r.IntN(long))} }
	n := 30_000
	if testing.Short() {
		n = 5000
	}
	write := func(tree *Pairs, long int) {
		for i := range n {
			tree.Set(key8(r.IntN(n)), val(long))
			if i%5 == 0 {
				tree.Delete(key8(r.IntN(n)))
			}
			if r.IntN(100) == 0 {
				tree.Clone()
			}
		}
	}
	var tree *Pairs
	for _, c := range []struct {
		name string
		fn   func()
	}{
		{"short values", func() { write(tree, 200) }},
		{"long values", func() { write(tree, 1500) }},
		{"short values again", func() { write(tree, 40) }},
		{"loaded", func() {
			was := tree.Clone()
			if err := tree.Load(was.Ascend(nil, nil)); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		if tree == nil {
			tree = NewPairs()
		}
		c.fn()
		if err := tree.Check(); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		held := heapOf(func() any { return copyOf(tree) })
		if fresh := copyOf(tree).Memory(); ratio(int64(held), fresh) > 1.03 {
			t.Errorf("%s: a copy of the tree takes %d bytes of heap, Memory is %d", c.name, held, fresh)
		}
		t.Logf("%s: %d keys, %+v", c.name, tree.Len(), tree.Stats())
	}
	before := tree.Memory()
	heap := -heapOf(func() any { tree = nil; return nil })
	if ratio(int64(heap), before) > 1.05 {
		t.Errorf("dropping the tree freed %d bytes, Memory was %d", heap, before)
	}
}

// copyOf returns a map with the same pairs that shares nothing with tree.
func copyOf(tree *Pairs) *Pairs {
	c := NewPairs()
	r := rand.New(rand.NewPCG(1, 2))
	for _, i := range r.Perm(tree.Len()) {
		k, v, _ := tree.At(i)
		c.Set(k, v)
	}
	return c
}

func ratio(a, b int64) float64 {
	if a < b {
		a, b = b, a
	}
	return float64(a) / float64(max(b, 1))
}

package btree

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"weak"
)

// TestFindThen writes after Find in every way that could invalidate its hint.
func TestFindThen(t *testing.T) {
	key := func(i int) []byte { return binary.BigEndian.AppendUint16([]byte("key"), uint16(i)) }
	between := map[string]func(tree *ints, m *model){
		"nothing": func(*ints, *model) {},
		"clone":   func(tree *ints, _ *model) { tree.Clone() },
		"get":     func(tree *ints, _ *model) { tree.Get(key(1)) },
		"other":   func(tree *ints, _ *model) { tree.Find(key(999)) },
		"set before": func(tree *ints, m *model) {
			tree.Set(nil, 1)
			m.set(nil, 1)
		},
		"delete before": func(tree *ints, m *model) {
			tree.Delete(key(0))
			m.delete(key(0))
		},
		"delete it": func(tree *ints, m *model) {
			tree.Delete(key(100))
			m.delete(key(100))
		},
		"split": func(tree *ints, m *model) {
			for i := range 2 * leafKeys {
				tree.Set(key(2*i+61), i)
				m.set(key(2*i+61), i)
			}
		},
		"merge": func(tree *ints, m *model) {
			for i := range 4 * leafKeys {
				tree.Delete(key(2 * i))
				m.delete(key(2 * i))
			}
		},
		"load": func(tree *ints, m *model) {
			*m = model{{key(100), 5}}
			if err := tree.Load(m.all()); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, do := range between {
		for _, k := range []int{100, 101, 0, 1, 4000} {
			for _, remove := range []bool{false, true} {
				tree, m := newInts(), model{}
				for i := range 4 * leafKeys {
					tree.Set(key(2*i), i)
					m.set(key(2*i), i)
				}
				if err := sameFind(tree, m, key(k)); err != nil {
					t.Fatal(err)
				}
				do(tree, &m)
				kept, was := tree.Clone(), slices.Clone(m)
				if remove {
					tree.Delete(key(k))
					m.delete(key(k))
				} else {
					tree.Set(key(k), -1)
					m.set(key(k), -1)
				}
				for _, side := range []cloned{{tree, m}, {kept, was}} {
					if err := same(side.tree, side.want); err != nil {
						t.Fatalf("%s, key %d, remove %v: %v", name, k, remove, err)
					}
				}
			}
		}
	}
}

// TestFindKeepsNothing: the path of Find does not keep old nodes alive after writes.
func TestFindKeepsNothing(t *testing.T) {
	tree := newInts()
	key := func(i int) []byte { return fmt.Appendf(nil, "key %04d", i) }
	for i := range 1000 {
		tree.Set(key(i), i)
	}
	tree.Find(key(500))
	old := weak.Make(tree.p.hint.leaf)
	if old.Value() == nil {
		t.Error("Find left no hint")
	}
	tree.Find(key(1))
	tree.Clone()
	for i := range 1000 {
		tree.Set(key(i), 0)
	}
	if runtime.GC(); old.Value() != nil {
		t.Error("a replaced leaf is still reachable")
	}
	runtime.KeepAlive(tree)
}

// TestFindTwice: finding the same key again, with or without a write of another key in
// between, never returns a value from before a write.
func TestFindTwice(t *testing.T) {
	tree := newInts()
	for i := range 1000 {
		tree.Set(fmt.Appendf(nil, "key %03d", i), i)
	}
	for i := range 1000 {
		key, none := fmt.Appendf(nil, "key %03d", i), fmt.Appendf(nil, "key %03d+", i)
		for range 2 {
			if v, ok := tree.Find(key); !ok || v != i {
				t.Fatalf("%s: %d, %v", key, v, ok)
			}
		}
		for range 2 {
			if v, ok := tree.Find(none); ok || v != 0 {
				t.Fatalf("%s: %d, %v", none, v, ok)
			}
		}
		tree.Set(none, -i)
		if v, ok := tree.Find(none); !ok || v != -i {
			t.Fatalf("%s after it was set: %d, %v", none, v, ok)
		}
		tree.Delete(none)
		if _, ok := tree.Find(none); ok {
			t.Fatalf("%s is there after it was deleted", none)
		}
	}
}

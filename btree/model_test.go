package btree

import (
	"bytes"
	"fmt"
	"slices"
)

// pair is one entry of the model.
type pair struct {
	key []byte
	val int
}

// model is the model of a Bytes: a sorted slice.
type model []pair

func (m model) search(key []byte) (int, bool) {
	return slices.BinarySearchFunc(m, key, func(p pair, k []byte) int { return bytes.Compare(p.key, k) })
}

func (m *model) set(key []byte, v int) (old int, replaced bool) {
	i, ok := m.search(key)
	if ok {
		old, (*m)[i].val = (*m)[i].val, v
		return old, true
	}
	*m = slices.Insert(*m, i, pair{bytes.Clone(key), v})
	return 0, false
}

func (m *model) delete(key []byte) (old int, ok bool) {
	i, ok := m.search(key)
	if !ok {
		return 0, false
	}
	old = (*m)[i].val
	*m = slices.Delete(*m, i, i+1)
	return old, true
}

// span returns the entries in lo <= k < hi; nil is no bound.
func (m model) span(lo, hi []byte) model {
	from, to := 0, len(m)
	if lo != nil {
		from, _ = m.search(lo)
	}
	if hi != nil {
		to, _ = m.search(hi)
	}
	return m[from:max(from, to)]
}

// same compares everything that the tree yields with the model, and the
// invariants of the tree.
func same(tree *Bytes[int], m model) error {
	if err := tree.Check(); err != nil {
		return err
	}
	if tree.Len() != len(m) {
		return fmt.Errorf("Len is %d, want %d", tree.Len(), len(m))
	}
	return sameSpan(tree, m, nil, nil)
}

// sameSpan compares a range in both directions.
func sameSpan(tree *Bytes[int], m model, lo, hi []byte) error {
	want := m.span(lo, hi)
	i := 0
	for k, v := range tree.Ascend(lo, hi) {
		if i >= len(want) || !bytes.Equal(k, want[i].key) || v != want[i].val {
			return fmt.Errorf("Ascend(%q, %q) differs at %d: %q=%d", lo, hi, i, k, v)
		}
		i++
	}
	if i != len(want) {
		return fmt.Errorf("Ascend(%q, %q) yields %d, want %d", lo, hi, i, len(want))
	}
	for k, v := range tree.Descend(lo, hi) {
		i--
		if i < 0 || !bytes.Equal(k, want[i].key) || v != want[i].val {
			return fmt.Errorf("Descend(%q, %q) differs at %d: %q=%d", lo, hi, i, k, v)
		}
	}
	if i != 0 {
		return fmt.Errorf("Descend(%q, %q) leaves out %d", lo, hi, i)
	}
	return nil
}

// sameFind compares the result of Find for a key.
func sameFind(tree *Bytes[int], m model, key []byte) error {
	i, there := m.search(key)
	v, ok := tree.Find(key)
	if ok != there || ok && v != m[i].val {
		return fmt.Errorf("Find(%q) = %d, %v", key, v, ok)
	}
	return nil
}

// samePoint compares the results of all methods for one key, which need not exist.
func samePoint(tree *Bytes[int], m model, key []byte) error {
	i, there := m.search(key)
	v, ok := tree.Get(key)
	if ok != there || ok && v != m[i].val {
		return fmt.Errorf("Get(%q) = %d, %v", key, v, ok)
	}
	if r := tree.Rank(key); r != i {
		return fmt.Errorf("Rank(%q) = %d, want %d", key, r, i)
	}
	k, v, ok := tree.Seek(key)
	if err := sameEntry(m, i, k, v, ok); err != nil {
		return fmt.Errorf("Seek(%q): %w", key, err)
	}
	k, v, ok = tree.At(i)
	if err := sameEntry(m, i, k, v, ok); err != nil {
		return fmt.Errorf("At(%d): %w", i, err)
	}
	if !there {
		i--
	}
	k, v, ok = tree.SeekBack(key)
	if err := sameEntry(m, i, k, v, ok); err != nil {
		return fmt.Errorf("SeekBack(%q): %w", key, err)
	}
	return nil
}

// sameEntry compares a result with entry i of the model, which need not exist.
func sameEntry(m model, i int, k []byte, v int, ok bool) error {
	there := i >= 0 && i < len(m)
	if ok != there || ok && (!bytes.Equal(k, m[i].key) || v != m[i].val) {
		return fmt.Errorf("entry %d of %d is %q=%d, %v", i, len(m), k, v, ok)
	}
	return nil
}

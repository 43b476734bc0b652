package embedded

import (
	"errors"
	"io/fs"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/spill"
)

// A value of the tree that is marked is a spill.Ref to a value file; any other is the
// value itself. The log, the history and backups never have references: only the tree,
// its clones and snapshot files of the data folder do.

// values reads the values of one state. A state and its values belong together: the set
// has all files that the tree's references name. It is immutable; nil has no files.
type values struct {
	set *spill.Set
	s   *spiller
}

// files returns the set of files.
func (v *values) files() *spill.Set {
	if v == nil {
		return nil
	}
	return v.set
}

// content returns the bytes of a value in the tree. It is the only way from there to
// what a Tx returns.
func (v *values) content(key []byte, val btree.Value) ([]byte, error) {
	if !val.Marked {
		return val.Bytes, nil
	}
	return v.read(key, val.Bytes)
}

// read reads a value from its file.
func (v *values) read(key, ref []byte) ([]byte, error) {
	r, err := spill.ParseRef(ref)
	if err != nil || v == nil {
		panic("BUG: a marked value is not a reference to a file")
	}
	val, err := v.set.Read(key, r)
	if v.s != nil {
		v.s.reads.Add(1)
	}
	switch {
	case err == nil:
		return val, nil
	case errors.Is(err, fs.ErrClosed):
		return nil, engine.ErrClosed
	}
	if v.s != nil {
		v.s.damaged(key, r, err)
	}
	return nil, fileError("read a value", err)
}

// found returns the result of a Get.
func (v *values) found(key []byte, val btree.Value, ok bool) ([]byte, bool, error) {
	b, err := v.content(key, val)
	return b, ok && err == nil, err
}

func (v *values) pair(key []byte, val btree.Value) (engine.Pair, error) {
	b, err := v.content(key, val)
	if err != nil {
		return engine.Pair{}, err
	}
	return engine.Pair{Key: key, Val: b}, nil
}

func (v *values) at(t *btree.Pairs, lo, hi []byte, i int) (engine.Pair, bool, error) {
	if i < 0 || i >= count(t, lo, hi) {
		return engine.Pair{}, false, nil
	}
	key, val, _ := t.At(t.Rank(lo) + i)
	p, err := v.pair(key, val)
	return p, err == nil, err
}

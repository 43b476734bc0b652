package embedded

import (
	"context"
	"errors"
	"io"
	"iter"
	"path/filepath"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/spill"
)

// restoredValues moves the long values of a backup, and of the changes after it, to value
// files while they are read, so that the data can be larger than memory. Nil moves nothing.
type restoredValues struct {
	store *spill.Store
	w     *spill.Writer
	limit int
	due   map[string]bool // keys of changes with long values in memory
	bytes int             // of those values
}

// restoreSpilled is RestoreChanges into an empty folder with Options.SpillBytes.
func restoreSpilled(ctx context.Context, r io.Reader, after iter.Seq2[engine.Change, error], dir string, o Options) (Summary, error) {
	f, err := makeFolder(dir, o)
	if err != nil {
		return Summary{}, err
	}
	s, err := f.spilled(ctx, r, after, o)
	if err := f.end(err); err != nil {
		return Summary{}, err
	}
	sum := s.summary()
	for _, val := range s.tree.Ascend(nil, nil) {
		if val.Marked {
			r, _ := spill.ParseRef(val.Bytes) // it was made here
			sum.Bytes += int64(r.Len) - spill.RefBytes
		}
	}
	return sum, nil
}

// spilled fills the folder. The snapshot file makes the value files part of it.
func (f *newFolder) spilled(ctx context.Context, r io.Reader, after iter.Seq2[engine.Change, error], o Options) (s *snapshot, err error) {
	store, err := spill.Open(f.fs, filepath.Join(f.dir, valueDir), o.valueFileBytes)
	if err != nil {
		return nil, fileError("restore", err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	v := &restoredValues{store: store, w: store.NewWriter(), limit: int(o.SpillBytes), due: map[string]bool{}}
	if s, err = readChanges(ctx, r, after, v); err != nil {
		return nil, err
	}
	if err := v.move(s); err != nil {
		return nil, fileError("restore", err)
	}
	s.vals = &values{set: store.Set()}
	return s, f.save(ctx, s)
}

// pairs returns the pairs of a backup, with references instead of long values.
func (v *restoredValues) pairs(from iter.Seq2[pair, error], h head) iter.Seq2[pair, error] {
	if v == nil {
		return from
	}
	if h.refs {
		return func(yield func(pair, error) bool) { yield(pair{}, errNotWhole) }
	}
	return spillPairs(from, v.w, v.limit)
}

// changed is called after each change to s.
func (v *restoredValues) changed(s *snapshot, c engine.Change) error {
	if v == nil {
		return nil
	}
	for _, w := range c.Writes {
		if len(w.Val) > v.limit {
			v.due[string(w.Key)] = true
			v.bytes += len(w.Val)
		}
	}
	if v.bytes < spillStep {
		return nil
	}
	return v.move(s)
}

// move moves the values of the keys in due.
func (v *restoredValues) move(s *snapshot) error {
	var keys [][]byte
	for key := range v.due {
		key := []byte(key)
		val, ok := s.tree.Get(key)
		if !ok || val.Marked || len(val.Bytes) <= v.limit {
			continue // it has been written again
		}
		if err := v.w.Add(key, val.Bytes); err != nil {
			return err
		}
		keys = append(keys, key)
	}
	clear(v.due)
	v.bytes = 0
	refs, err := v.w.Flush()
	if err != nil {
		return err
	}
	for i, key := range keys {
		s.tree.Set(key, btree.Value{Bytes: refs[i].Append(nil), Marked: true})
		s.bytes -= int64(refs[i].Len) - spill.RefBytes
	}
	if v.w.Full() {
		v.w.Next()
	}
	return nil
}

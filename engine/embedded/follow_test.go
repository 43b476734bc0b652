package embedded

import (
	"encoding/binary"
	"testing"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
)

// TestWarmer applies random writes, many of them to the same keys, to a map that is large
// enough for keys to be looked up ahead, and compares it with one to which they were
// applied one by one.
func TestWarmer(t *testing.T) {
	rng := seed.Rand(t)
	tree := btree.NewPairs()
	for i := range aheadFrom + 1024 {
		tree.Set(binary.BigEndian.AppendUint64(nil, uint64(i)), btree.Value{Bytes: []byte{1}})
	}
	got, want := snapshot{tree: tree}, snapshot{tree: tree.Clone()}
	var m warmer
	for range 200 {
		writes := make([]engine.Write, rng.IntN(3*aheadKeys))
		for i := range writes {
			key := uint64(rng.IntN(aheadKeys)) << rng.IntN(13) // often the same; some are new
			writes[i] = engine.Write{Key: binary.BigEndian.AppendUint64(nil, key), Deleted: rng.IntN(3) == 0}
			if !writes[i].Deleted {
				writes[i].Val = make([]byte, rng.IntN(300))
				writes[i].Val = binary.AppendUvarint(writes[i].Val, rng.Uint64())
			}
		}
		m.apply(&got, writes, aheadFrom)
		for _, w := range writes {
			want.write(w.Key, w.Val, w.Deleted)
		}
	}
	if got.bytes != want.bytes || got.tree.Len() != want.tree.Len() || got.tree.Len() < aheadFrom {
		t.Fatalf("%d pairs, %d bytes; want %d, %d", got.tree.Len(), got.bytes, want.tree.Len(), want.bytes)
	}
	for key, v := range want.tree.Ascend(nil, nil) {
		if g, ok := got.tree.Get(key); !ok || !g.Equal(v) {
			t.Fatalf("key %x: %v %v, want %v", key, ok, g, v)
		}
	}
}

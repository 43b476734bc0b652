package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/spill"
)

// TestLoadInParts: a snapshot that is packed by several goroutines is the same as one that
// is read pair by pair, and so is the error of a bad one.
func TestLoadInParts(t *testing.T) {
	rng := seed.Rand(t)
	for range 6 {
		h := head{refs: rng.IntN(2) == 0}
		content := sortedPairs(rng, 1+rng.IntN(2000), &h)
		loadBoth(t, rng, content, h)
		h.pairs++
		loadBoth(t, rng, content, h) // too few
		h.pairs--
		loadBoth(t, rng, content[:rng.IntN(len(content))], h)
		loadBoth(t, rng, slices.Concat(content, content[:rng.IntN(min(len(content), 1<<10))]), h) // out of order, or too many
	}
}

// sortedPairs returns the content of a snapshot and completes its head.
func sortedPairs(rng *rand.Rand, pairs int, h *head) (content []byte) {
	ref := spill.Ref{File: 1, Off: 1 << 16, Len: 5}.Append(nil)
	for i := range pairs {
		p := pair{fmt.Appendf(nil, "%06d", i), btree.Value{Bytes: bytes.Repeat([]byte{byte(i)}, rng.IntN(1<<rng.IntN(12)))}}
		if h.refs && i%7 == 0 {
			p.val = btree.Value{Bytes: ref, Marked: true}
		}
		content = appendPair(content, p, h.refs)
	}
	h.pairs = uint64(pairs)
	return content
}

// loadBoth compares both ways to load, in random parts and whole.
func loadBoth(t *testing.T, rng *rand.Rand, content []byte, h head) {
	t.Helper()
	newState := func() *snapshot { return &snapshot{tree: btree.NewPairs(), uses: spill.Uses{}} }
	for _, r := range []io.Reader{bytes.NewReader(content), &pieces{bytes.NewReader(content), rng}, iotest.DataErrReader(bytes.NewReader(content))} {
		want, got := newState(), newState()
		wantErr := want.loadSpilled(readPairs(bytes.NewReader(content), h))
		err := got.load(r, h, nil)
		if wantErr != nil {
			if !errors.Is(err, errSnapshot) || order(err) != order(wantErr) || order(err) < 0 && err.Error() != wantErr.Error() {
				t.Fatalf("%d pairs in %d bytes: %v, want %v", h.pairs, len(content), err, wantErr)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := got.tree.Check(); err != nil {
			t.Fatal(err)
		}
		var a, b bytes.Buffer
		if err := errors.Join(got.writeRefs(&a, spill.Uses{}), want.writeRefs(&b, spill.Uses{})); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a.Bytes(), b.Bytes()) || got.bytes != want.bytes || !reflect.DeepEqual(got.uses, want.uses) {
			t.Fatalf("%d pairs: %d keys, %d bytes, %v; want %d, %d, %v", h.pairs, got.tree.Len(), got.bytes, got.uses, want.tree.Len(), want.bytes, want.uses)
		}
	}
}

// order returns the index of a pair that is out of order, or -1.
func order(err error) int {
	if o, ok := errors.AsType[*btree.OrderError](err); ok {
		return o.Index
	}
	return -1
}

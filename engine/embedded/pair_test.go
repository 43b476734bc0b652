package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/ci/seed"
)

// TestPairsInParts: pairs are read whole however a reader divides them, and a content that
// is cut, goes on or was not read to its end is an error after the pairs before.
func TestPairsInParts(t *testing.T) {
	rng := seed.Rand(t)
	readers := map[string]func(io.Reader) io.Reader{
		"whole":          func(r io.Reader) io.Reader { return r },
		"halves":         iotest.HalfReader,
		"with the error": iotest.DataErrReader,
		"pieces":         func(r io.Reader) io.Reader { return &pieces{r, rng} },
	}
	for range 6 {
		refs := rng.IntN(2) == 0
		content, ends := randomPairs(rng, refs)
		n := len(ends) - 1
		for name, wrap := range readers {
			check := func(content []byte, pairs, good int, want string) {
				t.Helper()
				got, err := readBack(readPairs(wrap(bytes.NewReader(content)), head{pairs: uint64(pairs), refs: refs}), refs)
				text := fmt.Sprint(err)
				if !bytes.Equal(got, content[:ends[good]]) || !strings.HasPrefix(text, want) {
					t.Fatalf("%s: %d bytes and %q, want the first %d pairs in %d bytes and %q", name, len(got), text, good, ends[good], want)
				}
			}
			check(content, n, n, "<nil>")
			check(content, n+1, n, fmt.Sprintf("pair %d of %d: malformed", n, n+1))
			cut := rng.IntN(n)
			check(content[:ends[cut]+rng.IntN(ends[cut+1]-ends[cut])], n, cut, fmt.Sprintf("pair %d of %d: malformed", cut, n))
			check(append(content[:ends[n]:ends[n]], 0xff, 0xff, 0xff, 0xff, 0xff), n, n, "after the last pair: malformed")
			failed := io.MultiReader(bytes.NewReader(content[:ends[cut]]), iotest.ErrReader(errors.New("bad disk")))
			if got, err := readBack(readPairs(wrap(failed), head{pairs: uint64(n), refs: refs}), refs); !bytes.Equal(got, content[:ends[cut]]) ||
				fmt.Sprint(err) != fmt.Sprintf("pair %d of %d: bad disk", cut, n) {
				t.Fatalf("%s: %d bytes and %v", name, len(got), err)
			}
			for range readPairs(wrap(bytes.NewReader(content)), head{pairs: uint64(n), refs: refs}) {
				break
			}
		}
	}
}

// randomPairs returns encoded pairs, some longer than a part, and where each begins, and
// the end of the last.
func randomPairs(rng *rand.Rand, refs bool) (content []byte, ends []int) {
	ends = []int{0}
	for range 1 + rng.IntN(20) {
		key, val := make([]byte, rng.IntN(300)), make([]byte, rng.IntN(1<<(1+rng.IntN(20))))
		for i := range key {
			key[i] = byte(rng.Uint32())
		}
		if len(val) > 0 {
			val[len(val)-1] = byte(rng.Uint32())
		}
		content = appendPair(content, pair{key, btree.Value{Bytes: val, Marked: refs && rng.IntN(2) == 0}}, refs)
		ends = append(ends, len(content))
	}
	return content, ends
}

// readBack encodes the pairs again, before the next one is read.
func readBack(pairs iter.Seq2[pair, error], refs bool) (b []byte, err error) {
	for p, err := range pairs {
		if err != nil {
			return b, err
		}
		b = appendPair(b, p, refs)
	}
	return b, nil
}

// pieces reads random parts of what is asked for.
type pieces struct {
	io.Reader
	rng *rand.Rand
}

func (p *pieces) Read(b []byte) (int, error) {
	return p.Reader.Read(b[:min(len(b), 1+p.rng.IntN(1<<(1+p.rng.IntN(18))))])
}

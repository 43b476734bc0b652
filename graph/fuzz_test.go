package graph

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph/value"
)

// FuzzRecord reads damaged records: a reader returns CodeCorrupt, and never panics or
// reads more than is there.
func FuzzRecord(f *testing.F) {
	for _, val := range goldenValues() {
		for _, own := range []any{nil, "own"} {
			rec := &vertexRecord{labels: []uint64{1, 300}, id: own, next: 9, props: []vertexProp{{1, 8, val, []prop{{2, val}}}}}
			b, err := rec.encode()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
			if b, err = (&edgeRecord{own, []prop{{3, val}}}).encode(); err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for num := range uint64(2) {
			if rec, err := (&Vertex{t: begin(nil, 1, false), num: 2 | num}).parse(b); err == nil {
				wantStable(t, rec.encode)
			} else if engine.CodeOf(err) != engine.CodeCorrupt {
				t.Errorf("the error is %v", err)
			}
			if rec, err := (&Edge{t: begin(nil, 1, false), num: 2 | num}).parseRecord(b); err == nil {
				wantStable(t, rec.encode)
			} else if engine.CodeOf(err) != engine.CodeCorrupt {
				t.Errorf("the error is %v", err)
			}
		}
		skip, read := reader{b: b}, reader{b: b}
		skip.skip(0)
		if read.value(0); !read.bad && (skip.bad || len(skip.b) != len(read.b)) {
			t.Errorf("skip leaves %x (%v), value %x", skip.b, skip.bad, read.b)
		}
	})
}

// wantStable checks that what was read can be written.
func wantStable(t *testing.T, encode func() ([]byte, error)) {
	t.Helper()
	if _, err := encode(); err != nil && engine.CodeOf(err) != engine.CodeLimit {
		t.Errorf("what was read cannot be written: %v", err)
	}
}

// someValue returns the value that bytes describe.
func someValue(r *rand.Rand, depth int) any {
	if depth < 3 {
		switch r.IntN(12) {
		case 0, 1:
			items := make([]any, r.IntN(4))
			for i := range items {
				items[i] = someValue(r, depth+1)
			}
			if r.IntN(2) == 0 {
				return value.NewSet(items...)
			}
			return value.List(items)
		case 2:
			return value.MapOf(someValue(r, depth+1), someValue(r, depth+1), "k", someValue(r, depth+1))
		}
	}
	text := make([]byte, r.IntN(300)*r.IntN(2))
	for i := range text {
		text[i] = byte(r.IntN(3) * r.IntN(100))
	}
	digits := new(big.Int).Mul(big.NewInt(r.Int64()), big.NewInt(r.Int64()))
	digits.Rsh(digits, uint(r.IntN(130)))
	if r.IntN(2) == 0 {
		digits.Neg(digits)
	}
	return []any{
		nil, r.IntN(2) == 0, int8(r.Uint64()), int16(r.Uint64()), int32(r.Uint64()), int64(r.Uint64() >> r.IntN(64)), digits,
		math.Float32frombits(r.Uint32()), math.Float64frombits(r.Uint64()), float64(r.IntN(1000)) / 4, value.Decimal{Unscaled: digits, Scale: int32(r.IntN(100) - 50)},
		string(text), text, value.Char(r.IntN(maxRune + 1)), value.UUID{byte(r.Uint32()), 15: byte(r.Uint32())},
		time.Unix(int64(r.Uint64()>>20)-1<<43, int64(r.IntN(1e9))).In(time.FixedZone("", r.IntN(86400)-43200)),
		value.Duration{Seconds: int64(r.Uint64()), Nanos: int32(r.IntN(1e9))},
	}[r.IntN(17)]
}

// FuzzValue stores random values and reads them.
func FuzzValue(f *testing.F) {
	for i := range uint64(50) {
		f.Add(i)
	}
	f.Fuzz(func(t *testing.T, from uint64) {
		v := someValue(rand.New(rand.NewPCG(from, 0)), 0)
		b, err := appendValue([]byte("x"), v, 0)
		if err != nil {
			t.Fatalf("store %#v: %v", v, err)
		}
		r := reader{b: b[1:]}
		got := r.value(0)
		if r.bad || len(r.b) != 0 || !sameValue(got, v) || value.Text(got) != value.Text(v) {
			t.Errorf("stored %#v, read %#v", v, got)
		}
		s := reader{b: b[1:]}
		if s.skip(0); s.bad || len(s.b) != 0 {
			t.Errorf("skip leaves %x of %#v", s.b, v)
		}
		for n := range len(b) - 1 { // what is cut off is not read
			cut := reader{b: b[1 : 1+n]}
			if cut.value(0); !cut.bad {
				t.Errorf("of %#v, %d bytes are read as a value", v, n)
			}
		}
	})
}

// FuzzNumber checks that numbers have one form, and the order of their bytes.
func FuzzNumber(f *testing.F) {
	for _, n := range []uint64{0, 127, 128, 1<<14 - 1, 1 << 14, 1<<21 - 1, 1 << 21, 1<<49 - 1, 1 << 49, 1<<56 - 1, 1 << 56, 1 << 63, math.MaxUint64} {
		f.Add(n, n-1, appendNumber(nil, n))
		f.Add(n, n+1, []byte{255})
	}
	f.Fuzz(func(t *testing.T, a, b uint64, raw []byte) {
		x, y := appendNumber(nil, a), appendNumber(nil, b)
		if c := bytes.Compare(x, y); c != compareUint(a, b) {
			t.Errorf("%d and %d are in order %d", a, b, c)
		}
		if n, rest, ok := number(append(x, 7)); n != a || len(rest) != 1 || !ok {
			t.Errorf("%d is read as %d", a, n)
		}
		if n, rest, ok := number(raw); ok && !bytes.Equal(append(appendNumber(nil, n), rest...), raw) {
			t.Errorf("%x is read as %d, which has another form", raw, n)
		}
	})
}

func compareUint(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// FuzzIndexKey checks that the keys of values of a type have the order of the values,
// that equal values have the same key, and that keys can be skipped.
func FuzzIndexKey(f *testing.F) {
	for i := range uint64(50) {
		f.Add(i, i*7)
	}
	f.Fuzz(func(t *testing.T, from, other uint64) {
		a, b := someValue(rand.New(rand.NewPCG(from, 0)), 3), someValue(rand.New(rand.NewPCG(other, 0)), 3)
		wantKeyOrder(t, a, b)
	})
}

func wantKeyOrder(t *testing.T, a, b any) {
	t.Helper()
	x, ok := AppendIndexKey([]byte("p"), a)
	y, also := AppendIndexKey([]byte("p"), b)
	if !ok || !also {
		return
	}
	c := bytes.Compare(x, y)
	if o := value.Order(a, b); c != 0 && c != o {
		t.Errorf("%#v and %#v are in order %d, and their keys in order %d", a, b, o, c)
	}
	if value.Equal(a, b) != (c == 0) && (c != 0 || distinct(a) && distinct(b)) {
		t.Errorf("%#v and %#v: equal is %v, and their keys are in order %d", a, b, value.Equal(a, b), c)
	}
	if rest := skipIndexKey(append(x[1:], "rest"...)); string(rest) != "rest" {
		t.Errorf("after %#v comes %q", a, rest)
	}
	if len(x) > 1+1+indexText+1+2 {
		t.Errorf("the key of %#v has %d bytes", a, len(x))
	}
}

// distinct reports whether no different value has the key of v.
func distinct(v any) bool {
	if s, ok := v.(string); ok {
		return len(s) < indexText/2
	}
	n, ok := value.Int(v)
	return ok && n < 1<<53 && n > -1<<53 || !value.IsNumber(v)
}

// TestIndexKeyOrder compares all pairs of values at which something changes.
func TestIndexKeyOrder(t *testing.T) {
	vals := append(modelValues(), goldenValues()...)
	for _, n := range []int64{0, 1, 1 << 53, 1<<53 + 1, math.MaxInt64, math.MinInt64, -1 << 53} {
		vals = append(vals, n, float64(n), -float64(n), float32(n), new(big.Int).Mul(big.NewInt(n), big.NewInt(4)), value.Decimal{Unscaled: big.NewInt(n), Scale: 3})
	}
	r := seed.Rand(t)
	for range 200 {
		vals = append(vals, someValue(r, 3))
	}
	for _, a := range vals {
		for _, b := range vals {
			wantKeyOrder(t, a, b)
		}
	}
}

// TestLongestKey checks that the longest key of an index fits.
func TestLongestKey(t *testing.T) {
	d := open(t)
	ix := Index{On: value.KindEdge}
	for i := range MaxIndexKeys {
		ix.Keys = append(ix.Keys, fmt.Sprint("k", i))
	}
	if err := d.AddIndex(t.Context(), Default, ix); err != nil {
		t.Fatal(err)
	}
	mustUpdate(t, d, Default, func(tx *Tx) error {
		v, err := tx.AddVertex(nil, int64(ownIDs-1))
		if err != nil {
			return err
		}
		e, err := tx.AddEdge("e", v, v, nil)
		for _, k := range ix.Keys {
			if err == nil {
				err = e.Set(k, string(make([]byte, 2*indexText)))
			}
		}
		return err
	})
	mustCheck(t, d)
	longest := 0
	mustView(t, d, Default, func(tx *Tx) error {
		for p, err := range tx.tx.Scan(within(tx.prefix)) {
			if err != nil {
				return err
			}
			longest = max(longest, len(p.Key))
		}
		return nil
	})
	if room := longest + 4*9; longest < 1600 || room > maxKeyBytes {
		t.Errorf("the longest key has %d bytes", longest)
	}
}

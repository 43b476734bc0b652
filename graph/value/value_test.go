package value

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
)

// some returns a random value: few different ones, so that many are equal.
func some(r *rand.Rand, depth int) any {
	n := int64(r.IntN(4) - 1)
	big53 := n + 1<<53
	d := Decimal{big.NewInt(n * 10), 1}
	switch r.IntN(2) {
	case 0:
		d = Decimal{big.NewInt(n * 25), int32(r.IntN(5) - 2)}
	case 1:
		d = Decimal{big.NewInt(n), int32(r.IntN(3) * -400)}
	}
	plain := []any{
		nil, n == 0, int8(n), int16(n), int32(n), n, big.NewInt(n), float32(n), float64(n), d, float64(n) / 4, float32(n) / 4, big53, float64(big53),
		new(big.Int).Lsh(big.NewInt(n), 63), math.Ldexp(float64(n), 63), math.NaN(), float32(math.NaN()), math.Inf(int(n)), float32(math.Inf(int(n))), math.Copysign(0, -1), 0.1, float32(0.1), math.MaxFloat64,
		string(rune('a' + n)), Char('a' + n), UUID{byte(n)}, time.Unix(n, 5).UTC(), time.Unix(n, 5).In(time.FixedZone("", 3600)), Duration{n, 5}, []byte{byte(n)}, Enum{KindT, "id"},
		&Vertex{ID: n}, &Vertex{ID: float64(n)}, &Edge{ID: n, Out: &Vertex{}, In: &Vertex{}}, &VertexProperty{ID: n, Key: "k"}, &Property{Key: "k", Val: n},
	}
	if depth >= 2 || r.IntN(4) > 0 {
		return plain[r.IntN(len(plain))]
	}
	items := make([]any, r.IntN(3))
	for i := range items {
		items[i] = some(r, depth+1)
	}
	bulk := &BulkSet{}
	for _, v := range items {
		bulk.Add(v, int64(1+r.IntN(2)))
	}
	deep := []any{
		List(items), NewSet(items...), MapOf("k", some(r, depth+1)), MapOf(items...), bulk, Entry{"k", some(r, depth+1)},
		&Path{Objects: items, Labels: make([][]string, len(items))}, &Property{Key: "k", Val: some(r, depth+1)},
	}
	return append(plain, deep...)[r.IntN(len(plain)+len(deep))]
}

// TestOrder checks that Order is a total order of random values, and that Compare
// agrees with it.
func TestOrder(t *testing.T) {
	r := seed.Rand(t)
	for range 5_000 {
		a, b, c := some(r, 0), some(r, 0), some(r, 0)
		ab, ba, bc, ac := Order(a, b), Order(b, a), Order(b, c), Order(a, c)
		if ab != -ba {
			t.Fatalf("Order(%#v, %#v) is %d, and the other way round %d", a, b, ab, ba)
		}
		if Order(a, a) != 0 {
			t.Fatalf("Order(%#v) with itself is %d", a, Order(a, a))
		}
		if ab <= 0 && bc <= 0 && ac > 0 || ab <= 0 && bc <= 0 && ac == 0 && (ab != 0 || bc != 0) {
			t.Fatalf("%#v, %#v and %#v are in order %d, %d and %d", a, b, c, ab, bc, ac)
		}
		if got, ok := Compare(a, b); ok && got != ab {
			t.Fatalf("Compare(%#v, %#v) is %d, and Order is %d", a, b, got, ab)
		}
	}
}

// TestEqualAndHash checks that equal values have the same hash but for the types of
// numbers, and are equal in order, and that a value equals itself unless it is or has NaN.
func TestEqualAndHash(t *testing.T) {
	r := seed.Rand(t)
	for range 5_000 {
		a, b := some(r, 0), some(r, 0)
		equal, same := Equal(a, b), EqualHash(a) == EqualHash(b)
		if equal && !same || same && !equal && !hasNaN(a) {
			t.Fatalf("%#v and %#v are equal: %v, and have the same hash: %v", a, b, equal, same)
		}
		if same && Order(a, b) != 0 {
			t.Fatalf("%#v and %#v have the same hash, and are in order %d", a, b, Order(a, b))
		}
		if IsNumber(a) && IsNumber(b) && !same && Order(a, b) == 0 {
			t.Fatalf("%#v and %#v are the same in order, and have different hashes", a, b)
		}
		if Hash(a) == Hash(b) && !same {
			t.Fatalf("%#v and %#v have the same Hash, and different ones of EqualHash", a, b)
		}
		if Equal(a, a) == hasNaN(a) {
			t.Fatalf("%#v equals itself: %v", a, Equal(a, a))
		}
		if string(AppendHash([]byte("x"), a)) != "x"+Hash(a) {
			t.Fatalf("AppendHash of %#v is not Hash", a)
		}
	}
}

// TestNumberTypes: numbers that differ only in their types are equal, and not the same.
func TestNumberTypes(t *testing.T) {
	ones := []any{int8(1), int16(1), int32(1), int64(1), big.NewInt(1), float32(1), 1.0, Decimal{big.NewInt(10), 1}}
	set := NewSet(ones...)
	if set.Len() != len(ones) {
		t.Errorf("%d of %d are in the set", set.Len(), len(ones))
	}
	for i, a := range ones {
		for j, b := range ones {
			for _, pair := range [][2]any{{a, b}, {List{"x", a}, List{"x", b}}, {NewSet(a), NewSet(b)}, {MapOf("k", a), MapOf("k", b)}} {
				if !Equal(pair[0], pair[1]) {
					t.Errorf("%#v and %#v are not equal", pair[0], pair[1])
				}
				if (Hash(pair[0]) == Hash(pair[1])) != (i == j) {
					t.Errorf("%#v and %#v are the same: %v", pair[0], pair[1], i != j)
				}
			}
		}
	}
	if !Equal(&Vertex{ID: int32(1)}, &Vertex{ID: int64(1)}) || Hash(&Vertex{ID: int32(1)}) != Hash(&Vertex{ID: int64(1)}) {
		t.Error("vertices are not the same by the value of their ids")
	}
}

// TestWiden: a number gets the type that its sum with another one would have.
func TestWiden(t *testing.T) {
	ones := []any{int8(1), int16(1), int32(1), int64(1), big.NewInt(1), float32(1), 1.0, Decimal{big.NewInt(1), 0}}
	zeros := []any{int8(0), int16(0), int32(0), int64(0), new(big.Int), float32(0), 0.0, Decimal{new(big.Int), 0}}
	for _, a := range ones {
		for _, b := range zeros {
			want, err := Calc(Add, a, b)
			if got := Widen(a, b); err != nil || TypeName(got) != TypeName(want) || !Equal(got, a) {
				t.Errorf("%#v beside %#v is %#v, want %#v, %v", a, b, got, want, err)
			}
		}
	}
}

func TestHugeDecimals(t *testing.T) {
	huge, tiny := Decimal{big.NewInt(1), -math.MaxInt32}, Decimal{big.NewInt(1), math.MaxInt32}
	minus := Decimal{big.NewInt(-1), -math.MaxInt32}
	for i, v := range []any{minus, int64(-1), int64(0), tiny, int64(1), huge} {
		for j, w := range []any{minus, int64(-1), int64(0), tiny, int64(1), huge} {
			if got, want := Order(v, w), compareOrdered(i, j); got != want {
				t.Errorf("%d and %d are in order %d, want %d", i, j, got, want)
			}
			if Equal(v, w) != (i == j) {
				t.Errorf("%d and %d are equal: %v", i, j, Equal(v, w))
			}
		}
	}
}

func TestCalc(t *testing.T) {
	dec := func(text string) Decimal {
		d, err := ParseDecimal(text)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	large := new(big.Int).Lsh(big.NewInt(1), 70)
	for _, c := range []struct {
		op   *Operation
		a, b any
		want any // nil: an error
	}{
		{Add, int8(100), int8(27), int8(127)},
		{Add, int8(100), int8(28), int16(128)},
		{Add, int16(math.MaxInt16), int8(1), int32(1 << 15)},
		{Add, int32(math.MaxInt32), int32(1), int64(1 << 31)},
		{Add, int64(math.MaxInt64), int64(1), nil},
		{Add, int64(math.MinInt64), int64(-1), nil},
		{Add, int64(math.MinInt64), int64(math.MaxInt64), int64(-1)},
		{Sub, int64(math.MinInt64), int64(1), nil},
		{Sub, int64(0), int64(math.MinInt64), nil},
		{Sub, int64(-1), int64(math.MinInt64), int64(math.MaxInt64)},
		{Sub, int8(-128), int8(1), int16(-129)},
		{Mul, int64(math.MinInt64), int64(-1), nil},
		{Mul, int64(-1), int64(math.MinInt64), nil},
		{Mul, int64(1 << 32), int64(1 << 31), nil},
		{Mul, int64(1 << 32), int64(-1 << 31), int64(math.MinInt64)},
		{Mul, int32(1 << 20), int32(1 << 20), int64(1 << 40)},
		{Mul, int64(0), int64(math.MinInt64), int64(0)},
		{Div, int64(math.MinInt64), int64(-1), nil},
		{Div, int8(-128), int8(-1), int16(128)},
		{Div, int32(7), int32(2), int32(3)},
		{Div, int32(-7), int64(2), int64(-3)},
		{Div, int32(1), int32(0), nil},
		{Div, 1.0, int32(0), math.Inf(1)},
		{Div, large, big.NewInt(0), nil},
		{Div, dec("1"), dec("0.0"), nil},
		{Div, dec("1"), dec("4"), dec("0.25")},
		{Div, dec("1"), dec("3"), dec("0.3333333333333333333333333333333333")},
		{Add, large, int64(1), new(big.Int).Add(large, big.NewInt(1))},
		{Add, int32(1), float32(0.5), float32(1.5)},
		{Add, int64(1), float32(0.5), 1.5},
		{Add, float32(1), 0.5, 1.5},
		{Add, large, 0.5, dec("1180591620717411303424.5")},
		{Add, dec("0.10"), int32(1), dec("1.10")},
		{Add, dec("1"), math.Inf(1), math.Inf(1)},
		{Mul, dec("1.5"), dec("1.5"), dec("2.25")},
		{Add, nil, int32(1), int32(1)},
		{Sub, int32(1), nil, int32(1)},
		{Add, "a", int32(1), nil},
		{Mul, new(big.Int).Lsh(big.NewInt(1), 20_000), new(big.Int).Lsh(big.NewInt(1), 20_000), nil},
	} {
		got, err := Calc(c.op, c.a, c.b)
		switch {
		case c.want == nil && err == nil:
			t.Errorf("%s of %v and %v is %v, want an error", c.op.name, c.a, c.b, got)
		case c.want != nil && err != nil:
			t.Errorf("%s of %v and %v: %v", c.op.name, c.a, c.b, err)
		case c.want != nil && (TypeName(got) != TypeName(c.want) || Text(got) != Text(c.want)):
			t.Errorf("%s of %v and %v is %s %v, want %s %v", c.op.name, c.a, c.b, TypeName(got), Text(got), TypeName(c.want), Text(c.want))
		}
	}
}

// TestCalcInts compares arithmetic of random integers with that of math/big.
func TestCalcInts(t *testing.T) {
	r := seed.Rand(t)
	edge := func() int64 {
		n := int64(r.Uint64() >> r.IntN(64))
		return []int64{n, -n, math.MaxInt64 - int64(r.IntN(3)), math.MinInt64 + int64(r.IntN(3)), int64(r.IntN(3) - 1)}[r.IntN(5)]
	}
	for range 5_000 {
		a, b := edge(), edge()
		x, y := big.NewInt(a), big.NewInt(b)
		for op, want := range map[*Operation]*big.Int{Add: new(big.Int).Add(x, y), Sub: new(big.Int).Sub(x, y), Mul: new(big.Int).Mul(x, y)} {
			got, err := Calc(op, a, b)
			if want.IsInt64() != (err == nil) || err == nil && got != any(want.Int64()) {
				t.Fatalf("%s of %d and %d is %v, %v, want %s", op.name, a, b, got, err, want)
			}
		}
	}
}

func TestCollections(t *testing.T) {
	s := NewSet(int32(1), 1.0, "a", math.NaN(), math.NaN())
	if s.Len() != 4 || !s.Has(1.0) || s.Has(int64(1)) || s.Has("b") {
		t.Errorf("the set is %s", Text(s))
	}
	m := MapOf("b", 1.0, "a", 2.0, "b", 3.0)
	if Text(m) != "{b=3.0, a=2.0}" || Text(m.Without(func(key any) bool { return key == "b" })) != "{a=2.0}" {
		t.Errorf("the map is %s", Text(m))
	}
	b := &BulkSet{}
	b.Add("x", 2)
	b.Add("y", 1)
	b.Add("x", 1)
	if b.Len() != 4 || b.Different() != 2 || Text(b) != "[x, x, x, y]" || !Equal(b, List{"x", "x", "x", "y"}) {
		t.Errorf("the bulk set is %s", Text(b))
	}
	b.Add("z", 1<<60)
	if n := len(Text(b)); n > MaxTextBytes+100 {
		t.Errorf("the text of a large bulk set has %d bytes", n)
	}
	tree := &Tree{}
	tree.Child("a").Child("b")
	if tree.Child("a").Child("c"); Text(tree) != "{a={b={}, c={}}}" {
		t.Errorf("the tree is %s", Text(tree))
	}
}

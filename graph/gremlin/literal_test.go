package gremlin

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/graph/value"
)

func enum(kind, name string) value.Enum { return value.Enum{Kind: kind, Name: name} }

func decimal(t *testing.T, s string) value.Decimal {
	t.Helper()
	d, err := value.ParseDecimal(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func bigInt(s string) *big.Int {
	n, _ := new(big.Int).SetString(s, 10)
	return n
}

// argument parses one argument.
func argument(text string, bindings *value.Map) (any, error) {
	q, err := Parse("g.inject("+text+")", bindings)
	if err != nil {
		return nil, err
	}
	if args := q.Traversal.Steps[0].Args; len(args) == 1 {
		return args[0], nil
	}
	return nil, fmt.Errorf("%s is not one argument", text)
}

func TestLiterals(t *testing.T) {
	at := func(offset int) time.Time {
		return time.Date(2020, 1, 2, 3, 4, 5, 0, time.FixedZone("", offset))
	}
	for text, want := range map[string]any{
		"null": nil, "true": true, "false": false,
		"1b": int8(1), "-128B": int8(-128), "1s": int16(1), "32767S": int16(32767), "7i": int32(7), "+7I": int32(7), "7l": int64(7),
		"0": int32(0), "-0": int32(0), "2147483647": int32(math.MaxInt32), "2147483648": int64(1 << 31), "-2147483648": int32(math.MinInt32),
		"9223372036854775807": int64(math.MaxInt64), "-9223372036854775808": int64(math.MinInt64),
		"9223372036854775808": bigInt("9223372036854775808"), "12n": bigInt("12"), "-12N": bigInt("-12"),
		"0x1f": int32(31), "0X1F": int32(31), "0x1b": int32(27), "0xffL": int64(255), "0x7s": int16(7), "0xFFFFFFFF": int64(math.MaxUint32),
		"-0x10": int32(-16), "0xf_f": int32(255), "010": int32(8), "0_7": int32(7), "010L": int64(8), "1_000": int32(1000), "1__0": int32(10),
		"1.5": 1.5, "1.5d": 1.5, "1D": 1.0, "01.5": 1.5, "1.5f": float32(1.5), "1F": float32(1), ".5": .5, "-.5f": float32(-.5),
		"1e3": 1000.0, "1E-3": .001, "1.5e+3d": 1500.0, "1_0.2_5": 10.25, "-0.0": math.Copysign(0, -1), "9d": 9.0,
		"1.50m": decimal(t, "1.50"), "1M": decimal(t, "1"), "-1e3m": decimal(t, "-1e3"),
		"NaN": math.NaN(), "Infinity": math.Inf(1), "+Infinity": math.Inf(1), "-Infinity": math.Inf(-1),
		`'a'`: "a", `"a"`: "a", `''`: "", `""`: "", `'"'`: `"`, `"'"`: "'", "'a\nb'": "a\nb",
		`"\b\t\n\f\r\"\'\\"`: "\b\t\n\f\r\"'\\", `"\u00e9\uuu00E9\xe9"`: "ééé", `"\uD83D\uDE00"`: "😀", "\"a\\\nb\"": "ab", "'a\\\r\nb'": "ab",
		`"\7\101\377\400"`: "\aA\u00ff\x200", `'${x} $y'`: "${x} $y", `"a"c`: value.Char('a'), `'é'c`: value.Char('é'),
		"datetime('2020-01-02T03:04:05Z')":             at(0),
		"datetime('2020-01-02T03:04:05')":              at(0),
		"DateTime('2020-01-02T03:04:05+02:00')":        at(7200),
		"datetime('2020-01-02T03:04:05-0330')":         at(-12600),
		"datetime('2020-01-02')":                       time.Date(2020, 1, 2, 0, 0, 0, 0, time.UTC),
		"datetime(\"2020-01-02T03:04:05.123456Z\")":    at(0).Add(123456 * time.Microsecond),
		"UUID('00010203-0405-0607-0809-0a0b0c0d0e0f')": value.UUID{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
		"Duration(5, 7)":                               value.Duration{Seconds: 5, Nanos: 7},
		"Duration(5, 7, true)":                         value.Duration{Seconds: 5, Nanos: 7},
		"Duration(5, 7, false)":                        value.Duration{Seconds: -6, Nanos: 999_999_993},
		"Duration(5, 0, false)":                        value.Duration{Seconds: -5},
		"Binary('AAH/')":                               []byte{0, 1, 255},
		"[1,2]":                                        value.List{int32(1), int32(2)},
		"{1,'a'}":                                      value.NewSet(int32(1), "a"),
		"[a:1,(T.id):[]]":                              value.MapOf("a", int32(1), value.ID, value.List{}),
		"1..3":                                         value.List{int32(1), int32(2), int32(3)},
		"2L..1":                                        value.List{int64(2), int64(1)},
		"'a'..'c'":                                     value.List{"a", "b", "c"},
		"new Vertex(1,'person')":                       &value.Vertex{ID: int32(1), Label: "person"},
		"ReferenceVertex('x','y')":                     &value.Vertex{ID: "x", Label: "y"},
		"new AStrategy":                                Strategy{Name: "AStrategy"},
		"AStrategy":                                    Class("AStrategy"),
		"AStrategy(a:1)":                               Strategy{"AStrategy", value.MapOf("a", int32(1))},
		"single(1)":                                    Cardinal{value.Single, int32(1)},
		"Cardinality.list('a')":                        Cardinal{value.ListOf, "a"},
		"WithOptions.tokens":                           "~tinkerpop.valueMap.tokens",
		"WithOptions.all":                              int32(15),
		"INT":                                          enum(value.KindGType, "INT"),
		"gt(1)":                                        &P{"gt", []any{int32(1)}},
		"P.within([1,2])":                              &P{"within", []any{int32(1), int32(2)}},
		"not(lt(1).or(gt(2)))":                         &P{"not", []any{&P{"or", []any{&P{"lt", []any{int32(1)}}, &P{"gt", []any{int32(2)}}}}}},
		"out('a').in()":                                &Traversal{Steps: []Call{{Name: "out", Args: []any{"a"}}, {Name: "in"}}},
		"__.id()":                                      &Traversal{Steps: []Call{{Name: "id"}}},
	} {
		got, err := argument(text, nil)
		if err != nil || !same(got, want) {
			t.Errorf("%s is read as %#v, %v, want %#v", text, got, err, want)
		}
	}
}

func TestEnums(t *testing.T) {
	alone := map[string]bool{}
	for kind, names := range value.Enums() {
		for _, name := range names {
			want := enum(kind, name)
			for _, text := range []string{name, kind + "." + name} {
				if got, err := argument(text, nil); err != nil || got != want {
					t.Errorf("%s is read as %v, %v", text, got, err)
				}
			}
			if alone[name] {
				t.Errorf("%s is a name of two enumerations", name)
			}
			alone[name] = true
		}
	}
	for text, want := range map[string]value.Enum{
		"Direction.from": value.Out, "Direction.to": value.In, "from": value.Out, "to": value.In,
		"Order.incr": value.Asc, "decr": value.Desc, "VertexProperty.Cardinality.single": value.Single,
	} {
		if got, err := argument(text, nil); err != nil || got != want {
			t.Errorf("%s is read as %v, %v", text, got, err)
		}
	}
}

// With parentheses, the names of constants are calls.
func TestConstantOrCall(t *testing.T) {
	for _, name := range strings.Fields("id label key value keys values all any none local sum min max and or from to outV inV") {
		got, err := argument(name+"()", nil)
		if want := (&Traversal{Steps: []Call{{Name: name}}}); err != nil || !same(got, want) {
			t.Errorf("%s() is read as %v, %v", name, got, err)
		}
	}
}

func TestBindings(t *testing.T) {
	inner := &Traversal{Steps: []Call{{Name: "out", Pos: NoPos}}}
	b := value.MapOf("x", "g.V().drop()')", "t", inner, "p", &P{"gt", []any{int32(1)}}, "l", value.List{int32(1)}, "id", "unused", "INT", int32(3), "n", nil)
	for text, want := range map[string]any{
		"x": "g.V().drop()')", "t": inner, "p": &P{"gt", []any{int32(1)}}, "n": nil, "id": value.ID, "INT": int32(3),
		"[x, l]":      value.List{"g.V().drop()')", value.List{int32(1)}},
		"[x: x]":      value.MapOf("x", "g.V().drop()')"),
		"[(x): 1]":    value.MapOf("g.V().drop()')", int32(1)),
		"within(l)":   &P{"within", []any{int32(1)}},
		"lt(1).or(p)": &P{"or", []any{&P{"lt", []any{int32(1)}}, &P{"gt", []any{int32(1)}}}},
		"not(p)":      &P{"not", []any{&P{"gt", []any{int32(1)}}}},
		"not(t)":      &Traversal{Steps: []Call{{Name: "not", Args: []any{inner}}}},
	} {
		if got, err := argument(text, b); err != nil || !same(got, want) {
			t.Errorf("%s is read as %v, %v", text, got, err)
		}
	}
	_, err := argument("missing", b)
	if err == nil || !strings.Contains(err.Error(), "unknown variable missing") {
		t.Errorf("the error of an unknown variable is %v", err)
	}
}

// A predicate that was bound must not be changed by a text that extends it.
func TestBindingsStay(t *testing.T) {
	p := &P{"and", append(make([]any, 0, 8), &P{"gt", []any{int32(1)}}, &P{"lt", []any{int32(9)}})}
	if _, err := argument("eq(1).and(p).and(neq(2)).or(p)", value.MapOf("p", p)); err != nil {
		t.Fatal(err)
	}
	if got := p.String(); got != "P.gt(1).and(P.lt(9))" || p.Args[:3][2] != nil {
		t.Errorf("the bound predicate is now %s", got)
	}
}

func TestNowAndRandom(t *testing.T) {
	now := time.Date(2020, 1, 2, 3, 4, 5, 6_000_000, time.UTC)
	p := &parser{
		scan: scanner{text: "g.inject(datetime(), UUID())"},
		now:  func() time.Time { return now }, rand: strings.NewReader(strings.Repeat("\xff", 16)),
	}
	if err := p.advance(); err != nil {
		t.Fatal(err)
	}
	q, err := p.query()
	want := `g.inject(datetime("2020-01-02T03:04:05.006Z"), UUID("ffffffff-ffff-4fff-bfff-ffffffffffff"))`
	if err != nil || q.String() != want {
		t.Errorf("read as %v, %v", q, err)
	}
	if _, err := Parse("g.inject(datetime(), UUID())", nil); err != nil {
		t.Error(err)
	}
}

func TestPositions(t *testing.T) {
	q, err := Parse("g.with('é').\n V(1).where( out() )", nil)
	if err != nil {
		t.Fatal(err)
	}
	steps := q.Traversal.Steps
	inner := steps[1].Args[0].(*Traversal).Steps[0]
	if q.Traversal.Source[0].Pos != 2 || steps[0].Pos != 15 || steps[1].Pos != 20 || inner.Pos != 27 {
		t.Errorf("positions are %d, %d, %d, %d", q.Traversal.Source[0].Pos, steps[0].Pos, steps[1].Pos, inner.Pos)
	}
	_, err = Parse("g.V('é').\n  has('é', %)", nil)
	want := SyntaxError{Pos: 23, Line: 2, Col: 12, Msg: "operators are not supported: found %"}
	var bad *SyntaxError
	if !errors.As(err, &bad) || *bad != want {
		t.Errorf("the error is %#v", err)
	}
}

// What has no literal is printed as what Parse refuses.
func TestPrintWithoutLiteral(t *testing.T) {
	edge := &value.Edge{ID: int32(1)}
	for _, v := range []any{edge, value.Entry{}, &value.BulkSet{}, &value.Path{}, &value.Graph{}, struct{}{}} {
		text := ArgText(v)
		if q, err := argument(text, nil); err == nil {
			t.Errorf("%T is printed as %s, which is read as %v", v, text, q)
		}
	}
	if got := (Call{Name: "out", Args: []any{"a", edge}}).String(); got != `out("a", <an edge>)` {
		t.Errorf("a call is printed as %s", got)
	}
	t1 := &Traversal{Source: []Call{{Name: "withPath"}}, Steps: []Call{{Name: "V"}}}
	if got := t1.String() + " " + ArgText(t1); got != "g.withPath().V() __.withPath().V()" {
		t.Errorf("got %s", got)
	}
	if got := ArgText(float32(math.Inf(-1))); got != "-Infinity" {
		t.Errorf("got %s", got)
	}
}

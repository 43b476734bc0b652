package schema

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/record/value"
)

func codec(tb testing.TB) *Codec[order] {
	tb.Helper()
	c, err := Of[order]("orders")
	if err != nil {
		tb.Fatal(err)
	}
	k, err := c.Compile()
	if err != nil {
		tb.Fatal(err)
	}
	x, err := NewCodec[order](k)
	if err != nil {
		tb.Fatal(err)
	}
	return x
}

// pass writes an order as it is stored and reads it back.
func pass(tb testing.TB, c *Codec[order], o order) (back order, stored string) {
	tb.Helper()
	d, err := c.Encode(Data{}, &o)
	if err != nil {
		tb.Fatalf("%+v: %v", o, err)
	}
	text := c.Collection().Append(nil, d)
	parsed, err := c.Collection().Parse(text)
	if err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
	if err := c.Decode(parsed, &back); err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
	return back, string(text)
}

// TestCodecRoundTrip: what a program stores is what it reads.
func TestCodecRoundTrip(t *testing.T) {
	c, r := codec(t), seed.Rand(t)
	for range 2_000 {
		o := randomOrder(r)
		back, stored := pass(t, c, o)
		o.Meta = Meta{}
		if !reflect.DeepEqual(o, back) {
			t.Fatalf("stored as %s\ngot  %+v\nwant %+v", stored, back, o)
		}
	}
}

func randomOrder(r *rand.Rand) order {
	text := func() string {
		all := []rune("aé\"\\\n<&😀 '")
		var b strings.Builder
		for range r.IntN(6) {
			b.WriteRune(all[r.IntN(len(all))])
		}
		return b.String()
	}
	instant := func() time.Time { return time.UnixMicro(r.Int64N(4e15) - 1e15).UTC() }
	number := func() int64 { return int64(r.Uint64()) >> r.IntN(64) }
	o := order{
		Title: text(), Exact: fmt.Sprintf("%d.%d", number(), r.IntN(9)+1), Price: fmt.Sprintf("%d.%02d", r.IntN(1e9), r.IntN(100)), Count: number(), Small: int8(number()),
		Port: uint16(number()), Ratio: math.Float64frombits(r.Uint64()), Live: r.IntN(2) == 0, At: instant(), State: []string{"", "open", "done"}[r.IntN(3)],
	}
	o.Note = text()
	if math.IsNaN(o.Ratio) || math.IsInf(o.Ratio, 0) {
		o.Ratio = math.MaxFloat64
	}
	if r.IntN(2) == 0 {
		at, site, n := instant(), text(), int32(number())
		o.Until, o.Site, o.UserID = &at, &site, &n
		o.Tags = []string{"c", "a"}[:r.IntN(3)]
		o.Links = []string{text(), text()}
		o.Raw = json.RawMessage(fmt.Sprintf(`[%d,1.50,"x",{"a":null}]`, number()))
		o.Any = map[string]any{"n": json.Number(fmt.Sprint(number())), "t": text(), "l": []any{nil, true}}
		o.HTMLBody = map[string]int64{text(): number()}
	}
	if r.IntN(4) == 0 {
		o.Raw, o.Any = json.RawMessage("1.5"), json.Number("-0.25")
	}
	return o
}

func TestCodecNulls(t *testing.T) {
	c := codec(t)
	_, stored := pass(t, c, order{})
	if want := `{"note":"","title":"","count":0,"small":0,"ratio":0,"live":false,"code":""}`; stored != want {
		t.Errorf("the zero order is %s, want %s", stored, want)
	}
	var o order
	o.Count, o.Until, o.Tags = 7, &time.Time{}, []string{"a"}
	if err := c.Decode(Data{}, &o); err != nil || o.Count != 0 || o.Until != nil || o.Tags != nil {
		t.Errorf("nulls decode as %+v, %v", o, err)
	}
}

func TestCodecPassword(t *testing.T) {
	c := codec(t)
	i, _ := c.Collection().Index("secret")
	base := Data{}.With(i, mustText("hash"))
	var o order
	if err := c.Decode(base, &o); err != nil || o.Secret != "" {
		t.Errorf("the hash is decoded as %q, %v", o.Secret, err)
	}
	d, err := c.Encode(base, &o)
	if err != nil || d.Get(i).String() != "hash" {
		t.Errorf("an empty password is %v, %v", d.Get(i), err)
	}
	o.Secret = "correct horse"
	if d, err = c.Encode(base, &o); err != nil || d.Get(i).String() != o.Secret || base.Get(i).String() != "hash" {
		t.Errorf("a new password is %v, %v", d.Get(i), err)
	}
}

// TestCodecKeeps: a struct that knows fewer fields than the collection leaves the others as they are.
func TestCodecKeeps(t *testing.T) {
	k := compile(t, Collection{Name: "x", Extra: true, Fields: []Field{{Name: "a", Type: Int}, {Name: "b", Type: Text}, {Name: "p", Type: Phone}}})
	type part struct {
		P string `record:",type=phone"`
		A int
	}
	c, err := NewCodec[part](k)
	if err != nil {
		t.Fatal(err)
	}
	d, err := k.Patch(Data{}, []byte(`{"a":1,"b":"x","more":[1.5],"n":2.50}`))
	if err != nil {
		t.Fatal(err)
	}
	d, err = c.Encode(d, &part{A: 2, P: "+49 30 123456"})
	if got := string(k.Append(nil, d)); err != nil || got != `{"a":2,"b":"x","p":"+4930123456","more":[1.5],"n":2.5}` {
		t.Errorf("%s, %v", got, err)
	}
}

func TestCodecMeta(t *testing.T) {
	c := codec(t)
	var o order
	c.Meta(&o).ID = "x1"
	if o.ID != "x1" {
		t.Error("Meta is not that of the order")
	}
	type bare struct{ Title string }
	b, err := NewCodec[bare](c.Collection())
	if err != nil || b.Meta(&bare{}) != nil {
		t.Errorf("%v, %v", b, err)
	}
}

func TestCodecMistakes(t *testing.T) {
	k := codec(t).Collection()
	type wrong struct {
		Titel string
		Count string
		Tags  string `record:",options=a"`
	}
	if _, err := NewCodec[wrong](k); err == nil || err.Error() != `wrong.Titel: orders has no field "titel"; did you mean title?
wrong.Count: the field count of orders is int, not text
wrong.Tags: the field tags of orders is a select of several options, not select` {
		t.Error(err)
	}
	var o order
	o.Title, o.Ratio, o.Tags, o.Exact, o.Raw = "\xff", math.NaN(), []string{"a\x00"}, "1,5", json.RawMessage("{")
	if _, err := codec(t).Encode(Data{}, &o); list(err) != "/title type\n/exact type\n/ratio type\n/tags type\n/raw type" {
		t.Errorf("%s: %v", list(err), err)
	}
	i, _ := k.Index("small")
	if err := codec(t).Decode(Data{}.With(i, value.OfInt(128)), &o); err == nil || err.Error() != "order.Small: 128 does not fit in a int8" {
		t.Error(err)
	}
}

// FuzzDecode: whatever a record holds is decoded or refused, and what is decoded stays the same.
func FuzzDecode(f *testing.F) {
	f.Add(`{"title":"x","price":"1.5","at":"2026-01-02","tags":["a"],"any":{"a":1.50},"raw":1e400,"small":3}`)
	f.Add(`{"any":[1,2.0,"x"],"links":[1],"html_body":{"a":9007199254740993},"until":"2026-01-02T03:04:05Z","port":0}`)
	c := codec(f)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := c.Collection().Patch(Data{}, []byte(text))
		if err != nil {
			return
		}
		var o order
		if c.Collection().Check(d, nil) != nil || c.Decode(d, &o) != nil {
			return
		}
		back, stored := pass(t, c, o)
		if again, _ := pass(t, c, back); !reflect.DeepEqual(again, back) {
			t.Fatalf("%s: %+v, then %+v", stored, back, again)
		}
	})
}

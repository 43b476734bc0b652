package keys

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/record/schema"
)

func TestChange(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	for _, c := range []*Change{
		{ID: "a", Rev: 1, Seq: 1, Op: Create, At: at, By: "u1", Request: "r1", Body: []byte(`[{"op":"add","path":"/a","value":1}]`)},
		{ID: "a", Rev: 32, Seq: 1 << 40, Op: Update, At: at, Body: []byte("[]"), Full: []byte("{}")},
		{ID: "b", Rev: 2, Seq: 3, Op: Delete, At: at, Body: []byte("[]")},
	} {
		b := appendChange(nil, c)
		got, err := readChange(c.ID, c.Rev, b)
		if err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("%+v comes back as %+v, %v", c, got, err)
		}
		before := sha256.Sum256([]byte("before"))
		hash := c.hash(before)
		got.redact(Mark{at, "u9"})
		got.redact(Mark{at, "u8"})
		if got, err = readChange(c.ID, c.Rev, appendChange(nil, got)); err != nil || !got.Redacted() || got.Full != nil || got.Redaction != (Mark{at, "u9"}) || got.hash(before) != hash {
			t.Errorf("redacted: %+v, %v", got, err)
		}
		for _, other := range []Change{{ID: "x"}, {Rev: 9}, {Seq: 9}, {Op: Purge}, {At: at.Add(time.Hour)}, {By: "x"}, {Request: "x"}, {Body: []byte("x")}, {Full: []byte("x")}} {
			x := *c
			merge(&x, other)
			if x.hash(before) == hash {
				t.Errorf("%+v has the hash of %+v", x, c)
			}
		}
		if c.hash(sha256.Sum256(nil)) == hash {
			t.Error("the hash does not depend on the one before")
		}
		for cut := range b {
			if _, err := readChange(c.ID, c.Rev, b[:cut]); err == nil {
				t.Errorf("the first %d bytes of %x are a change", cut, b)
			}
		}
	}
}

// merge sets the fields of c that x has.
func merge(c *Change, x Change) {
	to, from := reflect.ValueOf(c).Elem(), reflect.ValueOf(x)
	for i := range from.NumField() {
		if f := from.Field(i); from.Type().Field(i).IsExported() && !f.IsZero() {
			to.Field(i).Set(f)
		}
	}
}

func TestDiff(t *testing.T) {
	k := collection(t).Compiled
	for _, c := range []struct{ before, after, want string }{
		{"", `{"a":1}`, `[{"op":"add","path":"/a","value":1}]`}, {`{"a":1}`, "", `[{"op":"remove","path":"/a","old":1}]`}, {`{"a":1,"b":2}`, `{"a":1,"b":"x"}`, `[{"op":"replace","path":"/b","value":"x","old":2}]`},
		{`{"a/b~":1}`, `{"~1":{}}`, `[{"op":"remove","path":"/a~1b~0","old":1},{"op":"add","path":"/~01","value":{}}]`}, {`{}`, `{}`, `[]`},
	} {
		if got := string(diff(members([]byte(c.before)), members([]byte(c.after)))); got != c.want {
			t.Errorf("%s to %s: %s, want %s", c.before, c.after, got, c.want)
		}
	}
	rng := seed.Rand(t)
	object := func() []byte {
		var parts []string
		for _, name := range []string{"title", "n", "x", "a/b", "~0", `q\"`} {
			if rng.IntN(2) == 0 {
				v := []string{"1", `"x"`, "null", `{"y":[1]}`, `"\u00e9"`}[rng.IntN(5)]
				if name == "title" {
					v = `"t"`
				} else if name == "n" {
					v = fmt.Sprint(rng.IntN(3))
				}
				parts = append(parts, `"`+name+`":`+v)
			}
		}
		d, err := k.Patch(schema.Data{}, []byte("{"+strings.Join(shuffle(rng, parts), ",")+"}"))
		if err != nil {
			t.Fatal(err)
		}
		return k.Append(nil, d)
	}
	for range 2_000 {
		before, after := object(), object()
		body := diff(members(before), members(after))
		for _, back := range []bool{false, true} {
			from, want := before, after
			if back {
				from, want = after, before
			}
			got, err := walk(from, body, back)
			if err != nil {
				t.Fatal(err)
			}
			d, err := k.Parse(got)
			if err != nil || !bytes.Equal(k.Append(nil, d), want) {
				t.Fatalf("%s with %s, back %v, is %s, want %s, %v", from, body, back, got, want, err)
			}
		}
	}
}

func shuffle(rng *rand.Rand, s []string) []string {
	rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
	return s
}

func FuzzReadChange(f *testing.F) {
	f.Add(appendChange(nil, &Change{Seq: 1, Op: Create, Body: []byte("[]"), Full: []byte("{}")}))
	f.Add(appendChange(nil, &Change{Seq: 1, Op: Purge}))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := readChange("a", 1, b)
		if err != nil {
			return
		}
		again := appendChange(nil, c)
		if back, err := readChange("a", 1, again); err != nil || !bytes.Equal(appendChange(nil, back), again) {
			t.Fatalf("%x is %+v, written as %x, %v", b, c, again, err)
		}
		_, _ = walk([]byte("{}"), c.Body, true)
	})
}

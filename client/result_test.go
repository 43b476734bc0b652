package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/client"
	"github.com/skerrydb/skerry/resp/wire"
)

// results makes a Result from a reply that is sent by a server.
func results(tb testing.TB, reply string) client.Result {
	tb.Helper()
	f := startFake(tb, func(w *wire.Writer, _ int, _ [][]byte) bool {
		w.RawString(reply)
		return true
	})
	res, err := open(tb, client.Options{Addrs: []string{f.addr()}, Timeout: patience}).Do(background, "X")
	if err != nil {
		tb.Fatal(err)
	}
	return res
}

type inner struct {
	City string `json:"city"`
}

type person struct {
	inner
	*Extra
	Name   string            `json:"name"`
	Age    uint8             `json:"age,omitempty"`
	Score  *float64          `json:"score"`
	Tags   []string          `json:"tags"`
	Marks  [2]int            `json:"marks"`
	By     map[string]int64  `json:"by"`
	ByNum  map[int]string    `json:"by_num"`
	Born   time.Time         `json:"born"`
	Big    *big.Int          `json:"big"`
	Raw    json.RawMessage   `json:"raw"`
	Photo  []byte            `json:"photo"`
	Any    any               `json:"any"`
	Hidden string            `json:"-"`
	secret string            // must not be changed
	Plain  client.Result     `json:"plain"`
	Nested []map[string]bool `json:"nested"`
}

// Extra is embedded by pointer.
type Extra struct{ More string }

const personReply = "%18\r\n$4\r\nname\r\n$3\r\nAda\r\n$4\r\ncity\r\n$6\r\nLondon\r\n$4\r\nMore\r\n$1\r\nm\r\n$3\r\nage\r\n:36\r\n" +
	"$5\r\nscore\r\n,1.5\r\n$4\r\ntags\r\n*2\r\n+a\r\n$1\r\nb\r\n$5\r\nmarks\r\n*2\r\n:1\r\n:2\r\n$2\r\nby\r\n%1\r\n$1\r\nx\r\n:7\r\n" +
	"$6\r\nby_num\r\n%1\r\n$1\r\n5\r\n$4\r\nfive\r\n$4\r\nborn\r\n$22\r\n1815-12-10T01:02:03.5Z\r\n" +
	"$3\r\nbig\r\n$20\r\n99999999999999999999\r\n$3\r\nraw\r\n$7\r\n{\"a\":1}\r\n$5\r\nphoto\r\n$2\r\n\x00\xff\r\n" +
	"$3\r\nany\r\n*3\r\n:1\r\n#t\r\n_\r\n$6\r\nHidden\r\n$1\r\nx\r\n$6\r\nsecret\r\n$1\r\nx\r\n$5\r\nplain\r\n:9\r\n" +
	"$6\r\nnested\r\n*1\r\n%1\r\n$1\r\nk\r\n#t\r\n"

func TestScanStruct(t *testing.T) {
	res := results(t, personReply)
	var p person
	if err := res.Scan(&p); err != nil {
		t.Fatal(err)
	}
	score := 1.5
	large, _ := new(big.Int).SetString("99999999999999999999", 10)
	plain, err := p.Plain.Int()
	p.Plain = client.Result{}
	want := person{inner: inner{"London"}, Extra: &Extra{"m"}, Name: "Ada", Age: 36, Score: &score, Tags: []string{"a", "b"},
		Marks: [2]int{1, 2}, By: map[string]int64{"x": 7}, ByNum: map[int]string{5: "five"},
		Born: time.Date(1815, 12, 10, 1, 2, 3, 5e8, time.UTC), Big: large, Raw: json.RawMessage(`{"a":1}`), Photo: []byte{0, 255},
		Any: []any{int64(1), true, nil}, Nested: []map[string]bool{{"k": true}}}
	if p.secret != "" {
		t.Errorf("a field that is not exported was set to %q", p.secret)
	}
	if !reflect.DeepEqual(p, want) || plain != 9 || err != nil {
		t.Errorf("scanned\n%+v, want\n%+v", p, want)
	}
	if v, ok := res.Field("city"); !ok || v.Any() != "London" {
		t.Errorf("the field city is %v, %v", v.Any(), ok)
	}
	if _, ok := res.Field("none"); ok || res.Len() != 18 {
		t.Errorf("there is a field none, or there are %d", res.Len())
	}
}

func TestScanErrors(t *testing.T) {
	res := results(t, personReply)
	for _, c := range []struct {
		dst  any
		want string
	}{
		{new(int), "the result is a map, not a 64-bit integer"},
		{new([]int), "the result is a map, not a list"},
		{new(struct {
			Name int `json:"name"`
		}), "name: the result is text, not a 64-bit integer"},
		{new(struct {
			Tags []int `json:"tags"`
		}), "tags[]: the result is text, not a 64-bit integer"},
		{new(struct {
			Age bool `json:"age"`
		}), "age: the result is an integer, not a boolean"},
		{new(struct {
			Marks [3]int `json:"marks"`
		}), "marks: the result is a list, not a list of the length of [3]int"},
		{new(struct {
			Born chan int `json:"born"`
		}), "born: cannot scan into a chan int"},
		{new(map[string]int), "the result is text, not a 64-bit integer"},
		{new(fmt.Stringer), "cannot scan into a fmt.Stringer"},
		{person{}, "Scan needs a non-nil pointer, not a client_test.person"},
		{nil, "Scan needs a non-nil pointer"},
		{(*person)(nil), "Scan needs a non-nil pointer"},
	} {
		if err := res.Scan(c.dst); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Scan into %T: %v, want %q", c.dst, err, c.want)
		}
	}
	if err := results(t, ":300\r\n").Scan(new(int8)); !errors.Is(err, client.ErrWrongType) {
		t.Errorf("300 into an int8: %v", err)
	}
	if err := results(t, "*2\r\n:1\r\n-ERR no [x]\r\n").Scan(new([]int)); err == nil || !errors.Is(err, &client.Error{Code: "x"}) {
		t.Errorf("a list with an error: %v", err)
	}
}

// TestScalars checks each kind of reply as each type.
func TestScalars(t *testing.T) {
	for _, c := range []struct {
		reply string
		want  string // Int, Uint, Float, Bool, Text; - for an error
	}{
		{":7\r\n", "7 7 7 - 7"}, {":1\r\n", "1 1 1 true 1"}, {":-5\r\n", "-5 - -5 - -5"},
		{"$20\r\n18446744073709551615\r\n", "- 18446744073709551615 1.8446744073709552e+19 - 18446744073709551615"},
		{",1.5\r\n", "- - 1.5 - 1.5"}, {",inf\r\n", "- - +Inf - inf"}, {"#t\r\n", "1 1 - true true"}, {"#f\r\n", "0 0 - false false"},
		{"+OK\r\n", "- - - true OK"}, {"$4\r\ntrue\r\n", "- - - true true"}, {"$0\r\n\r\n", "- - - - "}, {"_\r\n", "- - - - "},
		{"$-1\r\n", "- - - - "}, {"*-1\r\n", "- - - - "}, {"=7\r\ntxt:abc\r\n", "- - - - abc"}, {"(123\r\n", "123 123 123 - 123"},
		{"*1\r\n:1\r\n", "- - - - -"}, {"|1\r\n+a\r\n:1\r\n:7\r\n", "7 7 7 - 7"}, {":+07\r\n", "7 7 7 - 7"},
	} {
		res := results(t, c.reply)
		var got []string
		add := func(v any, err error) {
			if err != nil {
				v = "-"
			}
			got = append(got, fmt.Sprint(v))
		}
		i, err := res.Int()
		add(i, err)
		u, err := res.Uint()
		add(u, err)
		f, err := res.Float()
		add(f, err)
		b, err := res.Bool()
		add(b, err)
		s, err := res.Text()
		add(s, err)
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q is %q, want %q", c.reply, strings.Join(got, " "), c.want)
		}
	}
	var keep int = 5
	if err := results(t, "_\r\n").Scan(&keep); err != nil || keep != 0 {
		t.Errorf("null scanned as %d, %v", keep, err)
	}
	if f, err := results(t, ",nan\r\n").Float(); err != nil || !math.IsNaN(f) {
		t.Errorf("nan is %v, %v", f, err)
	}
}

// FuzzScan checks that no reply, valid or not, makes a Result panic.
func FuzzScan(f *testing.F) {
	f.Add([]byte(personReply))
	f.Add([]byte("|1\r\n+a\r\n:1\r\n*2\r\n:1\r\n_\r\n"))
	f.Add([]byte("*1000000000\r\n"))
	f.Add([]byte("=4\r\ntxt:\r\n"))
	f.Add([]byte("*1\r\n*1\r\n*1\r\n*1\r\n#t\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		res := client.ResultOf(raw)
		var p person
		_ = res.Scan(&p) // an error is fine
		var list []any
		if err := res.Scan(&list); err == nil && len(list) > len(raw) {
			t.Errorf("%d elements of %d bytes", len(list), len(raw))
		}
		var m map[string]any
		_ = res.Scan(&m)
		res.Any()
		if n, err := res.Int(); err == nil {
			if v, err := res.Float(); err != nil || math.Abs(v-float64(n)) > math.Abs(float64(n))*1e-9 {
				if k := res.Kind(); k != wire.KindBool {
					t.Errorf("%q is %d and %v, %v", raw, n, v, err)
				}
			}
		}
	})
}

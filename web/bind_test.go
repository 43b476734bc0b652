package web_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/web"
)

// named is embedded: its fields belong to the struct around it.
type named struct {
	Name string `json:"name"`
}

// order is a body with all kinds of fields.
type order struct {
	named
	Count  int8              `json:"count"`
	Size   uint16            `json:"size,omitempty"`
	Price  float32           `json:"price,omitzero"`
	Paid   bool              `json:"paid"`
	Note   *string           `json:"note"`
	Tags   []string          `json:"tags,omitempty"`
	Lines  []line            `json:"lines,omitempty"`
	At     time.Time         `json:"at,omitzero"`
	From   netip.Addr        `json:"from,omitzero"`
	Extra  map[string]int    `json:"extra,omitempty"`
	Any    any               `json:"any,omitempty"`
	Raw    json.RawMessage   `json:"raw,omitempty"`
	Bytes  []byte            `json:"bytes,omitempty"`
	Pair   [2]int            `json:"pair,omitzero"`
	Deep   map[string]any    `json:"deep,omitempty"`
	Self   *order            `json:"self"`
	Labels map[string]string `json:"a/b~c,omitempty"`
	Hidden string            `json:"-"`
}

// left and right are embedded beside each other.
type (
	left  struct{ X int }
	right struct{ X int }
)

type line struct {
	SKU string `json:"sku"`
	N   uint   `json:"n"`
}

// Validate implements web.Validator.
func (o *order) Validate() error {
	switch o.Name {
	case "bad":
		return web.Wrong("/name", "must not be bad")
	case "plain":
		return errors.New("a plain error")
	case "taken":
		return web.Errorf(http.StatusConflict, "name_taken", "the name is taken")
	}
	return nil
}

// orders is a site that responds with what it has bound, or with the faults.
func orders(tb testing.TB, o web.Options) *site {
	return serve(tb, o, func(a *web.App) {
		a.Post("/", func(c *web.Context) error {
			o := order{Size: 9, Tags: []string{"kept"}}
			if err := c.Bind(&o); err != nil {
				return err
			}
			return c.JSON(200, o)
		})
	})
}

const jsonMedia = "application/json"

// TestBindJSON: each fault has its position and a text.
func TestBindJSON(t *testing.T) {
	s := orders(t, web.Options{MaxBody: 200_000})
	for _, c := range []struct{ body, want string }{
		{`{"name":"a","count":1,"paid":true}`, ""},
		{` {"name":"a","count":-128,"paid":false,"size":65535,"note":"\ud83d\ude00","lines":[{"sku":"s","n":2}],"extra":{"a":1},"any":[{"x":null}],"pair":[1,2],"from":"::1","self":null,"tags":null} `, ""},
		{`{}`, "/name: is missing\n/count: is missing\n/paid: is missing"},
		{`{"name":1,"count":"2","paid":null}`, "/name: must be a string, not a number\n/count: must be a whole number, not a string\n/paid: must be true or false, not null"},
		{`{"name":"a","count":128,"paid":true,"size":-1,"price":1e99}`, "/count: is out of the range of int8\n/size: is out of the range of uint16\n/price: is out of the range of float32"},
		{`{"name":"a","count":1.0,"paid":true,"size":1e2}`, "/count: must be a whole number, not \"1.0\"\n/size: must be a whole number, not \"1e2\""},
		{`{"name":"a","count":1,"paid":true,"Name":"b","Hidden":"x"}`, "/Name: is not known; did you mean name?\n/Hidden: is not known"},
		{`{"name":"a","name":"b","count":1,"paid":true,"extra":{"k":1,"k":2},"any":{"q":{"z":1,"z":2}}}`, "/name: is given twice\n/extra/k: is given twice\n/any/q/z: is given twice"},
		{`{"name":"a","count":1,"paid":true,"lines":[{"sku":"s","n":1},{"sku":7,"m":1},null]}`, "/lines/1/sku: must be a string, not a number\n/lines/1/m: is not known\n/lines/1/n: is missing\n/lines/2: must be an object, not null"},
		{`{"name":"a","count":1,"paid":true,"at":"yesterday","from":"nowhere","bytes":"!"}`, "/at: must be a time as 2006-01-02T15:04:05Z (RFC 3339), not \"yesterday\"\n/from: is invalid: ParseAddr(\"nowhere\"): unable to parse IP\n/bytes: must be base64: illegal base64 data at input byte 0"},
		{`{"name":"\ud800","count":1,"paid":true,"note":"\udc00\ud800","tags":["\ud800x"]}`, "/name: has an escape of half a surrogate pair\n/note: has an escape of half a surrogate pair\n/tags/0: has an escape of half a surrogate pair"},
		{`{"name":"a","count":1,"paid":true,"pair":[1],"a/b~c":{"d/e":1}}`, "/pair: must have exactly 2 elements, not 1\n/a~1b~0c/d~1e: must be a string, not a number"},
		{`{"name":"a","count":1,"paid":true,"pair":[1,2,3]}`, "/pair: must have exactly 2 elements, not 3"},
		{`{"name":"a","count":1,"paid":true,"self":{"name":"b"}}`, "/self/count: is missing\n/self/paid: is missing"},
		{`{"name":"bad","count":1,"paid":true}`, "/name: must not be bad"},
		{`[]`, ": must be an object, not a list"}, {`null`, ": must be an object, not null"}, {``, ": the body is empty, must be JSON"},
		{"{\"name\":\n\"a\",,}", ": the body is not JSON, at line 2, byte 14: invalid character ',' looking for beginning of object key string"},
		{`{"name":"a","count":1,"paid":true} x`, ": the body is not JSON, at line 1, byte 36: invalid character 'x' after top-level value"},
		{`{"name":"a"`, ": the body is not JSON, at line 1, byte 11: unexpected end of JSON input"},
		{"{\"name\":\"\xff\"}", ": the body is not UTF-8 at byte 9"}, {"\ufeff{}", ": the body is not JSON, at line 1, byte 1: invalid character 'ï' looking for beginning of value"},
	} {
		got := s.do("POST", "/", c.body, "Content-Type", jsonMedia)
		if c.want == "" {
			if got.status != 200 {
				t.Errorf("%s: %+v", c.body, got)
			}
			continue
		}
		if text := places(t, got); got.status != 400 || text != c.want {
			t.Errorf("%s: %d\n%s\nwant\n%s", c.body, got.status, text, c.want)
		}
	}
	got := s.do("POST", "/", `{"name":"a","count":1,"paid":true,"size":null}`, "Content-Type", jsonMedia)
	if !strings.Contains(got.body, `"size":9`) || !strings.Contains(got.body, `"tags":["kept"]`) {
		t.Errorf("an omitted field was changed: %s", got.body)
	}
	for name, status := range map[string]int{"plain": 400, "taken": 409} {
		if got := s.do("POST", "/", `{"name":"`+name+`","count":1,"paid":true}`, "Content-Type", jsonMedia); got.status != status {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestBindLimits: errors name the exceeded limit.
func TestBindLimits(t *testing.T) {
	s := orders(t, web.Options{MaxBody: 8 << 20})
	begin := `{"name":"a","count":1,"paid":true,`
	deep := func(n int) string {
		return begin + `"any":` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}"
	}
	for _, c := range []struct {
		body   string
		status int
		want   string
	}{
		{deep(web.MaxDepth), 200, ""}, {deep(web.MaxDepth + 1), 400, "nested too deeply"}, {deep(9000), 400, "nested too deeply"}, {deep(20_000), 400, "not JSON"},
		{begin + strings.Repeat(`"self":{"name":"a","count":1,"paid":true,`, web.MaxDepth+1) + `"x":1` + strings.Repeat("}", web.MaxDepth+2), 400, "nested too deeply"},
		{begin + `"lines":[` + strings.Repeat(`{"sku":"","n":0},`, 400_000) + `{"sku":"","n":0}]}`, 200, ""},
		{begin + `"tags":[` + strings.Repeat(`"",`, 800_000) + `""]}`, 400, "takes too much memory"},
		{begin + `"n":1` + strings.Repeat(`,"n":1`, 1000) + `}`, 400, "/n: is not known"},
		{begin + `"x":"` + strings.Repeat("x", 8<<20) + `"}`, 413, "over the limit of 8388608"},
		{begin + `"` + strings.Repeat("y", 1000) + `":1}`, 400, "/" + strings.Repeat("y", 100) + "…"},
	} {
		got := s.do("POST", "/", c.body, "Content-Type", jsonMedia)
		if got.status != c.status || !strings.Contains(got.body, c.want) || got.status != 200 && len(got.body) > 20_000 {
			t.Errorf("%.100s…: %d %.500s", c.body, got.status, got.body)
		}
	}
}

// TestBindMediaTypes: other types than JSON and forms are refused with an error that names the accepted ones.
func TestBindMediaTypes(t *testing.T) {
	s := orders(t, web.Options{})
	body := `{"name":"a","count":1,"paid":true}`
	for _, c := range []struct {
		header []string
		status int
	}{
		{[]string{"Content-Type", "application/json; charset=UTF-8"}, 200}, {[]string{"Content-Type", "application/merge-patch+json"}, 200},
		{[]string{"Content-Type", "APPLICATION/JSON"}, 200}, {[]string{"Content-Type", jsonMedia, "Content-Encoding", "identity"}, 200},
		{nil, 415}, {[]string{"Content-Type", "text/plain"}, 415}, {[]string{"Content-Type", "application/json; charset=utf-16"}, 415},
		{[]string{"Content-Type", jsonMedia, "Content-Type", "text/plain"}, 415}, {[]string{"Content-Type", jsonMedia, "Content-Encoding", "gzip"}, 415},
		{[]string{"Content-Type", "application/json; ;;="}, 415}, {[]string{"Content-Type", "multipart/form-data"}, 415}, {[]string{"Content-Type", "image/svg+json"}, 415},
	} {
		got := s.do("POST", "/", body, c.header...)
		if got.status != c.status || c.status == 415 && problemOf(t, got).Code != "media_type" {
			t.Errorf("%v: %+v", c.header, got)
		}
	}
	if got := s.do("POST", "/", body); !strings.Contains(got.body, "application/json or application/x-www-form-urlencoded or multipart/form-data") {
		t.Errorf("the supported types are not listed: %s", got.body)
	}
}

// TestBindForm: the same struct, from both kinds of forms.
func TestBindForm(t *testing.T) {
	s := orders(t, web.Options{})
	for _, c := range []struct{ body, want string }{
		{"name=a&count=3&paid=on&tags=x&tags=y&note=&size=&at=2026-01-02T03:04:05Z&pair=1&pair=2&bytes=%00&from=::1", ""},
		{"name=&count=3", ""},
		{"count=&name=a&name=b", "/name: is given 2 times, must be once\n/count: is missing"},
		{"name=a&count=x&paid=maybe&size=70000&q=1&Name=2", "/count: must be a whole number, not \"x\"\n/size: is out of the range of uint16\n/paid: must be true or false, not \"maybe\"\n/Name: is not known; did you mean name?\n/q: is not known"},
		{"name=%ff&count=1&tags=%ff", "/name: must be UTF-8\n/tags/0: must be UTF-8"},
		{"name=a&count=1&lines=1&extra=2&pair=1", "/lines/0: cannot be sent in a form; send it as JSON\n/extra: cannot be sent in a form; send it as JSON\n/pair: must be given exactly 2 times, not 1"},
		{"name=bad&count=1", "/name: must not be bad"},
	} {
		got := s.do("POST", "/", c.body, "Content-Type", "application/x-www-form-urlencoded")
		if c.want == "" && got.status == 200 {
			continue
		}
		if text := places(t, got); got.status != 400 || text != c.want {
			t.Errorf("%s: %d\n%s\nwant\n%s", c.body, got.status, text, c.want)
		}
	}
	got := s.do("POST", "/", "--b\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\nä\r\n--b\r\nContent-Disposition: form-data; name=\"count\"\r\n\r\n5\r\n--b\r\nContent-Disposition: form-data; name=\"note\"; filename=\"\"\r\n\r\n\r\n--b--", "Content-Type", "multipart/form-data; boundary=b")
	if got.status != 200 || !strings.Contains(got.body, `"name":"ä","count":5`) {
		t.Errorf("multipart: %+v", got)
	}
	got = s.do("POST", "/", "--b\r\nContent-Disposition: form-data; name=\"name\"; filename=\"f\"\r\n\r\nä\r\n--b--", "Content-Type", "multipart/form-data; boundary=b")
	if places(t, got) != "/name: must not be a file" {
		t.Errorf("a file: %+v", got)
	}
	many, media := formOf(t, slices.Repeat([]part{{"tags", "", "x"}}, web.MaxFormFields+1)...)
	if got := s.do("POST", "/", many, "Content-Type", media); got.status != 400 || problemOf(t, got).Code != "limit" {
		t.Errorf("too many fields: %+v", got)
	}
}

// TestBindOfMistakesInTheProgram: a wrong target is not the client's fault.
func TestBindOfMistakesInTheProgram(t *testing.T) {
	for name, to := range map[string]any{
		"no pointer": order{}, "a nil pointer": (*order)(nil), "a channel": new(chan int), "a field": new(struct{ F func() }),
		"keys": new(map[int]string),
		"two of a name": new(struct {
			left
			right
		}),
		"the option string": new(struct {
			A int `json:",string"`
		}),
	} {
		s := serve(t, web.Options{}, func(a *web.App) {
			a.Post("/", func(c *web.Context) error { return c.Bind(to) })
		})
		if got := s.do("POST", "/", "{}", "Content-Type", jsonMedia); got.status != 500 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

package cache

import (
	"bytes"
	"fmt"
	"testing"
)

// FuzzDecode: no bytes make decode or what it returns fail, and what it accepts is the encoding of what it
// returns.
func FuzzDecode(f *testing.F) {
	for _, e := range []Entry{
		{}, {Missing: true}, {Body: []byte("body"), Type: "text/plain", ETag: "tag", Private: true},
		{Body: bytes.Repeat([]byte("x"), 300), Variants: []Variant{{"gzip", []byte("gz")}, {"br", nil}}},
	} {
		f.Add(e.append(nil, 5, 0))
		f.Add(e.append(nil, 5, 10))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, ok := decode(raw)
		if !ok {
			return
		}
		e := v.Entry()
		for _, x := range e.Variants {
			v.Variant(x.Encoding)
		}
		again, ok := decode(e.append(nil, v.written, v.deadline))
		if !ok || fmt.Sprint(again.Entry()) != fmt.Sprint(e) || again.deadline != v.deadline {
			t.Errorf("%x decodes to %v, and that is encoded as another entry", raw, e)
		}
	})
}

// TestExpired: a clock that was set back to before an entry was written ends its time.
func TestExpired(t *testing.T) {
	t.Parallel()
	e := Entry{Body: []byte("x")}
	v, _ := decode(e.append(nil, 100, 200))
	for now, want := range map[int64]bool{99: true, 100: false, 199: false, 200: true} {
		if v.expired(now) != want {
			t.Errorf("at %d expired is %v", now, !want)
		}
	}
	if v, _ := decode(e.append(nil, 100, 0)); v.expired(1 << 60) {
		t.Error("an entry without a TTL expired")
	}
}

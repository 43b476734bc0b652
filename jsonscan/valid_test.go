package jsonscan

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

// broken are texts that are almost JSON.
var broken = []string{
	"", " ", "{", "[", `"`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{a:1}`, `[1,]`, `[,1]`, `[1 2]`, `{"a":1 "b":2}`, `{"a":1]`, `[1}`, "[]]", "{}{}",
	"01", "-", "-a", "+1", "1.", ".5", "1e", "1e+", "1.e3", "0x10", "NaN", "tru", "truE", "nulll", "True",
	`"\x"`, `"\u12"`, `"\u12g4"`, `"\u`, `"\`, "\"\n\"", "\"\x00\"", "\"a\x1f\"", `'a'`, "\"\\u00e", "\ufeff{}",
}

func TestValid(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, text := range append(append(append([]string{}, texts...), broken...), deep(maxDepth), deep(maxDepth+1), "\"\x7f\"", `"\/\b\f\uABCD\uabcd"`, "-0", "-0.0E-07", "[0,1e5]") {
		if got, want := Valid([]byte(text)), json.Valid([]byte(text)); got != want {
			t.Errorf("%.100q: %v, encoding/json %v", text, got, want)
		}
	}
}

// TestValidMutated changes, inserts and removes bytes of valid texts.
func TestValidMutated(t *testing.T) {
	const alphabet = "{}[]\",:\\ /\n\t0129-+.eEtfnrulabs\x00\x1f\x7f\x80\xff"
	rnd := rand.New(rand.NewPCG(7, 11))
	valid := 0
	for range 100_000 {
		text := []byte(texts[rnd.IntN(len(texts))])
		for range 1 + rnd.IntN(3) {
			at, c := rnd.IntN(len(text)+1), alphabet[rnd.IntN(len(alphabet))]
			switch {
			case rnd.IntN(3) == 0 || at == len(text):
				text = append(text[:at], append([]byte{c}, text[at:]...)...)
			case rnd.IntN(2) == 0:
				text[at] = c
			default:
				text = append(text[:at], text[at+1:]...)
			}
		}
		want := json.Valid(text)
		if Valid(text) != want {
			t.Fatalf("%q: %v, encoding/json %v", text, !want, want)
		}
		if want {
			valid++
		}
	}
	if valid < 1000 {
		t.Errorf("only %d of the texts were valid", valid)
	}
}

func FuzzValid(f *testing.F) {
	for _, text := range append(append([]string{}, texts...), broken...) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, want := Valid(text), json.Valid(text); got != want {
			t.Errorf("%v, encoding/json %v", got, want)
		}
	})
}

// TestPlain tries every byte at every place among bytes that look like it to arithmetic on words.
func TestPlain(t *testing.T) {
	for _, around := range []byte{'a', 0x80, 0xff, 0x21, 0x23, 0x5b, 0x5d, 0x7e, 0xa2, 0xdc} {
		for n := range 20 {
			for at := range n {
				for c := range 256 {
					s := strings.Repeat(string([]byte{around}), n)
					s = s[:at] + string([]byte{byte(c)}) + s[at+1:]
					want := n
					if c < ' ' || c == '"' || c == '\\' || c == 0x7f {
						want = at
					}
					if got := Plain(s); got != want || Plain([]byte(s)) != want {
						t.Fatalf("%q: %d, not %d", s, got, want)
					}
				}
			}
		}
	}
}

func BenchmarkValid(b *testing.B) {
	text := []byte(`{"title":"item 17","status":"s17","number":17,"price":17.25,"done":false,"body":"` +
		`The lighthouse keeper writes down every ship that passes, the hour, the flag and the weather, and at the end of the month the book goes to the harbour office."}`)
	for name, valid := range map[string]func([]byte) bool{"this": Valid, "encoding": json.Valid} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if !valid(text) {
					b.Fatal("not valid")
				}
			}
		})
	}
}

package admin

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func sidesOf(all []diffPart) (a, b string) {
	for _, p := range all {
		if p.Kind != "ins" {
			a += p.Text
		}
		if p.Kind != "del" {
			b += p.Text
		}
	}
	return a, b
}

func showParts(all []diffPart) (text string) {
	for _, p := range all {
		text += map[string]string{"same": p.Text, "del": "[-" + p.Text + "]", "ins": "[+" + p.Text + "]"}[p.Kind]
	}
	return text
}

// TestDiff: differences are marked by words, and the parts have both texts.
func TestDiff(t *testing.T) {
	t.Parallel()
	for _, x := range [][3]string{
		{"", "", ""},
		{"", "new", "[+new]"},
		{"old", "", "[-old]"},
		{"the sea", "the lake", "the [-sea][+lake]"},
		{"foo", "foobar", "[-foo][+foobar]"},
		{"foo", "foo bar", "foo[+ bar]"},
		{"bar", "foo bar", "[+foo ]bar"},
		{"a b c d", "a x c y", "a [-b][+x] c [-d][+y]"},
		{"ä", "ö", "[-ä][+ö]"},
		{"日本", "日木", "[-日本][+日木]"},
		{"1", "12", "[-1][+12]"},
		{"one\ntwo\nthree", "one\nthree", "one\n[-two\n]three"},
	} {
		got := showParts(diffOf(x[0], x[1]))
		if got != x[2] {
			t.Errorf("diff(%q, %q) = %q, want %q", x[0], x[1], got, x[2])
		}
	}
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	words := []string{"a", "bb", " ", "\n", "é", "日", "_", "-", "\u202e", "<b>"}
	text := func() (s string) {
		for range r.IntN(30) {
			s += words[r.IntN(len(words))]
		}
		return s
	}
	for range 2_000 {
		x, y := text(), text()
		if a, b := sidesOf(diffOf(x, y)); a != x || b != y {
			t.Fatalf("seed %d: diff(%q, %q) = %v", seed, x, y, diffOf(x, y))
		}
	}
	long := strings.Repeat("word ", 200_000)
	for _, y := range []string{long + "end", "start " + long, strings.Repeat("x", 1<<20), ""} {
		all := diffOf(long, y)
		if a, b := sidesOf(all); len(a)+len(b) > 4*(maxPart+2*maxContext) {
			t.Errorf("the parts have %d and %d bytes", len(a), len(b))
		}
	}
	if got := showParts(diffOf(long, long+"end")); !strings.HasSuffix(got, "word [+end]") {
		t.Errorf("the end of a long text: %q", got)
	}
}

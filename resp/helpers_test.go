package resp

import (
	"bytes"
	"hash/crc64"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/kv"
)

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"*", "", true}, {"*", "abc", true}, {"", "", true}, {"", "a", false},
		{"h?llo", "hello", true}, {"h?llo", "hllo", false},
		{"h*llo", "heeeello", true}, {"h*llo", "hell", false},
		{"h[ae]llo", "hallo", true}, {"h[ae]llo", "hillo", false},
		{"h[^e]llo", "hallo", true}, {"h[^e]llo", "hello", false},
		{"h[a-b]llo", "hbllo", true}, {"h[b-a]llo", "hallo", true}, {"h[a-b]llo", "hcllo", false},
		{`h\?llo`, "h?llo", true}, {`h\?llo`, "hello", false}, {`a\`, `a\`, true},
		{"[a", "a", true}, {"[a", "b", false}, {"[]", "a", false}, {"[^]", "a", true}, {`[\]]`, "]", true},
		{"[a-]", "]", true}, {"a**b", "axxb", true}, {"*a*b*c", "xaybzc", true}, {"*a*b*c", "xaybz", false},
		{"\xff*", "\xff\x00", true}, {"[", "", false}, {"a[", "a", false},
	} {
		if got := globMatch([]byte(c.pattern), []byte(c.s)); got != c.want {
			t.Errorf("globMatch(%q, %q) = %v", c.pattern, c.s, got)
		}
	}
}

// TestGlobTime matches a pattern that would take exponential time if every star were
// retried.
func TestGlobTime(t *testing.T) {
	pattern := []byte(strings.Repeat("a*", 1000) + "b")
	start := time.Now()
	if globMatch(pattern, bytes.Repeat([]byte("a"), 2000)) {
		t.Error("it matched")
	}
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("it took %v", d)
	}
}

// globRegexp converts a pattern without brackets to a regular expression.
func globRegexp(pattern []byte) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '*':
			b.WriteString(".*")
		case c == '?':
			b.WriteString(".")
		case c == '\\' && i+1 < len(pattern):
			i++
			b.WriteString(regexp.QuoteMeta(string(pattern[i])))
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	b.WriteString(`\z`)
	return regexp.MustCompile(b.String())
}

func FuzzGlob(f *testing.F) {
	f.Add([]byte("a*b?c"), []byte("axxbyc"))
	f.Add([]byte(`\*[a-c]`), []byte("*b"))
	f.Add([]byte("[^"), []byte("x"))
	f.Fuzz(func(t *testing.T, pattern, s []byte) {
		got := globMatch(pattern, s)
		prefix, whole := globPrefix(pattern)
		if got && !bytes.HasPrefix(s, prefix) || whole && got != bytes.Equal(prefix, s) {
			t.Errorf("globPrefix(%q) = %q, %v, but %q matches: %v", pattern, prefix, whole, s, got)
		}
		for _, c := range append(bytes.Clone(pattern), s...) {
			if c == '[' || c >= 0x80 {
				return // regexp works on runes
			}
		}
		if want := globRegexp(pattern).Match(s); got != want {
			t.Errorf("globMatch(%q, %q) = %v", pattern, s, got)
		}
	})
}

func TestDumpRoundTrip(t *testing.T) {
	rng := seed.Rand(t)
	var p packer
	tab := crcTable()
	vals := [][]byte{{}, []byte("0"), []byte("-128"), []byte("128"), []byte("-32769"), []byte("2147483647"),
		[]byte("-2147483648"), []byte("2147483648"), []byte("007"), make([]byte, 1<<20), []byte(strings.Repeat("ab", 5000))}
	for range 300 {
		v := make([]byte, rng.IntN(1<<rng.IntN(18)))
		letters := 1 + rng.IntN(256)
		for i := range v {
			v[i] = byte(rng.IntN(letters))
		}
		vals = append(vals, v)
	}
	for _, v := range vals {
		d := p.appendDump(nil, tab, v)
		got, err := parseDump(d, tab)
		if err != nil || !bytes.Equal(got, v) {
			t.Fatalf("%.50q came back as %.50q, %v", v, got, err)
		}
		d[rng.IntN(len(d))] ^= 1 << rng.IntN(8)
		if _, err := parseDump(d, tab); err == nil {
			t.Fatalf("a flipped bit in the dump of %.50q was not noticed", v)
		}
	}
}

// FuzzDump parses payloads with a correct checksum and arbitrary content.
func FuzzDump(f *testing.F) {
	tab := crc64.MakeTable(crcPoly)
	var p packer
	for _, v := range []string{"", "12", "hello", strings.Repeat("x", 100), strings.Repeat("abcd", 5000)} {
		d := p.appendDump(nil, tab, []byte(v))
		f.Add(d[:len(d)-rdbFooter])
	}
	f.Add([]byte{0, 0xc3, 2, 0x81, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xe0, 0})
	f.Fuzz(func(t *testing.T, body []byte) {
		d := append(bytes.Clone(body), rdbVersion, 0)
		sum := redisCRC(tab, d)
		for range 8 {
			d = append(d, byte(sum))
			sum >>= 8
		}
		val, err := parseDump(d, tab)
		if err == nil && len(val) > kv.MaxValBytes {
			t.Errorf("a dump of %d bytes gave %d", len(d), len(val))
		}
	})
}

func TestParseFloat(t *testing.T) {
	for in, want := range map[string]string{
		"3": "3", "3.0e3": "3000", "-1.5": "-1.5", "+2": "2", ".5": "0.5", "5.": "5", "0x10": "16", "0x1p-1": "0.5",
		"1e4932": "1" + strings.Repeat("0", 5) + "", "0.1": "0.1", "1e-4900": "0", "-0.0": "0",
	} {
		f, ok := parseFloat([]byte(in))
		if !ok {
			t.Errorf("%q is not read", in)
			continue
		}
		if got := string(appendFloat(nil, f)); got != want && in != "1e4932" {
			t.Errorf("%q is %s, want %s", in, got, want)
		}
	}
	for _, in := range []string{"", " 1", "1 ", "abc", "1e", "--1", "+-1", "1_000", "0b1", "nan", "1e4933", "-1e99999", "1e-5000", "1p3", strings.Repeat("1", maxFloatText)} {
		if f, ok := parseFloat([]byte(in)); ok {
			t.Errorf("%.20q is read as %v", in, f)
		}
	}
}

func TestCursors(t *testing.T) {
	var c cursors
	c.init()
	first := c.add(1, []byte("a"))
	if key, ok := c.get(first, 1); !ok || string(key) != "a" {
		t.Fatalf("cursor: %q %v", key, ok)
	}
	if _, ok := c.get(first, 2); ok {
		t.Error("a cursor works in another database")
	}
	kept := c.add(1, []byte("kept"))
	for i := range MaxCursors - 1 {
		c.add(0, strconv.AppendInt(nil, int64(i), 10))
	}
	if _, ok := c.get(first, 1); ok {
		t.Error("a cursor that was continued outlived the limit")
	}
	if _, ok := c.get(kept, 1); !ok {
		t.Error("a cursor in use was dropped before one that was continued")
	}
	for i := range 3 * MaxCursors {
		id := c.add(0, []byte("x"))
		if i%2 == 0 {
			c.get(id, 0)
		}
	}
	if n := len(c.byID); n > MaxCursors || len(c.open)+len(c.used) > 2*MaxCursors {
		t.Errorf("%d cursors, %d and %d in the queues, limit %d", n, len(c.open), len(c.used), MaxCursors)
	}
}

// TestDocsListCommands compares docs/redis.md with the table, both ways.
func TestDocsListCommands(t *testing.T) {
	text, err := os.ReadFile("../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "\n## Commands\n")
	list, _, _ = strings.Cut(list, "\nAnything else")
	have := map[string]bool{}
	for _, m := range regexp.MustCompile("`([A-Z_-]+)`").FindAllStringSubmatch(list, -1) {
		have[strings.ToLower(m[1])] = true
	}
	want := map[string]bool{}
	for name, c := range commands() {
		want[name] = true
		for _, sub := range subNames(c) {
			_, short, _ := strings.Cut(sub, "|")
			want[short] = true
		}
	}
	for name := range want {
		if !have[name] {
			t.Errorf("docs/redis.md does not list %s", name)
		}
	}
	for name := range have {
		if !want[name] {
			t.Errorf("docs/redis.md lists %s, which there is not", name)
		}
	}
}

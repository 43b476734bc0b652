package lineproto

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
)

// A symbol is a byte of a line after the escapes of names: plain bytes have no meaning.
type symbol struct {
	c     byte
	plain bool
	end   int // in the line, after the byte
}

// symbols resolves the escapes of names; special are the bytes that a backslash makes plain.
func symbols(text, special string) (list []symbol) {
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && strings.IndexByte(special, text[i+1]) >= 0 {
			i++
			list = append(list, symbol{text[i], true, i + 1})
		} else {
			list = append(list, symbol{text[i], text[i] == '\\', i + 1})
		}
	}
	return list
}

// split cuts a list at every c that is not plain.
func split(list []symbol, c byte) [][]symbol {
	parts := [][]symbol{nil}
	for _, s := range list {
		if s.c == c && !s.plain {
			parts = append(parts, nil)
			continue
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], s)
	}
	return parts
}

func text(list []symbol) string {
	var b []byte
	for _, s := range list {
		b = append(b, s.c)
	}
	return string(b)
}

var (
	refValue  = regexp.MustCompile(`(?s)^("(?:[^"\\]|\\.)*"|[^", ][^, ]*)(.*)$`)
	refFloat  = regexp.MustCompile(`^-?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?$`)
	refInt    = regexp.MustCompile(`^-?[0-9]+i$`)
	refUint   = regexp.MustCompile(`^[0-9]+u$`)
	refTime   = regexp.MustCompile(`^ +(-?[0-9]+) *$`)
	refTrue   = regexp.MustCompile(`^(t|T|true|True|TRUE)$`)
	refFalse  = regexp.MustCompile(`^(f|F|false|False|FALSE)$`)
	refEscape = regexp.MustCompile(`\\(["\\])`)
)

// reference is a slow parser that shares no code with the fast one. It returns what show does, and
// whether the line is valid.
func reference(line string, precision time.Duration) (string, bool) {
	line = strings.TrimLeft(strings.TrimSuffix(line, "\r"), " \t\r")
	if line == "" || line[0] == '#' {
		return "", false
	}
	// The end of the series.
	series := ""
	for i := 0; i < len(line) && series == ""; i++ {
		if line[i] == '\\' {
			i++
		} else if line[i] == ' ' {
			series = line[:i]
		}
	}
	if series == "" || strings.Contains(series, "\n") {
		return "", false
	}
	out, ok := referenceSeries(series)
	if !ok {
		return "", false
	}
	rest := strings.TrimLeft(line[len(series):], " ")
	for {
		key := symbols(rest, `,= \`)
		n := slices.IndexFunc(key, func(s symbol) bool { return !s.plain && strings.IndexByte(",= \n", s.c) >= 0 })
		if n <= 0 || key[n].c != '=' {
			return "", false
		}
		m := refValue.FindStringSubmatch(rest[key[n].end:])
		if m == nil {
			return "", false
		}
		value, ok := referenceValue(m[1])
		if !ok {
			return "", false
		}
		out += " " + text(key[:n]) + "=" + value
		if rest = m[2]; !strings.HasPrefix(rest, ",") {
			break
		}
		rest = rest[1:]
	}
	if strings.Trim(rest, " ") == "" {
		return out, true
	}
	m := refTime.FindStringSubmatch(rest)
	if m == nil {
		return "", false
	}
	n, _ := new(big.Int).SetString(m[1], 10)
	n.Mul(n, big.NewInt(int64(precision)))
	return out + " @" + n.String(), n.IsInt64()
}

// referenceSeries returns measurement{tag=value;...}.
func referenceSeries(series string) (string, bool) {
	// The measurement ends at the first comma that is not plain, and has escapes of its own.
	end := 0
	for end < len(series) && series[end] != ',' {
		if series[end] == '\\' && end+1 < len(series) {
			end++
		}
		end++
	}
	measurement := text(symbols(series[:end], `, \`))
	if measurement == "" {
		return "", false
	}
	var tags []string
	seen := map[string]bool{}
	if end < len(series) {
		for _, tag := range split(symbols(series[end+1:], `,= \`), ',') {
			parts := split(tag, '=')
			if len(parts) != 2 || len(parts[0]) == 0 || len(parts[1]) == 0 || seen[text(parts[0])] {
				return "", false
			}
			seen[text(parts[0])] = true
			tags = append(tags, text(parts[0])+"="+text(parts[1]))
		}
	}
	return measurement + "{" + strings.Join(tags, ";") + "}", true
}

func referenceValue(s string) (string, bool) {
	var err error
	var value any
	kind := Float
	switch {
	case s[0] == '"':
		return "string:" + refEscape.ReplaceAllString(s[1:len(s)-1], "$1"), true
	case refTrue.MatchString(s):
		return "bool:1", true
	case refFalse.MatchString(s):
		return "bool:0", true
	case refInt.MatchString(s):
		var n int64
		n, err = strconv.ParseInt(s[:len(s)-1], 10, 64)
		kind, value = Int, float64(n)
	case refUint.MatchString(s):
		var n uint64
		n, err = strconv.ParseUint(s[:len(s)-1], 10, 64)
		kind, value = Uint, float64(n)
	case refFloat.MatchString(s):
		value, err = strconv.ParseFloat(s, 64)
	default:
		return "", false
	}
	return fmt.Sprintf("%v:%v", kind, value), err == nil
}

// compare fails if the parser and the reference disagree about line.
func compare(t *testing.T, line []byte, precision time.Duration) (valid bool) {
	t.Helper()
	var p Parser
	var l Line
	err := parse(&p, line, precision, &l)
	want, ok := reference(string(line), precision)
	switch {
	case ok != (err == nil):
		t.Errorf("%q: %v, reference %v %s", line, err, ok, want)
	case ok && show(&l) != want:
		t.Errorf("%q:\n     got %s\nreference %s", line, show(&l), want)
	}
	return ok
}

func TestReferenceTables(t *testing.T) {
	for _, c := range good {
		if !compare(t, []byte(c.line), 1) {
			t.Errorf("%q: the reference refuses it", c.line)
		}
	}
	for _, c := range bad {
		compare(t, []byte(c.line), 1)
	}
}

// TestReferenceMutated changes, inserts and removes bytes of the lines of the tables.
func TestReferenceMutated(t *testing.T) {
	const alphabet = "abtf,,== \\\\\"\"\n\r#0159-+.eEiu_"
	rnd := seed.Rand(t)
	rounds, valid := 200_000, 0
	if testing.Short() {
		rounds = 20_000
	}
	for range rounds {
		line := []byte(good[rnd.IntN(len(good))].line)
		if rnd.IntN(4) == 0 {
			line = []byte(bad[rnd.IntN(len(bad))].line)
		}
		for range 1 + rnd.IntN(3) {
			at, c := rnd.IntN(len(line)+1), alphabet[rnd.IntN(len(alphabet))]
			switch {
			case rnd.IntN(3) == 0 || at == len(line):
				line = append(line[:at], append([]byte{c}, line[at:]...)...)
			case rnd.IntN(2) == 0:
				line[at] = c
			default:
				line = append(line[:at], line[at+1:]...)
			}
		}
		if compare(t, line, []time.Duration{1, time.Microsecond, time.Second}[rnd.IntN(3)]) {
			valid++
		}
		if t.Failed() {
			return
		}
	}
	if valid < rounds/10 || valid > rounds*9/10 {
		t.Errorf("%d of %d lines are valid: the test is lopsided", valid, rounds)
	}
}

// TestNumbers compares numbers of all lengths with strconv.
func TestNumbers(t *testing.T) {
	rnd := seed.Rand(t)
	var p Parser
	var l Line
	for range 300_000 {
		number := randomNumber(rnd)
		want, err := strconv.ParseFloat(string(number), 64)
		line := append([]byte("m a="), number...)
		if rnd.IntN(2) == 0 {
			line = append(line, ",b=1 1"...)
		}
		if perr := p.Parse(line, 1, &l); (perr == nil) != (err == nil) {
			t.Fatalf("%s: %v, strconv %v", number, perr, err)
		} else if err == nil && l.Fields[0].Value != want {
			t.Fatalf("%s: %v, strconv %v", number, l.Fields[0].Value, want)
		}
	}
}

func randomNumber(rnd *rand.Rand) []byte {
	digits := func(dst []byte, n int) []byte {
		for range n {
			dst = append(dst, '0'+byte(rnd.IntN(10)))
		}
		return dst
	}
	var b []byte
	if rnd.IntN(2) == 0 {
		b = append(b, '-')
	}
	b = digits(b, 1+rnd.IntN(20))
	if rnd.IntN(3) > 0 {
		b = digits(append(b, '.'), rnd.IntN(12))
	}
	if rnd.IntN(2) == 0 {
		b = digits(append(b, "e-"[:1+rnd.IntN(2)]...), 1+rnd.IntN(2))
	}
	return b
}

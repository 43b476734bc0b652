package lineproto

import (
	"bytes"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"
)

// appendLine prints l. Its series stays as it was written.
func appendLine(dst []byte, l *Line) []byte {
	escape := func(dst, s []byte, special string) []byte {
		for _, c := range s {
			if strings.IndexByte(special, c) >= 0 {
				dst = append(dst, '\\')
			}
			dst = append(dst, c)
		}
		return dst
	}
	dst = append(dst, l.Series...)
	for i, f := range l.Fields {
		dst = append(dst, " ,"[min(i, 1)])
		dst = append(escape(dst, f.Key, `,= \`), '=')
		switch f.Kind {
		case Float:
			dst = strconv.AppendFloat(dst, f.Value, 'g', -1, 64)
		case Int:
			n, _ := big.NewFloat(f.Value).Int64() // saturates, as 2^63 is the float of the largest int64
			dst = append(strconv.AppendInt(dst, n, 10), 'i')
		case Uint:
			n, _ := big.NewFloat(f.Value).Uint64()
			dst = append(strconv.AppendUint(dst, n, 10), 'u')
		case Bool:
			dst = strconv.AppendBool(dst, f.Value == 1)
		case String:
			dst = append(escape(append(dst, '"'), f.Text, `"\`), '"')
		}
	}
	if l.HasTime {
		dst = strconv.AppendInt(append(dst, ' '), l.Time, 10)
	}
	return dst
}

// FuzzParse: nothing panics, the reference agrees, what is valid prints as a line that parses to the
// same, and NextLine cuts where the line ends.
func FuzzParse(f *testing.F) {
	for _, c := range good {
		f.Add([]byte(c.line), int64(1))
	}
	for _, c := range bad {
		f.Add([]byte(c.line), int64(time.Second))
	}
	f.Add([]byte(cpuLine), int64(time.Millisecond))
	f.Fuzz(func(t *testing.T, line []byte, precision int64) {
		unit := time.Duration(max(precision, 1))
		for rest := line; len(rest) > 0; {
			before := len(rest)
			if _, rest = NextLine(rest); len(rest) >= before {
				t.Fatalf("%q: NextLine stands still", line)
			}
		}
		SplitSeries(line, nil)
		if len(line) > MaxNameBytes { // the reference knows no limits
			var p Parser
			parse(&p, line, unit, new(Line))
			return
		}
		if strings.Count(string(line), ",") < MaxTags && !compare(t, line, unit) {
			return
		}
		roundTrip(t, line, unit)
	})
}

func roundTrip(t *testing.T, line []byte, precision time.Duration) {
	var p, q Parser
	var l, again Line
	if err := parse(&p, line, precision, &l); err != nil {
		return
	}
	printed := appendLine(nil, &l)
	if err := parse(&q, printed, 1, &again); err != nil {
		t.Fatalf("%q prints as %q: %v", line, printed, err)
	}
	if show(&l) != show(&again) {
		t.Fatalf("%q prints as %q:\n%s\n%s", line, printed, show(&l), show(&again))
	}
	for _, whole := range [][]byte{line, printed} {
		body := append(bytes.Clone(whole), "\nm a=\"\n\""...)
		if first, rest := NextLine(body); !bytes.Equal(first, whole) || string(rest) != "m a=\"\n\"" {
			t.Fatalf("%q: NextLine cuts off %q", body, first)
		}
	}
	if Blank(line) {
		t.Fatalf("%q is blank, but has a point", line)
	}
}

package tsbs

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/web/timeseries/lineproto"
)

var useCases = []struct {
	name          string
	generate      func(Options) *Generator
	series        int // of a host
	fields        int // of a host
	tags          int // at least
	walkingFields int // at least so many take more than one value
}{
	{"cpu-only", CPUOnly, 1, 10, 10, 10},
	{"devops", DevOps, 9, 101, 10, 90},
	{"iot", IoT, 2, 16, 5, 9},
}

var small = Options{Seed: 7, Hosts: 5, Duration: 20 * time.Minute}

// all returns all lines, taken a few at a time.
func all(g *Generator, lines int) []byte {
	var text []byte
	for {
		n := len(text)
		if text = g.Append(text, lines); len(text) == n {
			return text
		}
	}
}

func TestDeterministic(t *testing.T) {
	for _, u := range useCases {
		one := all(u.generate(small), 1)
		if other := all(u.generate(small), 97); !bytes.Equal(one, other) {
			t.Errorf("%s: equal options give other lines", u.name)
		}
		seeded := small
		seeded.Seed++
		if bytes.Equal(one, all(u.generate(seeded), 97)) {
			t.Errorf("%s: another seed gives the same lines", u.name)
		}
	}
}

type columnKey struct{ series, field string }

// parse reads the lines into columns, sorted by time, and returns how many came after a newer one of
// their series.
func parse(t *testing.T, text []byte, tags int) (columns map[columnKey]map[int64]float64, kinds map[columnKey]lineproto.Kind, late int) {
	var p lineproto.Parser
	var l lineproto.Line
	columns, kinds = map[columnKey]map[int64]float64{}, map[columnKey]lineproto.Kind{}
	last := map[string]int64{}
	for len(text) > 0 {
		var line []byte
		line, text = lineproto.NextLine(text)
		if err := p.Parse(line, time.Nanosecond, &l); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		n := 0
		if _, err := lineproto.SplitSeries(l.Series, func(_, _ []byte) { n++ }); err != nil || n < tags {
			t.Fatalf("%s: %d tags, %v", line, n, err)
		}
		series := string(l.Series)
		if before, ok := last[series]; ok && l.Time < before {
			late++
		}
		last[series] = max(last[series], l.Time)
		for _, f := range l.Fields {
			key := columnKey{series, string(f.Key)}
			if columns[key] == nil {
				columns[key], kinds[key] = map[int64]float64{}, f.Kind
			}
			if _, ok := columns[key][l.Time]; ok || kinds[key] != f.Kind {
				t.Fatalf("%s: field %s again, or of another kind", line, f.Key)
			}
			columns[key][l.Time] = f.Value
		}
	}
	return columns, kinds, late
}

// TestColumns: the columns have what the lines have.
func TestColumns(t *testing.T) {
	for _, u := range useCases {
		g := u.generate(small)
		text := all(g, 1000)
		lines, kinds, late := parse(t, text, u.tags)
		if (late > 0) != (u.name == "iot") {
			t.Errorf("%s: %d lines are late", u.name, late)
		}
		if g.Series() != u.series*small.Hosts || len(lines) != u.fields*small.Hosts {
			t.Errorf("%s: %d series with %d columns", u.name, g.Series(), len(lines))
		}
		points, walking := 0, 0
		for series, c := range g.Columns() {
			key := columnKey{series, c.Field}
			want := lines[key]
			if len(c.Times) != len(want) || len(c.Values) != len(want) || c.Integer != (kinds[key] == lineproto.Int) {
				t.Fatalf("%s: %v: %d times, %d values, %d in lines of %v", u.name, key, len(c.Times), len(c.Values), len(want), kinds[key])
			}
			differ := false
			for i, at := range c.Times {
				if v, ok := want[at]; !ok || v != c.Values[i] || i > 0 && at <= c.Times[i-1] || math.Signbit(v) && v == 0 {
					t.Fatalf("%s: %v at %d: %v, in lines %v", u.name, key, at, c.Values[i], v)
				}
				differ = differ || c.Values[i] != c.Values[0]
			}
			if differ {
				walking++
			}
			points += len(c.Times)
			delete(lines, key)
		}
		if len(lines) > 0 {
			t.Errorf("%s: %d columns of lines are not in Columns", u.name, len(lines))
		}
		if walking < u.walkingFields*small.Hosts {
			t.Errorf("%s: only %d columns change", u.name, walking)
		}
		most := u.fields * small.Hosts * 120
		if u.name == "iot" {
			if points < most*80/100 || points > most*95/100 {
				t.Errorf("%s: %d of %d values", u.name, points, most)
			}
		} else if points != most {
			t.Errorf("%s: %d of %d values", u.name, points, most)
		}
	}
}

// TestShape: the first line of each measurement looks like that of TSBS.
func TestShape(t *testing.T) {
	text := string(CPUOnly(Options{}).Append(nil, 1))
	for _, part := range []string{"cpu,hostname=host_0,region=", ",datacenter=", ",rack=", ",os=Ubuntu1", ",arch=x", ",team=", ",service=", ",service_version=", ",service_environment=", " usage_user=", "i,usage_guest_nice=", "i 1451606400000000000\n"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in %q", part, text)
		}
	}
	if len(text) < 280 || len(text) > 380 {
		t.Errorf("%d bytes: %s", len(text), text)
	}
	at := -1
	devops := string(DevOps(Options{Hosts: 1}).Append(nil, 10))
	for _, name := range []string{"cpu,", "\ndiskio,", "\ndisk,", "\nkernel,", "\nmem,", "\nnet,", "\nnginx,", "\npostgresl,", "\nredis,", "\ncpu,"} {
		next := strings.Index(devops[at+1:], name)
		if next < 0 {
			t.Fatalf("no %q in its place in %s", name, devops)
		}
		at += 1 + next
	}
}

// TestEnd: Append stops after the last line.
func TestEnd(t *testing.T) {
	o := Options{Hosts: 3, Interval: time.Second, Duration: 9*time.Second + 1, Start: time.Unix(5, 0)}
	g := CPUOnly(o)
	text := g.Append(nil, 29)
	text = g.Append(text, 5)
	if n := bytes.Count(text, []byte("\n")); n != 30 {
		t.Errorf("%d lines", n)
	}
	if !bytes.HasSuffix(text, []byte(" 14000000000\n")) {
		t.Errorf("%s", text[len(text)-30:])
	}
}

func TestNegativeOptions(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	IoT(Options{Hosts: -1})
}

func BenchmarkAppend(b *testing.B) {
	for _, u := range useCases {
		b.Run(u.name, func(b *testing.B) {
			g := u.generate(Options{})
			var text []byte
			for b.Loop() {
				if text = g.Append(text[:0], 1); len(text) == 0 {
					g = u.generate(Options{})
				}
				b.SetBytes(int64(len(text)))
			}
		})
	}
}

// BenchmarkParse measures the parser on the lines of all use cases, one after the other.
func BenchmarkParse(b *testing.B) {
	for _, u := range useCases {
		b.Run(u.name, func(b *testing.B) {
			body := u.generate(Options{}).Append(nil, 10_000)
			var p lineproto.Parser
			var l lineproto.Line
			b.SetBytes(int64(len(body) / 10_000))
			b.ReportAllocs()
			var rest []byte
			for b.Loop() {
				if len(rest) == 0 {
					rest = body
				}
				var line []byte
				line, rest = lineproto.NextLine(rest)
				if err := p.Parse(line, time.Nanosecond, &l); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

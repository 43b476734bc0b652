package series

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
)

// TestNameless: the aggregates of a series that has no name are series of their own.
func TestNameless(t *testing.T) {
	for _, c := range []struct{ of, want string }{{"temp", `temp:avg{A="1",z="2"}`}, {"", `:avg{A="1",z="2"}`}} {
		of := labels(t, c.of, "z", "2", "A", "1")
		got := of.summary(Avg)
		if got.String() != c.want {
			t.Errorf("%s is summarized as %s, want %s", of, got, c.want)
		}
		if err := got.normalize(); err != nil || got.String() != c.want || got[0].Name != "A" {
			t.Errorf("%s, %v", got, err)
		}
	}
}

// TestFlood: of many series that clients invent at once, as many are accepted as may be, and each of those takes samples.
// A client whose series are refused does not disturb the others. Another node has the same series.
func TestFlood(t *testing.T) {
	const most, clients, each = 500, 8, 40
	eng := testengine.Open(t, testengine.Options{})
	c := Collection{Name: "c", MaxSeries: most}
	s := open(t, eng, Options{}, c)[0]
	old, err := s.Define(t.Context(), []Labels{labels(t, "old")})
	if err != nil {
		t.Fatal(err)
	}
	var accepted atomic.Int64
	var work sync.WaitGroup
	for client := range clients {
		work.Go(func() {
			for round := range 3 {
				var names []Labels
				for i := range each {
					names = append(names, labels(t, "m", "client", fmt.Sprint(client), "session", fmt.Sprint(round, i)))
				}
				ids, err := s.Define(t.Context(), names)
				if err != nil && engine.CodeOf(err) != CodeTooManySeries {
					t.Error(err)
					return
				}
				if refused := slices.Contains(ids, 0); refused != (err != nil) {
					t.Errorf("some ids are 0: %v, and the error is %v", refused, err)
				}
				var b Batch
				b.Add(old[0], now.UnixNano()+int64(client*10+round), 1)
				for _, id := range ids {
					if id != 0 {
						b.Add(id, now.UnixNano(), float64(id))
						accepted.Add(1)
					}
				}
				if _, err := s.Append(t.Context(), &b); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	if accepted.Load() != most-1 {
		t.Errorf("%d new series were accepted, want %d", accepted.Load(), most-1)
	}
	for _, node := range []*Store{s, open(t, eng, Options{}, c)[0]} {
		list, err := node.Select(t.Context(), Query{})
		if err != nil || len(list) != most {
			t.Fatalf("%d series have samples, want %d: %v", len(list), most, err)
		}
		for _, x := range list {
			switch {
			case x.Labels.String() == "old":
				if len(x.Times) != clients*3 {
					t.Errorf("%s has %d samples", x.Labels, len(x.Times))
				}
			case len(x.Times) != 1 || x.Values[0] != float64(s.Lookup(x.Labels)):
				t.Errorf("%s has %v", x.Labels, x.Values)
			}
		}
		if n := node.Stats().Series; n != most {
			t.Errorf("the node has %d series", n)
		}
	}
}

// oddValues are those that a careless encoding changes.
func oddValues() []float64 {
	bits := []uint64{0x7ff0000000000001, 0x7ff0000000000002, 0x7ff8000000000001, 0xfff8000000000000, 0xffffffffffffffff}
	values := []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64, math.MaxFloat64,
		1 << 53, -(1 << 53), 1<<53 + 2, 1<<53 - 1, -(1<<53 - 1), 1 << 63, -(1 << 63), 0.1, 31, 32, 4095, 4096}
	for _, b := range bits {
		values = append(values, math.Float64frombits(b))
	}
	return values
}

// TestOddValues: each value comes back bit by bit, from memory, sealed, merged and from another node, alone and among
// others.
func TestOddValues(t *testing.T) {
	eng := testengine.Open(t, testengine.Options{})
	o := Options{generation: 100, fanIn: 2, pause: time.Millisecond}
	s := open(t, eng, o, Collection{Name: "c"})[0]
	odd := oddValues()
	var names []Labels
	for i := range odd {
		names = append(names, labels(t, "alone", "i", fmt.Sprint(i)))
	}
	names = append(names, labels(t, "all"))
	ids, err := s.Define(t.Context(), names)
	if err != nil {
		t.Fatal(err)
	}
	m := model{}
	for _, l := range names {
		m[l.String()] = map[int64]uint64{}
	}
	for round := range 20 {
		var b Batch
		at := now.Add(time.Duration(round-100) * time.Minute).UnixNano()
		for i, v := range odd {
			b.Add(ids[i], at, v)
			m[names[i].String()][at] = math.Float64bits(v)
			b.Add(ids[len(odd)], at+int64(i), v)
			m["all"][at+int64(i)] = math.Float64bits(v)
		}
		if _, err := s.Append(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		m.check(t, s, Query{}, nil)
	}
	idle(t, s)
	if s.db.own == nil && s.Stats().Parts == 0 {
		t.Error("nothing is sealed")
	}
	m.check(t, s, Query{}, nil)
	m.check(t, open(t, eng, o, Collection{Name: "c"})[0], Query{}, nil)
}

// TestWholeBatch: a batch of which one sample is refused stores nothing, neither in memory nor for another node, and the
// next one is stored.
func TestWholeBatch(t *testing.T) {
	eng := testengine.Open(t, testengine.Options{})
	c := Collection{Name: "c", Window: time.Hour}
	s := open(t, eng, Options{}, c)[0]
	ids, err := s.Define(t.Context(), []Labels{labels(t, "m"), labels(t, "n")})
	if err != nil {
		t.Fatal(err)
	}
	for want, bad := range map[engine.Code]int64{CodeTooOld: now.Add(-2 * time.Hour).UnixNano(), CodeTooNew: now.Add(time.Hour).UnixNano()} {
		for place := range 3 {
			var b Batch
			for i := range 3 {
				at := now.UnixNano() + int64(i)
				if i == place {
					at = bad
				}
				b.Add(ids[i%2], at, 1)
			}
			if _, err := s.Append(t.Context(), &b); engine.CodeOf(err) != want {
				t.Errorf("%v, want %s", err, want)
			}
		}
	}
	other := open(t, eng, Options{}, c)[0]
	for _, node := range []*Store{s, other} {
		if n := count(t, node, Query{}); n != 0 {
			t.Errorf("%d samples of refused batches are there", n)
		}
	}
	var b Batch
	b.Add(ids[0], now.UnixNano(), 1)
	if _, err := s.Append(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	if n := count(t, other, Query{}); n != 1 {
		t.Errorf("%d samples, want 1", n)
	}
}

// TestUnknownID: a batch with an id that Define has not returned stores nothing, and the collection works on, here and on
// another node.
func TestUnknownID(t *testing.T) {
	eng := testengine.Open(t, testengine.Options{})
	c := Collection{Name: "c"}
	s := open(t, eng, Options{}, c)[0]
	ids, err := s.Define(t.Context(), []Labels{labels(t, "m")})
	if err != nil {
		t.Fatal(err)
	}
	for _, unknown := range []ID{0, ids[0] + 1, MaxSeries, math.MaxUint32} {
		for place := range 3 {
			var b Batch
			for i := range 3 {
				id := ids[0]
				if i == place {
					id = unknown
				}
				b.Add(id, now.UnixNano(), float64(i))
			}
			if _, err := s.Append(t.Context(), &b); engine.CodeOf(err) != engine.CodeInvalid || !strings.Contains(err.Error(), fmt.Sprintf("series %d,", unknown)) {
				t.Errorf("series %d: %v", unknown, err)
			}
			b.Reset()
			b.Add(ids[0], now.UnixNano(), 1)
			if _, err := s.Append(t.Context(), &b); err != nil {
				t.Errorf("the same batch, used again: %v", err)
			}
		}
	}
	for _, node := range []*Store{s, open(t, eng, Options{}, c)[0]} {
		if n := count(t, node, Query{}); n != 1 {
			t.Errorf("%d samples, want 1", n)
		}
	}
}

// TestSkew: clients whose clocks differ write to the same series, and the clock of the server is set back. What was
// accepted stays and is read in the order of its times; of samples with one time the last that was written counts.
func TestSkew(t *testing.T) {
	var at atomic.Int64
	at.Store(now.UnixNano())
	o := Options{generation: 20, fanIn: 2, pause: time.Millisecond, Now: func() time.Time { return time.Unix(0, at.Load()) }}
	eng := testengine.Open(t, testengine.Options{})
	s := open(t, eng, o, Collection{Name: "c", Window: time.Hour, Retention: 24 * time.Hour})[0]
	name := labels(t, "m")
	ids, err := s.Define(t.Context(), []Labels{name})
	if err != nil {
		t.Fatal(err)
	}
	m := model{name.String(): {}}
	write := func(at time.Time, v float64) error {
		var b Batch
		b.Add(ids[0], at.UnixNano(), v)
		_, err := s.Append(t.Context(), &b)
		if err == nil {
			m[name.String()][at.UnixNano()] = math.Float64bits(v)
		}
		return err
	}
	skews := []time.Duration{0, 9 * time.Minute, -50 * time.Minute, time.Minute, -time.Minute}
	for i := range 60 {
		for client, skew := range skews {
			if err := write(now.Add(skew+time.Duration(i%30)*time.Second), float64(client*100+i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	m.check(t, s, Query{}, nil)
	newest := now.Add(9*time.Minute + 29*time.Second)
	at.Store(now.Add(-30 * time.Minute).UnixNano())
	if err := write(newest, 1); engine.CodeOf(err) != CodeTooNew {
		t.Errorf("a sample that is new after the clock was set back: %v", err)
	}
	if err := write(now.Add(-85*time.Minute), 2); err != nil {
		t.Error(err)
	}
	m.check(t, s, Query{}, nil)
	list, err := s.Latest(t.Context(), nil, 0, engine.Read{})
	if err != nil || len(list) != 1 || !slices.Equal(list[0].Times, []int64{newest.UnixNano()}) {
		t.Errorf("the newest sample is %v, %v, want that of %s", list, err, newest)
	}
	idle(t, s)
	m.check(t, s, Query{}, nil)
}

// TestRegexps: expressions that match everything, nothing, or only what others would take for an end of a line; and those
// that are none, or too large, are refused by name.
func TestRegexps(t *testing.T) {
	s := open(t, testengine.Open(t, testengine.Options{}), Options{}, Collection{Name: "c"})[0]
	values := []string{"a", "b", "ab", "a\nb", "A", "ü", strings.Repeat("x", 2000)}
	var all []Labels
	for _, v := range values {
		all = append(all, labels(t, "m", "l", v))
	}
	if _, err := s.Define(t.Context(), append(all, labels(t, "m"))); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int{
		`{l=~".*"}`: 8, `{l=~".+"}`: 7, `{l=~""}`: 1, `{l!~""}`: 7, `{l!~".*"}`: 0, `{l=~"[^\\s\\S]"}`: 0, `{l=~"a^"}`: 0, `{l=~"|"}`: 1,
		`{l=~"()"}`: 1, `{l=~"(.*)*"}`: 8, `{l=~"a"}`: 1, `{l=~"^a$"}`: 1, `{l=~"(?m)a$.*"}`: 2, `{l=~"a.b"}`: 1, `{l=~"(?i)a"}`: 2,
		`{l=~"a|"}`: 2, `{l!~"a|"}`: 6, `{l=~"."}`: 4, `{l=~"x{1000}x{1000}"}`: 1, `{l=~"\\pL"}`: 4, `{nothing=~".*"}`: 8, `{nothing=~".+"}`: 0,
	} {
		match, err := ParseSelector(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		list, err := s.Find(t.Context(), match, engine.Read{}, 0)
		if err != nil || len(list) != want {
			t.Errorf("%s finds %d series, want %d: %v", text, len(list), want, err)
		}
	}
	for _, value := range []string{`(`, `a)`, `a)|(b`, `a)|(?:b`, `[a`, `*`, `a**`, `\`, `\8`, `(?z)`, "\xff", `x{1001}`, `((a{100}){100}){100}`, strings.Repeat("(", 1001) + strings.Repeat(")", 1001), strings.Repeat("a", MaxRegexpBytes+1)} {
		for _, op := range []Op{Regexp, NotRegexp} {
			if _, err := NewMatcher("l", op, value); engine.CodeOf(err) != CodeMatcher {
				t.Errorf("%.40s: %v, want %s", value, err, CodeMatcher)
			}
		}
	}
}

// TestEverything: queries that select more series than one may read end with an error that says so, at once; those that
// only ask for some go on.
func TestEverything(t *testing.T) {
	s := open(t, testengine.Open(t, testengine.Options{}), Options{}, Collection{Name: "c"})[0]
	ids, err := s.Define(t.Context(), []Labels{labels(t, "few"), labels(t, "many", "i", "1")})
	if err != nil {
		t.Fatal(err)
	}
	var b Batch
	b.Add(ids[0], now.UnixNano(), 1)
	if _, err := s.Append(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	_, h := s.state()
	h.mu.Lock()
	many := h.index.values[h.index.number["i"]]
	for id := uint32(3); id <= MaxQuerySeries+2; id++ { // in memory only, with the labels of the second, as defining them takes long
		h.members.add(id, h.members.get(2).pairs)
		many[h.index.number["1"]] = append(many[h.index.number["1"]], id)
	}
	h.mu.Unlock()
	regexps := func(texts ...string) (match []Matcher) {
		for _, text := range texts {
			m, err := NewMatcher("i", Regexp, text)
			if err != nil {
				t.Fatal(err)
			}
			match = append(match, m)
		}
		return match
	}
	for _, q := range []Query{{}, {Match: regexps(".*")}, {Match: regexps(".+", "1+")}, {From: now.Add(-1), To: now}, {Step: time.Hour, Aggregates: []Aggregate{Avg}}} {
		if _, err := s.Select(t.Context(), q); engine.CodeOf(err) != CodeQueryLimit || !strings.Contains(err.Error(), " series match, over the limit of 200000") {
			t.Errorf("%v: %v", q, err)
		}
	}
	if _, err := s.Latest(t.Context(), nil, 0, engine.Read{}); engine.CodeOf(err) != CodeQueryLimit {
		t.Errorf("the newest samples of all: %v", err)
	}
	if n := count(t, s, Query{Match: []Matcher{{Name: NameLabel, Value: "few"}}}); n != 1 {
		t.Errorf("%d samples, want 1", n)
	}
	if list, err := s.Find(t.Context(), nil, engine.Read{}, 0); err != nil || len(list) != MaxQuerySeries {
		t.Errorf("%d series are listed: %v", len(list), err)
	}
	if list, err := s.Find(t.Context(), regexps("1.*"), engine.Read{}, 3); err != nil || len(list) != 3 {
		t.Errorf("%d series are listed: %v", len(list), err)
	}
}

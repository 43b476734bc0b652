package query

import (
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
)

// aggregate returns the values of all groups of records with the data, as text.
func aggregate(t *testing.T, group, aggregates string, data ...string) (string, error) {
	t.Helper()
	s := scope(t)
	q := &Query{}
	var err error
	if q.Group, err = ParseGroup(group, s); err == nil {
		q.Aggregates, err = ParseAggregates(aggregates, s)
	}
	if err != nil {
		t.Fatal(err)
	}
	g := NewGroups(q)
	for _, d := range data {
		if err := g.Add(newRow(t, s.Collection, d)); err != nil {
			return "", err
		}
	}
	all, err := g.Values()
	var lines []string
	for _, v := range all {
		var line []byte
		for _, x := range slices.Concat(v.Group, v.Aggregates) {
			line = append(x.AppendJSON(line), ' ')
		}
		lines = append(lines, strings.TrimSpace(string(line)))
	}
	return strings.Join(lines, "; "), err
}

func TestAggregates(t *testing.T) {
	max := `{"count":9223372036854775807}`
	nines := `{"total":"` + strings.Repeat("9", value.MaxDecimalDigits) + `"}`
	for _, c := range []struct {
		group, aggregates string
		data              []string
		want              string
	}{
		{"", "count,count(count),sum(count),avg(count),min(count),max(count)", nil, "0 0 null null null null"},
		{"", "count,count(count),sum(count),avg(count),min(count),max(count)", []string{`{"count":1}`, `{}`, `{"count":-4}`}, `3 2 -3 "-1.5" -4 1`},
		{"", "sum(count)", []string{max, `{"count":1}`}, `"9223372036854775808"`}, {"", "sum(count)", []string{max, `{"count":1}`, `{"count":-2}`}, "9223372036854775806"},
		{"", "sum(total),avg(total),max(total)", []string{`{"total":"0.1"}`, `{"total":"0.20"}`, `{"total":"-3"}`}, `"-2.7" "-0.9" "0.2"`},
		{"", "avg(count),avg(total)", []string{`{"count":1,"total":"-1"}`, `{"count":1,"total":"-1"}`, `{"count":0,"total":"0"}`}, `"0.6666666666666667" "-0.6666666666666667"`},
		{"", "avg(count)", []string{max, max, `{"count":9223372036854775806}`}, `"9223372036854775806.6666666666666667"`}, {"", "avg(total)", []string{nines, `{"total":"0"}`, `{"total":"0"}`}, `"33333333333333333333333333333333333333"`},
		{"", "sum(ratio),avg(ratio)", []string{`{"ratio":1e37}`, `{"ratio":0.1}`, `{"ratio":1e37}`, `{"ratio":-1e37}`, `{"ratio":-1e37}`}, "0.1 0.02"},
		{"", "min(title),max(title),min(at),max(paid)", []string{`{"title":"b","at":"2026-01-02","paid":false}`, `{"title":"a","at":"2026-01-01"}`}, `"a" "b" "2026-01-01T00:00:00.000000Z" false`},
		{"status,paid", "count", []string{`{"status":"open"}`, `{"status":"done","paid":true}`, `{}`, `{"status":"open"}`}, `null null 1; "done" true 1; "open" null 2`},
		{"week(at)", "count", []string{`{"at":"2026-01-04T23:59:59.999999Z"}`, `{"at":"2026-01-05"}`, `{"at":"2026-01-11"}`, `{}`}, `null 1; "2025-12-29T00:00:00.000000Z" 1; "2026-01-05T00:00:00.000000Z" 2`},
		{"year(at),month(at),day(at),hour(at)", "count", []string{`{"at":"2026-03-04T05:06:07Z"}`}, `"2026-01-01T00:00:00.000000Z" "2026-03-01T00:00:00.000000Z" "2026-03-04T00:00:00.000000Z" "2026-03-04T05:00:00.000000Z" 1`},
		{"week(at)", "count", []string{`{"at":"0001-01-01"}`}, `"0001-01-01T00:00:00.000000Z" 1`},
	} {
		if got, err := aggregate(t, c.group, c.aggregates, c.data...); err != nil || got != c.want {
			t.Errorf("%s by %s of %v: %s, %v\nwant %s", c.aggregates, c.group, c.data, got, err, c.want)
		}
	}
	tooMany := make([]string, MaxGroups+1)
	for i := range tooMany {
		tooMany[i] = fmt.Sprintf(`{"count":%d}`, i)
	}
	if _, err := aggregate(t, "count", "count", tooMany[1:]...); err != nil {
		t.Errorf("%d groups: %v", MaxGroups, err)
	}
	for _, c := range []struct {
		group, aggregates string
		data              []string
	}{{"", "sum(total)", []string{nines, `{"total":"1"}`}}, {"count", "count", tooMany}} {
		_, err := aggregate(t, c.group, c.aggregates, c.data...)
		if e, ok := errors.AsType[*Error](err); !ok || e.Code != CodeTooLarge {
			t.Errorf("%s by %s: %v", c.aggregates, c.group, err)
		}
	}
}

// TestGroupOrders: groups are sorted by what the query says, with null first or last, and otherwise by their values.
func TestGroupOrders(t *testing.T) {
	s := scope(t)
	rows := []string{`{"status":"open","total":"9223372036854775808"}`, `{"status":"done","total":"2.5","count":1}`, `{"status":"done","total":"-2.5","count":9223372036854775807}`, `{"total":"0"}`, `{"status":"open","paid":true}`, `{"status":"done","paid":true,"count":5}`}
	for _, c := range []struct{ sort, want string }{
		{"", `null null; "done" null; "done" true; "open" null; "open" true`}, {"-status", `"open" null; "open" true; "done" null; "done" true; null null`}, {"-paid,status", `"done" true; "open" true; null null; "done" null; "open" null`},
		{"count(id)", `null null; "done" true; "open" null; "open" true; "done" null`}, {"-count(id),-paid,-status", `"done" null; "open" true; "done" true; "open" null; null null`},
		{"-sum(total)", `"open" null; null null; "done" null; "done" true; "open" true`}, {"sum(total),-status", `"open" true; "done" true; "done" null; null null; "open" null`},
		{"-sum(count)", `"done" null; "done" true; null null; "open" null; "open" true`},
	} {
		q, err := Parse(url.Values{"group": {"status,paid"}, "aggregate": {"count(id),sum(total),sum(count)"}, "sort": {c.sort}}, s)
		if err != nil {
			t.Fatal(err)
		}
		g := NewGroups(q)
		for _, d := range rows {
			r := newRow(t, s.Collection, d)
			r.columns["id"] = value.OfInt(1)
			if err := g.Add(r); err != nil {
				t.Fatal(err)
			}
		}
		all, err := g.Values()
		var got []string
		for _, v := range all {
			got = append(got, string(v.Group[1].AppendJSON(append(v.Group[0].AppendJSON(nil), ' '))))
		}
		if text := strings.Join(got, "; "); err != nil || text != c.want {
			t.Errorf("sort %q: %s, %v\nwant %s", c.sort, text, err, c.want)
		}
	}
}

// TestSumOfFloats: a sum too large for a float is an error, and not infinite.
func TestSumOfFloats(t *testing.T) {
	k := collections(t)("orders")
	ratio, _ := k.Index("ratio")
	huge, err := value.OfFloat(1e308)
	if err != nil {
		t.Fatal(err)
	}
	a, err := ParseAggregates("sum(ratio)", scope(t))
	if err != nil {
		t.Fatal(err)
	}
	g := NewGroups(&Query{Aggregates: a})
	for range 2 {
		if err := g.Add(&row{Data: schema.Data{}.With(ratio, huge)}); err != nil {
			t.Fatal(err)
		}
	}
	_, err = g.Values()
	if e, ok := errors.AsType[*Error](err); !ok || e.Code != CodeTooLarge {
		t.Errorf("%v", err)
	}
}

// TestSumsAreExact compares sums and averages with exact fractions, in any order of the values.
func TestSumsAreExact(t *testing.T) {
	rng := seed.Rand(t)
	k := collections(t)("orders")
	total, _ := k.Index("total")
	ratio, _ := k.Index("ratio")
	for range 300 {
		exact, floats := new(big.Rat), new(big.Rat)
		var rows []*row
		for range 1 + rng.IntN(20) {
			d, err := value.ParseDecimal(fmt.Sprintf("%d.%0*d", rng.Int64N(1e15)-5e14, 1+rng.IntN(6), rng.IntN(10)))
			if err != nil {
				t.Fatal(err)
			}
			f, err := value.OfFloat((rng.Float64() - 0.5) * []float64{1, 1e300, 1e-300}[rng.IntN(3)])
			if err != nil {
				t.Fatal(err)
			}
			x, _ := new(big.Rat).SetString(d.String())
			y, _ := f.Float()
			exact.Add(exact, x)
			floats.Add(floats, new(big.Rat).SetFloat64(y))
			rows = append(rows, &row{Data: schema.Data{}.With(total, d).With(ratio, f)})
		}
		n := new(big.Rat).SetInt64(int64(len(rows)))
		want := exact.FloatString(20)
		average := new(big.Rat).Quo(exact, n).FloatString(AvgDigits)
		sum, _ := floats.Float64()
		mean, _ := new(big.Rat).Quo(floats, n).Float64()
		for range 3 {
			rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
			v := sums(t, rows)
			got, _ := new(big.Rat).SetString(v[0].String())
			avg, _ := new(big.Rat).SetString(v[1].String())
			s, _ := v[2].Float()
			m, _ := v[3].Float()
			if got.FloatString(20) != want || avg.FloatString(AvgDigits) != average || s != sum || m != mean {
				t.Fatalf("%d rows: %v, want %s %s %v %v", len(rows), v, want, average, sum, mean)
			}
		}
	}
}

func sums(t *testing.T, rows []*row) []value.Value {
	t.Helper()
	a, err := ParseAggregates("sum(total),avg(total),sum(ratio),avg(ratio)", scope(t))
	if err != nil {
		t.Fatal(err)
	}
	g := NewGroups(&Query{Aggregates: a})
	for _, r := range rows {
		if err := g.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	all, err := g.Values()
	if err != nil {
		t.Fatal(err)
	}
	return all[0].Aggregates
}

// library is a Lookup in memory.
type library struct {
	rows   map[string]map[string]*row
	hidden map[string]bool // ids
	gets   int
}

func (l *library) Get(k *schema.Compiled, id string) (Row, error) {
	l.gets++
	if r := l.rows[k.Name][id]; r != nil && !l.hidden[id] {
		return r, nil
	}
	return nil, nil
}

func (l *library) Referring(k *schema.Compiled, field int, id string, n int) (all []Row, err error) {
	ids := []string{}
	for other, r := range l.rows[k.Name] {
		if text, _ := r.Field(field).Text(); text == id && !l.hidden[other] {
			ids = append(ids, other)
		}
	}
	slices.Sort(ids)
	for _, id := range ids[:min(n, len(ids))] {
		all = append(all, l.rows[k.Name][id])
	}
	return all, nil
}

// relate returns what was expanded, as text.
func relate(all []Related) string {
	var parts []string
	for _, r := range all {
		var rows []string
		for i, to := range r.Rows {
			id, _ := to.Column(0).Text()
			if more := relate(r.Of[i]); more != "" {
				id += "{" + more + "}"
			}
			rows = append(rows, id)
		}
		if r.More {
			rows = append(rows, "…")
		}
		parts = append(parts, r.Name+":"+strings.Join(rows, ","))
	}
	return strings.Join(parts, " ")
}

func newLibrary(t *testing.T, orders int) *library {
	of := collections(t)
	l := &library{rows: map[string]map[string]*row{"orders": {}, "users": {}}, hidden: map[string]bool{}}
	add := func(collection, id, data string) {
		r := newRow(t, of(collection), data)
		r.columns["id"], _ = value.OfText(id)
		l.rows[collection][id] = r
	}
	add("users", "u1", `{"boss":"u2"}`)
	add("users", "u2", `{"boss":"u2"}`)
	add("users", "u3", `{"boss":"none"}`)
	for i := range orders {
		add("orders", fmt.Sprintf("o%03d", i), `{"owner":"u1"}`)
	}
	return l
}

func TestExpand(t *testing.T) {
	l := newLibrary(t, 3)
	s := scope(t)
	order := newRow(t, s.Collection, `{"owner":"u1"}`)
	for _, c := range []struct{ expand, hidden, want string }{
		{"owner", "", "owner:u1"}, {"owner.boss.boss", "", "owner:u1{boss:u2{boss:u2}}"}, {"owner.orders(owner),owner.users(boss)", "", "owner:u1{orders(owner):o000,o001,o002 users(boss):}"},
		{"owner.boss.users(boss)", "", "owner:u1{boss:u2{users(boss):u1,u2}}"}, {"owner.boss", "u2", "owner:u1{boss:}"}, {"owner.boss", "u1", "owner:"}, {"owner.orders(owner)", "o001", "owner:u1{orders(owner):o000,o002}"},
	} {
		all, err := ParseExpand(c.expand, s)
		if err != nil {
			t.Fatal(err)
		}
		l.hidden = map[string]bool{c.hidden: true}
		if got, err := NewExpander(l).Expand(order, all); err != nil || relate(got) != c.want {
			t.Errorf("%s without %s: %s, %v; want %s", c.expand, c.hidden, relate(got), err, c.want)
		}
	}
	l = newLibrary(t, MaxExpandList+1)
	all, err := ParseExpand("owner.orders(owner)", s)
	if err != nil {
		t.Fatal(err)
	}
	x := NewExpander(l)
	for i := range MaxExpanded {
		got, err := x.Expand(order, all)
		if e, ok := errors.AsType[*Error](err); ok && e.Code == CodeTooLarge {
			if l.gets != 1 || i != MaxExpanded/(MaxExpandList+1) {
				t.Errorf("the owner was looked up %d times for %d orders", l.gets, i)
			}
			return
		}
		if err != nil || len(got[0].Of[0][0].Rows) != MaxExpandList || !got[0].Of[0][0].More {
			t.Fatalf("%s, %v", relate(got), err)
		}
	}
	t.Errorf("more than %d records are expanded", MaxExpanded)
}

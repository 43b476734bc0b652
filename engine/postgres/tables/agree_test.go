package tables_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// values are the JSON values of fields by type. They are few, so that records share them, and those at which orders or what is
// equal may differ: letters beyond ASCII and of two cases, control characters, numbers with many digits, negative ones, the
// same value in several forms, and ends of ranges.
var values = map[schema.Type][]string{
	schema.Text: {`""`, `"a"`, `"A"`, `"ab"`, `"a\u0001"`, `"a "`, `"B"`, `"b"`, `"é"`, `"É"`, `"e\u0301"`, `"ss"`, `"ß"`, `"İ"`, `"z"`, `"😀"`, `"\ud83d\ude00"`, `"\uffff"`, `"�"`, `"\u007f\n"`,
		`"a%_\\'\"$1"`},
	schema.Int:       {"-9223372036854775808", "-2", "-1", "0", "-0", "1", "1.0", "2", "10", "1e1", "9223372036854775807"},
	schema.Float:     {"-1e22", "-0.5", "0", "-0", "-0.0", "1e-7", "0.1", "0.10000000000000000555111512312578270", "1.5", "15e-1", "2", "1e22", "10000000000000000000000", "123456789.123"},
	schema.Decimal:   {`"-10"`, `"-1.5"`, `"0"`, `"-0"`, `0.00`, `"0.50"`, `0.5`, `"10"`, `1e1`, `"9.99"`, `"12345678901234567890.12"`, `"12345678901234567890.120000"`, `"99999999999999999999999999999999999999"`, `"0.0000000000000000000000000000000000001"`},
	schema.Bool:      {"true", "false"},
	schema.Time:      {`"2025-12-31T00:00:00Z"`, `"2026-01-01T00:00:00.000001Z"`, `"2026-01-01T05:30:00.0000019+05:30"`, `"2025-12-31"`, `"0001-01-01T00:00:00Z"`, `"9999-12-31T23:59:59Z"`},
	schema.Reference: {`"r1"`, `"r2"`, `"r10"`},
	schema.JSON:      {`{"b":1,"a":[1.50,null]}`, `"a"`, `""`, `2`, `-0`, `1e2`, `[]`, `[null]`, `{}`, `{"a":null}`, `{"b":1,"a":2,"b":3}`, `{"":{"é":"\u0001"}}`, strings.Repeat("[", 60) + strings.Repeat("]", 60)},
}

// refused are values that no field may have. The column data, which is jsonb, and PostgreSQL's numeric could not hold most of
// them, so they must not get as far.
var refused = []string{`"a\u0000"`, `"\ud800"`, `{"a\u0000":1}`, `["\udc00\ud800"]`, "\"\xff\"", `1e400`, `-1e400`, `1e-400`, `1e200000`, strings.Repeat("9", 2_500), strings.Repeat("[", 100) + strings.Repeat("]", 100),
	`"9999-12-31T23:59:59-05:00"`, `"0001-01-01T00:00:00+01:00"`}

var types = []schema.Type{schema.Text, schema.Int, schema.Float, schema.Decimal, schema.Bool, schema.Time, schema.Reference, schema.JSON}

// pair are two databases in which the same happens: one with records in tables, one with records in keys.
type pair struct {
	rng     *rand.Rand
	dbs     [2]*record.DB
	now     time.Time
	fields  []schema.Field
	indexes []schema.Index

	collection schema.Collection
	present    bool // no queries of the past: which of them fails because changes are gone depends on what is read
}

// describePair returns a pair without databases.
func describePair(rng *rand.Rand) *pair {
	p := &pair{rng: rng, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	for i := range 2 + rng.IntN(7) {
		f := schema.Field{Name: fmt.Sprint("f", i), Type: types[rng.IntN(len(types))]}
		if f.Type == schema.Reference {
			f.Collection, f.OnDelete = "c", []schema.OnDelete{schema.Restrict, schema.Cascade, schema.SetNull}[rng.IntN(3)]
		}
		p.fields = append(p.fields, f)
	}
	for i := range rng.IntN(4) {
		x := schema.Index{Name: fmt.Sprint("x", i), Unique: rng.IntN(4) == 0}
		for _, j := range rng.Perm(len(p.fields))[:1+rng.IntN(2)] {
			if p.fields[j].Type != schema.JSON {
				x.Fields = append(x.Fields, schema.IndexField{Name: p.fields[j].Name, Desc: rng.IntN(2) == 0})
			}
		}
		if len(x.Fields) > 0 {
			p.indexes = append(p.indexes, x)
		}
	}
	p.collection = schema.Collection{Name: "c", Extra: true, Fields: p.fields, Indexes: p.indexes, Rules: schema.Rules{List: "true", View: "true", Create: "true", Update: "rev != 5", Delete: "true", History: "true"}}
	return p
}

func newPair(t *testing.T, rng *rand.Rand) *pair {
	p := describePair(rng)
	o := testengine.Options{Memory: true, Now: func() time.Time { return p.now }}
	for i, eng := range []engine.Engine{openNative(t, o.Now), testengine.Open(t, o)} {
		db, err := record.Open(eng, record.Options{})
		if err == nil {
			err = db.Define(p.collection)
		}
		if err != nil {
			t.Fatal(err)
		}
		p.dbs[i] = db
	}
	return p
}

func pick[T any](rng *rand.Rand, all ...T) T { return all[rng.IntN(len(all))] }

// literal returns a random value of a field as the language of filters has it, now and then null.
func (p *pair) literal(f schema.Field) string {
	if p.rng.IntN(8) == 0 {
		return "null"
	}
	if p.rng.IntN(40) == 0 {
		return pick(p.rng, refused...)
	}
	v := pick(p.rng, values[f.Type]...)
	if f.Type == schema.Decimal {
		return strings.Trim(v, `"`)
	}
	if f.Type == schema.JSON {
		return "2"
	}
	return v
}

// filter returns a random condition.
func (p *pair) filter(depth int) string {
	if depth > 0 && p.rng.IntN(3) > 0 {
		a, b := p.filter(depth-1), p.filter(depth-1)
		return pick(p.rng, a+" && "+b, "("+a+" || "+b+")", "!("+a+")")
	}
	op := pick(p.rng, "=", "=", "!=", "<", "<=", ">", ">=")
	f := pick(p.rng, p.fields...)
	if f.Type == schema.Bool || f.Type == schema.JSON {
		op = pick(p.rng, "=", "!=")
	}
	switch p.rng.IntN(8) {
	case 0:
		return pick(p.rng, `id > "r3"`, `id in ("r1", "r2", "none")`, "rev > 2", "rev = 1", "created_by = null", `created_by = "u1"`, `created_by >= "É"`, "is_deleted", `updated > "2026-01-01T00:10:00Z"`, "updated = null", `extra = "y"`)
	case 1:
		return f.Name + " in (" + p.literal(f) + ", " + p.literal(f) + ")"
	case 2:
		if f.Type == schema.Text {
			return f.Name + ` ~ ` + pick(p.rng, `"a"`, `"%b"`, `"É"`, `"_"`, `"\\\\"`, `""`, `"S"`, `"i"`, `"\u0001"`)
		}
	}
	return f.Name + " " + op + " " + p.literal(f)
}

// data returns a random patch.
func (p *pair) data() []byte {
	var parts []string
	for _, f := range p.fields {
		if f.Type == schema.Reference && p.rng.IntN(4) > 0 {
			continue // most records that one may refer to are not there
		}
		switch p.rng.IntN(6) {
		case 0:
		case 1:
			parts = append(parts, fmt.Sprintf("%q:null", f.Name))
		case 2:
			if p.rng.IntN(20) == 0 {
				parts = append(parts, fmt.Sprintf("%q:%s", f.Name, pick(p.rng, refused...)))
			}
		default:
			parts = append(parts, fmt.Sprintf("%q:%s", f.Name, pick(p.rng, values[f.Type]...)))
		}
	}
	if p.rng.IntN(3) == 0 {
		parts = append(parts, `"extra":`+pick(p.rng, `"y"`, `{"z":1,"a":2}`, "null", `""`, "1.50", "1e2", "-0"))
	}
	return []byte("{" + strings.Join(parts, ",") + "}")
}

// change does a random thing to a record, in each of the databases.
func (p *pair) change() func(tx *record.Tx) (any, error) {
	p.now = p.now.Add(time.Minute)
	id, data, actor := fmt.Sprint("r", p.rng.IntN(25)), p.data(), record.Actor{ID: pick(p.rng, "", "u1", "u2", "É")}
	switch p.rng.IntN(40) {
	case 0:
		id = pick(p.rng, "R1", "é", "a\x00", "\xff", " r1", strings.Repeat("x", 3_000))
	case 1:
		actor.ID = pick(p.rng, "u\x00", "\xff")
	case 2:
		actor.Request = pick(p.rng, "é", "\x00", "\xed\xa0\x80")
	}
	op, rev := p.rng.IntN(12), uint64(1+p.rng.IntN(4))
	return func(tx *record.Tx) (any, error) {
		tx = tx.As(actor)
		switch {
		case op < 4:
			return text(tx.Create("c", id, data))
		case op < 8:
			return text(tx.Update("c", id, data, 0))
		case op == 8:
			return text(tx.Delete("c", id, 0))
		case op == 9:
			return text(tx.Restore("c", id, 0))
		case op == 10:
			return nil, tx.Purge("c", id, 0)
		}
		return text(tx.Revert("c", id, rev, 0))
	}
}

func text(r *record.Record, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return string(r.AppendJSON(nil)), nil
}

// search returns a random query, whose pages are read to the end.
func (p *pair) search() (string, func(tx *record.Tx) (any, error)) {
	q := url.Values{"filter": {p.filter(3)}, "limit": {pick(p.rng, "1", "3", "100")}, "deleted": {pick(p.rng, "live", "trash", "all")}, "count": {"true"}}
	var sort []string
	for _, i := range p.rng.Perm(len(p.fields))[:p.rng.IntN(3)] {
		if p.fields[i].Type != schema.JSON {
			sort = append(sort, pick(p.rng, "", "-")+p.fields[i].Name)
		}
	}
	q.Set("sort", strings.Join(append(sort, pick(p.rng, nil, []string{"-updated"}, []string{"created_by"}, []string{"-id"})...), ","))
	if p.rng.IntN(6) == 0 {
		q.Set("offset", "2")
	}
	if p.rng.IntN(5) == 0 && !p.present {
		q.Set("asof", p.now.Add(-time.Duration(p.rng.IntN(60))*time.Minute).Format(time.RFC3339))
		q.Set("deleted", "live")
	}
	return q.Encode(), func(tx *record.Tx) (any, error) {
		var all []string
		q := maps(q)
		for {
			x, err := tx.ParseQuery("c", q)
			if err != nil {
				return nil, err
			}
			page, err := tx.Find("c", x)
			if err != nil {
				return nil, err
			}
			all = append(all, string(page.AppendJSON(nil)))
			if page.Next == "" {
				return all, nil
			}
			q.Set("after", page.Next)
			q.Del("offset")
		}
	}
}

func maps(q url.Values) url.Values {
	c := url.Values{}
	for k, v := range q {
		c[k] = v
	}
	return c
}

// history returns the changes and the past of all records, and the end of the chain.
func history(tx *record.Tx) (any, error) {
	var all []any
	for i := range 25 {
		id := fmt.Sprint("r", i)
		changes, err := tx.History("c", id, 0, 100)
		if err != nil && engine.CodeOf(err) != record.CodeNotFound {
			return nil, err
		}
		for _, ch := range changes {
			line, err := json.Marshal(ch)
			if err != nil {
				return nil, err
			}
			past, err := text(tx.GetAsOf("c", id, record.Moment{Rev: ch.Rev}))
			all = append(all, string(line), past, code(err))
		}
	}
	head, err := tx.Head("c")
	return append(all, fmt.Sprintf("%x", head.Hash)), err
}

// randomIDs are in texts of errors. Which of several records without a past is named depends on the order in which they are
// found.
var randomIDs = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|revision \d+ of record r\d+ was redacted|the history of record r\d+ does not reach back that far`)

func code(err error) string {
	if err == nil {
		return ""
	}
	return string(engine.CodeOf(err)) + ": " + randomIDs.ReplaceAllString(err.Error(), "ID")
}

// both does something in both databases and compares what comes out.
func (p *pair) both(t *testing.T, what string, write bool, fn func(tx *record.Tx) (any, error)) (failed bool) {
	t.Helper()
	var got [2]string
	for i, db := range p.dbs {
		var result any
		run := func(tx *record.Tx) (err error) { result, err = fn(tx); return err }
		var err error
		if write {
			_, err = db.Update(t.Context(), record.Program(), run)
		} else {
			_, err = db.View(t.Context(), engine.Read{}, record.Program(), run)
		}
		line, _ := json.MarshalIndent(result, "", " ")
		got[i] = fmt.Sprintf("%s\n%s", line, code(err))
		failed = err != nil
	}
	if got[0] != got[1] {
		t.Fatalf("%s, fields %+v, indexes %+v\n%s", what, p.fields, p.indexes, different(got[0], got[1]))
	}
	return failed
}

// different returns the lines from the first to the last one that differ.
func different(tables, keys string) string {
	a, b := strings.Split(tables, "\n"), strings.Split(keys, "\n")
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return "tables: " + strings.Join(a, "\n") + "\nkeys: " + strings.Join(b, "\n")
}

// TestDriversAgree makes the same random changes to records in tables and to records in keys, and asks both for the same
// pages, counts, past states and histories. The answers are the same, to the byte.
func TestDriversAgree(t *testing.T) {
	done, found := 0, 0
	for range 4 {
		s := seed.Of(t)
		p := newPair(t, rand.New(rand.NewPCG(s, 1)))
		for i := range 120 {
			if !p.both(t, fmt.Sprint("SKERRY_SEED=", s, " change ", i), true, p.change()) {
				done++
			}
			if i%4 == 3 {
				q, fn := p.search()
				if !p.both(t, fmt.Sprint("SKERRY_SEED=", s, " after ", i, " query ", q), false, fn) {
					found++
				}
			}
		}
		p.both(t, fmt.Sprint("SKERRY_SEED=", s, " history"), false, history)
		for _, db := range p.dbs {
			all, err := db.Verify(t.Context(), nil, nil)
			if err != nil || len(all) != 1 || all[0].Fault != nil {
				t.Fatalf("SKERRY_SEED=%d: %+v, %v", s, all, err)
			}
		}
	}
	if done < 60 || found < 60 {
		t.Errorf("only %d changes and %d queries were possible", done, found)
	}
}

// TestRefusedTexts: what PostgreSQL does not take as text is refused for the same reason by both drivers, and the transactions
// beside it go on.
func TestRefusedTexts(t *testing.T) {
	p := newPair(t, rand.New(rand.NewPCG(1, 1)))
	for _, bad := range []string{"a\x00", "\xff", "\xed\xa0\x80"} {
		for what, fn := range map[string]func(tx *record.Tx) (any, error){
			"get":     func(tx *record.Tx) (any, error) { return text(tx.Get("c", bad)) },
			"past":    func(tx *record.Tx) (any, error) { return text(tx.GetAsOf("c", bad, record.Moment{Rev: 1})) },
			"history": func(tx *record.Tx) (any, error) { return tx.History("c", bad, 0, 1) },
			"create":  func(tx *record.Tx) (any, error) { return text(tx.Create("c", bad, []byte(`{}`))) },
			"update":  func(tx *record.Tx) (any, error) { return text(tx.Update("c", bad, []byte(`{}`), 0)) },
			"delete":  func(tx *record.Tx) (any, error) { return text(tx.Delete("c", bad, 0)) },
			"restore": func(tx *record.Tx) (any, error) { return text(tx.Restore("c", bad, 0)) },
			"revert":  func(tx *record.Tx) (any, error) { return text(tx.Revert("c", bad, 1, 0)) },
			"purge":   func(tx *record.Tx) (any, error) { return nil, tx.Purge("c", bad, 0) },
			"redact":  func(tx *record.Tx) (any, error) { return tx.Redact("c", bad, 0) },
			"actor": func(tx *record.Tx) (any, error) {
				return text(tx.As(record.Actor{ID: bad}).Create("c", "r1", []byte(`{}`)))
			},
			"request": func(tx *record.Tx) (any, error) {
				return text(tx.As(record.Actor{Request: bad}).Create("c", "r1", []byte(`{}`)))
			},
		} {
			if !p.both(t, fmt.Sprintf("%s %q", what, bad), true, fn) {
				t.Errorf("%s %q: no error", what, bad)
			}
		}
	}
}

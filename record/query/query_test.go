package query

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/record/schema"
)

// scope is that of orders and of the collections that these refer to.
func scope(tb testing.TB) Scope {
	of := collections(tb)
	return Scope{Collection: of("orders"), Other: of}
}

// describe returns what Parse has understood.
func describe(q *Query) string {
	parts := []string{q.Filter, q.Orders.String(), strings.Join(q.Fields, ","), expands(q.Expand), fmt.Sprint(q.Limit, q.Offset, q.Count), q.Deleted.String(), q.AsOf.String()}
	for _, g := range q.Group {
		parts = append(parts, g.Name)
	}
	for _, a := range q.Aggregates {
		parts = append(parts, a.Name)
	}
	for _, o := range q.GroupOrders {
		parts = append(parts, map[bool]string{true: "-"}[o.Desc]+o.Name)
	}
	return strings.Join(parts, "|")
}

func expands(all []*Expand) string {
	var parts []string
	for _, e := range all {
		text := e.Name
		if len(e.Next) > 0 {
			text += "{" + expands(e.Next) + "}"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

func TestParseQuery(t *testing.T) {
	for _, c := range []struct{ url, json, want string }{
		{"", `{}`, "|id|||20 0 false|live|"},
		{"filter=count>1+%26%26+paid&sort=-at,title&fields=title,+created&limit=5&offset=10&count=true&deleted=all", `{"filter":"count>1 and paid","sort":["-at","title"],"fields":"title,created","limit":5,"offset":10,"count":true,"deleted":"all"}`,
			"count > 1 && paid = true|-at,title,id|title,created||5 10 true|all|"},
		{"filter=+&sort=&fields=&expand=&limit=&offset=&after=&count=&deleted=&asof=&group=&aggregate=", `{"filter":" ","sort":[],"fields":"","limit":null,"after":null}`, "|id|||20 0 false|live|"},
		{"expand=owner,owner.boss,owner.boss.orders(owner)&limit=0", `{"expand":["owner.boss.orders(owner)","owner"],"limit":0}`, "|id||owner{boss{orders(owner)}}|0 0 false|live|"},
		{"filter=is_deleted+%26%26+count=1", `{"filter":{"is_deleted":true,"count":1}}`, "is_deleted = true && count = 1|id|||20 0 false|trash|"},
		{"filter=is_deleted=false", `{"filter":{"is_deleted":false}}`, "is_deleted = false|id|||20 0 false|live|"},
		{"filter=is_deleted+||+count=1", `{"filter":{"or":[{"is_deleted":true},{"count":1}]}}`, "is_deleted = true || count = 1|id|||20 0 false|all|"},
		{"filter=is_deleted&deleted=live", `{"filter":{"is_deleted":true},"deleted":"live"}`, "is_deleted = true|id|||20 0 false|live|"},
		{"asof=2026-01-02T03:04:05Z", `{"asof":"2026-01-02 03:04:05Z"}`, "|id|||20 0 false|live|2026-01-02T03:04:05.000000Z"}, {"asof=17", `{"asof":17}`, "|id|||20 0 false|live|17"},
		{"group=status,month(at)&aggregate=count,sum(total),avg(count)", `{"group":["status","month(at)"],"aggregate":["count","sum(total)","avg(count)"]}`, "|id|||1000 0 false|live||status|month(at)|count|sum(total)|avg(count)"},
		{"group=status,month(at)&aggregate=sum(total)&sort=-sum(+total+),%2bstatus&limit=7", `{"group":["status","month(at)"],"aggregate":"sum(total)","sort":["-sum(total)","status"],"limit":7}`, "|id|||7 0 false|live||status|month(at)|sum(total)|-sum(total)|status"},
		{"group=paid&sort=-count", `{"group":"paid","order":["-count"]}`, "|id|||1000 0 false|live||paid|count|-count"},
	} {
		params, err := url.ParseQuery(c.url)
		if err != nil {
			t.Fatal(err)
		}
		for i, parse := range []func() (*Query, error){func() (*Query, error) { return Parse(params, scope(t)) }, func() (*Query, error) { return ParseJSON([]byte(c.json), scope(t)) }} {
			if q, err := parse(); err != nil || describe(q) != c.want {
				t.Errorf("%s %s (%d): %v, %v\nwant %s", c.url, c.json, i, q, err, c.want)
			} else if got := describe(q); got != c.want {
				t.Errorf("%s: %s\nwant %s", c.url, got, c.want)
			}
		}
	}
}

// TestGotRo: queries as GotRo's clients send them are valid, with GotRo's names of columns.
func TestGotRo(t *testing.T) {
	for _, c := range []struct{ json, want string }{
		{`{"filter":{"is_deleted":false,"created_at":">2024-01-01"},"order":["-created_at","+title"],"limit":10,"offset":5}`, `is_deleted = false && created_at > "2024-01-01"|-created,title,id|||10 5 false|live|`},
		{`{"filter":{"status":["open","done"],"title":"~x","count":">=3"},"order":["-modified_at"]}`, `status in ("open", "done") && title ~ "x" && count >= "3"|-updated,-id|||20 0 false|live|`},
	} {
		if q, err := ParseJSON([]byte(c.json), scope(t)); err != nil || describe(q) != c.want {
			t.Errorf("%s: %v, %v\nwant %s", c.json, q, err, c.want)
		}
	}
	if _, err := Parse(url.Values{"filter": {"created_at > @now"}}, scope(t)); err == nil {
		t.Error("a parameter of a URL may use GotRo's names")
	}
	k, err := schema.Collection{Name: "c", Fields: []schema.Field{{Name: "created_at", Type: schema.Int}}}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseJSON([]byte(`{"filter":{"created_at":{">":5}}}`), Scope{Collection: k}); err != nil {
		t.Errorf("a field is not found because GotRo has a column of its name: %v", err)
	}
}

func TestParseQueryErrors(t *testing.T) {
	many := strings.Repeat("count,", 300)
	for _, c := range []struct{ url, want string }{
		{"fliter=x", `"fliter": there is no such parameter; did you mean filter?`}, {"limit=1&limit=2", "limit: appears 2 times"}, {"limit=x", `limit: "x" is not a number from 0 to 1000`}, {"limit=-1", `limit: "-1" is not a number`},
		{"limit=1001", "limit: 1001 is more than 1000; to go further, pass the cursor of the previous page as after"}, {"offset=10001", "offset: 10001 is more than 10000"}, {"limit=99999999999999999999", "limit: \"99999999999999999999\" is not a number"},
		{"filter=paid+%26%26+cuont>1", `filter: orders has no field "cuont"; did you mean count? at character 9`}, {"filter=count+>", "filter: found the end instead of a field or a value at character 8"},
		{"sort=title,,", `sort: orders has no field "" at character 7`}, {"fields=title,+tilte", `fields: orders has no field "tilte"; did you mean title? at character 8`}, {"fields=secret", "fields: secret is a password"}, {"fields=title,title", "fields: title appears twice at character 7"},
		{"fields=" + many, "fields: count appears twice at character 7"}, {"fields=" + strings.Repeat("x", 20_000), "fields: too long (20000 bytes, limit 16384)"},
		{"count=yes", `count: "yes" is neither true nor false`}, {"deleted=trahs", `deleted: "trahs" is not one of live, trash, all; did you mean trash?`}, {"asof=x", `asof: "x" is not a time like 2026-01-02T15:04:05Z, nor the number of a change`}, {"asof=0", "asof: changes are numbered from 1"},
		{"after=xyz", "after: not a cursor"}, {"expand=titel", `expand: orders has no field "titel"`}, {"expand=title", "expand: title is not a reference"}, {"expand=owner,lost", "expand: lost refers to the unknown collection gone at character 7"},
		{"expand=users(boss)", `expand: users has no field "boss" that refers to orders`}, {"expand=owner.orders(wner)", `expand: orders has no field "wner" that refers to users; did you mean owner? at character 7`}, {"expand=x(y)", `expand: unknown collection "x"`}, {"expand=orders(owner", "expand: a closing parenthesis is missing"},
		{"expand=owner.boss.boss.boss", "expand: more than 3 references in one path"}, {"expand=" + strings.Repeat("owner,", 40), "expand: more than 32 names at character 193"},
		{"group=meta", "group: meta can have values of different types"}, {"group=month(title)", "group: month needs a time, not text"}, {"group=mnth(at)", `group: unknown function "mnth"; use one of hour, day, week, month, year; did you mean month?`}, {"group=status,status", "group: status appears twice at character 8"},
		{"group=status,total,count,paid,title", "group: more than 4 names at character 25"}, {"group=tags", "group: tags can have values of different types"}, {"group=status&sort=total", `sort: "total" is neither a group nor an aggregate of the query`}, {"group=status&sort=cuont", `sort: "cuont" is neither a group nor an aggregate of the query; did you mean count?`}, {"group=status&sort=count,-count", "sort: count appears twice at character 7"},
		{"group=status&sort=--count", "sort: more than one sign before count"}, {"aggregate=count&limit=1001", "limit: 1001 is more than 1000"}, {"group=count", "aggregate: count is also the name of a group; write count(id)"},
		{"aggregate=sum", `aggregate: "sum" is not a valid aggregate; use one of count, sum, avg, min, max with a field in parentheses; did you mean sum?`}, {"aggregate=total", `aggregate: "total" is not a valid aggregate`}, {"aggregate=sum(title)", "aggregate: sum needs numbers, not text"}, {"aggregate=sum(totl)", `aggregate: orders has no field "totl"; did you mean total? at character 5`},
		{"aggregate=median(total)", `aggregate: unknown function "median"`}, {"aggregate=max(secret)", "aggregate: secret is a password"}, {"aggregate=count,count", "aggregate: count appears twice"}, {"aggregate=sum(total", "aggregate: a closing parenthesis is missing"}, {"aggregate=count&after=x", "after: "},
	} {
		params, err := url.ParseQuery(c.url)
		if err != nil {
			t.Fatal(err)
		}
		if q, err := Parse(params, scope(t)); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%.60s: %v, %v\nwant %s", c.url, q, err, c.want)
		}
	}
	for _, c := range []struct{ json, want string }{
		{``, "query: invalid JSON"}, {`[]`, "query: must be a JSON object"}, {`{"filter":5}`, "filter: must be a string or an object, not a number"}, {`{"filter":{"x":1}}`, `filter: orders has no field "x"`}, {`{"filter":{},"filter":{}}`, "filter: appears twice"},
		{`{"sort":"title","order":"title"}`, "sort: appears twice"}, {`{"sort":{"a":1}}`, "sort: must be a value or a list of strings, not an object"}, {`{"sort":[1]}`, "sort: must be a value or a list of strings, not a list"}, {`{"limit":1.5}`, `limit: "1.5" is not a number`}, {`{"limt":1}`, `"limt": there is no such parameter; did you mean limit?`},
		{`{"after":"` + strings.Repeat("x", 70_000) + `"}`, "query: too long (70012 bytes, limit 65536)"}, {strings.Repeat("[", 10_000), "query: invalid JSON"}, {`{"sort":` + strings.Repeat("[", 65) + strings.Repeat("]", 65) + "}", "query: arrays and objects nested more than 64"}, {"{\"sort\":\"\xff\"}", "query: invalid UTF-8"}, {`{"sort":"\u0000"}`, "query: a NUL"},
	} {
		if q, err := ParseJSON([]byte(c.json), scope(t)); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%.60s: %v, %v\nwant %s", c.json, q, err, c.want)
		}
	}
}

// TestQueryCursor: a cursor belongs to one listing.
func TestQueryCursor(t *testing.T) {
	r := newRow(t, collections(t)("orders"), `{"count":7}`)
	parse := func(text string) (*Query, error) {
		params, err := url.ParseQuery(text)
		if err != nil {
			t.Fatal(err)
		}
		return Parse(params, scope(t))
	}
	const listing = "filter=count>5&sort=count&limit=3"
	q, err := parse(listing)
	if err != nil {
		t.Fatal(err)
	}
	cursor := q.Cursor(collections(t)("orders"), r)
	if q, err = parse(listing + "&count=true&after=" + cursor); err != nil || q.Orders.Compare(q.After, q.Orders.Key(r)) != 0 {
		t.Errorf("the cursor is read as %v, %v", q, err)
	}
	for _, other := range []string{"sort=count", listing + "&deleted=all", listing + "&asof=3", listing + "&offset=1", "filter=count>6&sort=count"} {
		if _, err := parse(other + "&after=" + cursor); err == nil {
			t.Errorf("%s accepts the cursor of %s", other, listing)
		}
	}
	at := time.Date(2026, 1, 2, 0, 0, 0, 5000, time.UTC)
	if a, err := parseAsOf(AsOf{At: at}.String()); err != nil || !a.At.Equal(at) {
		t.Errorf("a time is read as %v, %v", a, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("filter=count>1&sort=-at&expand=owner.orders(owner)&aggregate=sum(total)&group=week(at)")
	f.Add("fields=a,,b&limit=5&offset=2&asof=3&after=AQ&deleted=all&count=true")
	s := scope(f)
	f.Fuzz(func(t *testing.T, text string) {
		params, _ := url.ParseQuery(text)
		if q, err := Parse(params, s); err == nil {
			describe(q)
		}
	})
}

func FuzzParseJSON(f *testing.F) {
	f.Add(`{"filter":{"is_deleted":false,"created_at":">2024-01-01"},"order":["-at","+title"],"limit":10,"offset":5}`)
	f.Add(`{"filter":"paid","expand":["owner"],"group":"day(at)","aggregate":["count","avg(count)"]}`)
	s := scope(f)
	f.Fuzz(func(t *testing.T, text string) {
		if q, err := ParseJSON([]byte(text), s); err == nil {
			describe(q)
		}
	})
}

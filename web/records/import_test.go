package records_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/web/records"
)

const (
	asCSV  = "text/csv"
	asJSON = "application/jsonl"
)

// TestImport: files come in as they went out, and mistakes are where they are said to be.
func TestImport(t *testing.T) {
	s := open(t)
	post := func(user, query, media, body string) *reply {
		t.Helper()
		return s.ask(user, "POST", "/api/posts"+query, body, "Content-Type", media)
	}
	post("ann", "", asCSV, "title,likes,public,price,about\r\n\"a, \"\"b\"\"\",7,true,1.50,\"{\"\"x\"\":[1]}\"\r\nsecond line,,,,text\r\n").is(200, `{"created":2,"updated":0,"skipped":0,"failed":0}`)
	csv := s.ask("ann", "GET", "/api/posts?format=csv", "").is(200, `,"a, ""b""",ann,true,7,1.5,"{""x"":[1]}",1,false,`, `second line,ann,false,0,,"""text"""`)
	jsonl := s.ask("ann", "GET", "/api/posts?sort=title&fields=title", "", "Accept", asJSON).is(200, `"data":{"title":"a, \"b\""}}`+"\n")
	if got := strings.Count(jsonl.Body.String(), "\n"); got != 2 {
		t.Errorf("%d lines of JSON: %s", got, jsonl.Body)
	}
	if got := csv.Header(); got.Get("Content-Type") != "text/csv; charset=utf-8" || !strings.Contains(got.Get("Content-Disposition"), "posts.csv") {
		t.Errorf("the headers of an export: %v", got)
	}
	whole := s.ask("ann", "GET", "/api/posts?format=jsonl", "").is(200).Body.String()
	// What was exported can be imported: as it is, skipping what is there, or updating it.
	post("ann", "", asCSV, csv.Body.String()).is(422, "record_exists", "line 2: posts already has a record with the id", "line 3")
	post("ann", "?existing=skip", asCSV, csv.Body.String()).is(200, `{"created":0,"updated":0,"skipped":2,"failed":0}`)
	post("ann", "?existing=update", asCSV, csv.Body.String()).is(200, `{"created":0,"updated":2,"skipped":0,"failed":0}`)
	post("ann", "?existing=update", asJSON, whole).is(200, `"updated":2`)
	if got := s.ask("ann", "GET", "/api/posts?format=csv", "").Body.String(); got != csv.Body.String() {
		t.Errorf("after its import an export is\n%s, it was\n%s", got, csv.Body)
	}
	// A rule hides records from exports and refuses imports.
	s.ask("bob", "GET", "/api/posts?format=csv&sort=title", "").is(200, "a, ")
	if got := s.ask("", "GET", "/api/posts?format=csv", "").Body.String(); strings.Contains(got, "second") {
		t.Errorf("a stranger gets %s", got)
	}
	post("bob", "", asCSV, "title,owner\nx,ann\n").is(422, "line 2: the create rule of posts does not allow")
	s.ask("ann", "GET", "/api/posts?format=csv&limit=1", "").is(400, `"parameter":"limit"`)
	s.ask("ann", "GET", "/api/posts?format=xls", "").is(400, `"parameter":"format"`)
}

// TestImportBroken: nothing is written unless all is right, except with partial.
func TestImportBroken(t *testing.T) {
	s := open(t)
	count := func() int {
		t.Helper()
		return *s.ask("root", "GET", "/api/posts?count=true", "").is(200).json().Total
	}
	for _, c := range []struct {
		media, body string
		wants       []string
	}{
		{asCSV, "title,likes\ngood,1\nbad,x\nalso bad,9,9\n,1\n", []string{"3 of the rows", "line 3, column 5 (likes): ", "line 4, column 1: the line has 3 values, but the first line has 2 names", "line 5 (title): "}},
		{asCSV, "title,likes\n\"two\nlines\",x\n", []string{"line 3, column 8 (likes): "}},
		{asCSV, "title\ngood\n\"half a quotation\n", []string{"line 3, column 19: "}},
		{asCSV, "title\ngood\na \" quotation\n", []string{"line 3, column 3: "}},
		{asCSV, "titel\nx\n", []string{`line 1, column 1: posts has no field \"titel\"`}},
		{asCSV, "title,likes,title\nx,1,y\n", []string{"line 1, column 13 (title): the name appears twice"}},
		{asCSV, " ", []string{"line 1"}},
		{asCSV, "title\n\xff\n", []string{"line 2, column 1 (title): the value is not valid UTF-8"}},
		{asJSON, `{"data":{"title":"good"}}` + "\n\n" + `{"data":{"title":}}` + "\n", []string{"line 3, column 18: the line is not a JSON object"}},
		{asJSON, `{"data":{"title":"x","likes":"many"}}` + "\n" + `{"id":"x"}` + "\n[]\n" + `{"data":{},"dta":1}`, []string{"line 1 (likes)", "line 2 (data): data is missing", "line 3", "line 4 (dta)"}},
	} {
		s.ask("ann", "POST", "/api/posts", c.body, "Content-Type", c.media).is(422, append(c.wants, "record_invalid", "nothing was written")...)
	}
	s.ask("ann", "POST", "/api/posts?dry_run", "title\nx\ny\n", "Content-Type", asCSV).is(200, `"created":2`, `"dry_run":true`)
	if n := count(); n != 0 {
		t.Fatalf("%d records were written", n)
	}
	s.ask("ann", "POST", "/api/posts?partial", "title,likes\ngood,1\nbad,x\nalso good,2\n", "Content-Type", asCSV).is(200, `"created":2`, `"failed":1`, `{"line":3,"column":5,"field":"likes","code":"type"`)
	if n := count(); n != 2 {
		t.Errorf("%d records of a partial import, want 2", n)
	}
	s.ask("ann", "POST", "/api/posts?force", "title\nx\n", "Content-Type", asCSV).is(400, `"parameter":"force"`)
	s.ask("ann", "POST", "/api/posts", "title\n"+strings.Repeat("x\n", 10_001), "Content-Type", asCSV).is(400, `"code":"limit"`)
}

// TestExportMany: an export has every record once, whatever the steps.
func TestExportMany(t *testing.T) {
	s := open(t)
	var b strings.Builder
	for i := range 1001 {
		fmt.Fprintf(&b, "{\"data\":{\"title\":\"t%d\",\"likes\":%d}}\n", i, i%7)
	}
	s.ask("ann", "POST", "/api/posts", b.String(), "Content-Type", asJSON).is(200, `"created":1001`)
	seen := map[string]bool{}
	for line := range strings.Lines(s.ask("ann", "GET", "/api/posts?format=csv&filter=likes<6", "").is(200).Body.String()) {
		seen[line] = true
	}
	if len(seen) != 1+1001-143 {
		t.Errorf("%d different lines", len(seen))
	}
}

// timed is a writer that keeps the deadlines that are set.
type timed struct {
	httptest.ResponseRecorder
	reads, writes []time.Time
}

func (w *timed) SetReadDeadline(t time.Time) error  { w.reads = append(w.reads, t); return nil }
func (w *timed) SetWriteDeadline(t time.Time) error { w.writes = append(w.writes, t); return nil }

// TestExportTakesLong: an export may take longer than a request or a response may, while it makes progress.
func TestExportTakesLong(t *testing.T) {
	s := open(t)
	s.ask("ann", "POST", "/api/posts", strings.Repeat(`{"data":{"title":"t"}}`+"\n", 401), "Content-Type", asJSON).is(200)
	w := &timed{ResponseRecorder: *httptest.NewRecorder()}
	r := httptest.NewRequest("GET", "http://localhost/api/posts?format=jsonl", nil)
	r.Header.Set("User", "ann")
	s.h.ServeHTTP(w, r)
	if n := strings.Count(w.Body.String(), "\n"); n != 401 {
		t.Fatalf("%d records: %d", n, w.Code)
	}
	if len(w.reads) != 1 || !w.reads[0].IsZero() {
		t.Errorf("the request's deadlines are %v", w.reads)
	}
	if n := len(w.writes); n < 6 || w.writes[0].IsZero() || !w.writes[1].IsZero() || !w.writes[n-1].IsZero() {
		t.Errorf("the response's deadlines are %v", w.writes)
	}
	head := s.ask("ann", "HEAD", "/api/posts?format=csv", "").is(200)
	if got := head.Header(); head.Body.Len() > 0 || got.Get("Content-Type") != "text/csv; charset=utf-8" || !strings.Contains(got.Get("Content-Disposition"), "posts.csv") {
		t.Errorf("HEAD: %v %s", got, head.Body)
	}
}

// FuzzRows: whatever a file has, each row of it is valid JSON or a mistake.
func FuzzRows(f *testing.F) {
	for _, text := range []string{"title,likes\na,1\n", "id\n\"\"\n", "\ufefftitle\r\nx", "title\n\"", `{"data":{"title":1}}`, "{}\n[", "about\n\"{\"\"x\"\":1}\"\n", ",\n,\n"} {
		f.Add(text, true)
		f.Add(text, false)
	}
	k, err := blog()[1].Compile()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string, isCSV bool) {
		rows, _ := records.Rows(k, isCSV, []byte(text))
		for _, data := range rows {
			if !json.Valid(data) {
				t.Fatalf("%q has the row %q", text, data)
			}
		}
	})
}

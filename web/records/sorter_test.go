package records_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/web/records"
)

// TestImportTree: the rows of a file may refer to each other in any order.
func TestImportTree(t *testing.T) {
	s := open(t)
	load := func(query, media, body string) *reply {
		t.Helper()
		return s.ask("root", "POST", "/api/tree"+query, body, "Content-Type", media)
	}
	load("", asCSV, "id,parent\nc,b\nb,a\na,\nd,a\nself,self\n").is(200, `"created":5`)
	load("?existing=update", asJSON, `{"id":"c","data":{"parent":"e"}}`+"\n"+`{"id":"e","data":{"parent":"d"}}`).is(200, `"created":1,"updated":1`)

	// What is not there, what cannot be imported, and what refers to each other.
	load("", asCSV, "id,parent\nf,none\n").is(422, `line 2, column 3 (parent): tree has no record \"none\"`)
	load("", asCSV, "id,parent,n\ng,h,\nh,,10\n").is(422, `line 3, column 4 (n)`, `line 2, column 3 (parent): tree has no record \"h\"; that of line 3 cannot be imported before this one`)
	load("", asCSV, "id,parent\ni,j\nj,i\n").is(422, `2 of the rows cannot be imported`, `that of line 3 cannot be imported before this one`)
	load("?partial", asCSV, "id,parent,n\nk,l,\nl,m,\nm,,10\nn,,1\n").is(200, `"created":1,`, `"failed":3`)

	// A long chain, the last one first.
	var b strings.Builder
	for i := range records.MaxImport - 1 {
		fmt.Fprintf(&b, `{"id":"chain%d","data":{"parent":"chain%d"}}`+"\n", i, i+1)
	}
	fmt.Fprintf(&b, `{"id":"chain%d","data":{}}`+"\n", records.MaxImport-1)
	load("", asJSON, b.String()).is(200, fmt.Sprintf(`"created":%d`, records.MaxImport))
}

// TestImportPending: a dry run of a part of a file says to which records it refers that are in no row, and which rows
// can never be imported.
func TestImportPending(t *testing.T) {
	s := open(t)
	r := s.ask("root", "POST", "/api/tree?dry_run&partial&pending", "id,parent,n\na,other,\nb,a,\nc,d,\nd,c,\ne,,10\nf,other,10\n", "Content-Type", asCSV).is(200)
	var got records.Imported
	must(t, json.Unmarshal(r.Body.Bytes(), &got))
	want := []records.Pending{{Line: 2, Column: 3, Field: "parent", ID: "other"}, {Line: 3, Column: 3, Field: "parent", ID: "a"}, {Line: 4, Column: 3, Field: "parent", ID: "d"}}
	slices.SortFunc(got.Pending, func(a, b records.Pending) int { return a.Line - b.Line })
	if !slices.Equal(got.Pending, want) || got.Created != 3 || got.Failed != 3 || len(got.Errors) != 3 {
		t.Errorf("%s", r.Body)
	}
	s.ask("root", "POST", "/api/tree?pending", "id\na\n", "Content-Type", asCSV).is(400, `"parameter":"pending"`)
	s.ask("root", "GET", "/api/tree?count=true", "").is(200, `"total":0`)
}

// TestImportAllMistakes: a dry run, and an import of what is right, list every row that is wrong, and a replay has the
// numbers.
func TestImportAllMistakes(t *testing.T) {
	s := open(t)
	file := "n\n" + strings.Repeat("10\n1\n", 2500)
	for _, query := range []string{"?dry_run&partial", "?partial"} {
		var got records.Imported
		must(t, json.Unmarshal(s.ask("root", "POST", "/api/tree"+query, file, "Content-Type", asCSV, "Idempotency-Key", `"k"`).is(200).Body.Bytes(), &got))
		if len(got.Errors) != 2500 || got.Failed != 2500 || got.Created != 2500 || got.Errors[2499].Line != 5000 {
			t.Errorf("%s: %d mistakes, %+v", query, len(got.Errors), got.Errors[len(got.Errors)-1])
		}
	}
	s.ask("root", "POST", "/api/tree?partial", file, "Content-Type", asCSV, "Idempotency-Key", `"k"`).is(200, `{"created":2500,"updated":0,"skipped":0,"failed":2500}`)
}

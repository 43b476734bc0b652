package keys

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/query"
	"github.com/skerrydb/skerry/record/schema"
)

// TestUnionPlan: alternatives that indexes narrow become the parts of a union, also below other conditions; others do not.
func TestUnionPlan(t *testing.T) {
	s := newShelf(t, seed.Rand(t), schema.Index{Name: "by_s", Fields: []schema.IndexField{{Name: "s"}, {Name: "n"}}}, schema.Index{Name: "by_d", Fields: []schema.IndexField{{Name: "d"}, {Name: "n"}}})
	s.fill(t, 0, 2_000)
	for _, c := range []struct{ filter, sort, want string }{
		{`s = "s3" || d = 7.5`, "n", `{"access":"union","exact":true,"expected":202,"read":7,"returned":5,"branches":[{"access":"index","index":"by_s","bounds":["s"],"ranges":1,"expected":200,"read":5},{"access":"index","index":"by_d","bounds":["d"],"ranges":1,"expected":2,"read":2}]}`},
		{`s = "s3" && n < 100 || d < 2 && b`, "t", `{"access":"union","sorted":true,"expected":14,"read":14,"returned":5,"branches":[{"access":"index","index":"by_s","bounds":["s","n"],"ranges":1,"expected":10,"read":10},{"access":"index","index":"by_d","bounds":["d"],"ranges":1,"expected":4,"read":4}]}`},
		{`b && (s = "s4" && (f = 1 || n > 40) || d = 3.5) || id = "r000001"`, "-n", `{"access":"union","expected":203,"read":9,"returned":5,"branches":[{"access":"index","index":"by_s","bounds":["s"],"ranges":1,"backward":true,"expected":200,"read":6},{"access":"index","index":"by_d","bounds":["d"],"ranges":1,"backward":true,"expected":2,"read":2},{"access":"id","bounds":["id"],"expected":1,"read":1}]}`},
		{`s = "s3" || s in ("s4", "s5") && n > 1990`, "-n", `{"access":"union","exact":true,"expected":202,"read":6,"returned":5,"branches":[{"access":"index","index":"by_s","bounds":["s"],"ranges":1,"backward":true,"expected":200,"read":4},{"access":"index","index":"by_s","bounds":["s","n"],"ranges":2,"backward":true,"expected":2,"read":2}]}`},
		{`s = "s3" || s = "s4"`, "n", `{"access":"index","index":"by_s","bounds":["s"],"ranges":2,"exact":true,"expected":400,"read":7,"returned":5}`},
		{`s = "s3" || f = 1`, "id", `{"access":"documents","ranges":1,"expected":2000,"read":54,"returned":5}`},
		{`n = 1 && (s = "" || s < null)`, "id", `{"access":"union","exact":true,"expected":0,"read":0,"returned":0,"branches":[{"access":"index","index":"by_s","bounds":["s","n"],"ranges":1,"expected":0,"read":0}]}`},
		{`s < null || d > null`, "id", `{"access":"nothing","exact":true,"expected":0,"read":0,"returned":0}`},
	} {
		q := s.search(t, c.filter, c.sort, query.Live)
		q.Limit = 5
		s.view(t, func(tx engine.Tx) {
			page, err := Find(tx, s.c, q)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := json.Marshal(page.Plan)
			if want := c.want; planOf(tx, string(got)) != planOf(tx, want) {
				t.Errorf("%s sort %s:\n got %s\nwant %s", c.filter, c.sort, got, want)
			}
		})
	}
}

// counts are in the text of a Plan.
var counts = regexp.MustCompile(`"expected":[0-9]+`)

// planOf returns the text of a Plan without what only an engine that counts keys promises.
func planOf(tx engine.Tx, text string) string {
	if _, ok := tx.(engine.Ranker); ok {
		return text
	}
	return counts.ReplaceAllString(text, `"expected":0`)
}

// TestUnionLimits: a condition with more alternatives than a union may have parts, or planning looks at, is answered all
// the same. An engine that cannot count takes many narrow ranges for more than all documents.
func TestUnionLimits(t *testing.T) {
	s := newShelf(t, seed.Rand(t), schema.Index{Name: "by_n", Fields: []schema.IndexField{{Name: "n"}}})
	s.fill(t, 0, 3_000)
	alternatives := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("n >= %d && n < %d", i*10, i*10+2))
		}
		return strings.Join(all, " || ")
	}
	for _, c := range []struct {
		filter, access string
		want           int
	}{
		{alternatives(maxBranches), "union", 2 * maxBranches}, {alternatives(maxBranches + 1), "documents", 2 * (maxBranches + 1)}, {alternatives(150), "documents", 300},
		{"b && (" + strings.Repeat("f = 1 && (", 30) + "n = 1 || n > 2990" + strings.Repeat(")", 30) + ")", "union", 0},
		{"(" + strings.Repeat("f = 1 && (s = null || ", 30) + "n = 1" + strings.Repeat(")", 30) + ")", "documents", 0},
	} {
		q := s.search(t, c.filter, "", query.Live)
		s.view(t, func(tx engine.Tx) {
			_, ranked := tx.(engine.Ranker)
			if n, p, err := Count(tx, s.c, q); err != nil || n != c.want || p.Access != c.access && (ranked || p.Access != "documents") {
				t.Errorf("%.60s: %d records by %+v, %v; want %d by %s", c.filter, n, p, err, c.want, c.access)
			}
		})
	}
}

// TestUnionOrder: a part of a union that relies on its records having one value, by which the search sorts first, leaves
// records with another value to the other parts.
func TestUnionOrder(t *testing.T) {
	s := newShelf(t, seed.Rand(t))
	s.fill(t, 0, 60)
	for _, c := range []struct{ filter, sort string }{
		{`id >= "r00001" && (b = false && n != 2 || b)`, "-b"},
		{`id >= "r000007" && (b && n > 3 || b = false)`, "b,-id"},
		{`id < "r000044" && (s = "s3" && n > 5 || s = "s4" && b || s = "s1")`, "-s"},
	} {
		q := s.search(t, c.filter, c.sort, query.Live)
		q.Limit = 1
		s.view(t, func(tx engine.Tx) {
			want, _ := s.pages(t, tx, *q, "documents[id]")
			if got, plan := s.pages(t, tx, *q, "union"); !slices.Equal(got, want) || len(want) < 10 {
				t.Errorf("%s sort %s:\n got %v\nwant %v\n%+v", c.filter, c.sort, got, want, plan)
			}
		})
	}
}

package admin_test

import (
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// parcels is a collection whose queries are slow.
func parcels() schema.Collection {
	return schema.Collection{Name: "parcels", Label: nasty, Extra: true, Fields: []schema.Field{{Name: "owner", Type: schema.Text, Label: nasty}, {Name: "state", Type: schema.Text}, {Name: "n", Type: schema.Int}}}
}

// find runs queries of parcels as the program.
func (s *program) find(params ...url.Values) {
	s.t.Helper()
	_, err := s.services.Records.View(s.t.Context(), engine.Read{Level: engine.Local}, record.Program(), func(tx *record.Tx) error {
		for _, p := range params {
			q, err := tx.ParseQuery("parcels", p)
			if err == nil {
				_, err = tx.Find("parcels", q)
			}
			if err != nil {
				return fmt.Errorf("%v: %w", p, err)
			}
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// startSlow runs a program with more parcels than a query may read in vain.
func startSlow(t *testing.T) *program {
	t.Helper()
	s := startProgram(t, nil, []schema.Collection{parcels()})
	all := map[string]string{}
	for i := range record.SlowReads + 100 {
		all[fmt.Sprintf("p%04d", i)] = fmt.Sprintf(`{"owner":"o%d","state":"s%d","n":%d}`, i%100, i%2, i)
	}
	s.put("parcels", all)
	return s
}

var planLink = regexp.MustCompile(`href="(/admin/schema/parcels/change\?[^"]+)"`)

// TestSlow: the page shows slow queries without their values, and the index that helps with what it costs; nothing is slow after it
// was created.
func TestSlow(t *testing.T) {
	t.Parallel()
	s := startSlow(t)
	c := s.anna()
	c.get("/admin/schema").expect(200, "Slow queries", "None so far")
	s.find(url.Values{"filter": {`owner = "o7" && state = "s1"`}}, url.Values{"filter": {`owner = "o42" && state = "s0"`}})
	page := c.get("/admin/schema").expect(200, "owner = ? &amp;&amp; state = ?", "record.By(&#34;owner&#34;, &#34;state&#34;)", "The planner was asked", "without an index").lacks("o42", "None so far", "<script>alert")
	c.get("/admin/schema/parcels").expect(200, "owner = ? &amp;&amp; state = ?")
	link := planLink.FindStringSubmatch(page.Body)
	if link == nil {
		t.Fatalf("no link to the planned change: %s", page.Body)
	}
	c.get(html.UnescapeString(link[1])).expect(200, "Builds an index", "reads 1\u202f100 records once", "record.By(&#34;owner&#34;, &#34;state&#34;)")
	c.get("/admin/records/parcels?filter="+url.QueryEscape("owner = ? && state = ?")).expect(422, "owner = ")
	viewer := s.onlooker()
	viewer.get("/admin/schema").expect(200, "owner = ? &amp;&amp; state = ?", "What it costs")
	viewer.get(html.UnescapeString(link[1])).expect(200, "Builds an index")
}

// TestSlowWords: for each query for which no index helps, the page says why.
func TestSlowWords(t *testing.T) {
	t.Parallel()
	s := startSlow(t)
	long := strings.Repeat(`state = "s7" || x_`+strings.Repeat("y", 40)+` = "b" || `, 60) + "n = 1"
	s.find(url.Values{"filter": {`color = "red"`}, "sort": {"-state"}}, url.Values{"filter": {`owner != "o1" && owner ~ "none"`}, "deleted": {"all"}}, url.Values{"filter": {`n < 0 && color = "red"`}, "aggregate": {"sum(n)"}, "group": {"state"}},
		url.Values{"filter": {long}, "limit": {"1"}, "offset": {"10"}, "deleted": {"trash"}}, url.Values{"filter": {`owner = "o1" || n = 5`}, "limit": {"0"}, "count": {"true"}}, url.Values{"filter": {`owner="o1"`}, "asof": {"2030-01-01T00:00:00Z"}})
	c := s.anna()
	c.get("/admin/schema/parcels").expect(200, "members of json have no index", "sorted in memory", "also those in the trash", "too long to be kept", "all of them are needed", "only the present", "as they were", "sum(n) by state", "those in the trash").lacks("&#34;red")
	var many []url.Values
	for i := range record.MaxSlowShapes + 10 {
		many = append(many, url.Values{"filter": {fmt.Sprintf("member_%d = 1", i)}})
	}
	s.find(many...)
	page := c.get("/admin/schema").expect(200, fmt.Sprintf("Show all %d", record.MaxSlowShapes))
	if n := strings.Count(page.Body, `class="card slow"`); n != 10 {
		t.Errorf("it shows %d slow queries", n)
	}
	if n := strings.Count(c.get("/admin/schema?slow=all").expect(200).Body, `class="card slow"`); n != record.MaxSlowShapes {
		t.Errorf("all: it shows %d slow queries", n)
	}
}

// TestSlowNames: the name of a suggested index is not one that the collection has.
func TestSlowNames(t *testing.T) {
	t.Parallel()
	with := parcels()
	with.Indexes = []schema.Index{{Name: "by_owner", Fields: []schema.IndexField{{Name: "n"}}}, record.By("state", "owner"), {Name: "by_owner_2", Fields: []schema.IndexField{{Name: "n"}}}}
	c := startProgram(t, nil, []schema.Collection{with}).anna()
	c.get("/admin/schema/parcels/change?what=index&name=owner").expect(200, "Name: &#34;by_owner_3&#34;", "Builds an index")
	c.get("/admin/schema/parcels/change?what=index&name=state,-owner").expect(200, "Name: &#34;by_state_owner_2&#34;")
}

// TestLooksSlow looks at slow queries.
func TestLooksSlow(t *testing.T) {
	t.Parallel()
	s := startSlow(t)
	s.find(url.Values{"filter": {`owner = "o7" && state = "s1" || n in (1, 2, 3, 4, 5)`}, "sort": {"-n,state"}}, url.Values{"filter": {strings.Repeat("m", 100) + ` = "red"`}, "expand": {""}}, url.Values{"filter": {`owner = "o7"`}})
	c := s.open()
	c.visit("/admin/schema")
	c.looks("schema-slow")
}

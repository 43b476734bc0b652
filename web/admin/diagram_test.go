package admin_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/record/schema"
)

// TestDiagram: boxes are links, references are arrows and lines of a table, and nothing is markup.
func TestDiagram(t *testing.T) {
	t.Parallel()
	s := startShop(t, nil, []schema.Collection{people(), former(), legacy()})
	c := s.anna()
	page := c.get("/admin/diagram").expect(200, `<a href="/admin/records/orders" class="box"`, "orders.buyer → people", "people.boss → people", "loses the reference", "keeps the other record")
	page.lacks("<script>alert", `style="`)
	if again := c.get("/admin/diagram"); again.Body != page.Body {
		t.Error("the diagram differs from one time to the next")
	}
	c.get("/admin/diagram?around=orders").expect(200, "orders", "/admin/records/people").lacks(`"/admin/records/legacy"`)
	c.get("/admin/diagram?around="+"%3Cscript%3Ealert(1)").expect(200, "There is no collection").lacks("<script>alert")
}

var boxAt = regexp.MustCompile(`class="box" transform="translate\((\d+ \d+)\)"`)

// TestDiagramMany: a hundred boxes do not cover one another, and one is enough.
func TestDiagramMany(t *testing.T) {
	t.Parallel()
	s := startShop(t, nil, many(100))
	page := s.anna().get("/admin/diagram").expect(200)
	at := map[string]bool{}
	for _, m := range boxAt.FindAllStringSubmatch(page.Body, -1) {
		at[m[1]] = true
	}
	if len(at) != 100 {
		t.Errorf("%d places for 100 boxes", len(at))
	}
	one := startShop(t, nil, []schema.Collection{legacy()}).anna().get("/admin/diagram").expect(200, "No collection refers to another.")
	if n := strings.Count(one.Body, `class="box"`); n != 1 {
		t.Errorf("%d boxes, want 1", n)
	}
}

// TestLooksDiagram looks at diagrams of no, some and many collections.
func TestLooksDiagram(t *testing.T) {
	t.Parallel()
	s := startShop(t, nil, append(many(30), people(), former(), legacy()))
	c := s.open()
	c.visit("/admin/diagram?around=orders")
	c.looks("diagram-few")
	c.visit("/admin/diagram")
	c.looks("diagram-many")
	none := startShop(t, nil, nil).open()
	none.visit("/admin/diagram")
	none.looks("diagram-none")
}

// TestLooksSchema looks at the schema with changes that are pending, one that has stopped, and none.
func TestLooksSchema(t *testing.T) {
	t.Parallel()
	unique := legacy()
	unique.Indexes = []schema.Index{{Name: "by_x", Fields: []schema.IndexField{{Name: "x"}}, Unique: true}}
	old := schema.Collection{Name: "old_things", Fields: []schema.Field{{Name: "x", Type: schema.Int}}}
	s := startShop(t, []schema.Collection{people(), former(), legacy(), old}, []schema.Collection{people(), orders(), unique})
	s.put("orders", map[string]string{"o1": `{"title":"one","note":"keep me"}`, "o2": `{"title":"two"}`})
	s.put("legacy", map[string]string{"l1": `{"x":1}`, "l2": `{"x":1}`})
	c := s.open()
	c.visit("/admin/schema")
	c.looks("schema-pending")
	c.visit("/admin/schema/orders?losses=1")
	c.looks("schema-losses")
	c.visit("/admin/schema/old_things")
	c.looks("schema-left")
	c.visit("/admin/schema/orders/change?what=add&name=paid&type=bool&required=yes&default=false")
	c.looks("schema-change")
	s.migrate("legacy")
	c.visit("/admin/schema/legacy")
	c.Until(`document.querySelector(".work .badge.wrong") !== null`)
	c.looks("schema-stopped")
	none := startShop(t, nil, nil).open()
	none.visit("/admin/schema")
	none.looks("schema-none")
}

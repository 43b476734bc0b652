package admin_test

import (
	"fmt"
	"image"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// TestDiagram: boxes are links, references are arrows and lines of a table, and nothing is markup.
func TestDiagram(t *testing.T) {
	t.Parallel()
	s := startProgram(t, nil, []schema.Collection{people(), former(), legacy()})
	c := s.anna()
	page := c.get("/admin/diagram").expect(200, `<a href="/admin/records/orders" class="box"`, "orders.buyer → people", "people.boss → people", "loses the reference", "keeps the other record")
	page.lacks("<script>alert", `style="`)
	if again := c.get("/admin/diagram"); again.Body != page.Body {
		t.Error("the diagram differs from one time to the next")
	}
	c.get("/admin/diagram?around=orders").expect(200, "orders", "/admin/records/people").lacks(`"/admin/records/legacy"`)
	c.get("/admin/diagram?around="+"%3Cscript%3Ealert(1)").expect(200, "There is no collection").lacks("<script>alert")
}

var boxAt = regexp.MustCompile(`transform="translate\((\d+) (\d+)\)"><title>[^<]*</title>\s*<rect class="body" width="(\d+)" height="(\d+)"`)

// TestDiagramMany: a hundred boxes do not cover one another, and one is enough.
func TestDiagramMany(t *testing.T) {
	t.Parallel()
	page := startProgram(t, nil, many(100)).anna().get("/admin/diagram").expect(200)
	var boxes []image.Rectangle
	for _, m := range boxAt.FindAllStringSubmatch(page.Body, -1) {
		var n [4]int
		for i := range n {
			n[i], _ = strconv.Atoi(m[i+1]) // digits
		}
		boxes = append(boxes, image.Rect(n[0], n[1], n[0]+n[2], n[1]+n[3]))
	}
	if len(boxes) != 100 {
		t.Fatalf("%d boxes, want 100", len(boxes))
	}
	for i, a := range boxes {
		for _, b := range boxes[:i] {
			if a.Overlaps(b) {
				t.Errorf("the boxes at %v and %v overlap", a, b)
			}
		}
	}
	one := startProgram(t, nil, []schema.Collection{legacy()}).anna().get("/admin/diagram").expect(200, "No collection refers to another.")
	if n := strings.Count(one.Body, `class="box"`); n != 1 {
		t.Errorf("%d boxes, want 1", n)
	}
}

// TestDiagramCircle: collections that refer to one another in a circle are drawn.
func TestDiagramCircle(t *testing.T) {
	t.Parallel()
	to := func(name, other string) schema.Collection {
		return schema.Collection{Name: name, Fields: []schema.Field{{Name: "next", Type: schema.Reference, Collection: other}}}
	}
	page := startProgram(t, nil, []schema.Collection{to("ann", "bob"), to("bob", "cid"), to("cid", "ann")}).anna().get("/admin/diagram").expect(200)
	if n := strings.Count(page.Body, `class="link"`); n != 3 {
		t.Errorf("%d arrows, want 3", n)
	}
}

// TestLooksDiagram looks at diagrams of no, some and many collections.
func TestLooksDiagram(t *testing.T) {
	t.Parallel()
	s := startProgram(t, nil, append(many(30), people(), former(), legacy()))
	c := s.open()
	c.visit("/admin/diagram?around=orders")
	c.looks("diagram-few")
	c.visit("/admin/diagram")
	c.looks("diagram-many")
	none := startProgram(t, nil, nil).open()
	none.visit("/admin/diagram")
	none.looks("diagram-none")
}

// TestLooksSchema looks at the schema with changes that are pending, one that has stopped, and none.
func TestLooksSchema(t *testing.T) {
	t.Parallel()
	unique := legacy()
	unique.Indexes = []schema.Index{{Name: "by_x", Fields: []schema.IndexField{{Name: "x"}}, Unique: true}}
	old := schema.Collection{Name: "old_things", Fields: []schema.Field{{Name: "x", Type: schema.Int}}}
	s := startProgram(t, []schema.Collection{people(), former(), legacy(), old}, []schema.Collection{people(), orders(), unique})
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
	none := startProgram(t, nil, nil).open()
	none.visit("/admin/schema")
	none.looks("schema-none")
}

// TestSchemaLive: a page that is open while a migration runs shows when it is done.
func TestSchemaLive(t *testing.T) {
	t.Parallel()
	now := legacy()
	now.Indexes = []schema.Index{record.By("x")}
	s := startProgram(t, []schema.Collection{legacy()}, []schema.Collection{now})
	c := s.open()
	for i := range 8 {
		all := map[string]string{}
		for j := range 1000 {
			all[fmt.Sprintf("r%d-%d", i, j)] = `{"x":1}`
		}
		s.put("legacy", all)
	}
	s.migrate("legacy")
	c.visit("/admin/schema/legacy")
	c.Until(`document.getElementById("work") === null && document.querySelector(".badge.well") !== null`)
}

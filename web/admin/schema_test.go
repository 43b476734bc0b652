package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"go/parser"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// nasty is a text that would be markup, and is hard to show.
const nasty = "<script>alert(1)</script> \"'`&\u202e"

// program is an application with collections.
type program struct {
	*world
	services *skerry.Services
}

// startProgram runs an application that defines collections, on a store that has the collections of before.
func startProgram(t *testing.T, before, now []schema.Collection) *program {
	t.Helper()
	s := &program{}
	application := func(to *skerry.Services) (http.Handler, error) {
		s.services = to
		var err error
		if to.Users, err = auth.New(to.KV, auth.Options{Sessions: to.Sessions}); err != nil {
			return nil, err
		}
		return http.NotFoundHandler(), to.Records.Define(now...)
	}
	s.world = start(t, skerry.Options{Web: skerry.Web{Application: application}})
	old, err := record.Open(s.services.Engine, record.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Define(before...); err != nil {
		t.Fatal(err)
	}
	if len(before) > 0 {
		s.update(old, func(tx *record.Tx) error { return nil })
	}
	return s
}

// update changes records as the program.
func (s *program) update(db *record.DB, fn func(tx *record.Tx) error) {
	s.t.Helper()
	if _, err := db.Update(s.t.Context(), record.Program(), fn); err != nil {
		s.t.Fatal(err)
	}
}

// put creates records of an id and data each.
func (s *program) put(collection string, records map[string]string) {
	s.t.Helper()
	s.update(s.services.Records, func(tx *record.Tx) error {
		for id, data := range records {
			if _, err := tx.Create(collection, id, []byte(data)); err != nil {
				return err
			}
		}
		return nil
	})
}

// user makes a user of the application.
func (s *program) user(email string) auth.User {
	s.t.Helper()
	u, err := s.services.Users.Create(context.WithoutCancel(s.t.Context()), email, password, true)
	if err != nil {
		s.t.Fatal(err)
	}
	return u
}

// migrate migrates a collection.
func (s *program) migrate(collection string) {
	s.t.Helper()
	if _, err := s.services.Records.Migrate(s.t.Context(), record.MigrateOptions{Collections: []string{collection}}); err != nil {
		s.t.Fatal(err)
	}
}

// idle waits until no work of a migration is left.
func (s *program) idle() {
	s.t.Helper()
	eventually.True(s.t, "the work of migrations ends", func() bool {
		all, err := s.services.Records.Migrations(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		for _, m := range all {
			if m.Progress != nil {
				return false
			}
		}
		return true
	})
}

// onlooker returns the browser of an administrator who may only look.
func (s *program) onlooker() *client {
	s.t.Helper()
	c := s.client()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.URL+"/administrators", strings.NewReader(`{"email":"vera@example.org","role":"viewer"}`))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	var made struct{ Path string }
	if err := json.Unmarshal([]byte(c.send(r).expect(200).Body), &made); err != nil {
		s.t.Fatal(err)
	}
	c.setUp(made.Path, "vera@example.org")
	return c
}

// people and orders are the collections of the tests; former is what the store has of orders, and legacy is one that no program
// defines any more.
func people() schema.Collection {
	return schema.Collection{Name: "people", Label: nasty, Hint: nasty, Fields: []schema.Field{{Name: "name", Type: schema.Text, Required: true, Label: nasty}, {Name: "boss", Type: schema.Reference, Collection: "people", OnDelete: schema.SetNull}}, Rules: schema.Rules{List: "true", View: "true"}}
}

func former() schema.Collection {
	return schema.Collection{Name: "orders", Fields: []schema.Field{
		{Name: "title", Type: schema.Text, Required: true, Max: "100"},
		{Name: "note", Type: schema.Text},
		{Name: "buyer", Type: schema.Reference, Collection: "people"},
		{Name: "owner", Type: schema.Text},
	}, Rules: schema.Rules{Update: `owner = @auth.id || (buyer.name = "Bo" && @auth.verified)`}}
}

func orders() schema.Collection {
	c := former()
	c.Fields = []schema.Field{c.Fields[0], c.Fields[2], c.Fields[3], {Name: "state", Type: schema.Select, Options: []string{"open", "done"}, Default: `"open"`, Required: true}}
	c.Indexes = []schema.Index{record.By("state", "-title")}
	return c
}

func legacy() schema.Collection {
	return schema.Collection{Name: "legacy", Fields: []schema.Field{{Name: "x", Type: schema.Int}}}
}

// TestSchemaUp: the page shows what is pending, refuses to lose data, and migrates up and down.
func TestSchemaUp(t *testing.T) {
	t.Parallel()
	s := startProgram(t, []schema.Collection{people(), former(), legacy()}, []schema.Collection{people(), orders()})
	s.put("people", map[string]string{"p1": `{"name":"Bo"}`})
	s.put("orders", map[string]string{"o1": `{"title":"one","note":"keep me","buyer":"p1"}`, "o2": `{"title":"two"}`})
	c := s.anna()
	c.get("/admin/schema").expect(200, "Drop field note of orders", "may lose data", "Builds an index", "The program defines", "orders", "not defined by the program", "&lt;script&gt;").lacks("<script>alert")
	c.get("/admin/schema/orders").expect(200, "Migrate orders", "reads 2 records once", "record.By(&#34;state&#34;, &#34;-title&#34;)", "at most 100", "owner = @auth.id")
	c.get("/admin/schema/orders?losses=1").expect(200, "Records that would lose data", "/admin/records/orders/o1").lacks("/admin/records/orders/o2")
	c.post("/admin/schema/orders/up").expect(409, "/admin/records/orders/o1", "Nothing was changed", "would lose data")
	c.post("/admin/schema").expect(409, "/admin/records/orders/o1")
	c.post("/admin/schema/orders/up", "allow_loss", "yes").expect(200, "Done.")
	s.idle()
	page := c.get("/admin/schema/orders").expect(200, "by_state_title", "complete", "up to date", "Migrate down").lacks("not complete")
	if strings.Contains(page.Body, "Pending changes") {
		t.Error("it is still pending")
	}
	c.get("/admin/log").expect(200, "schema.up", "orders", "allow-loss", "failed")
	c.post("/admin/schema/orders/down").expect(409, "state")
	c.post("/admin/schema/orders/down", "allow_loss", "yes").expect(200, "Done.")
	c.get("/admin/schema/orders").expect(200, "Pending changes")
	c.post("/admin/schema", "allow_loss", "yes").expect(200, "Done.")
	c.get("/admin/log").expect(200, "schema.down")
	c.get("/admin/schema/nothing").expect(404, "nothing")
	c.post("/admin/schema/nothing/up").expect(404)
}

// TestSchemaDrop: only what the program does not define can be dropped, with its name and the box.
func TestSchemaDrop(t *testing.T) {
	t.Parallel()
	s := startProgram(t, []schema.Collection{legacy()}, []schema.Collection{people(), orders()})
	s.put("people", map[string]string{"p1": `{"name":"Bo"}`})
	s.put("legacy", map[string]string{"l1": `{"x":1}`})
	c := s.anna()
	c.post("/admin/schema/people/drop", "name", "people", "allow_loss", "yes").expect(409, "the program defines collection people")
	c.post("/admin/schema/legacy/drop", "name", "legac").expect(422, "type the name")
	c.post("/admin/schema/legacy/drop", "name", "legacy").expect(409, "has 1 records")
	c.post("/admin/schema/legacy/drop", "name", "legacy", "allow_loss", "yes").expect(200, "Deleted.")
	s.idle()
	c.get("/admin/schema").expect(200).lacks("legacy")
	c.get("/admin/log").expect(200, "schema.drop")
	c.post("/admin/schema/people/convert", "to", "tables").expect(409, "tables")
	c.post("/admin/schema/people/convert", "to", "nowhere").expect(409, "nowhere")
}

// TestSchemaFails: a unique index over equal values stops, is named, and begins again.
func TestSchemaFails(t *testing.T) {
	t.Parallel()
	before, now := legacy(), legacy()
	now.Indexes = []schema.Index{{Name: "by_x", Fields: []schema.IndexField{{Name: "x"}}, Unique: true}}
	s := startProgram(t, []schema.Collection{before}, []schema.Collection{now})
	s.put("legacy", map[string]string{"l1": `{"x":1}`, "l2": `{"x":1}`})
	c := s.anna()
	c.post("/admin/schema/legacy/up").expect(200, "Done.")
	eventually.True(t, "the migration stops", func() bool { return strings.Contains(c.get("/admin/schema/legacy").Body, "stopped") })
	c.get("/admin/schema").expect(200, "record l", "No record is lost and requests continue")
	c.get("/admin/schema/legacy").expect(200, "not complete", "Begin the work again")
	c.get("/admin/schema.json").expect(200, `"failed":true`)
	s.update(s.services.Records, func(tx *record.Tx) error {
		_, err := tx.Update("legacy", "l2", []byte(`{"x":2}`), 0)
		return err
	})
	c.post("/admin/schema/legacy/up").expect(200, "Done.")
	s.idle()
	c.get("/admin/schema/legacy").expect(200, "complete").lacks("not complete", "stopped")
}

// TestSchemaViewer: who may only look sees everything and changes nothing.
func TestSchemaViewer(t *testing.T) {
	t.Parallel()
	s := startProgram(t, []schema.Collection{people(), former(), legacy()}, []schema.Collection{people(), orders()})
	c := s.onlooker()
	for _, path := range []string{"/admin/schema", "/admin/schema/orders", "/admin/schema/legacy", "/admin/schema/orders/change", "/admin/diagram", "/admin/rules"} {
		page := c.get(path).expect(200)
		if i := strings.Index(page.Body, "<main"); strings.Contains(page.Body[i:], `method="post"`) {
			t.Errorf("%s has a form that changes something", path)
		}
	}
	for _, path := range []string{"/admin/schema", "/admin/schema/orders/up", "/admin/schema/orders/down", "/admin/schema/legacy/drop", "/admin/schema/orders/convert"} {
		c.post(path, "name", "legacy", "allow_loss", "yes").expect(403)
	}
}

// TestSchemaCode: a planned change is shown as Go with its steps, and bad input keeps what was typed.
func TestSchemaCode(t *testing.T) {
	t.Parallel()
	s := startProgram(t, nil, []schema.Collection{people(), orders()})
	s.put("people", map[string]string{"p1": `{"name":"Bo"}`})
	c := s.anna()
	plan := func(status int, want string, q ...string) {
		t.Helper()
		form := url.Values{}
		for i := 0; i < len(q); i += 2 {
			form.Set(q[i], q[i+1])
		}
		c.get("/admin/schema/orders/change?"+form.Encode()).expect(status, strings.NewReplacer(`"`, "&#34;", "'", "&#39;").Replace(want))
	}
	plan(200, `Paid bool `+"`"+`record:"paid,required,default=false"`+"`", "what", "add", "name", "paid", "type", "bool", "required", "yes", "default", "false")
	plan(200, `{Name: "size", Type: schema.Select, Options: []string{"s", "m"}}`, "what", "add", "name", "size", "type", "select", "options", "s|m")
	plan(200, `{Name: "seller", Type: schema.Reference, Collection: "people"}`, "what", "add", "name", "seller", "type", "reference", "ref", "people")
	plan(200, `Heading string `+"`"+`record:"heading,required,max=100,was=title"`+"`", "what", "rename", "name", "title", "to", "heading")
	plan(200, `Rename field title of orders to heading.`, "what", "rename", "name", "title", "to", "heading")
	plan(200, `Drop field owner of orders`, "what", "remove", "name", "owner")
	plan(200, `record.By("owner", "-title")`, "what", "index", "name", "owner,-title")
	plan(200, `{Name: "by_owner", Fields: []schema.IndexField{{Name: "owner"}}, Unique: true}`, "what", "index", "name", "owner", "unique", "yes")
	plan(200, `Name: "size", Type: schema.Text, Default: `+"`"+`"big"`+"`", "what", "add", "name", "size", "type", "text", "default", "big")
	plan(200, `record:"size,default=big"`, "what", "add", "name", "size", "type", "text", "default", `"big"`)
	plan(422, `Bad Name`, "what", "add", "name", "Bad Name", "type", "text")
	plan(422, `no field`, "what", "remove", "name", nasty)
	plan(422, `unknown change`, "what", "x", "name", "title")
	plan(422, `missing`, "what", "index", "name", " ")
}

var codeInPage = regexp.MustCompile(`(?s)<pre><code>(schema.Collection.*?)</code></pre>`)

// TestSchemaGo: the collection as Go code is Go, whatever its texts are.
func TestSchemaGo(t *testing.T) {
	t.Parallel()
	wild := schema.Collection{Name: "wild", Label: nasty, Hint: "a\nb\"c`", Extra: true, History: schema.History{Keep: 48 * time.Hour}, Fields: []schema.Field{
		{Name: "kind", Type: schema.Select, Options: []string{"a,b", "it's", "`q`", "\""}, Many: true, Hint: nasty},
		{Name: "price", Type: schema.Decimal, Scale: 2, Min: "0", Was: []string{"cost"}},
		{Name: "at", Type: schema.Time, Default: "@now"},
		{Name: "secret", Type: schema.Password},
		{Name: "code", Type: schema.Text, Pattern: "[a-z`\"']{1,3}", Default: `"abc"`},
	}, Indexes: []schema.Index{record.By("-price"), {Name: "one", Fields: []schema.IndexField{{Name: "code"}, {Name: "at", Desc: true}}, Unique: true}}, Rules: schema.Rules{View: "code = \"a\u202ebc\" && @auth.id != null"}}
	c := startProgram(t, nil, []schema.Collection{wild}).anna()
	page := c.get("/admin/schema/wild").expect(200).lacks("<script>alert")
	found := codeInPage.FindStringSubmatch(page.Body)
	if found == nil {
		t.Fatalf("no code in %s", page.Body)
	}
	code := html.UnescapeString(found[1])
	if _, err := parser.ParseExpr(code); err != nil {
		t.Errorf("%v in\n%s", err, code)
	}
	if strings.Contains(code, "\u202e") {
		t.Errorf("the code turns its direction:\n%s", code)
	}
	for _, want := range []string{"record.By(\"-price\")", "Unique: true", "schema.Password", "Many: true"} {
		if !strings.Contains(code, want) {
			t.Errorf("the code lacks %s:\n%s", want, code)
		}
	}
	for _, f := range wild.Fields {
		c.get("/admin/schema/wild/change?what=remove&name="+f.Name).expect(200, "delete: ")
	}
}

// many returns n collections that refer to one another, with long names.
func many(n int) (all []schema.Collection) {
	for i := range n {
		c := schema.Collection{Name: fmt.Sprintf("collection_%03d_%s", i, strings.Repeat("long", 10)), Fields: []schema.Field{{Name: "title", Type: schema.Text}}}
		for j := range i % 4 {
			c.Fields = append(c.Fields, schema.Field{Name: fmt.Sprintf("reference_%d_%s", j, strings.Repeat("x", 45)), Type: schema.Reference, Collection: fmt.Sprintf("collection_%03d_%s", i/(j+2), strings.Repeat("long", 10))})
		}
		for j := range i % 20 {
			c.Fields = append(c.Fields, schema.Field{Name: fmt.Sprintf("field_%d", j), Type: schema.Int})
		}
		all = append(all, c)
	}
	return all
}

// TestSchemaMany: the pages work without and with many collections.
func TestSchemaMany(t *testing.T) {
	t.Parallel()
	none := startProgram(t, nil, nil).anna()
	none.get("/admin/schema").expect(200, "defines no collections")
	none.get("/admin/diagram").expect(200, "defines no collections")
	none.get("/admin/rules").expect(200, "There are no collections")
	c := startProgram(t, nil, many(210)).anna()
	c.get("/admin/schema").expect(200, "collection_000", "not stored yet", "Next").lacks(`scope="row"><a href="/admin/schema/collection_150`)
	c.get("/admin/schema?after="+many(210)[149].Name).expect(200, "collection_150")
	c.get("/admin/diagram").expect(200, "150 of 210 collections", "<svg")
	c.get("/admin/rules?after="+many(210)[149].Name).expect(200, "collection_150")
}

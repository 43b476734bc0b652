package admin_test

import (
	"strings"
	"testing"

	"github.com/skerrydb/skerry/record/schema"
)

// TestRules: a rule is tried as several users, and the page says why it refuses.
func TestRules(t *testing.T) {
	t.Parallel()
	s := startProgram(t, nil, []schema.Collection{people(), former()})
	bo, eve := s.user("bo@example.org"), s.user("eve@example.org")
	s.put("people", map[string]string{"p1": `{"name":"Al"}`})
	s.put("orders", map[string]string{"o1": `{"title":"one","buyer":"p1","owner":"` + bo.ID + `"}`})
	c := s.anna()
	c.get("/admin/rules").expect(200, "buyer.name = &#34;Bo&#34;", "nobody", "everybody")
	const try = "/admin/rules?collection=orders&operation=update&id=o1&as="
	c.get(try+"bo@example.org").expect(200, "The rule allows it.", `allowed</span>`, "bo@example.org")
	c.get(try+bo.ID).expect(200, "The rule allows it.")
	c.get(try+"eve@example.org").expect(200, "The rule refuses it.", "@auth.id is &#34;"+eve.ID, "owner is &#34;"+bo.ID, "buyer.name is &#34;Al&#34;").lacks("@auth.verified” does not hold")
	c.get(try).expect(200, "The rule refuses it.", "as nobody is logged in")
	c.get("/admin/rules?collection=orders&operation=update&as=eve@example.org").expect(200, "depends on the record")
	c.get("/admin/rules?collection=orders&operation=delete").expect(200, "There is no rule, so nobody is allowed.")
	c.get("/admin/rules?collection=people&operation=view&id=p1").expect(200, "The rule allows it.")
	c.get("/admin/rules?collection=orders&operation=update&id=o1&as=nobody@example.org").expect(422, "nobody@example.org", `role="alert"`)
	c.get("/admin/rules?collection=orders&operation=fly").expect(422, "fly")
	c.get("/admin/rules?collection=none&operation=view").expect(422, "none")
	page := c.get("/admin/rules?collection=orders&operation=update&id=" + "%3Cscript%3Ealert(1)").expect(422)
	if strings.Contains(page.Body, "<script>alert") {
		t.Error("the id is markup")
	}
}

// TestLooksRules looks at the rules with a refusal.
func TestLooksRules(t *testing.T) {
	t.Parallel()
	s := startProgram(t, nil, []schema.Collection{people(), former()})
	s.user("eve@example.org")
	s.put("people", map[string]string{"p1": `{"name":"Al"}`})
	s.put("orders", map[string]string{"o1": `{"title":"one","buyer":"p1","owner":"somebody"}`})
	c := s.open()
	c.visit("/admin/rules?collection=orders&operation=update&id=o1&as=eve@example.org")
	c.looks("rules")
}

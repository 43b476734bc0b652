package admin_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// hostileText is a text that no page may take for markup or break at.
const hostileText = "<b onclick=\"alert(1)\">\u202e'\"&\u0085 x"

// shopCollections has collections with a field of each type.
func shopCollections() []schema.Collection {
	return []schema.Collection{
		{Name: "people", Extra: true, Label: "People", Fields: []schema.Field{{Name: "name", Type: schema.Text, Required: true}, {Name: "email", Type: schema.Email}, {Name: "secret", Type: schema.Password}}},
		{Name: "orders", Label: "Orders " + hostileText, Indexes: []schema.Index{record.By("total")}, Fields: []schema.Field{
			{Name: "title", Type: schema.Text, Label: "Title", Required: true, Max: "5000"},
			{Name: "status", Type: schema.Select, Options: []string{"open", "paid", "sent"}, Default: `"open"`},
			{Name: "total", Type: schema.Decimal, Scale: 2, Min: "0"},
			{Name: "count", Type: schema.Int}, {Name: "paid", Type: schema.Bool}, {Name: "due", Type: schema.Time},
			{Name: "tags", Type: schema.Select, Many: true, Options: []string{"red", "green"}},
			{Name: "owner", Type: schema.Reference, Collection: "people"}, {Name: "notes", Type: schema.Text}, {Name: "more", Type: schema.JSON},
		}},
	}
}

// shopWorld runs a server with these collections. The program's handle on records is for tests.
func shopWorld(t *testing.T) (*world, *record.DB) {
	t.Helper()
	var db *record.DB
	w := start(t, skerry.Options{Web: skerry.Web{Application: func(s *skerry.Services) (http.Handler, error) {
		db = s.Records
		return http.NotFoundHandler(), s.Records.Define(shopCollections()...)
	}}})
	return w, db
}

// fillShop creates n orders of one person.
func fillShop(t *testing.T, db *record.DB, n int) {
	t.Helper()
	_, err := db.Update(t.Context(), record.Program(), func(tx *record.Tx) error {
		if _, err := tx.Create("people", "bo", []byte(`{"name":"Bo","email":"bo@example.org","secret":"very secret indeed"}`)); err != nil {
			return err
		}
		for i := range n {
			data := fmt.Sprintf(`{"title":"Order %03d","total":"%d.50","count":%d,"owner":"bo","status":%q,"more":{"a":1,"b":[true]}}`, i, i%7, i, []string{"open", "paid"}[i%2])
			if _, err := tx.Create("orders", fmt.Sprintf("o%03d", i), []byte(data)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestGrid(t *testing.T) {
	t.Parallel()
	w, db := shopWorld(t)
	c := w.anna()
	c.get("/admin/records").expect(200, "orders", "/admin/records/people/import").lacks("<b onclick")
	c.get("/admin/records/orders").expect(200, "no records yet").lacks("<b onclick")
	fillShop(t, db, 125)
	c.get("/admin/records").expect(200, "125")
	page := c.get("/admin/records/orders").expect(200, "Order 000", "Order 049", "Next page", "Count them").lacks("Order 050", "very secret")
	next := linkBetween(t, page.Body, `<a class="button second" href="`, `" rel="next"`)
	page = c.get("/admin/records/orders"+next).expect(200, "Order 050", "Order 099", "First page").lacks("Order 049", "Order 100")
	c.get("/admin/records/orders" + linkBetween(t, page.Body, `<a class="button second" href="`, `" rel="next"`)).expect(200)
	c.get("/admin/records/orders?count=1").expect(200, "125 records in all")
	c.get("/admin/records/orders?"+url.Values{"filter": {`count > 122 && owner.name = "Bo"`}, "sort": {"-count"}}.Encode()).expect(200, "Order 123", `aria-sort="descending"`).lacks("Order 122")
	sorted := c.get("/admin/records/orders?sort=-count&columns=count,nonsense").expect(200, "o124").lacks("o000", "nonsense</a>")
	if strings.Index(sorted.Body, "o124") > strings.Index(sorted.Body, "o123") {
		t.Error("o123 comes before o124")
	}
	c.get("/admin/records/nothing").expect(404, "nothing")
	c.get("/admin/records/orders/nothing").expect(404, "nothing")
	c.get("/admin/records/orders?after=xyz").expect(422, "cursor")
}

// TestGridFilterPosition: a filter with a fault keeps the page, and the fault is marked where it is.
func TestGridFilterPosition(t *testing.T) {
	t.Parallel()
	w, db := shopWorld(t)
	fillShop(t, db, 2)
	c := w.anna()
	for filter, marked := range map[string]string{
		`count > 1 && nonsense = 2`: `count &gt; 1 &amp;&amp; <mark>n</mark>onsense = 2`,
		`count > `:                  `count &gt; <mark>␣</mark>`,
		`title = "é" $ 1`:           `title = &#34;é&#34; <mark>$</mark> 1`,
		`count = <b>`:               `count = <mark>&lt;</mark>b&gt;`,
	} {
		c.get("/admin/records/orders?"+url.Values{"filter": {filter}, "sort": {"-count"}, "columns": {"title"}}.Encode()).expect(422, marked, `name="sort" value="-count"`, `role="alert"`).lacks("<b>")
	}
	c.get("/admin/records/orders").expect(200, `["owner.name","text"]`).lacks("owner.secret")
	c.get("/admin/records/orders/check?filter=count+%3E").expect(200, `"ok":false`, `"before":"count \u003e"`)
	c.get("/admin/records/orders/check?filter=count+%3E+1").expect(200, `"ok":true`)
	c.get("/admin/records/orders?at=nonsense").expect(422, "asof")
}

func linkBetween(t *testing.T, text, before, after string) string {
	t.Helper()
	end := strings.Index(text, after)
	if end < 0 {
		t.Fatalf("no %q in %s", after, text)
	}
	from := strings.LastIndex(text[:end], before)
	if from < 0 {
		t.Fatalf("no %q before %q in %s", before, after, text)
	}
	return strings.ReplaceAll(text[from+len(before):end], "&amp;", "&")
}

// TestGridLarge: a page costs the same however many records there are, and what would read them all is refused with a remedy.
func TestGridLarge(t *testing.T) {
	t.Parallel()
	w, db := shopWorld(t)
	c := w.anna()
	fillShop(t, db, 0)
	for part := range 11 {
		_, err := db.Update(t.Context(), record.Program(), func(tx *record.Tx) error {
			for i := range record.MaxOps {
				if _, err := tx.Create("orders", fmt.Sprintf("p%02d-%03d", part, i), fmt.Appendf(nil, `{"title":"Order","total":"%d","count":%d}`, i, i)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, query := range []string{"", "?count=1", "?sort=-total", "?filter=total+%3D+5", "?filter=title+~+%22zzz%22", "?sort=notes", "?at=2020-01-01"} {
		begun := time.Now()
		page := c.get("/admin/records/orders" + query)
		t.Log(query, page.Status, time.Since(begun))
		if page.Status != 200 && (page.Status != 422 || !strings.Contains(page.Body, "10000") || strings.Contains(page.Body, "<tbody>")) {
			t.Errorf("%s: status %d: %s", query, page.Status, page.Body)
		}
	}
	c.get("/admin/records").expect(200, "11\u202f000")
	c.post("/admin/records/orders/bulk", "op", "delete", "on", "all").expect(200, "more than 10\u202f000 records").lacks("bulk/do")
	seen := c.post("/admin/records/orders/bulk", "op", "set", "field", "notes", "value", "x", "on", "all", "filter", "total < 150").expect(200, "Change 1\u202f650 records?", "2 transactions")
	c.post("/admin/records/orders/bulk/do", "op", "set", "field", "notes", "value", "x", "on", "all", "filter", "total < 150", "known", seen.known()).expect(200, "Done.")
	c.get("/admin/records/orders?count=1&filter=total+%3C+150+%26%26+notes+%3D+%22x%22").expect(200, "1\u202f650 records in all")
}

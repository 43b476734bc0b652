package admin_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// moveIn is the argument of a procedure of tests.
type moveIn struct {
	From   string            `json:"from"`
	To     string            `json:"to"`
	Amount int64             `json:"amount"`
	Fast   bool              `json:"fast,omitempty"`
	Note   *string           `json:"note"`
	Tags   []string          `json:"tags,omitempty"`
	More   map[string]uint16 `json:"more,omitempty"`
}

// withProcedures returns options of a server with procedures and a collection of records.
func withProcedures(store **kv.Store) skerry.Options {
	o := serveWith(func(s *skerry.Services) {
		*store = s.KV
		if err := s.Records.Define(schema.Collection{Name: "notes", Fields: []schema.Field{{Name: "text", Type: schema.Text}, {Name: "size", Type: schema.Int}}}); err != nil {
			panic(err)
		}
	})
	o.Procedures = []proc.Procedure{
		proc.Define("move", func(tx *proc.Tx, in moveIn) (map[string]int64, error) {
			if in.From == "" {
				return nil, engine.Errorf("no_account", "there is no account %q", in.From)
			}
			from, err := tx.KV(0).Add([]byte(in.From), -in.Amount)
			if err != nil {
				return nil, err
			}
			to, err := tx.KV(0).Add([]byte(in.To), in.Amount)
			return map[string]int64{"from": from, "to": to}, err
		}).Describe("Move moves an amount from one account to another."),
		proc.Define("annotate", func(tx *proc.Tx, in struct {
			ID   string `json:"id"`
			Text string `json:"text"`
		}) (struct{}, error) {
			records, err := record.From(tx, record.Program())
			if err != nil {
				return struct{}{}, err
			}
			if _, err = records.Get("notes", in.ID); err != nil {
				_, err = records.Create("notes", in.ID, []byte(`{"size":1,"text":"`+in.Text+`"}`))
			} else {
				_, err = records.Update("notes", in.ID, []byte(`{"text":"`+in.Text+`"}`), 0)
			}
			_, err2 := tx.KV(1).Delete([]byte("gone"))
			if err == nil {
				err = err2
			}
			return struct{}{}, err
		}),
		proc.Define("many", func(tx *proc.Tx, in struct {
			N int `json:"n"`
		}) (string, error) {
			for i := range in.N {
				if _, err := tx.KV(0).Set([]byte(fmt.Sprintf("many:%04d", i)), []byte("<b>"), kv.SetOptions{}); err != nil {
					return "", err
				}
			}
			return strings.Repeat("long ", 20_000), nil
		}),
		proc.Define("nothing", func(*proc.Tx, struct{}) (int, error) { return 42, nil }),
		proc.DefineRead("balance", func(tx *proc.Tx, in struct {
			Account string `json:"account"`
		}) (string, error) {
			e, _, err := tx.KV(0).Get([]byte(in.Account))
			return string(e.Val), err
		}).Describe("Balance returns what is in an account."),
	}
	return o
}

// TestProcedures: procedures are called with the form, and the page shows what they did.
func TestProcedures(t *testing.T) {
	t.Parallel()
	var store *kv.Store
	w := start(t, withProcedures(&store))
	putKeys(t, store, 0, "ann", "100")
	putKeys(t, store, 1, "gone", "soon")
	c := w.anna()
	c.get("/admin/procedures").expect(200, "move", "Move moves an amount", "from: string, to: string, amount: int64, fast?: bool", "reads only")
	c.get("/admin/procedures?find=BAL").expect(200, "balance").lacks("annotate")
	c.get("/admin/procedures?find=zzz").expect(200, "No procedure")
	c.get("/admin/procedures/missing").expect(404)
	c.get("/admin/procedures/move?arg-from=ann").expect(200, ">\nann</textarea>", "int64")

	c.post("/admin/procedures/move", "arg-from", "ann", "arg-to", "ben", "arg-amount", "30", "arg-tags", `["a"]`, "arg-more", "").expect(200,
		"&#34;from&#34;: 70", "It took", "<del>- 100</del><ins>+ 70</ins>", "changed", "ben", "<ins>+ 30</ins>", "created")
	c.post("/admin/procedures/move", "arg-from", "", "arg-to", "ben", "arg-amount", "1").expect(422, "no_account", "Nothing was changed")
	c.post("/admin/procedures/move", "arg-from", "ann", "arg-to", "ben", "arg-amount", "much").expect(422, `value="much"`, `aria-invalid="true"`)
	c.post("/admin/procedures/move", "arg-from", "ann", "arg-to", "ben", "arg-amount", "1", "arg-tags", `[1`).expect(422, "[1</textarea>")
	if is := keyNow(t, store, "ann"); is != "70" {
		t.Errorf("ann has %s", is)
	}

	c.post("/admin/procedures/annotate", "arg-id", "zero", "arg-text", "the collection is stored now").expect(200, "description of a collection")
	putKeys(t, store, 1, "gone", "soon")
	c.post("/admin/procedures/annotate", "arg-id", "first", "arg-text", "fish").expect(200, "notes/first", "created", "&#34;text&#34;: &#34;fish&#34;", "gone", "<del>- soon</del>", "deleted")
	page := c.post("/admin/procedures/annotate", "arg-id", "first", "arg-text", "meat").expect(200, "changed", "<del>-     &#34;text&#34;: &#34;fish&#34;,</del>", "<ins>+     &#34;text&#34;: &#34;meat&#34;,</ins>")
	page.lacks("<del>-     &#34;size&#34;")
	if page := c.post("/admin/procedures/many", "arg-n", "200").expect(200, "not shown: 150", "The rest of the result is left out", "&lt;b&gt;"); len(page.Body) > 200_000 {
		t.Errorf("the page has %d bytes", len(page.Body))
	}
	c.post("/admin/procedures/nothing").expect(200, "42", "What it changed", "Nothing.")
	c.get("/admin/log").expect(200, "procedure.call", "move", "&#34;amount&#34;:30", "failed")
}

// TestProceduresViewer: viewers can call what only reads.
func TestProceduresViewer(t *testing.T) {
	t.Parallel()
	var store *kv.Store
	w := start(t, withProcedures(&store))
	putKeys(t, store, 0, "ann", "100")
	v := w.anna().lookOnly()
	v.get("/admin/procedures/balance?call=1&arg-account=ann").expect(200, "&#34;100&#34;", "It took")
	v.get("/admin/procedures/move?call=1&arg-from=ann&arg-to=ben&arg-amount=1").expect(200, "only superadmins").lacks("It took")
	v.post("/admin/procedures/move", "arg-from", "ann", "arg-to", "ben", "arg-amount", "1").expect(403)
	v.post("/admin/procedures/balance", "arg-account", "ann").expect(403)
	if is := keyNow(t, store, "ann"); is != "100" {
		t.Errorf("ann has %s", is)
	}
}

// TestLooksProcedures looks at the pages of procedures.
func TestLooksProcedures(t *testing.T) {
	t.Parallel()
	var store *kv.Store
	w := start(t, withProcedures(&store))
	putKeys(t, store, 0, "ann", "100")
	putKeys(t, store, 1, "gone", "soon")
	c := w.open()
	c.visit("/admin/procedures")
	c.looks("procedures")
	c.visit("/admin/procedures/move?arg-from=ann&arg-to=ben&arg-amount=30")
	c.looks("procedure")
	c.Click(`main form button`)
	c.Until(`document.querySelectorAll(".effect").length === 2`)
	c.looks("procedure-result")
	c.visit("/admin/procedures/balance?call=1&arg-account=ann")
	c.looks("procedure-read")
}

// TestLooksProceduresEmpty looks at the page of a program without procedures.
func TestLooksProceduresEmpty(t *testing.T) {
	t.Parallel()
	c := start(t, skerry.Options{}).open()
	c.visit("/admin/procedures")
	c.looks("procedures-empty")
}

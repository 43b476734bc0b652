package gotro

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"unicode"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
	"github.com/skerrydb/skerry/session"
	"github.com/skerrydb/skerry/web"
)

// loggedIn is a rule. Everybody may log in here; see login.
const loggedIn = `@auth.id != null`

// tables are the base tables. In GotRo they were CreateBaseTable(`customers`, `users`) and a Pg.TableModel; here one list
// of fields decides what is stored, and drives the grid, the search and the form.
var tables = []schema.Collection{{
	Name:  "customers",
	Rules: schema.Rules{List: loggedIn, View: loggedIn, Create: loggedIn, Update: loggedIn, Delete: loggedIn, History: loggedIn},
	Fields: []schema.Field{
		{Name: "full_name", Type: schema.Text, Required: true, Min: "1", Max: "80"},
		{Name: "email", Type: schema.Email, Label: "E-mail", Hint: "only one customer can have it"},
		{Name: "phone", Type: schema.Phone, Hint: "with the code of the country: +62 21 555 01"},
		{Name: "kind", Type: schema.Select, Options: []string{"person", "company"}, Default: `"person"`, Required: true},
		{Name: "credit", Type: schema.Decimal, Scale: 2, Min: "0", Label: "Credit limit"},
		{Name: "since", Type: schema.Time, Default: "@now"},
		{Name: "blocked", Type: schema.Bool, Default: "false"},
	},
	Indexes: []schema.Index{
		{Name: "email", Fields: []schema.IndexField{{Name: "email"}}, Unique: true},
		record.By("full_name"), record.By("-created"),
	},
}}

// base is the page of base tables.
type base struct{ records *record.DB }

func (b *base) routes(app *web.App) {
	app.Get("/base/{table}", b.list)
	app.Get("/base/{table}/{id}", func(c *web.Context) error { return b.form(c, http.StatusOK, nil, nil) })
	app.Post("/base/{table}/{id}", b.save)
	app.Post("/base/{table}/{id}/delete", b.move((*record.Tx).Delete))
	app.Post("/base/{table}/{id}/restore", b.move((*record.Tx).Restore))
}

// cell is a field of one record, or of the search.
type cell struct {
	*schema.Field
	Label, Value, Wrong, Input string
}

// cells returns what is shown of fields. The columns of a grid are those whose values fit into one.
func cells(k *schema.Compiled, text func(f *schema.Field) string) (all []cell) {
	inputs := map[schema.Type]string{schema.Int: "number", schema.Email: "email", schema.URL: "url", schema.Phone: "tel", schema.Bool: "checkbox", schema.Select: "select", schema.JSON: "textarea", schema.Password: "password"}
	for i := range k.Fields {
		f := &k.Fields[i]
		label := []rune(cmp.Or(f.Label, strings.ReplaceAll(f.Name, "_", " ")))
		label[0] = unicode.ToUpper(label[0])
		all = append(all, cell{Field: f, Label: string(label), Value: text(f), Input: cmp.Or(inputs[f.Type], "text")})
	}
	return all
}

// view reads records of the table as the user.
func (b *base) view(c *web.Context, fn func(tx *record.Tx, table string) error) error {
	_, err := b.records.View(c, engine.Read{}, actor(c.Session()), func(tx *record.Tx) error { return fn(tx, c.Path("table").String()) })
	return err
}

func actor(s *session.Session) record.Actor { return record.Actor{ID: s.User()} }

// shown returns a value as people read it.
func shown(f *schema.Field, v value.Value) string {
	if d, ok := v.Decimal(); ok && f.Type == schema.Decimal {
		return value.PadScale(d, f.Scale)
	}
	return v.String()
}

// titleOf returns the name of a table for people.
func titleOf(k *schema.Compiled) string { return cmp.Or(k.Label, k.Name) }

// row is a record of the grid.
type row struct {
	ID    string
	Cells []cell
}

// list shows a page of the records that the query asks for by the names of fields, in the order of sort.
func (b *base) list(c *web.Context) error {
	link := func(name, value string) string { // to this page with another value
		q := c.Request.URL.Query()
		q.Del("after")
		q.Set(name, value)
		return "?" + q.Encode()
	}
	l := web.Locals{"trash": c.Query("trash").Given(), "link": link}
	err := b.view(c, func(tx *record.Tx, table string) error {
		k, err := tx.Collection(table)
		if err != nil {
			return err
		}
		q, args := record.Query{Sort: cmp.Or(c.Query("sort").String(), "-created"), Limit: 20, After: c.Query("after").String(), Trash: c.Query("trash").Given()}, []any{}
		var terms []string
		search := cells(k, func(f *schema.Field) string { return c.Query(f.Name).String() })
		for _, x := range search {
			if x.Value == "" {
				continue
			}
			op := " = ?"
			if kind := schema.KindOf(x.Type); kind == value.Text && x.Type != schema.Select {
				op = " ~ ?"
			}
			terms, args = append(terms, x.Name+op), append(args, x.Value)
		}
		q.Filter = strings.Join(terms, " && ")
		found, err := tx.List(table, q, args...)
		if err != nil {
			return err
		}
		var rows []row
		for _, r := range found.Items {
			rows = append(rows, row{r.ID, cells(k, func(f *schema.Field) string { return shown(f, r.Value(f.Name)) })})
		}
		l["title"], l["table"], l["search"], l["rows"], l["next"], l["sort"] = titleOf(k), table, search, rows, found.Next, q.Sort
		return nil
	})
	if err != nil {
		return err
	}
	return c.Render("base", l)
}

// find returns a record, also from the trash.
func find(tx *record.Tx, table, id string) (*record.Record, error) {
	r, err := tx.Get(table, id)
	if !errors.Is(err, record.ErrNotFound) {
		return r, err
	}
	trash, err2 := tx.List(table, record.Query{Filter: "id = ?", Trash: true}, id)
	if err2 != nil || len(trash.Items) == 0 {
		return nil, errors.Join(err2, err)
	}
	return trash.Items[0], nil
}

// form shows a record with its history, or an empty form for the id "new". After a save that failed, it shows what was
// sent and what is wrong, by the names of fields.
func (b *base) form(c *web.Context, status int, sent, wrong map[string]string) error {
	id := c.Path("id").String()
	l := web.Locals{"id": id, "rev": uint64(0), "deleted": false, "history": []*record.Change{}, "wrong": wrong[""]}
	err := b.view(c, func(tx *record.Tx, table string) error {
		k, err := tx.Collection(table)
		if err != nil {
			return err
		}
		text := func(f *schema.Field) string { // defaults, except for those that only the server knows
			if strings.HasPrefix(f.Default, "@") {
				return ""
			}
			return strings.Trim(f.Default, `"`)
		}
		if id != "new" {
			r, err := find(tx, table, id)
			if err != nil {
				return err
			}
			if l["history"], err = tx.History(table, id, 0, 50); err != nil {
				return err
			}
			l["rev"], l["deleted"] = r.Rev, r.Deleted
			text = func(f *schema.Field) string { return shown(f, r.Value(f.Name)) }
		}
		if sent != nil {
			text = func(f *schema.Field) string { return sent[f.Name] }
			l["rev"] = sent["rev"]
		}
		fields := cells(k, text)
		for i := range fields {
			fields[i].Wrong = wrong[fields[i].Name]
		}
		l["title"], l["table"], l["fields"] = titleOf(k), table, fields
		return nil
	})
	if err != nil {
		return err
	}
	return c.RenderStatus(status, "base_form", l)
}

// save creates or changes a record with the values of the form. Empty ones are null.
func (b *base) save(c *web.Context) error {
	table, id := c.Path("table").String(), c.Path("id").String()
	rev, err := c.Form("rev").Int64()
	if err != nil {
		return err
	}
	sent := map[string]string{"rev": c.Form("rev").String()}
	_, err = b.records.Update(c, actor(c.Session()), func(tx *record.Tx) error {
		k, err := tx.Collection(table)
		if err != nil {
			return err
		}
		for _, f := range k.Fields {
			sent[f.Name] = c.Form(f.Name).String()
			if f.Type == schema.Bool && sent[f.Name] == "" {
				sent[f.Name] = "false" // a box that is not checked is not sent
			}
		}
		patch := patchOf(k, sent)
		if id == "new" {
			_, err = tx.Create(table, "", patch)
		} else {
			_, err = tx.Update(table, id, patch, uint64(rev))
		}
		return err
	})
	if bad, ok := errors.AsType[schema.Problems](err); ok {
		wrong := map[string]string{}
		for _, p := range bad {
			wrong[strings.TrimPrefix(p.Pointer, "/")] = p.Detail
		}
		return b.form(c, http.StatusUnprocessableEntity, sent, wrong)
	} else if errors.Is(err, record.ErrRevision) || errors.Is(err, record.ErrExists) {
		return b.form(c, http.StatusUnprocessableEntity, sent, map[string]string{"": c.Detail(err)})
	} else if err != nil {
		return err
	}
	return c.Redirect("/base/" + table)
}

// patchOf returns the JSON of a form. Text that is no value of its field stays text, which the collection then refuses.
func patchOf(k *schema.Compiled, sent map[string]string) []byte {
	patch := []byte{'{'}
	for i, f := range k.Fields {
		v, err := value.FromText(schema.KindOf(f.Type), sent[f.Name])
		if err != nil {
			v, _ = value.OfText(strings.ToValidUTF8(strings.ReplaceAll(sent[f.Name], "\x00", ""), ""))
		}
		if sent[f.Name] == "" {
			v = value.Value{}
		}
		if i > 0 {
			patch = append(patch, ',')
		}
		patch = v.AppendJSON(append(value.AppendText(patch, f.Name), ':'))
	}
	return append(patch, '}')
}

// move moves a record into the trash or out of it.
func (b *base) move(how func(tx *record.Tx, table, id string, rev uint64) (*record.Record, error)) web.Handler {
	return func(c *web.Context) error {
		_, err := b.records.Update(c, actor(c.Session()), func(tx *record.Tx) error {
			_, err := how(tx, c.Path("table").String(), c.Path("id").String(), 0)
			return err
		})
		if err != nil {
			return err
		}
		return c.Redirect("/base/" + c.Path("table").String())
	}
}

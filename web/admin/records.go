package admin

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/problem"
)

func (a *Admin) addRecords(g *web.Group) {
	g.Get("/records", a.collectionsPage)
	g.Get("/records/{collection}", a.gridPage)
	g.Get("/records/{collection}/check", a.checkFilter)
	g.Get("/records/{collection}/options", a.referenceOptions)
	g.Get("/records/{collection}/new", a.newRecordPage)
	g.Post("/records/{collection}/new", a.createRecord)
	g.Post("/records/{collection}/bulk", a.bulkPage)
	g.Post("/records/{collection}/bulk/do", a.bulkDo)
	g.Post("/records/{collection}/views", a.saveView)
	g.Post("/records/{collection}/views/remove", a.removeView)
	g.Get("/records/{collection}/{id}", a.recordFormPage)
	g.Get("/records/{collection}/{id}/edit", a.recordFormPage) // for ids that are words of this list
	g.Post("/records/{collection}/{id}", a.saveRecord)
	g.Post("/records/{collection}/{id}/edit", a.saveRecord)
	g.Post("/records/{collection}/{id}/cell", a.saveCell)
	g.Post("/records/{collection}/{id}/delete", a.deleteRecord)
	g.Post("/records/{collection}/{id}/restore", a.restoreRecord)
	a.addHistory(g)
	a.addTransfers(g)
}

// recordsActor returns the administrator of a request as the history of records names them: by email address. Rules do not
// apply; private keeps those who may only look from writing.
func recordsActor(c *web.Context) record.Actor {
	u := person(c)
	return record.Actor{ID: u.Email, Email: u.Email, Name: u.Name, Roles: u.Roles, Verified: true, System: true, Request: c.RequestID()}
}

// freshness returns how new the state of a page must be. Pages that are only looked at need not be current, so that they also work
// while no node leads; after an action, and for one, they must be.
func freshness(c *web.Context) engine.Read {
	if c.Request.Method == http.MethodPost || c.Query(noticeKey).Given() {
		return engine.Read{}
	}
	return engine.Read{Level: engine.Local}
}

// viewRecords runs fn in a transaction that reads.
func (a *Admin) viewRecords(c *web.Context, fn func(tx *record.Tx) error) error {
	_, err := a.o.Records.View(c, freshness(c), recordsActor(c), fn)
	return err
}

// collectionPath returns the path of the records of a collection, below Prefix.
func collectionPath(collection string) string { return "/records/" + url.PathEscape(collection) }

// recordPath returns the path of the page of a record, below Prefix.
func recordPath(collection, id string) string {
	path := collectionPath(collection) + "/" + url.PathEscape(id)
	if slices.Contains([]string{"new", "bulk", "views", "check", "options", "history", "import", "export"}, id) {
		path += "/edit"
	}
	return path
}

// collectionRow is a collection in the list.
type collectionRow struct {
	Name, Label, Hint, Path string
	Records                 int
	Counted                 bool
	Fields                  int
	History                 string
}

// collectionsPage lists the collections. Their counts come from counters, so they cost the same for any number of records.
func (a *Admin) collectionsPage(c *web.Context) error {
	var rows []collectionRow
	err := a.viewRecords(c, func(tx *record.Tx) error {
		rows = nil
		for _, k := range tx.Collections() {
			row := collectionRow{Name: k.Name, Label: k.Label, Hint: k.Hint, Path: Prefix + collectionPath(k.Name), Fields: len(k.Fields), History: k.History.String()}
			if page, err := findRecords(tx, k.Name, url.Values{"limit": {"0"}, "count": {"true"}}); err == nil {
				row.Records, row.Counted = page.Total, true
			} else if !refusedRecordQuery(err) {
				return err
			}
			rows = append(rows, row)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return a.show(c, http.StatusOK, "records", web.Locals{"title": a.text("Records"), "collections": rows})
}

// findRecords parses a query and returns its page.
func findRecords(tx *record.Tx, collection string, params url.Values) (*record.Page, error) {
	q, err := tx.ParseQuery(collection, params)
	if err != nil {
		return nil, err
	}
	return tx.Find(collection, q)
}

// refusedRecordQuery reports whether err is about what was asked for, so that its page can say so.
func refusedRecordQuery(err error) bool {
	if _, faults := errors.AsType[problem.Faults](err); faults {
		return true
	}
	code := engine.CodeOf(err)
	return slices.Contains([]engine.Code{record.CodeQuery, record.CodeScan, record.CodeNoPath, record.CodeTooLarge, record.CodeHistoryGone, record.CodeRefused, engine.CodeLimit, engine.CodeInvalid, engine.CodeUnsupported}, code)
}

// getAnyRecord returns a record, also one that is deleted.
func getAnyRecord(tx *record.Tx, collection, id string) (*record.Record, error) {
	r, err := tx.Get(collection, id)
	if !errors.Is(err, record.ErrNotFound) {
		return r, err
	}
	page, other := tx.List(collection, record.Query{Filter: "id = ?", Trash: true, Limit: 1}, id)
	switch {
	case other != nil && !refusedRecordQuery(other):
		return nil, other
	case other != nil || len(page.Items) == 0: // a collection need not have a trash
		return nil, err
	}
	return page.Items[0], nil
}

// recordName returns what people would call a record: its first text, or its id.
func recordName(r *record.Record) string {
	for i, f := range r.Collection().Fields {
		if f.Type == schema.Text || f.Type == schema.Email {
			if text, ok := r.Field(i).Text(); ok && strings.TrimSpace(text) != "" {
				return text
			}
		}
	}
	return r.ID
}

// readRecordTime reads a time as people write it, in UTC, and returns it as records have it. Other texts stay as they are.
func readRecordTime(text string) string {
	text = strings.TrimSpace(text)
	for _, layout := range timeLayouts {
		if at, err := time.Parse(layout, text); err == nil {
			return at.Format(time.RFC3339Nano)
		}
	}
	return text
}

// recordSavedBy returns who has saved a record last; "": the program, or nobody since it was made.
func recordSavedBy(r *record.Record) string { return r.Value("updated_by").String() }

package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/keyspace"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/web"
)

const (
	viewsPrefix  = "recordviews/" // of keys in keyspace.AdminPage, then COLLECTION/NAME. In the data: do not change
	maxViews     = 50             // of a collection
	maxViewName  = 100            // bytes
	maxViewBytes = 64 << 10       // of its filter, order and columns
)

// savedView is a grid that an administrator has given a name, for all. In the data: do not rename.
type savedView struct {
	Name    string   `json:"name"`
	Filter  string   `json:"filter,omitempty"`
	Sort    string   `json:"sort,omitempty"`
	Columns []string `json:"columns,omitempty"`
	Deleted bool     `json:"deleted,omitempty"`
	By      string   `json:"by"`
}

// Link returns the URL of the view, relative to the page of its collection.
func (v savedView) Link() string {
	return gridState{Filter: v.Filter, Sort: v.Sort, Columns: v.Columns, Deleted: v.Deleted}.link()
}

// savedViews returns the views of a collection, by name.
func (a *Admin) savedViews(c *web.Context, collection string) (all []savedView, err error) {
	_, err = a.o.Store.View(c, engine.Read{Level: engine.Local}, keyspace.AdminPage, func(t *kv.Tx) error {
		all = nil
		for it, err := range t.ScanPrefix([]byte(viewsPrefix + collection + "/")) {
			if err != nil {
				return err
			}
			var v savedView
			if err := json.Unmarshal(it.Val, &v); err != nil {
				return engine.Errorf(engine.CodeCorrupt, "a saved view of %s: %w", collection, err)
			}
			if all = append(all, v); len(all) == maxViews {
				return nil
			}
		}
		return nil
	})
	return all, err
}

// checkCollection fails unless there is a collection.
func (a *Admin) checkCollection(c *web.Context, name string) error {
	return a.viewRecords(c, func(tx *record.Tx) error {
		_, err := tx.Collection(name)
		return err
	})
}

// saveView stores the state of a grid under a name. A view of that name is replaced.
func (a *Admin) saveView(c *web.Context) error {
	collection := c.Path("collection").String()
	if err := a.checkCollection(c, collection); err != nil {
		return err
	}
	form, err := recordFormOf(c)
	if err != nil {
		return err
	}
	s := readGrid(form)
	v := savedView{Name: strings.TrimSpace(form.Get("name")), Filter: s.Filter, Sort: s.Sort, Columns: s.Columns, Deleted: s.Deleted, By: person(c).Email}
	if v.Name == "" || len(v.Name) > maxViewName || strings.ContainsAny(v.Name, "\x00\r\n") {
		return a.showGrid(c, http.StatusUnprocessableEntity, s, a.text("The name of a view must have 1 to %d bytes on one line.", maxViewName))
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(text) > maxViewBytes {
		return a.showGrid(c, http.StatusUnprocessableEntity, s, a.text("The view has more than %d bytes. Shorten its filter.", maxViewBytes))
	}
	err = a.act(c, "view.save", collection, v.Name, func() error { return a.storeView(c, viewsPrefix+collection+"/", v.Name, text) })
	if errors.Is(err, errViews) {
		return a.showGrid(c, http.StatusUnprocessableEntity, s, a.text("The collection has %d views, the limit. Remove one first.", maxViews))
	}
	if err != nil {
		return err
	}
	return a.done(c, collectionPath(collection)+v.Link(), "saved")
}

// errViews is the refusal of one view too many.
var errViews = engine.Errorf(engine.CodeLimit, "the collection has %d views, the limit", maxViews)

// storeView stores a view of a collection, unless it would be one too many.
func (a *Admin) storeView(ctx context.Context, prefix, name string, text []byte) error {
	_, err := a.o.Store.Update(ctx, keyspace.AdminPage, func(t *kv.Tx) error {
		others := 0
		for it, err := range t.ScanPrefix([]byte(prefix)) {
			if err != nil {
				return err
			}
			if string(it.Key) != prefix+name {
				others++
			}
		}
		if others >= maxViews {
			return errViews
		}
		_, err := t.Set([]byte(prefix+name), text, kv.SetOptions{})
		return err
	})
	return err
}

// removeView removes a view.
func (a *Admin) removeView(c *web.Context) error {
	collection, name := c.Path("collection").String(), c.Form("name").String()
	err := a.act(c, "view.delete", collection, name, func() error {
		_, err := a.o.Store.Update(c, keyspace.AdminPage, func(t *kv.Tx) error {
			_, err := t.Delete([]byte(viewsPrefix + collection + "/" + name))
			return err
		})
		return err
	})
	if err != nil {
		return err
	}
	return a.done(c, collectionPath(collection), "deleted")
}

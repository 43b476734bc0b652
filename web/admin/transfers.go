package admin

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/records"
)

// addTransfers adds imports and exports: /records/{collection}/import and /records/{collection}/export.
func (a *Admin) addTransfers(g *web.Group) {
	face := records.New(a.o.Records, records.Options{Actor: func(c *web.Context) (record.Actor, error) { return recordsActor(c), nil }})
	g.Get("/records/{collection}/import", a.importPage)
	g.Post("/records/{collection}/import", a.importFile)
	g.Get("/records/{collection}/export", func(c *web.Context) error { return a.export(c, face) })
}

// export sends the records of a collection as a file, or shows the form for that if no format is given.
func (a *Admin) export(c *web.Context, face *records.Face) error {
	collection := c.Path("collection").String()
	given, err := url.ParseQuery(c.Request.URL.RawQuery)
	if err != nil {
		return web.WrongParameter("", "the query string is malformed: %v", err)
	}
	status, trouble := http.StatusOK, ""
	if given.Has("format") {
		c.Header().Set("X-Content-Type-Options", "nosniff")
		params, err := exportParams(c, given)
		if err == nil {
			err = face.Export(c, params)
		}
		if err == nil || !refusedRecordQuery(err) {
			return err
		}
		status, trouble = http.StatusUnprocessableEntity, c.Detail(err)
	}
	if _, err := a.o.Records.View(c, engine.Read{Level: engine.Local}, recordsActor(c), func(tx *record.Tx) error {
		_, err := tx.Collection(collection)
		return err
	}); err != nil {
		return err
	}
	return a.show(c, status, "export", web.Locals{
		"title": a.text("Export %s", collection), "name": collection, "list": Prefix + "/records/" + url.PathEscape(collection), "problem": trouble,
		"filter": given.Get("filter"), "sort": given.Get("sort"), "format": given.Get("format"), "at": given.Get("at"), "deleted": given.Get("deleted") != "",
	})
}

// exportParams returns the parameters of the grid and of the form as those of an export.
func exportParams(c *web.Context, given url.Values) (url.Values, error) {
	params := url.Values{}
	for name, values := range given {
		switch {
		case strings.Join(values, "") == "", name == "columns", name == "after", name == "count", name == noticeKey: // empty fields of the form, and what only the grid knows
		case name == "deleted" && values[0] == "1":
			params.Set("deleted", "all")
		case name == "at":
			at, err := timeOf(c.Query("at"))
			if err != nil {
				return nil, err
			}
			params.Set("asof", at.UTC().Format(time.RFC3339Nano))
		default:
			params[name] = values
		}
	}
	return params, nil
}

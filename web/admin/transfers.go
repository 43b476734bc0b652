package admin

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/records"
)

// addTransfers adds imports and exports: /records/{collection}/import and /records/{collection}/export.
func (a *Admin) addTransfers(g *web.Group) {
	face := records.New(a.o.Records, records.Options{Actor: func(c *web.Context) (record.Actor, error) { return a.historyActor(c), nil }})
	g.Get("/records/{collection}/import", a.importPage)
	g.Post("/records/{collection}/import", a.importFile)
	g.Get("/records/{collection}/export", func(c *web.Context) error { return a.export(c, face) })
}

// export sends the records of a collection as a file, or shows the form for that if no format is given.
func (a *Admin) export(c *web.Context, face *records.Face) error {
	collection := c.Path("collection").String()
	params, err := url.ParseQuery(c.Request.URL.RawQuery)
	if err != nil {
		return web.WrongParameter("", "the query string is malformed: %v", err)
	}
	for name := range params {
		if params.Get(name) == "" {
			delete(params, name) // of a form that was left empty
		}
	}
	params.Del(noticeKey)
	sends := params.Has("format")
	status, trouble := http.StatusOK, ""
	if sends {
		c.Header().Set("X-Content-Type-Options", "nosniff")
		err := face.Export(c, params)
		if err == nil || !isQuery(err) {
			return err
		}
		c.Header().Del("Content-Disposition")
		status, trouble = http.StatusUnprocessableEntity, c.Detail(err)
	}
	if _, err := a.o.Records.View(c, engine.Read{Level: engine.Local}, a.historyActor(c), func(tx *record.Tx) error {
		_, err := tx.Collection(collection)
		return err
	}); err != nil {
		return err
	}
	return a.show(c, status, "export", web.Locals{
		"title": a.text("Export %s", collection), "name": collection, "list": Prefix + "/records/" + url.PathEscape(collection), "problem": trouble,
		"filter": params.Get("filter"), "sort": params.Get("sort"), "format": params.Get("format"),
	})
}

// isQuery reports whether an error is about what was asked for, so that a form can show it.
func isQuery(err error) bool {
	switch engine.CodeOf(err) {
	case record.CodeQuery, record.CodeScan, record.CodeNoPath, record.CodeTooLarge, engine.CodeInvalid, engine.CodeUnsupported:
		return true
	}
	var wrong interface{ Pointer() string }
	return errors.As(err, &wrong)
}

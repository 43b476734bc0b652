package records

import (
	"bytes"
	_ "embed"
	"html/template"
	"net/http"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/web"
)

//go:embed page.html
var pageText string

// pagePolicy allows the page its own style and nothing else.
const pagePolicy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Page responds with an HTML page about the routes and the collections that are not closed to the client.
func (f *Face) Page(c *web.Context) error {
	var all []*schema.Compiled
	err := f.view(c, func(tx *record.Tx) error {
		all = tx.Collections()
		return nil
	})
	if err != nil {
		return explain(err)
	}
	page, err := template.New("page").Parse(pageText)
	if err != nil {
		return engine.Errorf(engine.CodeInternal, "parse the page of the API: %w", err)
	}
	var b bytes.Buffer
	if err := page.Execute(&b, object{"Prefix": f.o.Prefix, "Collections": all, "Routes": f.Table()}); err != nil {
		return engine.Errorf(engine.CodeInternal, "render the page of the API: %w", err)
	}
	h := c.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Cache-Control", "no-store")
	c.Writer.WriteHeader(http.StatusOK)
	if c.Request.Method != http.MethodHead {
		_, _ = c.Writer.Write(b.Bytes()) // an error means that the client is gone
	}
	return nil
}

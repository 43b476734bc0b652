package records

import (
	"bytes"
	_ "embed"
	"html/template"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/web"
)

//go:embed page.html
var pageText string

// pagePolicy allows the page its own style and nothing else.
const pagePolicy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Page responds with an HTML page about the routes and the collections that are not closed to the client.
func (f *Face) Page(c *web.Context) error {
	c.Header().Set("Content-Security-Policy", pagePolicy)
	return f.document(c, &f.page, "text/html; charset=utf-8", f.pageOf)
}

// pageOf makes the page about some collections.
func (f *Face) pageOf(all []*schema.Compiled) ([]byte, error) {
	page, err := template.New("page").Parse(pageText)
	if err != nil {
		return nil, engine.Errorf(engine.CodeInternal, "parse the page of the API: %w", err)
	}
	var b bytes.Buffer
	if err := page.Execute(&b, object{"Prefix": f.o.Prefix, "Collections": all, "Routes": f.Table()}); err != nil {
		return nil, engine.Errorf(engine.CodeInternal, "render the page of the API: %w", err)
	}
	return b.Bytes(), nil
}

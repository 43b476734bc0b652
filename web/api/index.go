package api

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"strings"

	"github.com/skerrydb/skerry/web"
)

// resource is one line of the index.
type resource struct {
	Methods string `json:"methods"`
	Path    string `json:"path"`
	Text    string `json:"text"`
}

// resources lists what the index shows of the routes.
func (a *app) resources(operator bool) []resource {
	var list []resource
	for _, r := range a.routes {
		if r.Text != "" && (operator || !r.Operator) {
			list = append(list, resource{r.Methods, cmp.Or(r.Shown, r.Path), r.Text})
		}
	}
	return list
}

//go:embed index.html
var indexPage string

// indexPolicy allows the page its own style and nothing else.
const indexPolicy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// index lists the routes: as a page for browsers, as JSON for others.
func (a *app) index(c *web.Context) error {
	r := c.Request
	if _, err := query(r); err != nil {
		return err
	}
	h := c.Header()
	h.Set("Vary", "Accept")
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		all := map[string]any{"name": "skerry", "resources": a.resources(operator(c))}
		if cluster := a.clusterOf(); cluster != nil {
			all["cluster"] = cluster
		}
		return sendJSON(c, http.StatusOK, all)
	}
	page, err := template.New("index").Parse(indexPage)
	if err != nil {
		return fmt.Errorf("parse index page: %w", err)
	}
	base := "http://" + r.Host
	if r.TLS != nil {
		base = "https://" + r.Host
	}
	curl := "curl"
	if a.o.Password != "" {
		curl = "curl -u :PASSWORD"
	}
	var b bytes.Buffer
	err = page.Execute(&b, map[string]any{"Base": base, "Curl": curl, "Resources": a.resources(operator(c)), "Cluster": a.clusterOf(),
		"Procedures": a.signatures(), "Example": a.exampleCall(curl, base)})
	if err != nil {
		return fmt.Errorf("render index page: %w", err)
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", indexPolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	c.Writer.WriteHeader(http.StatusOK)
	_, err = c.Writer.Write(b.Bytes())
	return err
}

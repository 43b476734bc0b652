package api

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// resource is one line of the index.
type resource struct {
	Methods string `json:"methods"`
	Path    string `json:"path"`
	Text    string `json:"text"`
}

// resources is what the index tells a newcomer.
func (a *app) resources(operator bool) []resource {
	list := []resource{
		{"GET, HEAD", "/db/{key}", "the value of a key, as raw bytes"},
		{"PUT, POST", "/db/{key}", "set a key to the body; ?ttl=30s lets it expire; If-Match and If-None-Match guard it"},
		{"DELETE", "/db/{key}", "remove a key"},
		{"GET, HEAD", "/db/?prefix=", "list keys in byte order, a page at a time; also order=desc, limit=, after= and values=1"},
		{"GET", "/backup", "everything, as one file that can be restored"},
		{"GET, HEAD", "/cluster", "the nodes that keep this data, and which one leads"},
		{"GET, HEAD", "/metrics", "figures for Prometheus"},
		{"GET, HEAD", "/healthz", "whether the process answers"},
		{"GET, HEAD", "/readyz", "whether requests should come here"},
	}
	if len(a.procedures) > 0 {
		list = slices.Insert(list, callResourcesAt,
			resource{"POST", callPath + "{name}", "call a procedure; the body is a JSON object of its arguments"},
			resource{"GET, HEAD", callPath + "{name}?", "call a procedure that only reads; its arguments are parameters"},
			resource{"GET, HEAD", "/api/procedures", "the procedures, their arguments and results"})
	}
	if operator {
		list = append(list, resource{"", "/db/…?space=17", "the same for the keys of the application: spaces 16 to " + strconv.Itoa(MaxSpace)})
		if a.o.Users != nil {
			list = append(list,
				resource{"GET, POST", usersPath, "list and create users of the application; also ?email="},
				resource{"GET, PATCH", userPath, "a user; PATCH changes roles or disabled"})
		}
		if a.o.Profiles {
			list = append(list, resource{"GET, HEAD", profilesPath, "profiles of the process"})
		}
	}
	return list
}

// callResourcesAt is where in resources those of procedures stand: after /db/.
const callResourcesAt = 4

//go:embed index.html
var indexPage string

// indexPolicy lets the page use its own style and nothing else.
const indexPolicy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// index tells what is here: to browsers as a page, to others as JSON.
func (a *app) index(x *exchange, r *http.Request) error {
	if _, err := query(r); err != nil {
		return err
	}
	h := x.Header()
	h.Set("Vary", "Accept")
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		all := map[string]any{"name": "skerry", "resources": a.resources(x.operator)}
		if c := a.clusterOf(); c != nil {
			all["cluster"] = c
		}
		return x.json(http.StatusOK, all)
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
	err = page.Execute(&b, map[string]any{"Base": base, "Curl": curl, "Resources": a.resources(x.operator), "Cluster": a.clusterOf(),
		"Procedures": a.signatures(), "Example": a.exampleCall(curl, base)})
	if err != nil {
		return fmt.Errorf("render index page: %w", err)
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", indexPolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	x.WriteHeader(http.StatusOK)
	x.Write(b.Bytes())
	return nil
}

package admin

import (
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/web"
)

// entry is one page of the menu.
type entry struct {
	secret      bool                     // for superadmins only
	path, title string                   // the path is below Prefix
	on          func(a *Admin) bool      // nil: always
	add         func(*Admin, *web.Group) // adds its routes

}

// section is a part of the menu.
type section struct {
	title   string
	entries []entry
}

// sections returns the whole menu.
func sections() []section {
	return []section{
		{"", []entry{{path: "/overview", title: "Overview", add: (*Admin).addOverview}}},
		{"Data", []entry{
			{path: "/records", title: "Records", on: (*Admin).hasRecords, add: (*Admin).addRecords},
			{path: "/schema", title: "Schema", on: (*Admin).hasRecords, add: (*Admin).addSchema},
			{path: "/diagram", title: "Diagram", on: (*Admin).hasRecords, add: (*Admin).addDiagram},
			{path: "/rules", title: "Rules", on: (*Admin).hasRecords, add: (*Admin).addRules},
			{path: "/keys", title: "Keys", add: (*Admin).addKeys},
			{path: "/series", title: "Time series", on: (*Admin).hasSeries, add: (*Admin).addSeries},
			{path: "/graph", title: "Graph", on: (*Admin).hasGraphs, add: (*Admin).addGraph},
		}},
		{"Work", []entry{
			{path: "/procedures", title: "Procedures", on: (*Admin).hasProcedures, add: (*Admin).addProcedures},
			{path: "/changes", title: "Changes", on: (*Admin).hasFeed, add: (*Admin).addChanges},
			{path: "/caches", title: "Caches", on: (*Admin).hasCaches, add: (*Admin).addCaches},
			{path: "/console", title: "Console", add: (*Admin).addConsole},
		}},
		{"People", []entry{
			{path: "/users", title: "Users", on: (*Admin).hasUsers, add: (*Admin).addUsers},
			{path: "/administrators", title: "Administrators", add: (*Admin).addAdministrators},
			{path: "/mail", title: "Mail", on: (*Admin).hasMail, add: (*Admin).addMail},
		}},
		{"Server", []entry{
			{path: "/cluster", title: "Cluster", on: (*Admin).hasCluster, add: (*Admin).addCluster},
			{path: "/backups", title: "Backups", secret: true, on: (*Admin).hasBackup, add: (*Admin).addBackups},
			{path: "/faults", title: "Faults and logs", add: (*Admin).addFaults},
			{path: "/settings", title: "Settings", add: (*Admin).addSettings},
			{path: "/docs", title: "Documentation", on: (*Admin).hasDocs, add: (*Admin).addDocs},
			{path: "/log", title: "Log of actions", add: (*Admin).addLog},
		}},
	}
}

func (a *Admin) hasRecords() bool    { return a.o.Records != nil }
func (a *Admin) hasSeries() bool     { return a.o.Series != nil }
func (a *Admin) hasGraphs() bool     { return a.o.Graphs != nil }
func (a *Admin) hasProcedures() bool { return a.o.Procedures != nil }
func (a *Admin) hasFeed() bool       { return a.o.Feed != nil }
func (a *Admin) hasCaches() bool     { return a.o.Caches != nil }
func (a *Admin) hasUsers() bool      { return a.o.Users != nil }
func (a *Admin) hasMail() bool       { return a.o.Mail != nil }
func (a *Admin) hasCluster() bool    { return a.o.Cluster != nil }
func (a *Admin) hasBackup() bool     { return a.o.Backup != nil }
func (a *Admin) hasDocs() bool       { return a.o.Docs != nil }

// addRoutes adds the routes of all pages that this server has.
func (a *Admin) addRoutes() {
	a.app.Get(Prefix, func(c *web.Context) error { return c.Redirect(Prefix + "/overview") })
	a.addSetup()
	private := a.app.Group(Prefix, noStore, a.private)
	for _, s := range sections() {
		var kept []entry
		for _, e := range s.entries {
			if e.on == nil || e.on(a) {
				e.add(a, private)
				kept = append(kept, e)
			}
		}
		if kept != nil {
			a.menu = append(a.menu, section{s.title, kept})
		}
	}
	a.addOwnPages(private)
}

// addOwnPages adds the pages of the application.
func (a *Admin) addOwnPages(g *web.Group) {
	var own []entry
	for _, p := range a.o.Pages {
		g.Handle(p.Path+"/", web.Handler(func(c *web.Context) error { // a Handler has the session of its request
			p.Handler.ServeHTTP(c.Writer, c.Request)
			return nil
		}))
		own = append(own, entry{path: p.Path + "/", title: p.Title})
	}
	if own != nil {
		a.menu = append(a.menu, section{"Application", own})
	}
}

// item is one line of the menu of a page.
type item struct {
	Title, Path string
	Here        bool
}

// group is a section of the menu of a page.
type group struct {
	Title string
	Items []item
}

// menuOf returns the menu as a page at path shows it, to those who may change something or to viewers.
func (a *Admin) menuOf(path string, writes bool) []group {
	var all []group
	for _, s := range a.menu {
		g := group{Title: a.text(s.title)}
		for _, e := range s.entries {
			at := Prefix + e.path
			if e.secret && !writes {
				continue
			}
			g.Items = append(g.Items, item{a.text(e.title), at, path == at || strings.HasPrefix(path, strings.TrimSuffix(at, "/")+"/")})
		}
		all = append(all, g)
	}
	return all
}

// noStore keeps pages out of all caches.
func noStore(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// plotted are the views whose modules draw plots.
func plotted() []string { return []string{"console", "overview", "series"} }

// moduleFiles returns what single views load besides admin.css and admin.mjs: the style sheet and the module of the same name, and
// uPlot where there are plots.
func moduleFiles() (map[string][]string, error) {
	names, err := files.ReadDir("views")
	if err != nil {
		return nil, err
	}
	all := map[string][]string{}
	for _, f := range names {
		view := strings.TrimSuffix(f.Name(), ".html")
		if slices.Contains(plotted(), view) {
			all[view] = append(all[view], "vendor/uplot.css", "vendor/uplot.js")
		}
		for _, name := range []string{view + ".css", view + ".mjs"} {
			if _, err := fs.Stat(files, "assets/"+name); err == nil {
				all[view] = append(all[view], name)
			}
		}
	}
	return all, nil
}

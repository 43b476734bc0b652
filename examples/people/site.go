package people

import (
	"context"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strings"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/examples/picture"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/traversal"
	"github.com/skerrydb/skerry/graph/value"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/view"
)

//go:embed all:views assets
var files embed.FS

// maxPeople is how many people the page shows.
const maxPeople = 12

// Application makes the web application: cli.App.Web.
func Application(s *skerry.Services) (http.Handler, error) {
	s.OnLeader("index", func(ctx context.Context) error { return s.Graphs.AddIndex(ctx, graph.Default, Index) })
	o := s.Web
	var err error
	if o.Assets, err = web.NewAssets(web.AssetOptions{FS: s.Files(files, "assets"), List: []string{"style.css"}, Root: []string{"favicon.svg"}, Reload: o.Debug, Logger: o.Logger}); err != nil {
		return nil, err
	}
	if o.Views, err = view.New(view.Options{FS: s.Files(files, "views"), Funcs: o.Assets.Funcs(), Reload: o.Debug, Logger: o.Logger}); err != nil {
		return nil, err
	}
	app, err := web.New(o)
	if err != nil {
		return nil, err
	}
	app.Get("/", func(c *web.Context) error {
		p, err := Look(c, s.Graphs)
		if err != nil {
			return err
		}
		return c.Render("people", web.Locals{"title": "Who knows whom", "people": p, "picture": template.HTML(p.Picture().Inline())})
	})
	app.Post("/", func(c *web.Context) error { // the lesson, in Go
		if err := s.Graphs.AddIndex(c, graph.Default, Index); err != nil {
			return err
		}
		for _, step := range Lesson() {
			if _, err := step.Run(c, s.Graphs); err != nil {
				return err
			}
		}
		return c.Redirect("/")
	})
	return app, nil
}

// Circle is what the page shows: people, and whom they know.
type Circle struct {
	All    []Acquainted
	Groups []string // of those who are connected
}

// Acquainted is a person.
type Acquainted struct {
	Name string
	Whom []string
	When []int
}

// Text says whom a person knows.
func (a Acquainted) Text() string {
	if len(a.Whom) == 0 {
		return a.Name + " knows nobody."
	}
	var list []string
	for i, whom := range a.Whom {
		list = append(list, fmt.Sprintf("%s since %d", whom, a.When[i]))
	}
	if last := len(list) - 1; last > 0 {
		list = append(list[:last-1], list[last-1]+" and "+list[last])
	}
	return a.Name + " knows " + strings.Join(list, ", ") + "."
}

// Look reads the first people, and whom they know, in one snapshot.
func Look(ctx context.Context, db *graph.DB) (c Circle, err error) {
	var __ traversal.Query
	_, err = db.View(ctx, engine.Read{}, graph.Default, func(tx *graph.Tx) error {
		c = Circle{}
		first := traversal.G(tx).V().HasLabel(Person).Limit(maxPeople)
		query := first.Project("name", "whom", "when").By(Name).By(__.OutE(Knows).InV().Values(Name).Fold()).By(__.OutE(Knows).Values(Since).Fold())
		for row, err := range traversal.Results[*value.Map](ctx, query) {
			if err != nil {
				return err
			}
			var a Acquainted
			name, _ := row.Get("name")
			whom, _ := row.Get("whom")
			when, _ := row.Get("when")
			a.Name = value.Text(name)
			for _, v := range value.Items(whom) {
				a.Whom = append(a.Whom, value.Text(v))
			}
			for _, v := range value.Items(when) {
				n, _ := value.Int(v)
				a.When = append(a.When, int(n))
			}
			c.All = append(c.All, a)
		}
		groups := Lesson()[len(Lesson())-2].Query(traversal.G(tx))
		for list, err := range traversal.Results[value.List](ctx, groups) {
			if err != nil {
				return err
			}
			c.Groups = append(c.Groups, strings.Trim(value.Text(list), "[]"))
		}
		return nil
	})
	return c, err
}

// Picture draws the people.
func (c Circle) Picture() picture.Picture {
	p := picture.Picture{ID: "people", Title: "Who knows whom"}
	at := map[string]int{}
	var about []string
	for i, a := range c.All {
		p.Names = append(p.Names, picture.Name{Text: a.Name})
		at[a.Name] = i
		about = append(about, a.Text())
	}
	for i, a := range c.All {
		for k, whom := range a.Whom {
			if to, ok := at[whom]; ok {
				p.Arrows = append(p.Arrows, picture.Arrow{From: i, To: to, Labels: []string{fmt.Sprint(a.When[k])}})
			}
		}
	}
	p.About = strings.Join(about, " ")
	return p
}

package fraud

import (
	"context"
	"embed"
	"errors"
	"html/template"
	"net/http"
	"strconv"
	"strings"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/calls"
	"github.com/skerrydb/skerry/web/view"
)

//go:embed all:views assets
var files embed.FS

// site is the web application.
type site struct {
	procs *proc.Set
	graph *graph.DB
}

// Application makes the web application: cli.App.Web.
func Application(s *skerry.Services) (http.Handler, error) {
	s.OnLeader("index", func(ctx context.Context) error { return s.Graphs.AddIndex(ctx, graph.Default, Index) })
	o := s.Web
	var err error
	if o.Assets, err = web.NewAssets(web.AssetOptions{FS: s.Files(files, "assets"), List: []string{"style.css"}, Root: []string{"favicon.svg"}, Reload: o.Debug, Logger: o.Logger}); err != nil {
		return nil, err
	}
	funcs := o.Assets.Funcs()
	funcs["euros"] = Euros
	if o.Views, err = view.New(view.Options{FS: s.Files(files, "views"), Funcs: funcs, Reload: o.Debug, Logger: o.Logger}); err != nil {
		return nil, err
	}
	app, err := web.New(o)
	if err != nil {
		return nil, err
	}
	anyone := calls.Rule{Allow: calls.Anyone}
	if err := calls.Mount(app, s.Procedures, calls.Options{Open: map[string]calls.Rule{"open": anyone, "transfer": anyone, "sample": anyone}}); err != nil {
		return nil, err
	}
	w := &site{s.Procedures, s.Graphs}
	app.Use(web.Compress(web.CompressOptions{}))
	app.Get("/", func(c *web.Context) error { return w.overview(c, http.StatusOK, payment{}, "") })
	app.Get("/rings/{id}", w.ring)
	app.Post("/transfer", w.transfer)
	app.Post("/sample", w.sample)
	return app, nil
}

// payment is the form of a transfer.
type payment struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Amount string `json:"amount"`
}

// overview shows everything that was found. If wrong is not empty, it is what was wrong with the form.
func (w *site) overview(c *web.Context, status int, form payment, wrong string) error {
	f, err := Find(c, w.graph)
	if err != nil {
		return err
	}
	return c.RenderStatus(status, "overview", web.Locals{"title": "Rings of transfers", "found": f, "form": form, "wrong": wrong})
}

// ring shows the rings that begin with one transfer.
func (w *site) ring(c *web.Context) error {
	id := c.Path("id").String()
	list, err := FindRings(c, w.graph, id)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return engine.Errorf(engine.CodeNotFound, "no ring begins with the transfer %.40q", id)
	}
	var shown []drawn
	for i, r := range list {
		p := r.Picture()
		p.ID += "-" + strconv.Itoa(i)
		shown = append(shown, drawn{r, template.HTML(p.Inline())})
	}
	return c.Render("ring", web.Locals{"title": list[0].Title(), "rings": shown})
}

// drawn is a ring with its picture.
type drawn struct {
	Ring
	Picture template.HTML
}

func (w *site) transfer(c *web.Context) error {
	var f payment
	if err := c.Bind(&f); err != nil {
		return err
	}
	cents, err := parseEuros(f.Amount)
	if err == nil {
		_, _, err = Pay.Call(c, w.procs, PayIn{strings.TrimSpace(f.From), strings.TrimSpace(f.To), cents})
	}
	switch code := engine.CodeOf(err); {
	case err == nil:
		return c.Redirect("/")
	case code == engine.CodeInvalid || code == CodeUnknownAccount || code == CodeInsufficientFunds:
		return w.overview(c, http.StatusUnprocessableEntity, f, c.Detail(err))
	}
	return err
}

func (w *site) sample(c *web.Context) error {
	if _, _, err := Fill.Call(c, w.procs, FillIn{1}); err != nil && !errors.Is(err, &engine.Error{Code: CodeNotEmpty}) {
		return err
	}
	return c.Redirect("/")
}

// parseEuros reads an amount such as 1250 or 12.5.
func parseEuros(text string) (cents int64, err error) {
	whole, part, found := strings.Cut(strings.TrimSpace(text), ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	hundredths := uint64(0)
	if err == nil && found {
		hundredths, err = strconv.ParseUint((part + "0")[:min(2, len(part)+1)], 10, 8)
	}
	switch {
	case err != nil || found && (part == "" || len(part) > 2):
		return 0, engine.Errorf(engine.CodeInvalid, "an amount is a number of euros such as 12.50, and not %.40q", text)
	case strings.HasPrefix(whole, "-"):
		return 0, engine.Errorf(engine.CodeInvalid, "an amount must be more than 0, and not %.40s", text)
	case n > MaxCents/100:
		return 0, engine.Errorf(engine.CodeInvalid, "an amount must be at most %s", Euros(MaxCents))
	}
	return n*100 + int64(hundredths), nil
}

package admin

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/traversal"
	"github.com/skerrydb/skerry/graph/value"
	"github.com/skerrydb/skerry/web"
)

// Limits of the page of graphs.
const (
	maxGraphCount    = 2_000   // vertices, and edges, that are counted by label
	maxGraphResults  = 200     // of one traversal
	maxExploreHeld   = 100_000 // values that one traversal holds
	maxGraphEdges    = 50      // of a vertex, on one page and at once in the picture
	maxGraphSkip     = 100_000 // edges before a page
	maxGraphProps    = 100     // properties of a vertex
	maxGraphValue    = 500     // bytes of a value that are shown
	graphWait        = 5 * time.Second
	graphPlaceholder = "g.V().hasLabel('person').out('knows').limit(20)"
)

func (a *Admin) addGraph(g *web.Group) {
	g.Get("/graph", a.graphPage)
	g.Get("/graph/near", a.graphNear)
}

// errGraphStop ends a walk through elements.
var errGraphStop = errors.New("enough")

// vertexRef names a vertex for people and in links.
type vertexRef struct {
	ID    string `json:"id"`
	Type  string `json:"type,omitempty"` // of the id: number, uuid or "", a string
	Label string `json:"label"`
	Name  string `json:"name,omitempty"`
	Link  string `json:"link"`
}

// edgeRow is an edge with the vertex at its other end.
type edgeRow struct {
	ID    string    `json:"id"`
	Label string    `json:"label"`
	Out   bool      `json:"out"` // it leaves the vertex of the page
	Other vertexRef `json:"other"`
}

// property is a property, shortened.
type property struct{ Key, Value string }

// vertexView is a vertex with what is around it.
type vertexView struct {
	vertexRef
	Properties []property `json:"-"`
	Edges      []edgeRow  `json:"edges"`
	More       bool       `json:"more"` // edges that are left out
}

// graphResult is a row of results.
type graphResult struct {
	Kind, Text string
	Vertex     *vertexRef
	From, To   *vertexRef // of an edge
	Bulk       int64
}

// labelCount is how many elements have a label.
type labelCount struct {
	Label string
	Count int
	Link  string
}

// graphCounts is what a bounded look at a graph finds.
type graphCounts struct {
	Vertices, Edges         int
	AllVertices, AllEdges   bool // otherwise there are more
	VertexLabels, EdgeTypes []labelCount
}

func graphLink(name string, more ...string) string {
	q := url.Values{"graph": {name}}
	for i := 0; i+1 < len(more); i += 2 {
		if more[i+1] != "" {
			q.Set(more[i], more[i+1])
		}
	}
	return Prefix + "/graph?" + q.Encode()
}

func (a *Admin) graphPage(c *web.Context) error {
	names, err := a.o.Graphs.Names(c)
	if err != nil {
		return err
	}
	name, text, id := c.Query("graph").Or(graph.Default).String(), c.Query("gremlin").String(), c.Query("vertex").String()
	locals := web.Locals{
		"title": a.text("Graph"), "names": names, "name": name, "gremlin": text, "id": id, "problem": "", "fault": (*faultyText)(nil),
		"results": []graphResult(nil), "asked": false, "cut": false, "plan": "", "vertex": (*vertexView)(nil), "counts": (*graphCounts)(nil), "older": "",
		"indexes": []*graph.Index(nil), "schema": (*graph.Schema)(nil), "placeholder": graphPlaceholder, "limit": maxGraphResults, "count_limit": maxGraphCount,
	}
	ctx, cancel := context.WithTimeout(c, graphWait)
	defer cancel()
	switch {
	case !slices.Contains(names, name):
		err = engine.Errorf(engine.CodeNotFound, "there is no graph %q", shorten(name, 100))
	case strings.TrimSpace(text) != "":
		err = a.askGraph(ctx, name, text, locals)
	case id != "":
		err = a.lookAtVertex(ctx, c, name, id, locals)
	}
	if err == nil && text == "" && id == "" {
		err = a.describeGraph(ctx, name, locals)
	}
	status := http.StatusOK
	if err != nil {
		if status, err = a.graphProblem(c, text, err, locals); err != nil {
			return err
		}
	}
	return a.show(c, status, "graph", locals)
}

// graphProblem puts an error that the person can mend into the locals of a page, or returns it.
func (a *Admin) graphProblem(c *web.Context, text string, err error, locals web.Locals) (int, error) {
	at := gremlin.NoPos
	detail := ""
	if e, ok := errors.AsType[*gremlin.SyntaxError](err); ok {
		at, detail = e.Pos, e.Error()
	} else if e, ok := errors.AsType[*traversal.StepError](err); ok {
		at, detail = e.Pos, shorten(e.Error(), 2*maxGraphValue)
		if at != gremlin.NoPos {
			f := markFault(text, at)
			detail = a.text("line %d, column %d: %s", f.Line, f.Column, detail)
		}
	}
	switch {
	case detail != "":
	case errors.Is(err, context.DeadlineExceeded):
		detail = a.text("It took longer than %s. Ask for less, such as with limit(10).", graphWait)
	case engine.CodeOf(err) == engine.CodeNotFound:
		locals["problem"] = c.Detail(err)
		return http.StatusNotFound, nil
	case engine.CodeOf(err) != engine.CodeInternal:
		detail = c.Detail(err)
	default:
		return 0, err
	}
	locals["problem"] = detail
	if at != gremlin.NoPos && at <= len(text) {
		locals["fault"] = markFault(text, at).shortened(maxGraphValue)
	}
	return http.StatusUnprocessableEntity, nil
}

// askGraph evaluates a text that only reads.
func (a *Admin) askGraph(ctx context.Context, name, text string, locals web.Locals) error {
	q, err := gremlin.Parse(text, nil)
	if err != nil {
		return err
	}
	if q.Traversal == nil {
		return engine.Errorf(engine.CodeInvalid, "transactions are not for this page: it only reads; begin the text with %s", "g.V() or g.E()")
	}
	if q.Source != graph.Default {
		name = q.Source
	}
	plan, err := traversal.Compile(q.Traversal)
	if err != nil {
		return err
	}
	if plan.Writes() {
		return engine.Errorf(engine.CodeInvalid, "this traversal writes, and this page only reads; send it with a driver (docs/gremlin.md)")
	}
	locals["asked"] = true
	if q.End == "explain" {
		locals["plan"] = plan.Explain()
		return nil
	}
	limit := maxGraphResults
	if q.End == "next" && q.N < maxGraphResults {
		limit = int(max(q.N, 1))
	}
	var all []graphResult
	cut := false
	_, err = a.o.Graphs.View(ctx, engine.Read{Level: engine.Local}, name, func(tx *graph.Tx) error {
		all, cut = nil, false
		return plan.Run(ctx, tx, traversal.Options{MaxHeld: maxExploreHeld, Now: a.o.Now}, func(val any, bulk int64) error {
			if len(all) == limit {
				cut = limit == maxGraphResults
				return errGraphStop
			}
			d, err := traversal.Detach(tx, val, false)
			if err != nil {
				return err
			}
			all = append(all, resultOf(name, d, bulk))
			return nil
		})
	})
	if errors.Is(err, errGraphStop) {
		err = nil
	}
	locals["results"], locals["cut"] = all, cut
	return err
}

// resultOf returns a value as a row.
func resultOf(name string, d any, bulk int64) graphResult {
	r := graphResult{Bulk: bulk, Kind: strings.ToLower(value.TypeName(d))}
	switch v := d.(type) {
	case *value.Vertex:
		r.Vertex = refOf(name, v.ID, v.Label)
	case *value.Edge:
		r.Text = v.Label + " " + graphText(v.ID)
		if v.Out != nil && v.In != nil {
			r.From, r.To = refOf(name, v.Out.ID, v.Out.Label), refOf(name, v.In.ID, v.In.Label)
		}
	default:
		r.Text = graphText(d)
	}
	return r
}

func graphText(v any) string { return shorten(value.Text(v), maxGraphValue) }

// refOf names a vertex.
func refOf(name string, id any, label string) *vertexRef {
	r := &vertexRef{ID: value.Text(id), Label: shorten(strings.ReplaceAll(label, value.LabelSeparator, ", "), maxChangeName)}
	switch id.(type) {
	case string:
	case value.UUID:
		r.Type = "uuid"
	default:
		r.Type = "number"
	}
	r.Link = graphLink(name, "vertex", r.ID, "type", r.Type)
	return r
}

// findVertex returns the vertex with an id as it stands in a link, or as a person types it, without a type.
func findVertex(tx *graph.Tx, id, kind string) (v *graph.Vertex, err error) {
	var ids []any
	if n, err := strconv.ParseInt(id, 10, 64); err == nil && kind != "uuid" {
		ids = append(ids, n)
	}
	if u, err := value.ParseUUID(id); err == nil && kind != "number" {
		ids = append(ids, u)
	}
	if kind == "" {
		ids = slices.Insert(ids, 0, any(id))
	}
	for _, one := range ids {
		v, ok, err := tx.Vertex(one)
		if ok || err != nil && engine.CodeOf(err) == engine.CodeInternal {
			return v, err
		}
	}
	return nil, engine.Errorf(engine.CodeNotFound, "there is no vertex %q in this graph", shorten(id, maxChangeName))
}

// viewOf reads a vertex and a page of its edges.
func viewOf(tx *graph.Tx, name, id, kind string, skip int) (*vertexView, error) {
	v, err := findVertex(tx, id, kind)
	if err != nil {
		return nil, err
	}
	out := &vertexView{vertexRef: *refOf(name, v.ElementID(), v.ElementLabel())}
	err = v.Properties(nil, func(p *graph.VertexProperty) error {
		if len(out.Properties) == maxGraphProps {
			return errGraphStop
		}
		out.Properties = append(out.Properties, property{p.Key, graphText(p.Val)})
		if s, ok := p.Val.(string); ok && p.Key == "name" {
			out.Name = shorten(s, maxChangeName)
		}
		return nil
	})
	if err != nil && !errors.Is(err, errGraphStop) {
		return nil, err
	}
	seen := 0
	err = tx.Edges(v, graph.Both, nil, func(e *graph.Edge) error {
		if seen++; seen <= skip {
			return nil
		}
		if len(out.Edges) == maxGraphEdges {
			out.More = true
			return errGraphStop
		}
		other := e.Other(v)
		row := edgeRow{ID: graphText(e.ElementID()), Label: e.ElementLabel(), Out: e.Out().Number() == v.Number(), Other: *refOf(name, other.ElementID(), other.ElementLabel())}
		row.Other.Name = vertexName(other)
		out.Edges = append(out.Edges, row)
		return nil
	})
	if err != nil && !errors.Is(err, errGraphStop) {
		return nil, err
	}
	return out, tx.Err()
}

// vertexName returns the property name of a vertex, if it is text.
func vertexName(v *graph.Vertex) (name string) {
	err := v.Properties([]string{"name"}, func(p *graph.VertexProperty) error {
		if s, ok := p.Val.(string); ok {
			name = shorten(s, maxChangeName)
		}
		return errGraphStop
	})
	if err != nil && !errors.Is(err, errGraphStop) {
		return ""
	}
	return name
}

func (a *Admin) lookAtVertex(ctx context.Context, c *web.Context, name, id string, locals web.Locals) error {
	kind := c.Query("type").String()
	skip, _ := strconv.Atoi(c.Query("skip").String()) // malformed: from the first
	skip = min(max(0, skip), maxGraphSkip)
	_, err := a.o.Graphs.View(ctx, engine.Read{Level: engine.Local}, name, func(tx *graph.Tx) error {
		v, err := viewOf(tx, name, id, kind, skip)
		if err != nil {
			return err
		}
		locals["vertex"] = v
		if v.More && skip < maxGraphSkip {
			locals["older"] = graphLink(name, "vertex", v.ID, "type", v.Type, "skip", strconv.Itoa(skip+maxGraphEdges))
		}
		return nil
	})
	return err
}

// graphNear returns a vertex and its neighbours for the picture.
func (a *Admin) graphNear(c *web.Context) error {
	ctx, cancel := context.WithTimeout(c, graphWait)
	defer cancel()
	name := c.Query("graph").Or(graph.Default).String()
	var v *vertexView
	_, err := a.o.Graphs.View(ctx, engine.Read{Level: engine.Local}, name, func(tx *graph.Tx) (err error) {
		v, err = viewOf(tx, name, c.Query("vertex").String(), c.Query("type").String(), 0)
		return err
	})
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, v)
}

// describeGraph counts what is in a graph, as far as that is cheap.
func (a *Admin) describeGraph(ctx context.Context, name string, locals web.Locals) error {
	now, _, err := a.o.Graphs.Schema(ctx, name)
	if err != nil {
		return err
	}
	counts := &graphCounts{}
	_, err = a.o.Graphs.View(ctx, engine.Read{Level: engine.Local}, name, func(tx *graph.Tx) error {
		*counts = graphCounts{AllVertices: true, AllEdges: true}
		indexes, err := tx.Indexes()
		if err != nil {
			return err
		}
		locals["indexes"] = indexes
		labels, types := map[string]int{}, map[string]int{}
		err = tx.Vertices(func(v *graph.Vertex) error {
			if counts.Vertices == maxGraphCount {
				counts.AllVertices = false
				return errGraphStop
			}
			counts.Vertices++
			all, err := v.Labels()
			for _, l := range all {
				labels[l]++
			}
			return err
		})
		if err != nil && !errors.Is(err, errGraphStop) {
			return err
		}
		err = tx.AllEdges(func(e *graph.Edge) error {
			if counts.Edges == maxGraphCount {
				counts.AllEdges = false
				return errGraphStop
			}
			counts.Edges++
			types[e.ElementLabel()]++
			return nil
		})
		if err != nil && !errors.Is(err, errGraphStop) {
			return err
		}
		counts.VertexLabels, counts.EdgeTypes = countsOf(name, "V", labels), countsOf(name, "E", types)
		return tx.Err()
	})
	locals["counts"], locals["schema"] = counts, now
	return err
}

// countsOf sorts labels, the most frequent first.
func countsOf(name, step string, of map[string]int) (all []labelCount) {
	for _, l := range slices.Sorted(maps.Keys(of)) {
		call := gremlin.Call{Name: "hasLabel", Args: []any{l}}
		all = append(all, labelCount{shorten(l, maxChangeName), of[l], graphLink(name, "gremlin", "g."+step+"()."+call.String()+".limit(50)")})
	}
	slices.SortStableFunc(all, func(x, y labelCount) int { return y.Count - x.Count })
	return all
}

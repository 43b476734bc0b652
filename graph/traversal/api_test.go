package traversal_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/traversal"
	"github.com/skerrydb/skerry/graph/value"
)

// TestQuery: queries in Go yield what their text does, as the types that are asked
// for.
func TestQuery(t *testing.T) {
	db, ctx, q := open(t), t.Context(), traversal.Query{}
	if _, err := db.Update(ctx, graph.Default, func(tx *graph.Tx) error {
		g := traversal.G(tx)
		names, err := traversal.All[string](ctx, g.V().HasLabel("city").Has("people", traversal.Gt(100_000)).Order().By("people", value.Desc).Values("name"))
		if err != nil || !slices.Equal(names, []string{"Oslo", "Bergen"}) {
			t.Errorf("names: %q, %v", names, err)
		}
		n, ok, err := traversal.First[int](ctx, g.V().Where(q.Out("lives")).Count())
		if n != 3 || !ok || err != nil {
			t.Errorf("count: %d, %v, %v", n, ok, err)
		}
		km, err := traversal.All[float64](ctx, g.V("oslo").OutE("road").Values("km"))
		if err != nil || len(km) != 2 {
			t.Errorf("km: %v, %v", km, err)
		}
		far, err := traversal.All[string](ctx, g.V("oslo").Repeat(q.Out("road")).Times(2).Dedup().Values("name").Order())
		if err != nil || !slices.Equal(far, []string{"Kiruna", "Narvik", "Tromsø"}) {
			t.Errorf("two roads away: %q, %v", far, err)
		}
		for v, err := range traversal.Results[*graph.Vertex](ctx, g.V().HasLabel("person").Limit(1)) {
			if err != nil || v.ElementID() != "ann" {
				t.Errorf("%v, %v", v, err)
			}
			if back, _, err := traversal.First[string](ctx, g.V(v).Out("knows").Values("name")); back != "Eva" || err != nil {
				t.Errorf("whom ann knows: %q, %v", back, err)
			}
		}
		if err := g.AddV("city").Property("name", "Bodø").Property("roads", []string{"80", "17"}).As("b").V("narvik").AddE("road").To("b").Iterate(ctx); err != nil {
			t.Error(err)
		}
		roads, _, err := traversal.First[value.List](ctx, g.V().Has("name", "Bodø").Values("roads"))
		if err != nil || fmt.Sprint(roads) != "[80 17]" {
			t.Errorf("roads: %v, %v", roads, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.View(ctx, engine.Read{}, graph.Default, func(tx *graph.Tx) error {
		g := traversal.G(tx)
		for name, err := range map[string]error{
			"a string": second(traversal.All[int64](ctx, g.V().Values("name"))), "cannot be an argument": g.V(struct{}{}).Iterate(ctx),
			"begin with G": q.Out().Iterate(ctx), "there is no such step": g.V().Step("nothing").Iterate(ctx),
		} {
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%v, want %q", err, name)
			}
		}
		first := g.V()
		a, b := first.Out(), first.In()
		if a.String() != "g.V().out()" || b.String() != "g.V().in()" {
			t.Errorf("%s and %s", a, b)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestWholeGraphInGo: the steps about whole graphs have short names of options in Go.
func TestWholeGraphInGo(t *testing.T) {
	db, ctx, q := open(t), t.Context(), traversal.Query{}
	if _, err := db.View(ctx, engine.Read{}, graph.Default, func(tx *graph.Tx) error {
		g := traversal.G(tx)
		for text, got := range map[string]traversal.Query{
			`g.V().pageRank(0.5d).with("~tinkerpop.pageRank.propertyName", "r").values("r").sum()`:                                               g.V().PageRank(0.5).With("propertyName", "r").Values("r").Sum(),
			`g.V().peerPressure().with("~tinkerpop.peerPressure.propertyName", "c").values("c").dedup().count()`:                                 g.V().PeerPressure().With("propertyName", "c").Values("c").Dedup().Count(),
			`g.V().connectedComponent().with("~tinkerpop.connectedComponent.propertyName", "c").values("c").dedup().count()`:                     g.V().ConnectedComponent().With("propertyName", "c").Values("c").Dedup().Count(),
			`g.V("oslo").shortestPath().with("~tinkerpop.shortestPath.includeEdges").with("~tinkerpop.shortestPath.target", __.hasId("narvik"))`: g.V("oslo").ShortestPath().With("includeEdges").With("target", q.HasID("narvik")),
			`g.V().has("name", P.eq("Oslo")).repeat(__.out()).until(__.loops().is(1)).count()`:                                                   g.V().Has("name", traversal.Eq("Oslo")).Repeat(q.Out()).Until(q.Loops().Is(int32(1))).Count(),
			`g.E().hasLabel("road").subgraph("s").cap("s")`:                                                                                      g.E().HasLabel("road").Subgraph("s").Cap("s"),
		} {
			all, err := traversal.All[any](ctx, got)
			if err != nil || len(all) != 1 {
				t.Errorf("%s: %v, %v", got, all, err)
			}
			if got.String() != text {
				t.Errorf("%s, want %s", got, text)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestQueryWrites: a query that writes fails in a view.
func TestQueryWrites(t *testing.T) {
	db := open(t)
	_, err := db.View(t.Context(), engine.Read{}, graph.Default, func(tx *graph.Tx) error {
		return traversal.G(tx).V().Drop().Iterate(t.Context())
	})
	if !errors.Is(err, engine.ErrReadOnly) {
		t.Errorf("drop in a view: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

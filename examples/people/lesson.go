// Package people is a lesson about graphs: people, and whom they know. Its first texts are those of a lesson about
// JanusGraph on ScyllaDB; the others do what that lesson describes, with an index, edges and whole-graph steps.
//
// It knows people, the lesson's texts and its page. It must not know how graphs are stored, or how Gremlin is read.
package people

import (
	"context"
	"fmt"
	"slices"

	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/traversal"
	"github.com/skerrydb/skerry/graph/value"
)

// Labels and keys of the graph.
const (
	Person = "person"
	Knows  = "knows"
	Name   = "name"
	Since  = "since"
)

// Index finds people by their names, which are unique. The lesson works without it.
var Index = graph.Index{On: value.KindVertex, Label: Person, Keys: []string{Name}, Unique: true}

// Step is a step of the lesson: the same traversal as a text of Gremlin and in Go.
type Step struct {
	Title string
	Text  string
	Query func(g traversal.Query) traversal.Query
}

// Lesson returns the steps in their order.
func Lesson() []Step { return slices.Concat(lesson(), edges(), questions(), wholeGraph()) }

// lesson returns the steps of the lesson about JanusGraph.
func lesson() []Step {
	return []Step{
		{"Make sure that the graph is empty", `g.V().count()`, func(g traversal.Query) traversal.Query { return g.V().Count() }},
		add("Add two vertices", "guy"),
		add("", "john"),
		{"Make sure that they were added", `g.V().values('name')`, func(g traversal.Query) traversal.Query { return g.V().Values(Name) }},
	}
}

func add(title, name string) Step {
	return Step{title, fmt.Sprintf(`g.addV('person').property('name', '%s')`, name), func(g traversal.Query) traversal.Query {
		return g.AddV(Person).Property(Name, name)
	}}
}

// edges returns the steps that make a graph of the vertices.
func edges() []Step {
	three := `g.addV('person').property('name', 'ann').addV('person').property('name', 'eva').addV('person').property('name', 'leo')`
	return []Step{
		{"Add three more, in one transaction", three, func(g traversal.Query) traversal.Query {
			return g.AddV(Person).Property(Name, "ann").AddV(Person).Property(Name, "eva").AddV(Person).Property(Name, "leo")
		}},
		know("Add edges: who knows whom, since when", "guy", "john", 2014),
		know("", "john", "ann", 2016),
		know("", "guy", "ann", 2019),
		know("", "ann", "eva", 2021),
	}
}

func know(title, who, whom string, since int32) Step {
	text := `g.V().hasLabel('person').has('name', '%[1]s').as('%[1]s').V().hasLabel('person').has('name', '%[2]s').addE('knows').from('%[1]s').property('since', %[3]d)`
	return Step{title, fmt.Sprintf(text, who, whom, since), func(g traversal.Query) traversal.Query {
		return named(g, who).As(who).V().HasLabel(Person).Has(Name, whom).AddE(Knows).From(who).Property(Since, since)
	}}
}

// named finds a person, by Index if there is one.
func named(g traversal.Query, name string) traversal.Query {
	return g.V().HasLabel(Person).Has(Name, name)
}

// questions returns the steps whose work depends on how many people somebody knows, and not on how many there are.
func questions() []Step {
	var __ traversal.Query // begins anonymous traversals, as in Gremlin
	return []Step{
		{"A local question: whom does guy know?", `g.V().hasLabel('person').has('name', 'guy').out('knows').values('name').order()`, func(g traversal.Query) traversal.Query {
			return named(g, "guy").Out(Knows).Values(Name).Order()
		}},
		{"Whom could he get to know through them?", `g.V().hasLabel('person').has('name', 'guy').as('guy').out('knows').aggregate('known').out('knows').where(without('known')).where(neq('guy')).dedup().values('name')`, func(g traversal.Query) traversal.Query {
			return named(g, "guy").As("guy").Out(Knows).Aggregate("known").Out(Knows).Where(traversal.Without("known")).Where(traversal.Neq("guy")).Dedup().Values(Name)
		}},
		{"Which ways lead from guy to eva, in at most four steps?", `g.V().hasLabel('person').has('name', 'guy').repeat(__.out('knows').simplePath()).times(4).emit().has('name', 'eva').path().by('name')`, func(g traversal.Query) traversal.Query {
			return named(g, "guy").Repeat(__.Out(Knows).SimplePath()).Times(4).Emit().Has(Name, "eva").Path().By(Name)
		}},
		{"Whom has he known since before 2018?", `g.V().hasLabel('person').has('name', 'guy').outE('knows').has('since', lt(2018)).project('whom', 'since').by(__.inV().values('name')).by('since')`, func(g traversal.Query) traversal.Query {
			return named(g, "guy").OutE(Knows).Has(Since, traversal.Lt(int32(2018))).Project("whom", "since").By(__.InV().Values(Name)).By(Since)
		}},
	}
}

// wholeGraph returns the steps that look at all people.
func wholeGraph() []Step {
	var __ traversal.Query
	const component = "gremlin.connectedComponentVertexProgram.component" // the property that connectedComponent() sets
	return []Step{
		{"A global question: whom do most people know?", `g.V().hasLabel('person').order().by(__.in('knows').count(), desc).by('name').limit(1).values('name')`, func(g traversal.Query) traversal.Query {
			return g.V().HasLabel(Person).Order().By(__.In(Knows).Count(), value.Desc).By(Name).Limit(1).Values(Name)
		}},
		{"How many people know nobody, or one, or two?", `g.V().hasLabel('person').groupCount().by(__.out('knows').count()).order(local).by(keys)`, func(g traversal.Query) traversal.Query {
			return g.V().HasLabel(Person).GroupCount().By(__.Out(Knows).Count()).Step("order", value.Local).By(value.ColumnKeys)
		}},
		{"Who is connected, through however many others?", `g.V().hasLabel('person').connectedComponent().group().by('` + component + `').by(__.values('name').order().fold()).unfold().select(values)`, func(g traversal.Query) traversal.Query {
			return g.V().HasLabel(Person).ConnectedComponent().Group().By(component).By(__.Values(Name).Order().Fold()).Unfold().Step("select", value.ColumnVals)
		}},
		{"Who matters most, if it matters who knows them?", `g.V().hasLabel('person').pageRank().with(PageRank.propertyName, 'rank').order().by('rank', desc).limit(2).values('name')`, func(g traversal.Query) traversal.Query {
			return g.V().HasLabel(Person).PageRank().With("propertyName", "rank").Order().By("rank", value.Desc).Limit(2).Values(Name)
		}},
	}
}

// Run runs a step's query in a transaction and returns its results as a console shows them.
func (s Step) Run(ctx context.Context, db *graph.DB) (results []string, err error) {
	_, err = db.Update(ctx, graph.Default, func(tx *graph.Tx) error {
		results = nil
		for v, err := range s.Query(traversal.G(tx)).Run(ctx) {
			if err != nil {
				return err
			}
			results = append(results, value.Text(v))
		}
		return nil
	})
	return results, err
}

package traversal

import (
	"slices"

	"github.com/skerrydb/skerry/graph/gremlin"
)

// The steps of Query that have methods.

// Where traversers begin.

// V brings the traversers to the vertices with the ids, or to all.
func (q Query) V(ids ...any) Query { return q.Step("V", ids...) }

// E brings the traversers to the edges with the ids, or to all.
func (q Query) E(ids ...any) Query { return q.Step("E", ids...) }

// Inject adds values to the traversers.
func (q Query) Inject(vals ...any) Query { return q.Step("inject", vals...) }

// AddV adds a vertex.
func (q Query) AddV(label string) Query { return q.Step("addV", label) }

// AddE adds an edge, from From to To.
func (q Query) AddE(label string) Query { return q.Step("addE", label) }

// MergeV finds the vertices that have all that a map says, or adds one.
func (q Query) MergeV(what any) Query { return q.Step("mergeV", what) }

// MergeE finds the edges that have all that a map says, or adds one.
func (q Query) MergeE(what any) Query { return q.Step("mergeE", what) }

// Filters.

// Has keeps elements whose property is equal to val, or for which the predicate or query val is true.
func (q Query) Has(key string, val any) Query { return q.Step("has", key, val) }

// HasKey keeps elements that have a property.
func (q Query) HasKey(key string) Query { return q.Step("has", key) }

// HasNot keeps elements that lack a property.
func (q Query) HasNot(key string) Query { return q.Step("hasNot", key) }

// HasLabel keeps elements with one of the labels.
func (q Query) HasLabel(labels ...any) Query { return q.Step("hasLabel", labels...) }

// HasID keeps elements with one of the ids.
func (q Query) HasID(ids ...any) Query { return q.Step("hasId", ids...) }

// Is keeps values that are equal to val, or for which the predicate is true.
func (q Query) Is(val any) Query { return q.Step("is", val) }

// Where keeps traversers for which the query has a result, or the predicate of labels is true.
func (q Query) Where(what any) Query { return q.Step("where", what) }

// Not keeps traversers for which the query has no result.
func (q Query) Not(what Query) Query { return q.Step("not", what) }

// And keeps traversers for which all queries have results.
func (q Query) And(all ...any) Query { return q.Step("and", all...) }

// Or keeps traversers for which one of the queries has a result.
func (q Query) Or(all ...any) Query { return q.Step("or", all...) }

// Dedup keeps the first traverser of those that are the same.
func (q Query) Dedup(labels ...any) Query { return q.Step("dedup", labels...) }

// Limit keeps the first n traversers.
func (q Query) Limit(n int) Query { return q.Step("limit", n) }

// Skip drops the first n traversers.
func (q Query) Skip(n int) Query { return q.Step("skip", n) }

// Range keeps the traversers from one number up to another.
func (q Query) Range(from, to int) Query { return q.Step("range", from, to) }

// Tail keeps the last n traversers.
func (q Query) Tail(n int) Query { return q.Step("tail", n) }

// Sample keeps n traversers by chance.
func (q Query) Sample(n int) Query { return q.Step("sample", n) }

// SimplePath keeps traversers that were nowhere twice.
func (q Query) SimplePath() Query { return q.Step("simplePath") }

// CyclicPath keeps traversers that were somewhere twice.
func (q Query) CyclicPath() Query { return q.Step("cyclicPath") }

// Moves.

// Out moves along the edges that leave a vertex.
func (q Query) Out(labels ...any) Query { return q.Step("out", labels...) }

// In moves against the edges that enter a vertex.
func (q Query) In(labels ...any) Query { return q.Step("in", labels...) }

// Both moves along the edges in both directions.
func (q Query) Both(labels ...any) Query { return q.Step("both", labels...) }

// OutE moves to the edges that leave a vertex.
func (q Query) OutE(labels ...any) Query { return q.Step("outE", labels...) }

// InE moves to the edges that enter a vertex.
func (q Query) InE(labels ...any) Query { return q.Step("inE", labels...) }

// BothE moves to the edges in both directions.
func (q Query) BothE(labels ...any) Query { return q.Step("bothE", labels...) }

// OutV moves to the vertex that an edge leaves.
func (q Query) OutV() Query { return q.Step("outV") }

// InV moves to the vertex that an edge enters.
func (q Query) InV() Query { return q.Step("inV") }

// OtherV moves to the vertex of an edge that the traverser does not come from.
func (q Query) OtherV() Query { return q.Step("otherV") }

// Values.

// ID moves to the id.
func (q Query) ID() Query { return q.Step("id") }

// Label moves to the label.
func (q Query) Label() Query { return q.Step("label") }

// Values moves to the values of properties.
func (q Query) Values(keys ...any) Query { return q.Step("values", keys...) }

// Properties moves to properties.
func (q Query) Properties(keys ...any) Query { return q.Step("properties", keys...) }

// ValueMap moves to a map of properties.
func (q Query) ValueMap(keys ...any) Query { return q.Step("valueMap", keys...) }

// ElementMap moves to a map of the id, the label and the properties.
func (q Query) ElementMap(keys ...any) Query { return q.Step("elementMap", keys...) }

// Constant moves to a value.
func (q Query) Constant(val any) Query { return q.Step("constant", val) }

// Path moves to the traverser's path.
func (q Query) Path() Query { return q.Step("path") }

// Select moves to what has one of the labels.
func (q Query) Select(labels ...any) Query { return q.Step("select", labels...) }

// Project moves to a map with the keys, whose values follow as By.
func (q Query) Project(keys ...any) Query { return q.Step("project", keys...) }

// Math computes a formula.
func (q Query) Math(formula string) Query { return q.Step("math", formula) }

// Unfold moves to each item of a collection.
func (q Query) Unfold() Query { return q.Step("unfold") }

// All traversers together.

// Order sorts the traversers, by what follows as By.
func (q Query) Order() Query { return q.Step("order") }

// Count counts the traversers.
func (q Query) Count() Query { return q.Step("count") }

// Sum adds numbers.
func (q Query) Sum() Query { return q.Step("sum") }

// Min moves to the least value.
func (q Query) Min() Query { return q.Step("min") }

// Max moves to the largest value.
func (q Query) Max() Query { return q.Step("max") }

// Mean moves to the mean of numbers.
func (q Query) Mean() Query { return q.Step("mean") }

// Fold collects the traversers in a list.
func (q Query) Fold() Query { return q.Step("fold") }

// Group groups the traversers, by what follows as By, once for the keys and once for the values.
func (q Query) Group() Query { return q.Step("group") }

// GroupCount counts the traversers of each group.
func (q Query) GroupCount() Query { return q.Step("groupCount") }

// Barrier waits for all traversers and joins those that are the same.
func (q Query) Barrier() Query { return q.Step("barrier") }

// Aggregate collects all traversers in a side effect.
func (q Query) Aggregate(key string) Query { return q.Step("aggregate", key) }

// Cap moves to side effects.
func (q Query) Cap(keys ...any) Query { return q.Step("cap", keys...) }

// Tree collects the paths in a tree.
func (q Query) Tree() Query { return q.Step("tree") }

// Subgraph collects the edges, with their vertices, in a side effect.
func (q Query) Subgraph(key string) Query { return q.Step("subgraph", key) }

// Whole graphs. These steps read all of the graph, in memory; docs/gremlin.md has their
// options.

// PageRank gives the vertices their ranks, as a property. alpha is the damping, 0.85 if
// it is not given.
func (q Query) PageRank(alpha ...float64) Query { return q.Step("pageRank", anys(alpha)...) }

func anys[T any](vals []T) []any {
	out := make([]any, len(vals))
	for i, v := range vals {
		out[i] = v
	}
	return out
}

// ConnectedComponent gives the vertices the names of their components, as a property.
func (q Query) ConnectedComponent() Query { return q.Step("connectedComponent") }

// PeerPressure gives the vertices the names of their clusters, as a property.
func (q Query) PeerPressure() Query { return q.Step("peerPressure") }

// ShortestPath moves to the shortest paths from the vertices.
func (q Query) ShortestPath() Query { return q.Step("shortestPath") }

// With sets an option of the step before it, by its short name, such as times of
// PageRank. Without a value it is true.
func (q Query) With(option string, val ...any) Query {
	for _, c := range slices.Backward(q.steps) {
		if c.Name != "with" && c.Name != "by" {
			option = "~tinkerpop." + c.Name + "." + option
			break
		}
	}
	return q.Step("with", append([]any{option}, val...)...)
}

// Branches.

// Repeat sends traversers through a query again and again.
func (q Query) Repeat(what Query) Query { return q.Step("repeat", what) }

// Times ends Repeat after n rounds.
func (q Query) Times(n int) Query { return q.Step("times", n) }

// Until ends Repeat once the query has a result.
func (q Query) Until(what Query) Query { return q.Step("until", what) }

// Loops moves to how many rounds of Repeat the traverser has made.
func (q Query) Loops() Query { return q.Step("loops") }

// Emit lets traversers out of Repeat after each round, or if the query has a result.
func (q Query) Emit(what ...any) Query { return q.Step("emit", what...) }

// Union sends traversers through each of the queries.
func (q Query) Union(all ...any) Query { return q.Step("union", all...) }

// Coalesce sends traversers through the first query that has a result.
func (q Query) Coalesce(all ...any) Query { return q.Step("coalesce", all...) }

// Optional sends traversers through a query if that has a result.
func (q Query) Optional(what Query) Query { return q.Step("optional", what) }

// Choose sends traversers through one of the queries, by a test or by Option.
func (q Query) Choose(test any, then ...any) Query {
	return q.Step("choose", append([]any{test}, then...)...)
}

// Option is a case of Choose, or of MergeV and MergeE.
func (q Query) Option(pick any, what ...any) Query {
	return q.Step("option", append([]any{pick}, what...)...)
}

// Local sends each traverser through a query of its own.
func (q Query) Local(what Query) Query { return q.Step("local", what) }

// Map moves to the first result of a query.
func (q Query) Map(what Query) Query { return q.Step("map", what) }

// FlatMap moves to each result of a query.
func (q Query) FlatMap(what Query) Query { return q.Step("flatMap", what) }

// SideEffect runs a query for what it does.
func (q Query) SideEffect(what Query) Query { return q.Step("sideEffect", what) }

// Match finds what meets all patterns.
func (q Query) Match(patterns ...any) Query { return q.Step("match", patterns...) }

// Modulators.

// As gives labels to where the traverser is.
func (q Query) As(labels ...any) Query { return q.Step("as", labels...) }

// By says by what the step before it works: a key, a query, an order.
func (q Query) By(args ...any) Query { return q.Step("by", args...) }

// From says where an edge begins: a label or a query.
func (q Query) From(what any) Query { return q.Step("from", what) }

// To says where an edge ends: a label or a query.
func (q Query) To(what any) Query { return q.Step("to", what) }

// Changes.

// Property sets a property.
func (q Query) Property(key, val any, more ...any) Query {
	return q.Step("property", append([]any{key, val}, more...)...)
}

// Drop removes elements and properties.
func (q Query) Drop() Query { return q.Step("drop") }

// Fail ends the traversal with an error.
func (q Query) Fail(text string) Query { return q.Step("fail", text) }

// Predicates.

// Eq is true of what is equal to val.
func Eq(val any) *gremlin.P { return predicateFor("eq", val) }

// Gt is true of what is larger than val.
func Gt(val any) *gremlin.P { return predicateFor("gt", val) }

// Gte is true of what is at least val.
func Gte(val any) *gremlin.P { return predicateFor("gte", val) }

// Lt is true of what is less than val.
func Lt(val any) *gremlin.P { return predicateFor("lt", val) }

// Lte is true of what is at most val.
func Lte(val any) *gremlin.P { return predicateFor("lte", val) }

// Neq is true of what is not equal to val.
func Neq(val any) *gremlin.P { return predicateFor("neq", val) }

// StartingWith is true of what begins with val.
func StartingWith(val string) *gremlin.P { return predicateFor("startingWith", val) }

// EndingWith is true of what ends with val.
func EndingWith(val string) *gremlin.P { return predicateFor("endingWith", val) }

// Containing is true of what contains val.
func Containing(val string) *gremlin.P { return predicateFor("containing", val) }

// Regex is true of what matches a regular expression, as of package regexp.
func Regex(val string) *gremlin.P { return predicateFor("regex", val) }

// Between is true of what is at least low and less than high.
func Between(low, high any) *gremlin.P { return predicateFor("between", low, high) }

// Within is true of what is equal to one of the values.
func Within(vals ...any) *gremlin.P { return predicateFor("within", vals...) }

// Without is true of what is equal to none of the values.
func Without(vals ...any) *gremlin.P { return predicateFor("without", vals...) }

func predicateFor(name string, vals ...any) *gremlin.P {
	p := &gremlin.P{Name: name}
	for _, v := range vals {
		if w, err := argument(v); err == nil {
			v = w // otherwise the step refuses it
		}
		p.Args = append(p.Args, v)
	}
	return p
}

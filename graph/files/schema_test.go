package files

import (
	"testing"

	"github.com/skerrydb/skerry/graph"
)

// TestSchema: what a schema refuses has a position, also what an element lacks. The
// cardinality that an import uses is no matter.
func TestSchema(t *testing.T) {
	db := open(t)
	if err := db.SetSchema(t.Context(), "g", graph.Schema{
		Vertices: []graph.VertexType{{Label: "person", Closed: true, Properties: []graph.PropertyType{{Key: "name", Types: []string{"STRING"}, Required: true}}}},
		Edges:    []graph.EdgeType{{Label: "knows", From: []string{"person"}, Multiplicity: graph.OneOut, Properties: []graph.PropertyType{{Key: "since", Required: true}}}},
	}); err != nil {
		t.Fatal(err)
	}
	const (
		head = `{"id":1,"label":"person","properties":{"name":[{"value":"A"}]},"outE":{"knows":[{"id":5,"inV":1,"properties":{"since":1}}]}}` + "\n"
		name = `"properties":{"name":[{"value":"B"}]}`
	)
	stats, err := imported(t, db, "g", source(GraphSON, head), ImportOptions{})
	if err != nil || stats.Vertices != 1 || stats.Edges != 1 {
		t.Errorf("imported %+v, %v", stats, err)
	}
	for line, text := range map[string]string{
		`{"id":2,"label":"person"}`:                                                           `f, line 1, column 1: vertex 2: the vertex 2 lacks the property "name", which is required of "person"`,
		`{"id":2,"label":"person","properties":{"name":[{"value":5}]}}`:                       `line 1, column 1: vertex 2: the vertex 2 has a value of the type`,
		`{"id":2,"label":"person","properties":{"name":[{"value":"B"},{"value":"C"}]}}`:       "has several values",
		`{"id":12,"label":"person",` + name + `,"outE":{"knows":[{"id":6,"inV":1}]}}`:         `: edge 6: the edge 6 lacks the property "since", which is required of "knows"`,
		`{"id":3,"label":"dog","outE":{"knows":[{"id":6,"inV":1,"properties":{"since":1}}]}}`: `: edge 6: an edge "knows" leaves the vertex 3, which has none of the labels person`,
	} {
		_, err := imported(t, db, "g", source(GraphSON, line), ImportOptions{})
		wants(t, err, graph.CodeSchema, text)
	}
	if _, err := imported(t, db, "g", source(GraphSON, head), ImportOptions{Resume: true}); err != nil {
		t.Error(err)
	}
}

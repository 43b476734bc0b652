package files

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph"
)

// readAll reads a file in both passes.
func readAll(format Format, f File, o ReadOptions) (vertices, edges int, _ error) {
	for _, err := range f.Vertices(format, o) {
		if err != nil {
			return vertices, edges, err
		}
		vertices++
	}
	if format == CSV {
		return vertices, edges, nil
	}
	for _, err := range f.Edges(format, o) {
		if err != nil {
			return vertices, edges, err
		}
		edges++
	}
	return vertices, edges, nil
}

// TestMalformedGraphSON names the position, the element and what was expected.
func TestMalformedGraphSON(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"x", "f, line 1, column 1: vertex: expected a vertex as {…}, found 'x'"},
		{`{"id":1,"label":"a"}` + "\n\n[]", "f, line 3, column 1: vertex: expected a vertex as {…}, found '['"},
		{`{"id":1`, "f, line 1, column 8: vertex 1: expected a comma or }, the line ends"},
		{`{"id":1,}`, "f, line 1, column 9: vertex 1: expected a name, found '}'"},
		{`{"id":1 "label":"a"}`, "f, line 1, column 9: vertex 1: expected a comma or }, found '\"'"},
		{`{"id":1,"label"`, "f, line 1, column 16: vertex 1: expected a colon behind a name, the line ends"},
		{`{"id":1,"label":"a`, "f, line 1, column 19: vertex 1: expected the end of a string, the line ends"},
		{`{"id":1,"label":}`, "f, line 1, column 17: vertex 1: expected a value in JSON, found '}'"},
		{`{"id":1,"label":,`, "f, line 1, column 17: vertex 1: expected a value in JSON, found ','"},
		{`{"id":1,"label":["a"}`, "f, line 1, column 21: vertex 1: expected , or ] in JSON, found '}'"},
		{`{"id":1,"label":5}`, "f, line 1, column 17: vertex 1: expected a label that is a string, found a number"},
		{`{"id":1.5}`, "f, line 1, column 7: vertex: expected an id that is a whole number, a UUID or a string of 1 to 256 bytes, found a number"},
		{`{"id":1,"id":2}`, `f, line 1, column 14: vertex 1: expected "id" once`},
		{`{"label":"a"}`, "f, line 1, column 14: vertex: expected a vertex with an id"},
		{`{"id":1} 2`, "f, line 1, column 10: vertex 1: expected the end of the line, found '2'"},
		{`{"vertices":[]}`, "f, line 1, column 13: vertex: expected a vertex a line, found all in one object (wrapAdjacencyList)"},
		{`{"id":1,"x":2}`, `f, line 1, column 13: vertex 1: expected id, label, inE, outE or properties, found "x"`},
		{`{"id":{"@type":"g:Int32","@value":"x"}}`, "f, line 1, column 35: vertex: expected an integer of 32 bits"},
		{`{"id":1,"properties":{"n":{}}}`, "f, line 1, column 27: vertex 1: expected the values of a property as […], found '{'"},
		{`{"id":1,"properties":{"n":[{"id":0}]}}`, `f, line 1, column 36: vertex 1: expected a value of the property "n"`},
		{`{"id":1,"properties":{"n":[{"x":0}]}}`, `f, line 1, column 33: vertex 1: expected id, value or properties of the property "n", found "x"`},
		{`{"id":1,"properties":{"":[{"value":0}]}}`, "f, line 1, column 1: vertex 1: expected a label or a key of a property, found an empty one"},
		{`{"id":1,"properties":{"n":[{"value":0,"properties":{"m":1,"m":2}}]}}`, `vertex 1: expected one value of the property "m", found several`},
		{`{"id":1,"outE":{"a":[{"id":5}]}}`, "f, line 1, column 30: edge 5: expected an edge with an id and the id inV of a vertex"},
		{`{"id":1,"outE":{"a":[{"id":5,"inV":2,"x":1}]}}`, `f, line 1, column 42: edge 5: expected id, inV or properties, found "x"`},
		{`{"id":1,"outE":{"a":5}}`, "f, line 1, column 21: vertex 1: expected the edges of a label as […], found '5'"},
		{"{\"id\":1,\"\xff\":1}", "f, line 1, column 9: vertex 1: expected a name as a string in JSON"},
	} {
		_, _, err := readAll(GraphSON, text(c.file), ReadOptions{})
		wants(t, err, CodeMalformed, c.want)
	}
}

// TestMalformedGraphML does the same.
func TestMalformedGraphML(t *testing.T) {
	const head = "<graphml>\n<key id='n' for='node' attr.name='name' attr.type='int'/>"
	graph := func(s string) string { return head + "<graph>\n" + s + "</graph></graphml>" }
	for _, c := range []struct{ file, want string }{
		{"", "f, line 1, column 1: the file ends too early"},
		{"x", `f, line 1, column 1: expected XML, found "x"`},
		{"<?xml version='1.0'?>\n <!-- -->\n", "f, line 3, column 1: the file ends too early"},
		{"<html/>", "f, line 1, column 1: expected the element graphml, found html"},
		{"<graphml><key", "f, line 1, column 14: expected XML: unexpected EOF"},
		{"<graphml>\n <x/></graphml>", "f, line 2, column 2: expected no element x in a graphml"},
		{"<graphml>\n <graph></grap></graphml>", "f, line 2, column 16: expected XML: element <graph> closed by </grap>"},
		{"<graphml><graph/><graph/></graphml>", "f, line 1, column 18: expected one graph, found another one"},
		{"<graphml>&x;</graphml>", "expected XML: invalid character entity &x;"},
		{"<?xml version='1.0' encoding='latin1'?><graphml/>", "f, line 1, column 1: expected XML: xml: encoding \"latin1\" declared"},
		{"<graphml><graph edgedefault='undirected'/></graphml>", "f, line 1, column 10: a graph whose edges have no direction"},
		{"<graphml><data key='x'/></graphml>", "data of a graphml itself cannot be imported"},
		{"<graphml><key for='node'/></graphml>", "expected a key with an id"},
		{head + "<key id='n'/></graphml>", "key n: expected each key once"},
		{"<graphml><key id='n' attr.type='date'/></graphml>", `key n: expected the type boolean, int, long, float, double or string, found "date"`},
		{"<graphml><key id='n' for='port'/></graphml>", `key n: expected a key for nodes or edges, found "port"`},
		{"<graphml><key id='n'><default>1</default></key></graphml>", "key n: values that elements have by default cannot be imported"},
		{graph("<node/>"), "f, line 3, column 1: node: expected a node with id"},
		{graph("<node id='1'><graph/></node>"), "f, line 3, column 14: node 1: a graph within a node cannot be imported"},
		{graph("<node id='1'><port/></node>"), "node 1: ports of a node cannot be imported"},
		{graph("<hyperedge/>"), "f, line 3, column 1: hyperedges cannot be imported"},
		{graph("<data key='n'>1</data>"), "data of a graph itself cannot be imported"},
		{graph("text"), `f, line 2, column 65: expected no text in a graph, found "text"`},
		{graph("<node id='1'><data key='n'>x</data></node>"), `f, line 3, column 14: node 1: expected the property "name" as int, found "x"`},
		{graph("<node id='1'><data key='n'>1</data><data key='n'>2</data></node>"), `f, line 3, column 36: node 1: expected one value of the property "name", found several`},
		{graph("<node id='1'><data key='m'>1</data></node>"), `node 1: expected data with a key for nodes that is declared before, found "m"`},
		{graph("<node id='1'><data key='n'><b/></data></node>"), "node 1: expected no element b in a data"},
		{graph("<edge id='5' source='1'/>"), "f, line 3, column 1: edge 5: expected an edge with target"},
		{graph("<edge source='1' target='1'><data key='n'>1</data></edge>"), `edge: expected data with a key for edges that is declared before, found "n"`},
		{graph("<edge id='5' directed='false' source='1' target='1'/>"), "edge 5: an edge that has no direction cannot be imported"},
		{graph("<edge id='5' sourceport='p' source='1' target='1'/>"), "edge 5: ports of a node cannot be imported"},
	} {
		_, _, err := readAll(GraphML, text(c.file), ReadOptions{})
		wants(t, err, CodeMalformed, c.want)
	}
}

// TestMalformedCSV does the same.
func TestMalformedCSV(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"", "f, line 1, column 1: expected a header, the file is empty"},
		{"name\n", "f, line 1, column 1: header: expected a column ~id"},
		{"~id,~x\n", "f, line 1, column 5: header: expected ~id, ~label, ~from or ~to, found ~x"},
		{"~id,~from\n", "f, line 1, column 5: header: expected a file of vertices, found ~from"},
		{"~id,a:Blob\n", "f, line 1, column 5: header: expected the type Bool, Byte,"},
		{"~id,a,a:String\n", `f, line 1, column 7: header: expected the column "a:String" once`},
		{"~id,:Int\n", "f, line 1, column 5: header: expected a label or a key of a property, found an empty one"},
		{"~id,a:Int\n1,2\n3,x\n", `f, line 3, column 3: vertex 3: expected the property "a" as Int, found "x"`},
		{"~id,a:Byte[]\n1,2;300\n", `f, line 2, column 3: vertex 1: expected the property "a" as Byte, found "300"`},
		{"~id,a\n1\n", "f, line 2, column 1: expected 2 columns as in the header, found 1"},
		{"~id,a\n1,\"x\n", "f, line 2, column 6: expected CSV: extraneous or missing \" in quoted-field"},
		{"~id,a\n1,x\"\n", "f, line 2, column 4: expected CSV: bare \" in non-quoted-field"},
		{"~id,a\n,x\n", "f, line 2, column 1: vertex: expected an id of 1 to 256 bytes as ~id"},
		{"~id,~label\n1,a;;b\n", "f, line 2, column 1: vertex 1: expected a label or a key of a property, found an empty one"},
	} {
		_, _, err := readAll(CSV, text(c.file), ReadOptions{})
		wants(t, err, CodeMalformed, c.want)
	}
	for _, c := range []struct{ file, want string }{
		{"~id,~from,~to\n", "f, line 1, column 1: header: expected a column ~label"},
		{"~id,~from,~to,~label,a:Int[]\n", `f, line 1, column 22: header: a property of an edge has one value, but "a" has []`},
		{"~id,~from,~to,~label\n5,1,,x\n", "f, line 2, column 5: edge 5: expected an id of 1 to 256 bytes as ~to"},
		{"~id,~from,~to,~label\n5,1,2,\n", "f, line 2, column 1: edge 5: expected a label"},
		{"~id,~from,~to,~label,a,a:Int\n5,1,2,x,1,2\n", `edge 5: expected one value of the property "a", found several`},
	} {
		var err error
		for _, err = range text(c.file).Edges(CSV, ReadOptions{}) {
			if err != nil {
				break
			}
		}
		wants(t, err, CodeMalformed, c.want)
	}
}

var errDisk = errors.New("the disk has failed")

// TestReadFails returns the errors of files unchanged.
func TestReadFails(t *testing.T) {
	for _, format := range []Format{GraphSON, GraphML, CSV} {
		f := File{Name: "f", Open: func() (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(strings.NewReader("  "), failing{})), nil
		}}
		if _, _, err := readAll(format, f, ReadOptions{}); !errors.Is(err, errDisk) || !strings.HasPrefix(err.Error(), "read f: ") {
			t.Errorf("%v: error %v, want %v", format, err, errDisk)
		}
		f.Open = func() (io.ReadCloser, error) { return nil, errDisk }
		if _, _, err := readAll(format, f, ReadOptions{}); !errors.Is(err, errDisk) {
			t.Errorf("%v: error %v, want %v", format, err, errDisk)
		}
	}
	_, _, err := readAll(0, text(""), ReadOptions{})
	wants(t, err, engine.CodeInvalid, "Format(0)")
	_, _, err = readAll(CSV, text(""), ReadOptions{NameBytes: MaxNameBytes + 1})
	wants(t, err, engine.CodeInvalid, "NameBytes")
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errDisk }

// TestLimits reads files at each limit, and one beyond.
func TestLimits(t *testing.T) {
	ml := func(s string) string {
		return "<graphml><key id='k' for='node'/><key id='name' for='node'/><graph>" + s + "</graph></graphml>"
	}
	labels := strings.Repeat("a::", graph.MaxLabels-1) + "b"
	for _, c := range []struct {
		name       string
		format     Format
		o          ReadOptions
		at, beyond string
		want       string
	}{
		{"line", GraphSON, ReadOptions{RecordBytes: 20}, `{"id":1,"label":"a"}` + "\r\n", `{"id":11,"label":"a"}`, "f, line 1, column 1: a line has at most 20 bytes"},
		{"name", GraphSON, ReadOptions{NameBytes: 2}, `{"id":1,"label":"ab"}`, `{"id":1,"label":"abc"}`, "vertex 1: a label or a key of a property has at most 2 bytes"},
		{"label", GraphSON, ReadOptions{NameBytes: 6}, `{"id":1,"outE":{"abcdef":[{"id":1,"inV":1}]}}`, `{"id":1,"outE":{"abcdefg":[{"id":1,"inV":1}]}}`, "edge 1: a label or a key of a property has at most 6 bytes"},
		{
			"properties", GraphSON, ReadOptions{Properties: 2}, `{"id":1,"properties":{"a":[{"value":1},{"value":1}]}}`,
			`{"id":1,"properties":{"a":[{"value":1},{"value":1}],"b":[{"value":1}]}}`, "vertex 1: it has more than 2 properties",
		},
		{
			"properties of properties", GraphSON, ReadOptions{Properties: 2}, `{"id":1,"properties":{"a":[{"value":1,"properties":{"a":1}},{"value":1,"properties":{"a":1}}]}}`,
			`{"id":1,"properties":{"a":[{"value":1,"properties":{"a":1}},{"value":1,"properties":{"a":1,"b":1}}]}}`, "vertex 1: its properties have more than 2 properties",
		},
		{"labels", GraphSON, ReadOptions{}, `{"id":1,"label":"` + labels + `"}`, `{"id":1,"label":"` + labels + `::c"}`, "a vertex has at most 16 labels"},
		{"element", GraphML, ReadOptions{RecordBytes: 60}, ml("<node id='1'>" + strings.Repeat(" ", 40) + "</node>"), ml("<node id='1'>" + strings.Repeat(" ", 41) + "</node>"), "node 1: a record has at most 60 bytes"},
		{"long element", GraphML, ReadOptions{RecordBytes: 60}, ml(""), ml("<node id='1'>" + strings.Repeat(" ", 2*recordSlack)), "a record has at most 60 bytes"},
		{"name", GraphML, ReadOptions{NameBytes: 4}, ml(""), "<graphml><key id='names'/></graphml>", "key names: a label or a key of a property has at most 4 bytes"},
		{"keys", GraphML, ReadOptions{Properties: 2}, ml(""), "<graphml><key id='a'/><key id='b'/><key id='c'/></graphml>", "key c: a file has at most 2 keys"},
		{"record", CSV, ReadOptions{RecordBytes: 6}, "~id,a\n1,xxxx\n", "~id,a\r\n1,xxxxxxx\n", "f, line 2, column 1: a record has at most 6 bytes"},
		{"long record", CSV, ReadOptions{RecordBytes: 6}, "~id,a\n1,xxxx\n", "~id,a\n1," + strings.Repeat("x", 2*recordSlack), "f, line 2, column 1: a record has at most 6 bytes"},
		{"name", CSV, ReadOptions{NameBytes: 6}, "~id,abcdef\n1,x\n", "~id,abcdefg\n", "header: a label or a key of a property has at most 6 bytes"},
		{"columns", CSV, ReadOptions{Properties: 2}, "~id,a\n1,x\n", "~id,a,b\n1,x,\n", "a file has at most 2 columns"},
		{"values", CSV, ReadOptions{Properties: 2}, "~id,a:Int[]\n1,2;3\n", "~id,a:Int[]\n1,2;3;4\n", "vertex 1: it has more than 2 properties"},
	} {
		if _, _, err := readAll(c.format, text(c.at), c.o); err != nil {
			t.Errorf("%v, %s: %v", c.format, c.name, err)
		}
		_, _, err := readAll(c.format, text(c.beyond), c.o)
		wants(t, err, engine.CodeLimit, c.want)
	}
}

// TestForms reads what the formats allow besides what is written.
func TestForms(t *testing.T) {
	db := open(t)
	for name, src := range map[string]Source{
		"graphson": source(GraphSON, "\ufeff{ \"properties\" : {\"n\":[{\"value\":1,\"label\":\"n\"}]}, \"id\" : {\"@type\":\"gx:Byte\",\"@value\":1} ,\"outE\":{\"edge\":"+
			"[{\"id\":5,\"inV\":1,\"outV\":1,\"label\":\"edge\",\"properties\":{\"w\":{\"@type\":\"g:Property\",\"@value\":{\"key\":\"w\",\"value\":true}}}}]}}\r\n\r\n"),
		"graphml": source(GraphML, "\ufeff<?xml version='1.0'?><!-- c --><g:graphml xmlns:g='x'><desc>a <b/></desc><key id='d1' attr.name='n' attr.type='int'/>"+
			"<key id='d2' for='edge' attr.name='w' attr.type='boolean'><desc/></key><graph id='G'><edge id='5' source='1' target='1'>"+
			"<desc/><data key='d2'>TRUE</data></edge><node id='1'><data key='d1'><![CDATA[ 1]]></data></node></graph></g:graphml>"),
		"csv": source(CSV, "\ufeffn:Int(single),~id\r\n1,1\r\n", "~label,~from,~id,~to,w:Boolean\nedge,1,5,1, True\n"),
	} {
		if _, err := imported(t, db, name, src, ImportOptions{}); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		same(t, elements(t, db, name, asIs), []string{
			`e LONG("i5") "edge" LONG("i1") LONG("i1") "w"=BOOLEAN("btrue"){}`, `v LONG("i1") ["vertex"] "n"=INT("i1"){}`,
		})
	}
}

// TestNeptune reads the form in which Neptune's documentation has files.
func TestNeptune(t *testing.T) {
	db := open(t)
	src := source(CSV, `~id, name:String, age:Int, lang:String, interests:String[], ~label
v1, "marko", 29, , "sailing;graphs", person
v2, "lop", , "java", , software
`, `~id, ~from, ~to, ~label, weight:Double
e1, v1, v2, created, 0.4
`)
	if _, err := imported(t, db, "g", src, ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	same(t, elements(t, db, "g", asIs), []string{
		`e STRING("se1") "created" STRING("sv1") STRING("sv2") "weight"=DOUBLE("f4e-1"){}`,
		`v STRING("sv1") ["person"] "name"=STRING("smarko"){} "age"=INT("i29"){} "interests"=STRING("ssailing"){} "interests"=STRING("sgraphs"){}`,
		`v STRING("sv2") ["software"] "name"=STRING("slop"){} "lang"=STRING("sjava"){}`,
	})
}

// TestTextIDs reads and writes ids of digits as strings.
func TestTextIDs(t *testing.T) {
	db := open(t)
	src := source(CSV, "~id\n12\n", "~id,~from,~to,~label\n7,12,12,x\n")
	want := []string{`e STRING("s7") "x" STRING("s12") STRING("s12")`, `v STRING("s12") ["vertex"]`}
	o := ImportOptions{ReadOptions: ReadOptions{TextIDs: true}}
	if _, err := imported(t, db, "csv", src, o); err != nil {
		t.Fatal(err)
	}
	same(t, elements(t, db, "csv", asIs), want)
	for _, format := range []Format{GraphML, CSV} {
		files, _ := exported(t, db, "csv", format, ExportOptions{TextIDs: true})
		if _, err := imported(t, db, format.String(), source(format, files...), o); err != nil {
			t.Fatal(err)
		}
		same(t, elements(t, db, format.String(), asIs), want)
	}
}

package files

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"strconv"
	"unicode/utf8"

	"github.com/skerrydb/skerry/graph/value"
)

const xmlHead = `<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="http://graphml.graphdrawing.org/xmlns http://graphml.graphdrawing.org/xmlns/1.1/graphml.xsd">
  <key id="labelV" for="node" attr.name="labelV" attr.type="string"/>
  <key id="labelE" for="edge" attr.name="labelE" attr.type="string"/>
`

// xmlWriter writes GraphML.
type xmlWriter struct {
	w       *bufio.Writer
	buf     bytes.Buffer // the element that is being written
	k       *keeper
	writing bool
	nodes   xmlKeys
	edges   xmlKeys
	used    map[string]bool // ids of keys
}

// xmlKeys are keys of nodes or of edges, in the order in which they occur first.
type xmlKeys struct {
	ids   map[column]string
	order []column
}

// key returns the id of a key, which is declared if it is not yet. of is what it is for.
func (x *xmlWriter) key(keys *xmlKeys, of string, c column) string {
	if id, ok := keys.ids[c]; ok {
		return id
	}
	if x.used == nil {
		x.used = map[string]bool{keyLabelV: true, keyLabelE: true}
	}
	if keys.ids == nil {
		keys.ids = map[column]string{}
	}
	id := c.name
	for i := 1; x.used[id]; i++ {
		id = c.name + "-" + of + strconv.Itoa(i)
	}
	x.used[id] = true
	keys.ids[c] = id
	keys.order = append(keys.order, c)
	return id
}

// unfit returns why GraphML cannot hold a value.
func (x *xmlWriter) unfit(c column, text string) string {
	switch {
	case xmlType(c.typ) == "":
		return "a " + c.typ
	case !isXML(c.name) || !isXML(text):
		return "text with characters that XML has not"
	}
	return ""
}

// xmlType returns a type's name in GraphML; "": it has none.
func xmlType(typ string) string {
	switch typ {
	case typeBool:
		return "boolean"
	case typeInt, typeLong, typeFloat, typeDouble, typeString:
		return typ
	}
	return ""
}

// isXML reports whether XML can hold text.
func isXML(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff {
			return false
		}
	}
	return true
}

// names checks texts that cannot be left out.
func (x *xmlWriter) names(what string, texts ...string) error {
	for _, s := range texts {
		if !isXML(s) {
			return x.k.refuse(what, "an id or a label with characters that XML has not")
		}
	}
	return nil
}

func (x *xmlWriter) vertex(v *Vertex) error {
	what := named("vertex", v.ID)
	id, err := x.k.id(what, v.ID)
	if err != nil {
		return err
	}
	label, err := x.k.labels(what, v.Labels)
	if err != nil {
		return err
	}
	if err := x.names(what, id, label); err != nil {
		return err
	}
	cells, err := x.k.cells(what, v.Properties, false, x.unfit)
	if err != nil {
		return err
	}
	x.raw(`    <node id="`, id, `">`)
	x.data(keyLabelV, label)
	x.all(&x.nodes, "node", cells)
	x.raw("</node>\n")
	return x.flush(what)
}

func (x *xmlWriter) edge(e *Edge) (err error) {
	what := named("edge", e.ID)
	var ids [3]string
	if ids[0], err = x.k.id(what, e.ID); err != nil {
		return err
	}
	ids[1], ids[2] = value.Text(e.Out), value.Text(e.In) // the vertices were checked
	if err := x.names(what, ids[0], e.Label); err != nil {
		return err
	}
	cells, err := x.k.cells(what, e.Properties, false, x.unfit)
	if err != nil {
		return err
	}
	x.raw(`    <edge id="`, ids[0], `" source="`, ids[1], `" target="`, ids[2], `">`)
	x.data(keyLabelE, e.Label)
	x.all(&x.edges, "edge", cells)
	x.raw("</edge>\n")
	return x.flush(what)
}

func (x *xmlWriter) all(keys *xmlKeys, of string, cells []cell) {
	for _, c := range cells {
		x.data(x.key(keys, of, c.column), c.texts[0])
	}
}

func (x *xmlWriter) data(key, text string) { x.raw(`<data key="`, key, `">`, text, `</data>`) }

// raw adds parts, of which every second one is text that is escaped, to what flush
// writes.
func (x *xmlWriter) raw(parts ...string) {
	if !x.writing {
		return
	}
	for i, s := range parts {
		if i%2 == 0 {
			x.buf.WriteString(s)
		} else {
			_ = xml.EscapeText(&x.buf, []byte(s)) // a buffer does not fail
		}
	}
}

// flush writes an element.
func (x *xmlWriter) flush(what string) error {
	defer x.buf.Reset()
	if err := recordLimit(what, x.buf.Len()); err != nil {
		return err
	}
	if err := columnLimit(len(x.used)); err != nil {
		return err
	}
	_, err := x.buf.WriteTo(x.w)
	return err
}

func (x *xmlWriter) begin() error {
	x.writing = true
	x.raw(xmlHead)
	for _, keys := range []struct {
		xmlKeys
		of string
	}{{x.nodes, "node"}, {x.edges, "edge"}} {
		for _, c := range keys.order {
			x.raw(`  <key id="`, keys.ids[c], `" for="`, keys.of, `" attr.name="`, c.name, `" attr.type="`, xmlType(c.typ), "\"/>\n")
		}
	}
	x.raw("  <graph id=\"G\" edgedefault=\"directed\">\n")
	_, err := x.buf.WriteTo(x.w)
	return err
}

func (x *xmlWriter) end() error {
	x.raw("  </graph>\n</graphml>\n")
	_, err := x.buf.WriteTo(x.w)
	return err
}

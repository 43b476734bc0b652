package files

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
)

// Keys whose data are labels, as in TinkerPop.
const (
	keyLabelV = "labelV"
	keyLabelE = "labelE"
)

// xmlKey is a declaration of data.
type xmlKey struct {
	name, typ    string
	nodes, edges bool
}

// xmlReader reads GraphML. It takes what XML has one token at a time.
type xmlReader struct {
	in   *input
	d    *xml.Decoder
	o    ReadOptions
	s    sink
	keys map[string]xmlKey
	what string   // the element that is being read
	base int64    // the size of the byte order mark
	at   Position // where the last token begins
}

func readGraphML(in *input, o ReadOptions, s sink) error {
	in.next(o)
	r := &xmlReader{in: in, d: xml.NewDecoder(in), o: o, s: s, keys: map[string]xmlKey{}, base: in.offset}
	graphs := 0
	top, err := r.top()
	if err != nil {
		return err
	}
	if top.Name.Local != "graphml" {
		return r.at.errorf("", "expected the element graphml, found %s", clip(top.Name.Local))
	}
	return r.children("graphml", func(e xml.StartElement) error {
		switch e.Name.Local {
		case "desc":
			return r.skip()
		case "key":
			return r.key(e)
		case "graph":
			if graphs++; graphs > 1 {
				return r.at.errorf("", "expected one graph, found another one")
			}
			return r.graph(e)
		}
		return r.refuse("graphml", e)
	})
}

// refuse returns the error of an element that cannot be kept.
func (r *xmlReader) refuse(parent string, e xml.StartElement) error {
	what := e.Name.Local
	switch {
	case what == "hyperedge":
		return r.at.errorf(r.what, "hyperedges cannot be imported")
	case what == "graph":
		return r.at.errorf(r.what, "a graph within %s cannot be imported", article(parent))
	case what == "port":
		return r.at.errorf(r.what, "ports of a node cannot be imported")
	case what == "data":
		return r.at.errorf(r.what, "data of %s itself cannot be imported", article(parent))
	}
	return r.at.errorf(r.what, "expected no element %s in %s", clip(what), article(parent))
}

func article(name string) string {
	if strings.HasPrefix(name, "e") {
		return "an " + name
	}
	return "a " + name
}

// token returns the next token and sets where it begins.
func (r *xmlReader) token() (xml.Token, error) {
	line, column := r.d.InputPos()
	r.at = Position{File: r.in.name, Line: line, Column: column, Offset: r.offset()}
	t, err := r.d.Token()
	var syntax *xml.SyntaxError
	switch {
	case err == nil:
		return t, nil
	case errors.As(err, &syntax) && r.in.err == nil:
		line, column := r.d.InputPos()
		at := r.at
		at.Line, at.Column = line, column
		return nil, at.errorf(r.what, "expected XML: %s", syntax.Msg)
	case r.in.err == nil && !errors.Is(err, io.EOF):
		return nil, r.at.errorf(r.what, "expected XML: %v", err) // an encoding that is not UTF-8
	}
	return nil, r.in.atEnd(r.at, r.o, err)
}

func (r *xmlReader) offset() int64 { return r.base + r.d.InputOffset() }

// top returns the first element.
func (r *xmlReader) top() (xml.StartElement, error) {
	for {
		t, err := r.token()
		if err != nil {
			return xml.StartElement{}, err
		}
		switch x := t.(type) {
		case xml.StartElement:
			return x, nil
		case xml.CharData:
			if text := strings.TrimSpace(string(x)); text != "" {
				return xml.StartElement{}, r.at.errorf("", "expected XML, found %q", clip(text))
			}
		}
	}
}

// children calls each with the elements within parent, until that ends.
func (r *xmlReader) children(parent string, each func(xml.StartElement) error) error {
	for {
		t, err := r.token()
		if err != nil {
			return err
		}
		switch x := t.(type) {
		case xml.StartElement:
			if err := each(x); err != nil {
				return err
			}
		case xml.EndElement:
			return nil
		case xml.CharData:
			if text := strings.TrimSpace(string(x)); text != "" {
				return r.at.errorf(r.what, "expected no text in %s, found %q", article(parent), clip(text))
			}
		}
	}
}

// skip reads over the rest of an element.
func (r *xmlReader) skip() error {
	for depth := 0; depth >= 0; {
		t, err := r.token()
		if err != nil {
			return err
		}
		switch t.(type) {
		case xml.StartElement:
			depth++
		case xml.EndElement:
			depth--
		}
	}
	return nil
}

// text reads the text of an element.
func (r *xmlReader) text(name string) (string, error) {
	var b strings.Builder
	for {
		t, err := r.token()
		if err != nil {
			return "", err
		}
		switch x := t.(type) {
		case xml.StartElement:
			return "", r.refuse(name, x)
		case xml.EndElement:
			return b.String(), nil
		case xml.CharData:
			b.Write(x)
		}
	}
}

func attr(e xml.StartElement, name string) string {
	i := slices.IndexFunc(e.Attr, func(a xml.Attr) bool { return a.Name.Local == name && a.Name.Space == "" })
	if i < 0 {
		return ""
	}
	return e.Attr[i].Value
}

func (r *xmlReader) key(e xml.StartElement) error {
	r.in.next(r.o)
	id, of := attr(e, "id"), attr(e, "for")
	if id == "" {
		return r.at.errorf("", "expected a key with an id")
	}
	r.what = "key " + clip(id)
	if _, ok := r.keys[id]; ok {
		return r.at.errorf(r.what, "expected each key once")
	}
	if len(r.keys) >= r.o.Properties {
		return r.at.limit(r.what, "a file has at most %d keys (MaxProperties)", r.o.Properties)
	}
	k := xmlKey{name: attr(e, "attr.name"), typ: attr(e, "attr.type")}
	if k.name == "" {
		k.name = id
	}
	switch k.typ {
	case "boolean":
		k.typ = typeBool
	case "":
		k.typ = typeString
	case typeInt, typeLong, typeFloat, typeDouble, typeString:
	default:
		return r.at.errorf(r.what, "expected the type boolean, int, long, float, double or string, found %q", clip(k.typ))
	}
	if err := r.o.checkName(r.at, r.what, k.name); err != nil {
		return err
	}
	switch of {
	case "node":
		k.nodes = true
	case "edge":
		k.edges = true
	case "all", "":
		k.nodes, k.edges = true, true
	case "graph", "graphml":
	default:
		return r.at.errorf(r.what, "expected a key for nodes or edges, found %q", clip(of))
	}
	r.keys[id] = k
	err := r.children("key", func(e xml.StartElement) error {
		switch e.Name.Local {
		case "desc":
			return r.skip()
		case "default":
			return r.at.errorf(r.what, "values that elements have by default cannot be imported")
		}
		return r.refuse("key", e)
	})
	r.what = ""
	return err
}

func (r *xmlReader) graph(e xml.StartElement) error {
	if attr(e, "edgedefault") == "undirected" {
		return r.at.errorf("", "a graph whose edges have no direction cannot be imported")
	}
	return r.children("graph", func(e xml.StartElement) error {
		at := r.at
		r.in.next(r.o)
		defer func() {
			r.what = ""
			r.in.next(r.o)
		}()
		switch e.Name.Local {
		case "desc":
			return r.skip()
		case "node":
			return r.node(e, at)
		case "edge":
			return r.edge(e, at)
		}
		return r.refuse("graph", e)
	})
}

// required returns an attribute that must be there.
func (r *xmlReader) required(e xml.StartElement, name string) (any, error) {
	s := attr(e, name)
	if s == "" {
		return nil, r.at.errorf(r.what, "expected %s with %s", article(e.Name.Local), name)
	}
	id, ok := ownID(r.o.textID(s))
	if !ok {
		return nil, r.at.errorf(r.what, "expected an id of at most 256 bytes as %s", name)
	}
	return id, nil
}

func (r *xmlReader) node(e xml.StartElement, at Position) error {
	r.what = "node"
	id, err := r.required(e, "id")
	if err != nil {
		return err
	}
	r.what = named("node", id)
	label, props, err := r.data("node", keyLabelV)
	if err == nil {
		err = r.length(&at)
	}
	if err != nil || r.s.vertex == nil {
		return err
	}
	v := &Vertex{ID: id, Labels: vertexLabels(label), Properties: props, At: at}
	if err := r.o.checkLabels(at, r.what, v.Labels); err != nil {
		return err
	}
	return r.s.vertex(v)
}

func (r *xmlReader) edge(e xml.StartElement, at Position) (err error) {
	r.what = "edge"
	out := &Edge{Label: defaultEdgeLabel}
	if attr(e, "id") != "" {
		if out.ID, err = r.required(e, "id"); err != nil {
			return err
		}
		r.what = named("edge", out.ID)
	}
	if attr(e, "directed") == "false" {
		return r.at.errorf(r.what, "an edge that has no direction cannot be imported")
	}
	if attr(e, "sourceport")+attr(e, "targetport") != "" {
		return r.at.errorf(r.what, "ports of a node cannot be imported")
	}
	if out.Out, err = r.required(e, "source"); err != nil {
		return err
	}
	if out.In, err = r.required(e, "target"); err != nil {
		return err
	}
	label, props, err := r.data("edge", keyLabelE)
	if err == nil {
		err = r.length(&at)
	}
	if err != nil || r.s.edge == nil {
		return err
	}
	if label != "" {
		out.Label = label
	}
	out.Properties, out.At = props, at
	if err := r.o.checkName(at, r.what, out.Label); err != nil {
		return err
	}
	return r.s.edge(out)
}

// length sets the length of an element that was read.
func (r *xmlReader) length(at *Position) error {
	if at.Bytes = r.offset() - at.Offset; at.Bytes > int64(r.o.RecordBytes) {
		return at.limit(r.what, "a record has at most %d bytes (MaxRecordBytes)", r.o.RecordBytes)
	}
	return nil
}

// defaultEdgeLabel is the label of an edge of GraphML without one, as in TinkerPop.
const defaultEdgeLabel = "edge"

// data reads the label and the properties of a node or an edge.
func (r *xmlReader) data(parent, labelKey string) (label string, _ []Property, _ error) {
	all := &bag{o: r.o, at: r.at, what: r.what, once: true}
	err := r.children(parent, func(e xml.StartElement) error {
		if e.Name.Local == "desc" {
			return r.skip()
		}
		if e.Name.Local != "data" {
			return r.refuse(parent, e)
		}
		at, id := r.at, attr(e, "key")
		text, err := r.text("data")
		if err != nil {
			return err
		}
		if id == labelKey {
			label = text
			return nil
		}
		k, ok := r.keys[id]
		if !ok || !(k.nodes && parent == "node" || k.edges && parent == "edge") {
			return at.errorf(r.what, "expected data with a key for %ss that is declared before, found %q", parent, clip(id))
		}
		v, ok := parseScalar(k.typ, text)
		if !ok {
			return at.errorf(r.what, "expected the property %q as %s, found %q", clip(k.name), k.typ, clip(text))
		}
		all.at = at
		return all.add(Property{Key: k.name, Val: v})
	})
	return label, all.props, err
}

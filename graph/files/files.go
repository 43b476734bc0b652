// Package files imports and exports property graphs as files: GraphSON 3, GraphML
// and the CSV of Amazon Neptune's bulk loader.
//
// It knows the file formats of graphs, and how a file gets into a graph and out of it
// in transactions of a bounded size. It must not know Gremlin's steps, engines, or
// where files come from.
package files

import (
	"fmt"
	"io"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph"
)

// Format is a file format.
type Format uint8

// The formats.
const (
	// GraphSON has one vertex a line, as JSON with types, with the edges at it: the
	// adjacency list of TinkerPop's GraphSONWriter, version 3, without wrapping. It
	// keeps everything; the order of properties with different keys is that in which
	// the keys occur first.
	GraphSON Format = iota + 1
	// GraphML is the XML that TinkerPop reads and writes. It keeps one value of a
	// property, which is a boolean, an int, a long, a float, a double or a string.
	GraphML
	// CSV has a file of vertices and one of edges, with the header of Amazon Neptune's
	// bulk loader. It keeps booleans, numbers up to a long or a double, strings that are not
	// empty, and dates, and of edges one value of each. The order of properties is that
	// of the columns.
	CSV
)

// String returns the name of the format.
func (f Format) String() string {
	switch f {
	case GraphSON:
		return "GraphSON"
	case GraphML:
		return "GraphML"
	case CSV:
		return "CSV"
	}
	return fmt.Sprintf("Format(%d)", uint8(f))
}

// The codes of this package. Catalog explains them.
const (
	// CodeMalformed: a file is not what its format says.
	CodeMalformed engine.Code = "graph_file_malformed"
	// CodeNotKept: a file format cannot hold an element of the graph.
	CodeNotKept engine.Code = "graph_file_not_kept"
	// CodeDangling: an edge in a file has a vertex that is not there.
	CodeDangling engine.Code = "graph_file_dangling"
	// CodeDiffers: the graph has another element with the id of one in the file.
	CodeDiffers engine.Code = "graph_file_differs"
)

// Catalog returns the codes of this package, sorted.
func Catalog() []engine.Meaning {
	const rest = "; what was imported before it stays"
	return []engine.Meaning{
		{Code: CodeDangling, Kind: engine.KindRefused, Text: "an edge in the file has a vertex that is neither in the file nor in the graph" + rest},
		{Code: CodeDiffers, Kind: engine.KindConflict, Text: "the graph has another element with the id of one in the file" + rest},
		{Code: CodeMalformed, Kind: engine.KindInvalid, Text: "the file is not in the format, or has what cannot be imported; the message has the position" + rest},
		{Code: CodeNotKept, Kind: engine.KindRefused, Text: "the file format cannot hold an element of the graph, which the message names"},
	}
}

// Limits of what is read and written. Beyond them the errors are engine.CodeLimit.
const (
	MaxRecordBytes = 64 << 20            // of a line of GraphSON, an element of GraphML, a record of CSV
	MaxNameBytes   = graph.MaxNameBytes  // of a label or the key of a property
	MaxProperties  = graph.MaxProperties // of one element; also of a file's keys or columns
	MaxBatch       = 10_000              // elements of one transaction
	MaxBatchBytes  = 16 << 20            // that one transaction writes, about
)

// File is a file to read.
type File struct {
	Name string // for errors; may be empty
	Size int64  // in bytes, for progress; 0: unknown
	// EdgeIDs is used for the edges of this file in place of ImportOptions.EdgeIDs; "": that is.
	EdgeIDs string
	// Open opens the file at its beginning. It is called once for each pass.
	Open func() (io.ReadCloser, error)
}

// ReadOptions are options of readers. The zero value works.
type ReadOptions struct {
	// TextIDs leaves ids in GraphML and CSV as strings. Otherwise an id that is the
	// decimal form of a whole number of 64 bits becomes that number.
	TextIDs bool
	// RecordBytes, NameBytes and Properties lower the limits MaxRecordBytes,
	// MaxNameBytes and MaxProperties; 0 means these.
	RecordBytes, NameBytes, Properties int
}

func (o ReadOptions) checked() (ReadOptions, error) {
	for _, l := range []struct {
		n    *int
		most int
		name string
	}{{&o.RecordBytes, MaxRecordBytes, "RecordBytes"}, {&o.NameBytes, MaxNameBytes, "NameBytes"}, {&o.Properties, MaxProperties, "Properties"}} {
		if *l.n < 0 || *l.n > l.most {
			return o, engine.Errorf(engine.CodeInvalid, "%s is from 0 to %d", l.name, l.most)
		}
		if *l.n == 0 {
			*l.n = l.most
		}
	}
	return o, nil
}

// Vertex is a vertex of a file.
type Vertex struct {
	ID         any // int64, string or value.UUID
	Labels     []string
	Properties []Property // in the order of the file; several may have the same key
	At         Position
}

// Edge is an edge of a file.
type Edge struct {
	ID         any // as a Vertex's; nil: it has none
	Label      string
	Out, In    any        // the ids of its vertices
	Properties []Property // without properties of their own, each key once
	Number     int64      // of the edges of its file, from 1
	At         Position
}

// Property is a property of an element, or of another property.
type Property struct {
	Key        string
	Val        any        // as package value has them
	Properties []Property // of a vertex's property: its own ones, each key once
}

// Position is where a record is in a file.
type Position struct {
	File         string // its name
	Line, Column int    // from 1; columns are bytes
	Offset       int64  // in bytes from the beginning of the file
	Bytes        int64  // how long the record is
}

// String returns the position for people.
func (p Position) String() string {
	s := fmt.Sprintf("line %d, column %d", p.Line, p.Column)
	if p.File != "" {
		s = p.File + ", " + s
	}
	return s
}

// errorf returns CodeMalformed at the position. what is the element; "": none.
func (p Position) errorf(what, format string, args ...any) error {
	return p.fail(CodeMalformed, what, format, args...)
}

func (p Position) limit(what, format string, args ...any) error {
	return p.fail(engine.CodeLimit, what, format, args...)
}

func (p Position) fail(code engine.Code, what, format string, args ...any) error {
	if what != "" {
		what += ": "
	}
	return engine.Errorf(code, "%v: %s%s", p, what, fmt.Sprintf(format, args...))
}

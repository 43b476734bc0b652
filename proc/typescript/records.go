package typescript

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/record/schema"
)

//go:embed records.ts
var recordsRuntime string

// collection is a collection with its names in the module.
type collection struct {
	schema.Collection
	property string // blogPosts
	prefix   string // BlogPosts: for its types
}

// collectionsOf returns the collections in the order of their names. A malformed one is an error.
func collectionsOf(list []schema.Collection) ([]collection, error) {
	sorted := slices.Clone(list)
	slices.SortFunc(sorted, func(a, b schema.Collection) int { return strings.Compare(a.Name, b.Name) })
	names := make([]string, len(sorted))
	for i, c := range sorted {
		if i > 0 && c.Name == sorted[i-1].Name {
			return nil, fmt.Errorf("two collections are named %q", c.Name)
		}
		if _, err := c.Compile(); err != nil {
			return nil, fmt.Errorf("collection %q: %w", c.Name, err)
		}
		names[i] = c.Name
	}
	functions := unique(names, "transaction")
	all := make([]collection, len(sorted))
	for i, c := range sorted {
		all[i] = collection{c, functions[i], pascal(functions[i])}
	}
	return all, nil
}

// direction is who sends data.
type direction int

const (
	received direction = iota // by the client
	creating                  // to the server, for a new record
	patching                  // to the server, for a change
)

// records writes the types of all collections, and createRecords.
func (g *generator) records(list []collection) {
	for _, c := range list {
		g.data(c, "Data", "Data of a record of "+c.Name, received)
		g.data(c, "Create", "Data of a new record of "+c.Name, creating)
		g.data(c, "Patch", "A change of a record of "+c.Name+": what is missing stays, and null removes a value", patching)
		g.expand(c, list)
	}
	g.line("")
	g.line("/** The collections. Their functions are bound. */")
	g.line("export interface Records {")
	for _, c := range list {
		g.linef("  %s: Collection<%sData, %sCreate, %sPatch, %sExpand>;", c.property, c.prefix, c.prefix, c.prefix, c.prefix)
	}
	g.line("  transaction: Transaction;")
	g.line("}")
	g.line("")
	g.line("/** Creates a client for records. It holds no connection and need not be closed. */")
	g.line("export function createRecords(options: RecordsOptions = {}): Records {")
	g.line("  return {")
	for _, c := range list {
		g.linef("    %s: collection(options, %s, %s),", c.property, quote(c.Name), shapeOfData(c))
	}
	g.line("    transaction: transactions(options),")
	g.line("  };")
	g.line("}")
	g.line("")
	g.text(recordsRuntime)
}

// data writes the type of the data of c's records.
func (g *generator) data(c collection, suffix, text string, d direction) {
	g.line("")
	if c.Hint != "" && d == received {
		text += ". " + c.Hint
	}
	g.linef("/** %s. */", strings.TrimSuffix(comment(text), "."))
	if len(c.Fields) == 0 && !c.Extra {
		g.linef("export type %s%s = Record<string, never>;", c.prefix, suffix)
		return
	}
	g.linef("export interface %s%s {", c.prefix, suffix)
	for _, f := range c.Fields {
		if f.Type == schema.Password && d == received {
			continue
		}
		if text := strings.TrimSpace(comment(f.Label + " " + f.Hint)); text != "" {
			g.linef("  /** %s */", text)
		}
		kind, mark := typeOfField(f, d), "?"
		switch {
		case f.Required && (d == received || d == creating && f.Default == ""):
			mark = ""
		case kind == "unknown" || d == received:
		case d == patching && f.Required:
			kind += " | undefined"
		default:
			kind += " | null | undefined"
		}
		g.linef("  %s%s: %s;", f.Name, mark, kind)
	}
	if c.Extra {
		g.line("  [name: string]: unknown;")
	}
	g.line("}")
}

// expand writes the type of what a query can expand of c's records: those that they refer to, and those that refer to them.
func (g *generator) expand(c collection, list []collection) {
	var lines []string
	for _, f := range c.Fields {
		if f.Type != schema.Reference {
			continue
		}
		to := "Stored<unknown>" // of a collection that is not in the module
		if i := slices.IndexFunc(list, func(x collection) bool { return x.Name == f.Collection }); i >= 0 {
			to = fmt.Sprintf("Stored<%sData, %sExpand>", list[i].prefix, list[i].prefix)
		}
		lines = append(lines, fmt.Sprintf("  %s?: %s | null;", f.Name, to))
	}
	for _, x := range list {
		for _, f := range x.Fields {
			if f.Type == schema.Reference && f.Collection == c.Name {
				lines = append(lines, fmt.Sprintf("  %s?: Related<%sData, %sExpand>;", quote(x.Name+"("+f.Name+")"), x.prefix, x.prefix))
			}
		}
	}
	g.line("")
	g.linef("/** What expand can add to a record of %s; null is a record that is not there, or that the client may not see. */", comment(c.Name))
	if lines == nil {
		g.linef("export type %sExpand = Record<string, never>;", c.prefix)
		return
	}
	g.linef("export interface %sExpand {", c.prefix)
	for _, l := range lines {
		g.line(l)
	}
	g.line("}")
}

// typeOfField returns the type of a field.
func typeOfField(f schema.Field, d direction) string {
	switch f.Type {
	case schema.Int:
		if d != received {
			return "number | bigint"
		}
		return "number"
	case schema.Float:
		return "number"
	case schema.Decimal:
		if d != received {
			return "Decimal | number"
		}
		return "Decimal"
	case schema.Bool:
		return "boolean"
	case schema.Time:
		if d != received {
			return "Timestamp | Date"
		}
		return "Timestamp"
	case schema.JSON:
		return "unknown"
	case schema.Select:
		var options []string
		for _, o := range f.Options {
			options = append(options, quote(o))
		}
		one := strings.Join(options, " | ")
		if f.Many {
			return "(" + one + ")[]"
		}
		return one
	}
	return "string"
}

// shapeOfData returns the Shape of the data of a record: which fields are integers.
func shapeOfData(c collection) string {
	var parts []string
	for _, f := range c.Fields {
		if f.Type == schema.Int {
			parts = append(parts, "["+quote(f.Name)+`, "i"]`)
		}
	}
	if parts == nil {
		return "null"
	}
	return `["object", [` + strings.Join(parts, ", ") + `]]`
}

package files

import (
	"strings"
)

// Columns of CSV that are not properties.
const (
	columnID    = "~id"
	columnLabel = "~label"
	columnFrom  = "~from"
	columnTo    = "~to"
)

// column is a column of CSV: one of those above, which has no type, or a property.
type column struct {
	name, typ string
	many      bool // several values, with semicolons between them
}

// columnTypes has the types as they are written, by their names in this package.
func columnTypes() map[string]string {
	return map[string]string{
		typeBool: "Bool", typeByte: "Byte", typeShort: "Short", typeInt: "Int", typeLong: "Long",
		typeFloat: "Float", typeDouble: "Double", typeString: "String", typeDate: "Date",
	}
}

// parseColumn reads a column's header: name, name:Type, name:Type[], or one of the
// columns with ~. A colon in a name is written with a backslash.
func parseColumn(text string) (column, string) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "~") {
		switch text {
		case columnID, columnLabel, columnFrom, columnTo:
			return column{name: text}, ""
		}
		return column{}, "expected ~id, ~label, ~from or ~to, found " + clip(text)
	}
	name, typ := text, typeString
	for i := len(text) - 1; i >= 0; i-- {
		if text[i] == ':' && (i == 0 || text[i-1] != '\\') {
			name, typ = text[:i], strings.ToLower(text[i+1:])
			break
		}
	}
	c := column{name: strings.ReplaceAll(name, `\:`, ":")}
	typ, c.many = strings.CutSuffix(strings.TrimSuffix(strings.TrimSuffix(typ, "(set)"), "(single)"), "[]")
	switch typ {
	case "boolean":
		typ = typeBool
	case "integer":
		typ = typeInt
	case "datetime":
		typ = typeDate
	}
	if _, ok := columnTypes()[typ]; !ok {
		return column{}, "expected the type Bool, Byte, Short, Int, Long, Float, Double, String or Date, found " + clip(typ)
	}
	c.typ = typ
	return c, ""
}

// header returns what parseColumn reads; "": there is no such column.
func (c column) header() string {
	if c.typ == "" {
		return c.name
	}
	if strings.HasPrefix(c.name, "~") || strings.ContainsAny(c.name, "\\\r\n") || strings.TrimSpace(c.name) != c.name {
		return ""
	}
	text := strings.ReplaceAll(c.name, ":", `\:`) + ":" + columnTypes()[c.typ]
	if c.many {
		text += "[]"
	}
	return text
}

// splitItems returns the values of a cell that has several. A semicolon in one of
// them is written with a backslash.
func splitItems(text string) []string {
	var out []string
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text) && text[i+1] == ';':
			i++
			b.WriteByte(';')
		case text[i] == ';':
			out = append(out, b.String())
			b.Reset()
		default:
			b.WriteByte(text[i])
		}
	}
	return append(out, b.String())
}

// joinItems returns what splitItems splits. No item ends with a backslash.
func joinItems(items []string) string {
	var b strings.Builder
	for i, s := range items {
		if i > 0 {
			b.WriteByte(';')
		}
		b.WriteString(strings.ReplaceAll(s, ";", `\;`))
	}
	return b.String()
}

package gremlin

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/graph/value"
)

// String returns the text of t as one that is spawned from g. Parse reads it back
// to the same traversal.
func (t *Traversal) String() string {
	w := &printer{}
	w.traversal("g", t)
	return w.String()
}

// String returns the text of the query.
func (q *Query) String() string {
	w := &printer{}
	switch {
	case q.Tx != "":
		w.WriteString(q.Source + ".tx()." + q.Tx + "()")
		return w.String()
	case q.Traversal != nil:
		w.traversal(q.Source, q.Traversal)
	}
	if q.End != "" {
		w.WriteString("." + q.End + "(")
		if q.N >= 0 {
			w.WriteString(strconv.FormatInt(q.N, 10))
		}
		w.WriteString(")")
	}
	return w.String()
}

// String returns the text of the call, without a dot before it.
func (c Call) String() string {
	w := &printer{}
	w.call(c)
	return w.String()
}

// String returns the text of the predicate.
func (p *P) String() string { return ArgText(p) }

// ArgText returns the text of an argument: of a *Traversal, as an anonymous one.
// What has no literal in Gremlin, as an edge, is written <edge>, which Parse
// refuses.
func ArgText(arg any) string {
	w := &printer{}
	w.arg(arg)
	return w.String()
}

type printer struct{ strings.Builder }

func (w *printer) traversal(source string, t *Traversal) {
	w.WriteString(source)
	for _, calls := range [][]Call{t.Source, t.Steps} {
		for _, c := range calls {
			w.WriteByte('.')
			w.call(c)
		}
	}
}

func (w *printer) call(c Call) {
	w.WriteString(c.Name)
	w.list("(", c.Args, ")")
}

func (w *printer) list(open string, items []any, end string) {
	w.WriteString(open)
	for i, item := range items {
		if i > 0 {
			w.WriteString(", ")
		}
		w.arg(item)
	}
	w.WriteString(end)
}

func (w *printer) arg(arg any) {
	switch x := arg.(type) {
	case *Traversal:
		w.traversal("__", x)
	case *P:
		w.predicate(x)
	case Strategy:
		w.strategy(x)
	case Class:
		w.WriteString(string(x))
	case Cardinal:
		w.list("Cardinality."+x.Cardinality.Name+"(", []any{x.Val}, ")")
	case value.List:
		w.list("[", x, "]")
	case *value.Set:
		w.list("{", x.Items(), "}")
	case *value.Map:
		w.entries(x)
	case *value.Vertex:
		w.list("new ReferenceVertex(", []any{x.ID, x.Label}, ")")
	default:
		w.scalar(arg)
	}
}

func (w *printer) scalar(v any) {
	switch x := v.(type) {
	case nil:
		w.WriteString("null")
	case bool:
		w.WriteString(strconv.FormatBool(x))
	case string:
		w.quoted(x)
	case int8:
		w.WriteString(strconv.Itoa(int(x)) + "b")
	case int16:
		w.WriteString(strconv.Itoa(int(x)) + "s")
	case int32:
		w.WriteString(strconv.Itoa(int(x)))
	case int64:
		w.WriteString(strconv.FormatInt(x, 10) + "L")
	case *big.Int:
		w.WriteString(x.String() + "n")
	case float32:
		w.float(float64(x), 32, "f")
	case float64:
		w.float(x, 64, "d")
	case value.Decimal:
		w.WriteString(x.String() + "m")
	case value.Char:
		w.quoted(string(x))
		w.WriteByte('c')
	case value.Enum:
		w.WriteString(x.Kind + "." + x.Name)
	case time.Time:
		w.WriteString(`datetime("` + x.Format(time.RFC3339Nano) + `")`)
	case value.UUID:
		w.WriteString(`UUID("` + x.String() + `")`)
	case value.Duration:
		fmt.Fprintf(w, "Duration(%dL, %d)", x.Seconds, x.Nanos)
	case []byte:
		w.WriteString(`Binary("` + base64.StdEncoding.EncodeToString(x) + `")`)
	default:
		w.WriteString("<" + strings.ToLower(value.Describe(v)) + ">")
	}
}

// float writes f, with a suffix if it is finite. The others have no types.
func (w *printer) float(f float64, bits int, suffix string) {
	switch {
	case math.IsNaN(f):
		w.WriteString("NaN")
	case math.IsInf(f, 0):
		w.WriteString(strings.TrimPrefix(strconv.FormatFloat(f, 'g', -1, 64)[:1], "+") + "Infinity")
	default:
		w.WriteString(strconv.FormatFloat(f, 'g', -1, bits) + suffix)
	}
}

// quoted writes a string with the escapes that unquote reads.
func (w *printer) quoted(s string) {
	w.WriteByte('"')
	for _, r := range s {
		if i := strings.IndexRune("\b\t\n\f\r\"\\", r); i >= 0 {
			w.WriteString(`\` + "btnfr\"\\"[i:i+1])
		} else if r < ' ' || r == 0x7f {
			fmt.Fprintf(w, `\u%04x`, r)
		} else {
			w.WriteRune(r)
		}
	}
	w.WriteByte('"')
}

func (w *printer) predicate(p *P) {
	switch p.Name {
	case "and", "or":
		for i, a := range p.Args {
			if i == 0 {
				w.arg(a)
				continue
			}
			w.list("."+p.Name+"(", []any{a}, ")")
		}
	case "within", "without":
		open, end := "P."+p.Name+"(", ")"
		if len(p.Args) == 1 { // which is not to be taken for the list of arguments
			switch p.Args[0].(type) {
			case value.List, *value.Set:
				open, end = open+"[", "]"+end
			}
		}
		w.list(open, p.Args, end)
	case "regex", "notRegex", "startingWith", "notStartingWith", "endingWith", "notEndingWith", "containing", "notContaining":
		w.list("TextP."+p.Name+"(", p.Args, ")")
	default:
		w.list("P."+p.Name+"(", p.Args, ")")
	}
}

func (w *printer) strategy(s Strategy) {
	w.WriteString("new " + s.Name + "(")
	if s.Config != nil {
		for i, e := range s.Config.Entries() {
			if i > 0 {
				w.WriteString(", ")
			}
			if key, ok := e.Key.(string); ok && identifier(key) {
				w.WriteString(key)
			} else {
				w.arg(e.Key)
			}
			w.WriteString(": ")
			w.arg(e.Val)
		}
	}
	w.WriteByte(')')
}

func (w *printer) entries(m *value.Map) {
	if m.Len() == 0 {
		w.WriteString("[:]")
		return
	}
	w.WriteByte('[')
	for i, e := range m.Entries() {
		if i > 0 {
			w.WriteString(", ")
		}
		if _, ok := e.Key.(string); ok {
			w.arg(e.Key)
		} else {
			w.list("(", []any{e.Key}, ")")
		}
		w.WriteString(": ")
		w.arg(e.Val)
	}
	w.WriteByte(']')
}

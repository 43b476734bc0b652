package tables

import (
	"fmt"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/record/expr"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/query"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
)

// where is the condition of a statement, and its parameters.
type where struct {
	c     *keys.Collection
	terms []string // all must hold
	args  []any
}

func (w *where) add(term string) { w.terms = append(w.terms, term) }

// arg adds a parameter and returns its name.
func (w *where) arg(v any) string {
	w.args = append(w.args, v)
	return fmt.Sprintf("$%d", len(w.args))
}

func (w *where) text() string {
	if len(w.terms) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.terms, " AND ")
}

// columns are the columns of a table by the names of those of records, with their types.
var columns = map[string][2]string{
	"id": {"id", "text"}, "rev": {"rev", "numeric"}, "is_deleted": {"is_deleted", "boolean"},
	"created": {"created_at", "timestamptz"}, "updated": {"updated_at", "timestamptz"}, "deleted": {"deleted_at", "timestamptz"}, "restored": {"restored_at", "timestamptz"},
	"created_by": {"created_by", "text"}, "updated_by": {"updated_by", "text"}, "deleted_by": {"deleted_by", "text"}, "restored_by": {"restored_by", "text"},
}

// expression returns the SQL of a column or field and its type. Its values sort as package value sorts them: texts by their
// bytes, and numbers by their value. Times and bools are texts in data, which sort as they should. A number that another
// program wrote in a form that is none is null.
func expression(c *keys.Collection, name string) (sql, kind string) {
	if x, ok := columns[name]; ok {
		return x[0], x[1]
	}
	i, ok := c.Index(name)
	if !ok {
		panic("BUG: collection " + c.Name + " has no field " + name)
	}
	text := "(data->>'" + strings.ReplaceAll(c.Fields[i].Name, "'", "''") + "')"
	switch c.Kind(i) {
	case value.Int, value.Float, value.Decimal:
		return "(CASE WHEN " + text + ` ~ '^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$' THEN ` + text + "::numeric END)", "numeric"
	}
	return "(" + text + ` COLLATE "C")`, "text"
}

// param returns a value as a parameter of a type.
func param(v value.Value, kind string) any {
	if t, ok := v.Time(); ok && kind == "timestamptz" {
		return t
	}
	if kind == "boolean" {
		return v.Bool()
	}
	if s, ok := v.Decimal(); ok {
		return s
	}
	if s, ok := v.Text(); ok {
		return s
	}
	return strings.Trim(string(v.AppendJSON(nil)), `"`)
}

// compare returns the comparison of a column or field with a value by =, <, <=, > or >=, where null equals null.
func (w *where) compare(name, op string, v value.Value) string {
	sql, kind := expression(w.c, name)
	if v.IsNull() {
		if op == "=" {
			return sql + " IS NULL"
		}
		return "false"
	}
	arg := w.arg(param(v, kind))
	if kind == "numeric" {
		arg += "::text::numeric"
	}
	return sql + " " + op + " " + arg
}

// condition adds a condition that all records meet which meet c. exact reports whether no others do.
func (w *where) condition(c *query.Cond) (exact bool) {
	exact = true
	for _, x := range c.Conjuncts(nil) {
		sql, all := w.one(x)
		if sql != "" {
			w.add(sql)
		}
		exact = exact && all
	}
	return exact
}

// one returns a condition that all records meet which meet c, "" if there is none.
func (w *where) one(c *query.Cond) (sql string, exact bool) {
	if c.Always() {
		return "", true
	}
	if bounds := c.Bounds(w.c.Compiled); len(bounds) > 0 {
		var terms []string
		for _, b := range bounds {
			terms = append(terms, w.bound(b))
		}
		return "(" + strings.Join(terms, " AND ") + ")", c.Bounded(w.c.Compiled)
	}
	if all := c.Alternatives(nil); len(all) > 0 {
		return w.any(all)
	}
	return "", false
}

// any is one for a disjunction.
func (w *where) any(all []*query.Cond) (sql string, exact bool) {
	exact = true
	before := len(w.args)
	var terms []string
	for _, c := range all {
		var parts []string
		for _, x := range c.Conjuncts(nil) {
			part, same := w.one(x)
			exact = exact && same
			if part != "" {
				parts = append(parts, part)
			}
		}
		if len(parts) == 0 { // any record may meet it
			w.args = w.args[:before]
			return "", exact
		}
		terms = append(terms, "("+strings.Join(parts, " AND ")+")")
	}
	return "(" + strings.Join(terms, " OR ") + ")", exact
}

var operators = map[expr.Op]string{expr.Less: "<", expr.LessEqual: "<=", expr.Greater: ">", expr.GreaterEqual: ">="}

func (w *where) bound(b query.Bound) string {
	if b.Op != expr.Equal {
		return w.compare(b.Name, operators[b.Op], b.Values[0])
	}
	var terms []string
	for _, v := range b.Values {
		terms = append(terms, w.compare(b.Name, "=", v))
	}
	if len(terms) == 0 {
		return "false"
	}
	return "(" + strings.Join(terms, " OR ") + ")"
}

// order returns the ORDER BY of some orders.
func order(c *keys.Collection, orders query.Orders) string {
	var all []string
	for _, o := range orders {
		sql, _ := expression(c, o.Name)
		all = append(all, sql+direction(o.Desc))
	}
	return " ORDER BY " + strings.Join(all, ", ")
}

func direction(desc bool) string {
	if desc {
		return " DESC NULLS LAST"
	}
	return " ASC NULLS FIRST"
}

// after adds the condition that a record comes after the one with a key in some orders.
func (w *where) after(orders query.Orders, key []value.Value) {
	var any, equal []string
	for i, o := range orders {
		v := key[i]
		if i > 0 {
			equal = append(equal, w.compare(orders[i-1].Name, "=", key[i-1]))
		}
		sql, _ := expression(w.c, o.Name)
		later := ""
		switch {
		case o.Desc && v.IsNull(): // null is the last
		case o.Desc && columns[o.Name][0] == "id":
			later = w.compare(o.Name, "<", v)
		case o.Desc:
			later = "(" + w.compare(o.Name, "<", v) + " OR " + sql + " IS NULL)"
		case v.IsNull():
			later = sql + " IS NOT NULL"
		default:
			later = w.compare(o.Name, ">", v)
			if i == 0 {
				w.add(w.compare(o.Name, ">=", v)) // so that an index can begin there
			}
		}
		if later != "" {
			any = append(any, "("+strings.Join(append(slices.Clone(equal), later), " AND ")+")")
		}
	}
	if len(any) == 0 {
		any = []string{"false"}
	}
	w.add("(" + strings.Join(any, " OR ") + ")")
}

// definition returns the columns of an index. Those of a unique one have no id.
func definition(c *keys.Collection, x schema.Index) string {
	var all []string
	desc := false
	for _, f := range x.Fields {
		sql, _ := expression(c, f.Name)
		desc = f.Desc
		all = append(all, sql+direction(desc))
	}
	if !x.Unique {
		all = append(all, "id"+direction(desc))
	}
	return "(" + strings.Join(all, ", ") + ") WHERE NOT is_deleted"
}

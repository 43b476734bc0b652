package admin

import (
	"slices"
	"strings"

	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/expr"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
)

const maxShownValue = 200 // bytes of a value in a reason

// witness knows the values on which a rule was decided. Its transaction is the program's.
type witness struct {
	a     *Admin
	tx    *record.Tx
	actor record.Actor
	of    *schema.Compiled
	row   *record.Record // nil: the rule was tried without a record
}

// reasons says in sentences why a clause has not the result that is wanted: what of its parts decides that.
func (w *witness) reasons(x record.Clause, wanted bool) []string {
	parsed, err := expr.Parse(x.Text)
	if err != nil {
		return []string{x.Text}
	}
	switch parsed.(type) {
	case *expr.Not:
		if len(x.Terms) == 1 {
			return w.reasons(x.Terms[0], !wanted)
		}
	case *expr.And, *expr.Or:
		var all []string
		for _, t := range x.Terms {
			if (t.Result == record.Holds) != wanted {
				all = append(all, w.reasons(t, wanted)...)
			}
		}
		return all
	}
	text := w.a.text("“%s” does not hold", x.Text)
	if !wanted {
		text = w.a.text("“%s” holds", x.Text)
	}
	if values := w.values(x.Text); values != "" {
		return []string{text + ": " + values + "."}
	}
	return []string{text + "."}
}

// values says what the names in a comparison are.
func (w *witness) values(text string) string {
	x, err := expr.Parse(text)
	if err != nil {
		return ""
	}
	var operands []expr.Operand
	switch x := x.(type) {
	case *expr.Compare:
		operands = []expr.Operand{x.Left, x.Right}
	case *expr.In:
		operands = append([]expr.Operand{x.X}, x.List...)
	}
	var parts []string
	for _, o := range operands {
		if s, ok := o.(*expr.Shift); ok {
			o = s.X
		}
		part := ""
		switch o := o.(type) {
		case *expr.Var:
			part = w.variable(o.Names)
		case *expr.Path:
			part = w.field(o.Names)
		}
		if part != "" && !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "; ")
}

// variable says what a value outside the record is.
func (w *witness) variable(names []string) string {
	name := "@" + strings.Join(names, ".")
	is := func(text string) string {
		if text == "" {
			return w.a.text("%s is null", name)
		}
		return w.a.text("%s is %s", name, shorten(text, maxShownValue))
	}
	if names[0] == "auth" && w.actor.ID == "" {
		return w.a.text("%s is null, as nobody is logged in", name)
	}
	switch name {
	case "@auth.id":
		return is(goText(w.actor.ID))
	case "@auth.email":
		return is(goText(w.actor.Email))
	case "@auth.name":
		if w.actor.Name == "" {
			return is("")
		}
		return is(goText(w.actor.Name))
	case "@auth.verified":
		if w.actor.Verified {
			return is("true")
		}
		return is("false")
	case "@auth.roles":
		if len(w.actor.Roles) == 0 {
			return w.a.text("%s is empty", name)
		}
		return is(strings.Join(w.actor.Roles, ", "))
	}
	if names[0] == "new" {
		return w.field(names[1:])
	}
	return ""
}

// field says what a field of the record is, or of one that it refers to.
func (w *witness) field(names []string) string {
	name := strings.Join(names, ".")
	if w.row == nil {
		return w.a.text("%s depends on the record", name)
	}
	row, k := w.row, w.of
	for i, n := range names {
		f := fieldOf(k, n)
		if f != nil && f.Type == schema.Password {
			return ""
		}
		v := row.Value(n)
		if v.IsNull() || i == len(names)-1 {
			return w.said(strings.Join(names[:i+1], "."), v)
		}
		if f == nil || f.Type != schema.Reference {
			return w.said(name, v.Member(names[i+1:]))
		}
		id, _ := v.Text()
		next, err := w.tx.Get(f.Collection, id)
		if err != nil {
			return w.a.text("%s is null, as there is no record %s of %s", name, id, f.Collection)
		}
		row, k = next, next.Collection()
	}
	return ""
}

func fieldOf(k *schema.Compiled, name string) *schema.Field {
	if i, ok := k.Index(name); ok {
		return &k.Fields[i]
	}
	return nil
}

// said says what a value is.
func (w *witness) said(name string, v value.Value) string {
	if v.IsNull() {
		return w.a.text("%s is null", name)
	}
	return w.a.text("%s is %s", name, shorten(string(v.AppendJSON(nil)), maxShownValue))
}

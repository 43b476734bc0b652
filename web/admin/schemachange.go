package admin

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/web"
)

// wish is a change of a collection that somebody thinks about. Nothing is stored: the page shows the code that makes it, and
// what its migration would do.
type wish struct {
	What, Name, To, Type, Options, Ref, Default string
	Required, Unique                            bool
}

// wishes are the kinds of a wish, in the order in which the form has them.
func wishes() []string { return []string{"add", "rename", "remove", "type", "require", "index"} }

func wishOf(c *web.Context) wish {
	get := func(name string) string { return strings.TrimSpace(c.Query(name).String()) }
	return wish{get("what"), get("name"), get("to"), get("type"), get("options"), get("ref"), get("default"), get("required") != "", get("unique") != ""}
}

// schemaChange shows a wish as Go code, with the steps of its migration.
func (a *Admin) schemaChange(c *web.Context) error {
	s, err := a.one(c)
	if err != nil {
		return err
	}
	base := s.Collection
	if n := len(s.Migration.Steps); n > 0 {
		base = s.Migration.Steps[n-1].After // what the program has already
	}
	s.Collection = base
	w := wishOf(c)
	w.Type = cmp.Or(w.Type, string(schema.Text))
	locals := web.Locals{"title": a.text("Plan a change of %s", s.Name), "s": s, "w": w, "fields": base.Fields, "types": schema.Types(), "code": []string(nil), "steps": []change(nil), "loses": false, "cost": "", "problem": ""}
	status := http.StatusOK
	if w.What != "" {
		to, code, err := w.apply(base)
		var steps []schema.Step
		if err == nil {
			_, err = to.Compile()
		}
		if err == nil {
			steps, err = schema.Diff(base, to)
		}
		if err != nil {
			status = http.StatusUnprocessableEntity
			locals["problem"] = shorten(err.Error(), 2_000)
		} else {
			all := a.changes(&s, steps)
			locals["code"], locals["steps"], locals["loses"], locals["cost"] = code, all, losing(all), a.workWords(&s, steps)
		}
	}
	return a.show(c, status, "schemachange", locals)
}

// apply returns the collection after the change, and the lines of Go for it: as a field of a struct, and as an element of a
// description.
func (w wish) apply(c schema.Collection) (schema.Collection, []string, error) {
	c.Fields, c.Indexes = slices.Clone(c.Fields), slices.Clone(c.Indexes)
	if w.What == "index" {
		return w.index(c)
	}
	if w.What == "add" {
		f := w.field()
		c.Fields = append(c.Fields, f)
		return c, []string{structCode(f), fieldCode(f)}, nil
	}
	i := slices.IndexFunc(c.Fields, func(f schema.Field) bool { return f.Name == w.Name })
	if i < 0 {
		return c, nil, engine.Errorf(engine.CodeInvalid, "collection %s has no field %.80q", c.Name, w.Name)
	}
	f := c.Fields[i]
	switch w.What {
	case "remove":
		c.Fields = slices.Delete(c.Fields, i, i+1)
		c.Indexes = slices.DeleteFunc(c.Indexes, func(x schema.Index) bool {
			return slices.ContainsFunc(x.Fields, func(g schema.IndexField) bool { return g.Name == w.Name })
		})
		return c, []string{"// delete: " + structCode(f), "// delete: " + fieldCode(f)}, nil
	case "rename":
		f.Was = append(slices.Clone(f.Was), f.Name)
		f.Name = w.To
		c.Indexes = renamed(c.Indexes, w.Name, w.To)
	case "type":
		f = w.retyped(f)
	case "require":
		f.Required, f.Default = w.Required, w.Default
		f.Default = jsonDefault(f)
	default:
		return c, nil, engine.Errorf(engine.CodeInvalid, "unknown change %.40q; the changes are %v", w.What, wishes())
	}
	c.Fields[i] = f
	return c, []string{structCode(f), fieldCode(f)}, nil
}

// field returns the new field of a wish.
func (w wish) field() schema.Field {
	f := schema.Field{Name: w.Name, Required: w.Required, Default: w.Default}
	return w.retyped(f)
}

// retyped returns f with the type of a wish, without what only its former type has.
func (w wish) retyped(f schema.Field) schema.Field {
	n := schema.Field{Name: f.Name, Type: schema.Type(w.Type), Label: f.Label, Hint: f.Hint, Required: f.Required, Default: f.Default, Was: f.Was}
	switch n.Type {
	case schema.Select:
		for o := range strings.SplitSeq(w.Options, "|") {
			n.Options = append(n.Options, strings.TrimSpace(o))
		}
	case schema.Reference:
		n.Collection = w.Ref
	}
	n.Default = jsonDefault(n)
	return n
}

// index adds an index to a collection.
func (w wish) index(c schema.Collection) (schema.Collection, []string, error) {
	names := strings.FieldsFunc(w.Name, func(r rune) bool { return r == ',' || r == ' ' })
	if len(names) == 0 {
		return c, nil, engine.Errorf(engine.CodeInvalid, "the fields of the index are missing, like state,-published")
	}
	x := newIndex(c, names)
	x.Unique = w.Unique
	c.Indexes = append(c.Indexes, x)
	return c, []string{indexCode(x)}, nil
}

// newIndex returns an index as record.By does, with a name that the collection does not have yet.
func newIndex(c schema.Collection, names []string) schema.Index {
	x := record.By(names...)
	x.Name = x.Name[:min(len(x.Name), schema.MaxNameBytes-len("_99"))]
	name := x.Name
	for n := 2; slices.ContainsFunc(c.Indexes, func(y schema.Index) bool { return y.Name == x.Name }); n++ {
		x.Name = fmt.Sprintf("%s_%d", name, n)
	}
	return x
}

// renamed returns indexes with another name of a field.
func renamed(all []schema.Index, from, to string) []schema.Index {
	for i := range all {
		all[i].Fields = slices.Clone(all[i].Fields)
		for j := range all[i].Fields {
			if all[i].Fields[j].Name == from {
				all[i].Fields[j].Name = to
			}
		}
	}
	return all
}

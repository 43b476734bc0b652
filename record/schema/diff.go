package schema

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/record/value"
)

// StepKind is the kind of a Step.
type StepKind string

// The kinds of steps, in the order in which Diff returns them.
const (
	CreateCollection StepKind = "create_collection"
	DropCollection   StepKind = "drop_collection"
	DropIndex        StepKind = "drop_index"
	DropField        StepKind = "drop_field"
	RenameField      StepKind = "rename_field"
	AlterField       StepKind = "alter_field"
	AddField         StepKind = "add_field"
	OrderFields      StepKind = "order_fields"
	AddIndex         StepKind = "add_index"
	SetOption        StepKind = "set_option" // of the collection: label, hint, rules, extra members, history
)

// Step is one step of a migration from one description of a collection to another.
type Step struct {
	Kind       StepKind `json:"kind"`
	Collection string   `json:"collection"`
	Name       string   `json:"name,omitempty"` // of the field, index or option, afterwards
	Text       string   `json:"text"`           // one sentence for people

	// Loses reports that data may be lost, or that existing records may become invalid. Lost finds the affected
	// records.
	Loses bool `json:"loses,omitempty"`

	// After is the description after this step. It is empty after DropCollection.
	After Collection `json:"-"`
}

// String returns the text of the step, marked if data may be lost.
func (s Step) String() string {
	if s.Loses {
		return s.Text + " (may lose data)"
	}
	return s.Text
}

// Diff returns the steps from old to new, two descriptions of one collection; the zero Collection is none. The way back
// is Diff(new, old). A field is renamed only if one of both descriptions says so by Was; otherwise it is dropped and
// another one added. The last step's After is new, with the former names of old kept, and the fields that were dropped,
// as older data still has them. Names and types that older data
// does not allow are an error: Problems about new.
func Diff(old, new Collection) ([]Step, error) {
	switch {
	case old.Name == "" && new.Name == "":
		return nil, nil
	case old.Name == "":
		return []Step{{Kind: CreateCollection, Collection: new.Name, After: new,
			Text: fmt.Sprintf("Create collection %s with %s and %s.", new.Name, counted(len(new.Fields), "field"), counted(len(new.Indexes), "index"))}}, nil
	case new.Name == "":
		return []Step{{Kind: DropCollection, Collection: old.Name, Loses: true, Text: fmt.Sprintf("Drop collection %s with all its records and their history.", old.Name)}}, nil
	}
	d := &differ{now: old.clone(), to: new.clone(), from: map[string]string{}}
	d.match()
	d.carry()
	if err := d.bad.err(); err != nil {
		return nil, err
	}
	d.dropIndexes()
	d.dropFields()
	d.renameFields()
	d.alterFields()
	d.addFields()
	d.addIndexes()
	d.options()
	return d.steps, nil
}

func counted(n int, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case what == "index":
		return fmt.Sprint(n, " indexes")
	}
	return fmt.Sprint(n, " ", what, "s")
}

func (c Collection) clone() Collection {
	c.Fields, c.Indexes, c.Dropped = slices.Clone(c.Fields), slices.Clone(c.Indexes), slices.Clone(c.Dropped)
	return c
}

func (c *Collection) field(name string) int {
	return slices.IndexFunc(c.Fields, func(f Field) bool { return f.Name == name })
}

func (c *Collection) index(name string) int {
	return slices.IndexFunc(c.Indexes, func(x Index) bool { return x.Name == name })
}

// differ goes from one description to another.
type differ struct {
	now, to Collection
	from    map[string]string // names of fields of to → those that they have in now
	steps   []Step
	bad     Problems
}

// step adds a step to the description as it is now.
func (d *differ) step(kind StepKind, name string, loses bool, format string, args ...any) {
	d.steps = append(d.steps, Step{Kind: kind, Collection: d.to.Name, Name: name, Loses: loses, Text: fmt.Sprintf(format, args...), After: d.now.clone()})
}

// match finds for each field which one it was.
func (d *differ) match() {
	for _, f := range d.to.Fields {
		if d.now.field(f.Name) >= 0 {
			d.from[f.Name] = f.Name
			continue
		}
		for _, g := range d.now.Fields {
			if d.to.field(g.Name) < 0 && (slices.Contains(f.Was, g.Name) || slices.Contains(g.Was, f.Name)) {
				d.from[f.Name] = g.Name
				break
			}
		}
	}
}

// carry completes the target by what older data needs: former names and dropped fields.
func (d *differ) carry() {
	was := func(name string) string {
		for _, g := range d.now.Fields {
			if slices.Contains(g.Was, name) {
				return g.Name
			}
		}
		return ""
	}
	for i := range d.to.Fields {
		f := &d.to.Fields[i]
		at := fmt.Sprint("/fields/", i)
		from, known := d.from[f.Name]
		if !known {
			if by := was(f.Name); by != "" {
				d.bad.add(at+"/name", CodeRepeated, "%s is a former name of %s that older data still uses; choose another name", f.Name, by)
			}
			if x := slices.IndexFunc(d.now.Dropped, func(g Field) bool { return g.Name == f.Name }); x >= 0 && d.now.Dropped[x].Type == Password && f.Type != Password {
				d.bad.add(at+"/name", CodeRepeated, "%s was a password field, which the history still has; choose another name", f.Name)
			}
			continue
		}
		g := d.now.Fields[d.now.field(from)]
		if (g.Type == Password) != (f.Type == Password) {
			d.bad.add(at+"/type", CodeInvalid, "a field cannot change its type to or from password; choose another name")
		}
		all := slices.Clone(g.Was)
		for _, name := range append(slices.Clone(f.Was), from) {
			if name != f.Name && !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
		f.Was = slices.DeleteFunc(all, func(name string) bool { return name == f.Name })
	}
	for _, g := range append(slices.Clone(d.now.Dropped), d.gone()...) {
		if d.to.field(g.Name) < 0 && !slices.ContainsFunc(d.to.Dropped, func(h Field) bool { return h.Name == g.Name }) {
			d.to.Dropped = append(d.to.Dropped, g)
		}
	}
}

// gone returns the fields that the target does not have.
func (d *differ) gone() (all []Field) {
	for _, g := range d.now.Fields {
		if !d.stays(g.Name) {
			all = append(all, g)
		}
	}
	return all
}

// stays reports whether a field of now is one of the target.
func (d *differ) stays(name string) bool {
	for _, from := range d.from {
		if from == name {
			return true
		}
	}
	return false
}

// renamed returns an index as it is once fields have their new names.
func (d *differ) renamed(x Index) Index {
	x.Fields = slices.Clone(x.Fields)
	for i := range x.Fields {
		for to, from := range d.from {
			if x.Fields[i].Name == from {
				x.Fields[i].Name = to
				break
			}
		}
	}
	return x
}

func (d *differ) dropIndexes() {
	for _, x := range slices.Clone(d.now.Indexes) {
		if i := d.to.index(x.Name); i >= 0 && reflect.DeepEqual(d.renamed(x), d.to.Indexes[i]) {
			continue
		}
		i := d.now.index(x.Name)
		d.now.Indexes = slices.Delete(d.now.Indexes, i, i+1)
		d.step(DropIndex, x.Name, false, "Drop index %s of %s.", x.Name, d.to.Name)
	}
}

func (d *differ) dropFields() {
	for _, g := range d.gone() {
		i := d.now.field(g.Name)
		d.now.Fields = slices.Delete(d.now.Fields, i, i+1)
		d.now.Dropped = append(d.now.Dropped, g)
		d.step(DropField, g.Name, true, "Drop field %s of %s with its values.", g.Name, d.to.Name)
	}
}

func (d *differ) renameFields() {
	for _, f := range d.to.Fields {
		from, ok := d.from[f.Name]
		if !ok || from == f.Name {
			continue
		}
		i := d.now.field(from)
		g := d.now.Fields[i]
		g.Name, g.Was = f.Name, f.Was
		for j, x := range d.now.Indexes {
			x.Fields = slices.Clone(x.Fields)
			for n := range x.Fields {
				if x.Fields[n].Name == from {
					x.Fields[n].Name = f.Name
				}
			}
			d.now.Indexes[j] = x
		}
		d.now.Fields[i] = g
		d.step(RenameField, f.Name, false, "Rename field %s of %s to %s.", from, d.to.Name, f.Name)
	}
}

func (d *differ) alterFields() {
	for _, f := range d.to.Fields {
		i := d.now.field(f.Name)
		if i < 0 {
			continue
		}
		g := d.now.Fields[i]
		d.now.Fields[i] = f
		if changes := changesOf(g, f); len(changes) > 0 {
			d.step(AlterField, f.Name, narrows(g, f), "Change field %s of %s: %s.", f.Name, d.to.Name, strings.Join(changes, "; "))
		}
	}
}

func (d *differ) addFields() {
	for _, f := range d.to.Fields {
		if d.now.field(f.Name) >= 0 {
			continue
		}
		d.now.Fields = append(d.now.Fields, f)
		d.now.Dropped = slices.DeleteFunc(d.now.Dropped, func(g Field) bool { return g.Name == f.Name })
		required := ""
		if f.Required {
			required = "required "
		}
		d.step(AddField, f.Name, f.Required && !f.fills() || d.now.Extra, "Add the %sfield %s of type %s to %s.", required, f.Name, f.words(), d.to.Name)
	}
	if !slices.EqualFunc(d.now.Fields, d.to.Fields, func(a, b Field) bool { return a.Name == b.Name }) {
		d.now.Fields = slices.Clone(d.to.Fields)
		d.step(OrderFields, "", false, "Change the order of the fields of %s.", d.to.Name)
	}
	d.now.Dropped = d.to.Dropped
}

func (d *differ) addIndexes() {
	for _, x := range d.to.Indexes {
		if d.now.index(x.Name) >= 0 {
			continue
		}
		d.now.Indexes = append(d.now.Indexes, x)
		unique := ""
		if x.Unique {
			unique = "unique "
		}
		var names []string
		for _, f := range x.Fields {
			if f.Desc {
				f.Name = "-" + f.Name
			}
			names = append(names, f.Name)
		}
		d.step(AddIndex, x.Name, false, "Build the %sindex %s of %s on %s.", unique, x.Name, d.to.Name, strings.Join(names, ", "))
	}
	d.now.Indexes = slices.Clone(d.to.Indexes)
}

func (d *differ) options() {
	set := func(name string, old, new any, apply func()) {
		if old == new {
			return
		}
		apply()
		d.step(SetOption, name, false, "Change the %s of %s from %s to %s.", strings.ReplaceAll(name, "_", " "), d.to.Name, shown(old), shown(new))
	}
	n, t := &d.now, &d.to
	set("label", n.Label, t.Label, func() { n.Label = t.Label })
	set("hint", n.Hint, t.Hint, func() { n.Hint = t.Hint })
	if n.Extra != t.Extra {
		n.Extra = t.Extra
		verb := "Refuse and remove"
		if t.Extra {
			verb = "Allow"
		}
		d.step(SetOption, "extra", !t.Extra, "%s members of the data of %s that are not fields.", verb, t.Name)
	}
	if n.History != t.History {
		old := n.History
		n.History = t.History
		loses := t.History.Off && !old.Off || t.History.Keep > 0 && !old.Off && (old.Keep == 0 || t.History.Keep < old.Keep)
		d.step(SetOption, "history", loses, "Keep the history of %s %s, no longer %s.", t.Name, t.History, old)
	}
	for _, r := range []struct {
		name     string
		old, new *string
	}{
		{"list", &n.Rules.List, &t.Rules.List}, {"view", &n.Rules.View, &t.Rules.View}, {"create", &n.Rules.Create, &t.Rules.Create}, {"update", &n.Rules.Update, &t.Rules.Update},
		{"delete", &n.Rules.Delete, &t.Rules.Delete}, {"history", &n.Rules.History, &t.Rules.History}, {"subscribe", &n.Rules.Subscribe, &t.Rules.Subscribe},
	} {
		set(r.name+"_rule", *r.old, *r.new, func() { *r.old = *r.new })
	}
}

// String returns how long changes are kept.
func (h History) String() string {
	switch {
	case h.Off:
		return "only of the last change"
	case h.Keep > 0:
		return "for " + h.Keep.String()
	}
	return "for ever"
}

// shown returns an option as a sentence has it.
func shown(v any) string {
	if v == "" {
		return "nothing"
	}
	if text, ok := v.(string); ok {
		return string(value.AppendText(nil, text))
	}
	return fmt.Sprint(v)
}

// changesOf returns what differs between two forms of a field, for people.
func changesOf(g, f Field) (all []string) {
	was, is := fieldOptions(g), fieldOptions(f)
	for i, o := range is {
		if old := was[i].text; old != o.text {
			all = append(all, fmt.Sprintf("%s from %s to %s", o.name, shown(old), shown(o.text)))
		}
	}
	return all
}

type fieldOption struct{ name, text string }

func fieldOptions(f Field) []fieldOption {
	yes := func(b bool) string {
		if b {
			return "yes"
		}
		return "no"
	}
	return []fieldOption{
		{"type", string(f.Type)}, {"several", yes(f.Many)}, {"required", yes(f.Required)}, {"default", f.Default}, {"min", f.Min}, {"max", f.Max}, {"pattern", f.Pattern},
		{"scale", fmt.Sprint(f.Scale)}, {"options", strings.Join(f.Options, "|")}, {"collection", f.Collection}, {"on delete", string(f.OnDelete)}, {"label", f.Label}, {"hint", f.Hint},
	}
}

// fills reports whether records that are there get a value of a field that becomes required.
func (f *Field) fills() bool { return f.Default != "" && f.Default[0] != '@' }

// narrows reports whether f refuses or cannot hold what g could have.
func narrows(g, f Field) bool {
	if f.Required && !g.Required && !f.fills() || f.Pattern != g.Pattern && f.Pattern != "" {
		return true
	}
	if f.Type != g.Type || f.Many != g.Many {
		return !widens(g, f)
	}
	for _, o := range g.Options {
		if !slices.Contains(f.Options, o) {
			return true
		}
	}
	return f.Scale > 0 && (g.Scale == 0 || f.Scale < g.Scale) || f.Collection != g.Collection || tighter(f, g.Min, f.Min, 1) || tighter(f, g.Max, f.Max, -1)
}

// tighter reports whether a bound has moved in the direction of sign.
func tighter(f Field, old, new string, sign int) bool {
	if new == "" || old == new {
		return false
	}
	c := field{Field: f, kind: kinds[f.Type]}
	a, err := c.bound(f.bounded(), old)
	b, err2 := c.bound(f.bounded(), new)
	return err != nil || err2 != nil || value.Compare(b, a)*sign > 0
}

// widens reports whether a field of another type holds all values of g: every text without a bound, and json.
func widens(g, f Field) bool {
	if f.Min != "" || f.Max != "" || f.Required && !g.Required {
		return false
	}
	switch f.Type {
	case JSON:
		return true
	case Text:
		return !g.Many && g.Type != JSON && f.Pattern == ""
	case Decimal:
		return g.Type == Int
	case Select:
		return f.Many && g.Type == Select && !slices.ContainsFunc(g.Options, func(o string) bool { return !slices.Contains(f.Options, o) })
	}
	return false
}

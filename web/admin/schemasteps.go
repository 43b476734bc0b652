package admin

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

// change is a step of a migration for people.
type change struct {
	Text, Cost string
	Loses      bool
}

// loss is what a step would lose.
type loss struct {
	Collection, Text string
	Records          uint64
	IDs              []lost
}

// lost is a record that would lose data.
type lost struct{ ID, Path string }

// lossesOf returns losses for people.
func lossesOf(all []record.Loss) []loss {
	var list []loss
	for _, l := range all {
		x := loss{Collection: l.Step.Collection, Text: l.Step.Text, Records: l.Records}
		for _, id := range l.IDs {
			x.IDs = append(x.IDs, lost{id, Prefix + recordPath(l.Step.Collection, id)})
		}
		list = append(list, x)
	}
	return list
}

// lossesIn returns the losses that an error reports.
func lossesIn(err error) []loss {
	if l, ok := errors.AsType[*record.LossError](err); ok {
		return lossesOf(l.Losses)
	}
	return nil
}

// changes returns steps for people.
func (a *Admin) changes(s *stored, steps []schema.Step) []change {
	var all []change
	for _, x := range steps {
		all = append(all, change{x.Text, a.costWords(s, x), x.Loses})
	}
	return all
}

// costWords says what one step does to the records.
func (a *Admin) costWords(s *stored, x schema.Step) string {
	switch {
	case x.Kind == schema.CreateCollection:
		return a.text("Costs nothing: it has no records yet. The first write does it by itself.")
	case x.Kind == schema.AddIndex:
		return a.text("Builds an index: each record is read and gets an entry.")
	case x.Kind == schema.DropIndex:
		return a.text("Deletes the entries of the index. Queries that use it read more records, or are refused.")
	case x.Kind == schema.DropField && s.History.Off:
		return a.text("Rewrites each record that has a value. The values are gone: this collection keeps no history.")
	case x.Kind == schema.DropField:
		return a.text("Rewrites each record that has a value. The values remain in the history only.")
	case x.Rewrites():
		return a.text("Rewrites each record that has no value: it gets the default, and a new revision.")
	case x.Kind == schema.AlterField && rebuilds(s.Collection, x):
		return a.text("Rewrites no records: older values are converted on read. Indexes on the field are rebuilt.")
	case x.Kind == schema.AlterField, x.Kind == schema.RenameField:
		return a.text("Changes only the description: older records are read in the new form.")
	}
	return a.text("Changes only the description.")
}

// rebuilds reports whether a step gives a field of an index another type.
func rebuilds(now schema.Collection, x schema.Step) bool {
	typeOf := func(c schema.Collection) schema.Type {
		for _, f := range c.Fields {
			if f.Name == x.Name || slices.Contains(f.Was, x.Name) {
				return f.Type
			}
		}
		return ""
	}
	indexed := slices.ContainsFunc(x.After.Indexes, func(i schema.Index) bool {
		return slices.ContainsFunc(i.Fields, func(f schema.IndexField) bool { return f.Name == x.Name })
	})
	return indexed && typeOf(now) != typeOf(x.After)
}

// Bounds of the estimates: the records that a server reads and writes for a migration in a second, on one slow and on one fast
// core, and what an entry of an index takes.
const (
	slowRecords = 3_000
	fastRecords = 30_000
	entryBytes  = 150
)

// workWords says what a whole migration costs.
func (a *Admin) workWords(s *stored, steps []schema.Step) string {
	indexes, rewrites := 0, false
	for _, x := range steps {
		if x.Kind == schema.AddIndex || x.Kind == schema.AlterField && rebuilds(s.Collection, x) {
			indexes++
		}
		rewrites = rewrites || x.Rewrites()
	}
	switch {
	case len(steps) == 0:
		return ""
	case indexes == 0 && !rewrites:
		return a.text("This changes descriptions only, at once; no record is read or written.")
	case !s.Counted:
		return a.text("The server reads each record once, in transactions of at most 500, while requests go on. It does not know how many there are.")
	}
	n := s.Live + s.Trash
	text := a.text("The server reads %s records once, in transactions of at most 500, while requests go on. Expect %s on an idle server, longer on a busy one or over a network.", numberText(n), a.timeWords(n))
	if indexes > 0 {
		text += " " + a.text("The entries of new indexes take about %s, in memory if the engine keeps its data there.", byteText(float64(n)*entryBytes*float64(indexes)))
	}
	if rewrites {
		text += " " + a.text("Each record whose values change gets a new revision, so the history grows.")
	}
	return text
}

// timeWords says how long it takes to read and write n records, within an order of magnitude.
func (a *Admin) timeWords(n uint64) string {
	switch slow, fast := n/slowRecords, n/fastRecords; {
	case slow < 2:
		return a.text("about a second")
	case slow < 60:
		return a.text("up to a minute")
	case slow < 600:
		return a.text("some minutes, at most ten")
	case slow < 3600:
		return a.text("between %d minutes and an hour", max(1, fast/60))
	default:
		return a.text("between %d minutes and %d hours", max(1, fast/60), slow/3600+1)
	}
}

// stateWords says how a stored collection is.
func (a *Admin) stateWords(m record.Migration) (parts []string) {
	switch {
	case m.Refused != "":
		parts = append(parts, a.text("cannot be migrated: %s", m.Refused))
	case m.Version == 0 && m.Progress == nil:
		parts = append(parts, a.text("not stored yet"))
	case len(m.Steps) > 0:
		parts = append(parts, a.text("%d pending steps", len(m.Steps)))
	case m.Version > 0 && !m.Undefined && m.Progress == nil:
		parts = append(parts, a.text("up to date"))
	}
	if m.Undefined {
		parts = append(parts, a.text("not defined by the program"))
	}
	if m.Progress != nil {
		parts = append(parts, a.progressWords(m.Progress))
	}
	return parts
}

// progressWords says how far the work after a migration is.
func (a *Admin) progressWords(p *record.Progress) string {
	what := strings.Join(p.What, ", ")
	switch {
	case p.Failed != "":
		return a.text("%s stopped: %s", what, p.Failed)
	case p.Of > 0:
		return a.text("%s: %d of %d records", what, p.Done, p.Of)
	}
	return what
}

// fieldRow is a field as the page shows it.
type fieldRow struct {
	schema.Field
	Bounds, About string
	Path          string // of the collection that it refers to
}

func (a *Admin) fieldRows(fields []schema.Field) []fieldRow {
	var all []fieldRow
	for _, f := range fields {
		r := fieldRow{Field: f, Bounds: a.boundWords(f)}
		switch {
		case f.Type == schema.Reference:
			r.Path = Prefix + "/schema/" + url.PathEscape(f.Collection)
			r.About = map[schema.OnDelete]string{
				schema.Restrict: a.text("keeps the other record from being deleted"),
				schema.Cascade:  a.text("is deleted with it"),
				schema.SetNull:  a.text("loses the reference when it is deleted"),
			}[f.OnDelete]
		case len(f.Was) > 0:
			r.About = a.text("formerly %s", strings.Join(f.Was, ", "))
		}
		all = append(all, r)
	}
	return all
}

// boundWords returns the bounds of a field.
func (a *Admin) boundWords(f schema.Field) string {
	var parts []string
	switch {
	case f.Min != "" && f.Max != "":
		parts = append(parts, f.Min+" – "+f.Max)
	case f.Min != "":
		parts = append(parts, a.text("at least %s", f.Min))
	case f.Max != "":
		parts = append(parts, a.text("at most %s", f.Max))
	}
	if f.Scale > 0 {
		parts = append(parts, a.text("%d digits after the point", f.Scale))
	}
	if f.Pattern != "" {
		parts = append(parts, a.text("matches %s", f.Pattern))
	}
	if len(f.Options) > 0 {
		parts = append(parts, shorten(strings.Join(f.Options, " | "), 500))
	}
	if f.Many {
		parts = append(parts, a.text("several"))
	}
	return strings.Join(parts, ", ")
}

// indexFields returns the fields of an index, as record.By reads them.
func indexFields(x schema.Index) string {
	var all []string
	for _, f := range x.Fields {
		if f.Desc {
			all = append(all, "-"+f.Name)
		} else {
			all = append(all, f.Name)
		}
	}
	return strings.Join(all, ", ")
}

package records

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/problem"
)

// Mistakes that one response lists.
const (
	maxMistakes    = 100   // of an import that has written nothing because of them
	maxAllMistakes = 1_000 // of others, and then the first one of each further row
)

// Media types of files.
const (
	csvType  = "text/csv"
	jsonType = "application/jsonl"
)

// fileType returns the media type of a file to import, or "" for any other body.
func fileType(header string) string {
	media, _, err := mime.ParseMediaType(header)
	switch {
	case err != nil:
		return ""
	case media == csvType:
		return csvType
	case media == jsonType || media == "application/x-ndjson" || media == "application/x-jsonlines":
		return jsonType
	}
	return ""
}

// Imported is the result of an import, and the response to it.
type Imported struct {
	Created int       `json:"created"`
	Updated int       `json:"updated"`
	Skipped int       `json:"skipped"`
	Failed  int       `json:"failed"`
	DryRun  bool      `json:"dry_run,omitempty"`
	Errors  []Mistake `json:"errors,omitempty"`
	Pending []Pending `json:"pending,omitempty"`
}

// Pending is a reference to a missing record of the same collection, which another import may create.
type Pending struct {
	Line   int    `json:"line"`
	Column int    `json:"column,omitempty"`
	Field  string `json:"field"`
	ID     string `json:"id"`               // of the record that is not there
	Update bool   `json:"update,omitempty"` // the row would change a record, rather than create one
}

// add adds the mistakes of one row.
func (in *Imported) add(all ...Mistake) {
	in.Failed++
	for i, m := range all {
		if i == 0 || len(in.Errors) < maxAllMistakes {
			in.Errors = append(in.Errors, m)
		}
	}
}

// importOptions are the parameters of an import.
type importOptions struct {
	media    string
	existing string // what happens to records whose id exists: "" (refuse), skip, update
	partial  bool   // import the rows without mistakes
	dryRun   bool
	pending  bool // in a dry run, references to records of the same collection may be missing
}

func importOptionsOf(c *web.Context, media string) (o importOptions, err error) {
	o.media = media
	flags := map[string]*bool{"partial": &o.partial, "dry_run": &o.dryRun, "pending": &o.pending}
	for name := range c.Request.URL.Query() {
		v := c.Query(name)
		switch to := flags[name]; {
		case to != nil && v.String() == "":
			*to = true
		case to != nil:
			*to, err = v.Bool()
		case name == "existing":
			o.existing, err = v.OneOf("refuse", "skip", "update")
		default:
			err = web.WrongParameter(name, "there is no such parameter; an import takes existing, partial, dry_run and pending")
		}
		if err != nil {
			return o, err
		}
	}
	if o.pending && !o.dryRun {
		return o, web.WrongParameter("pending", "is for dry runs")
	}
	return o, nil
}

// errDryRun rolls back a dry run.
var errDryRun = errors.New("records: a dry run")

// load imports the file in the body of the request, in one transaction.
func (f *Face) load(c *web.Context, media string) error {
	o, err := importOptionsOf(c, media)
	if err != nil {
		return err
	}
	ops := []record.Operation{record.Create}
	if o.existing == "update" {
		ops = append(ops, record.Update)
	}
	if err := f.mayChange(c, ops...); err != nil {
		return err
	}
	end, err := f.begin(c, f.turns.writing)
	if err != nil {
		c.RefuseBody()
		return err
	}
	defer end()
	body, err := c.ReadBody()
	if err != nil {
		return err
	}
	var a answer
	run := func(tx *record.Tx, to *answer) error {
		done, err := importRows(tx, name(c), body, o)
		if err != nil {
			return err
		}
		if done.Failed > 0 && !o.partial {
			return done.refused()
		}
		done.DryRun = o.dryRun
		text, err := json.Marshal(done)
		if err != nil {
			return engine.Errorf(engine.CodeInternal, "encode a response: %w", err)
		}
		counts := *done
		counts.Errors = nil
		short, err := json.Marshal(counts)
		if err != nil {
			return engine.Errorf(engine.CodeInternal, "encode a response: %w", err)
		}
		*to = answer{Status: http.StatusOK, Body: text, Short: short}
		if o.dryRun {
			a = *to
			return errDryRun
		}
		return nil
	}
	if err := f.write(c, run, body); !errors.Is(err, errDryRun) {
		return err
	}
	return a.send(c)
}

// refused returns the error of an import that wrote nothing.
func (in *Imported) refused() error {
	var faults problem.Faults
	for _, m := range in.Errors[:min(len(in.Errors), maxMistakes)] {
		faults = append(faults, problem.Fault{Code: engine.Code(m.Code), Detail: m.String()})
	}
	return &explained{engine.Errorf(record.CodeInvalid, "%d of the rows cannot be imported; nothing was written: %s", in.Failed, in.Errors[0].String()), faults}
}

// importRows imports the rows of a file. It returns an error only if it is not about single rows.
func importRows(tx *record.Tx, collection string, body []byte, o importOptions) (*Imported, error) {
	k, err := tx.Collection(collection)
	if err != nil {
		return nil, err
	}
	var r reader = newJSONReader(body)
	if o.media == csvType {
		r = newCSVReader(body, k)
	}
	in := &Imported{}
	rows := newSorter(k)
	for n := 0; ; n++ {
		x, m, err := r.next()
		if m != nil {
			in.add(*m)
		}
		switch {
		case errors.Is(err, io.EOF):
			return in, in.sorted(tx, k, rows, o)
		case errors.Is(err, errBroken):
			return nil, in.refused() // even with partial: what the rows are is not known
		case m != nil:
			continue
		case n >= MaxImport:
			return nil, engine.Errorf(engine.CodeLimit, "the file has more than %d records; import them in several requests", MaxImport)
		case len(rows.fields) > 0:
			rows.add(x)
			continue
		}
		if err := in.row(tx, k, x, o); err != nil {
			return nil, err
		}
	}
}

// sorted imports rows that may refer to each other.
func (in *Imported) sorted(tx *record.Tx, k *schema.Compiled, rows *sorter, o importOptions) error {
	for _, x := range rows.sort() {
		if err := in.row(tx, k, *x, o); err != nil {
			return err
		}
	}
	slices.SortStableFunc(in.Errors, func(a, b Mistake) int { return cmp.Compare(a.Line, b.Line) })
	return nil
}

// row imports one row.
func (in *Imported) row(tx *record.Tx, k *schema.Compiled, x row, o importOptions) error {
	op := record.Op{Kind: keys.Create, Collection: k.Name, ID: x.id, Data: x.data}
	count := &in.Created
	if x.id != "" && o.existing != "" && o.existing != "refuse" {
		_, err := tx.Get(k.Name, x.id)
		switch {
		case err == nil && o.existing == "skip":
			in.Skipped++
			return nil
		case err == nil:
			op.Kind, count = keys.Update, &in.Updated
		case !errors.Is(err, record.ErrNotFound):
			return err
		}
	}
	_, err := tx.Do(op)
	if err == nil {
		*count++
		return nil
	}
	e, ok := errors.AsType[*engine.Error](err)
	if !ok || !public(e.Code) {
		return err
	}
	problems, ok := errors.AsType[schema.Problems](err)
	if !ok {
		in.add(Mistake{Line: x.line, Code: string(e.Code), Detail: e.Msg})
		return nil
	}
	var all []Mistake
	var pending []Pending
	for _, p := range problems {
		field := strings.TrimPrefix(p.Pointer, "/")
		at := x.of(field)
		to, refers := x.refers[field]
		if refers = refers && p.Code == schema.CodeUnknown; refers && to.line > 0 {
			p.Detail += fmt.Sprintf("; that of line %d cannot be imported before this one", to.line)
		}
		if refers && o.pending && !x.cyclic {
			pending = append(pending, Pending{at.line, at.column, field, to.id, op.Kind == keys.Update})
			continue
		}
		all = append(all, Mistake{at.line, at.column, field, p.Code, p.Detail})
	}
	if len(all) > 0 {
		in.add(all...)
		return nil
	}
	*count++
	in.Pending = append(in.Pending, pending...)
	return nil
}

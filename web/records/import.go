package records

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/problem"
)

// maxMistakes is how many mistakes one response lists.
const maxMistakes = 100

// Media types of files.
const (
	csvType  = "text/csv"
	jsonType = "application/jsonl"
)

// fileType returns the media type of a body that is a file to import, "" for any other body.
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

// Imported is what an import has done, the response to it.
type Imported struct {
	Created int       `json:"created"`
	Updated int       `json:"updated"`
	Skipped int       `json:"skipped"`
	Failed  int       `json:"failed"`
	DryRun  bool      `json:"dry_run,omitempty"`
	Errors  []Mistake `json:"errors,omitempty"`
}

// add adds a mistake.
func (in *Imported) add(m Mistake) {
	if in.Failed++; len(in.Errors) < maxMistakes {
		in.Errors = append(in.Errors, m)
	}
}

// importOptions are the parameters of an import.
type importOptions struct {
	media    string
	existing string // what happens to records whose id exists: "" (refuse), skip, update
	partial  bool   // import the rows without mistakes
	dryRun   bool
}

func importOptionsOf(c *web.Context, media string) (o importOptions, err error) {
	o.media = media
	flags := map[string]*bool{"partial": &o.partial, "dry_run": &o.dryRun}
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
			err = web.WrongParameter(name, "an import has the parameters existing, partial and dry_run")
		}
		if err != nil {
			return o, err
		}
	}
	return o, nil
}

// errDryRun takes back a dry run.
var errDryRun = errors.New("records: a dry run")

// load imports the file in the body of the request in one transaction.
func (f *Face) load(c *web.Context, media string) error {
	o, err := importOptionsOf(c, media)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(c.Request.Body)
	if err != nil {
		return web.BodyError(err)
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
		*to = answer{Status: http.StatusOK, Body: text}
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

// refused returns the error of an import that has written nothing.
func (in *Imported) refused() error {
	var faults problem.Faults
	for _, m := range in.Errors {
		faults = append(faults, problem.Fault{Code: engine.Code(m.Code), Detail: m.String()})
	}
	return &explained{engine.Errorf(record.CodeInvalid, "%d of the rows cannot be imported; nothing was written: %s", in.Failed, in.Errors[0].String()), faults}
}

// importRows imports the rows of a file. An error is not about single rows.
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
	for n := 0; ; n++ {
		x, m, err := r.next()
		if m != nil {
			in.add(*m)
		}
		switch {
		case errors.Is(err, io.EOF):
			return in, nil
		case errors.Is(err, errBroken):
			return nil, in.refused() // even with partial: what the rows are is not known
		case m != nil:
			continue
		case n >= MaxImport:
			return nil, engine.Errorf(engine.CodeLimit, "more than %d records; import them in several requests", MaxImport)
		}
		if err := in.row(tx, collection, x, o); err != nil {
			return nil, err
		}
	}
}

// row imports one row.
func (in *Imported) row(tx *record.Tx, collection string, x row, o importOptions) error {
	op := record.Op{Kind: keys.Create, Collection: collection, ID: x.id, Data: x.data}
	count := &in.Created
	if x.id != "" && o.existing != "" && o.existing != "refuse" {
		_, err := tx.Get(collection, x.id)
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
	for i, p := range problems {
		field := strings.TrimPrefix(p.Pointer, "/")
		at := x.of(field)
		if in.add(Mistake{at.line, at.column, field, p.Code, p.Detail}); i > 0 {
			in.Failed-- // one row
		}
	}
	return nil
}

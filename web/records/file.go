package records

import (
	"errors"
	"io"
	"net/url"

	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/problem"
)

// File is a file to import, for faces that have their own way of uploading one.
type File struct {
	Format   string // csv or jsonl
	Body     []byte
	Existing string // what happens to records whose id exists: refuse ("" too), skip or update
}

func (f File) media() (string, error) {
	media := formats[f.Format]
	if media == "" {
		return "", web.WrongParameter("format", "must be csv or jsonl")
	}
	return media, nil
}

// Import imports the rows of a file within a transaction, as a POST of the file does. Rows with mistakes are listed in the
// result and left out: the caller decides whether to commit. The error is about the file as a whole; it wraps problem.Faults
// if the rest of the file cannot be read.
func Import(tx *record.Tx, collection string, f File) (*Imported, error) {
	media, err := f.media()
	if err != nil {
		return nil, err
	}
	return importRows(tx, collection, f.Body, importOptions{media: media, existing: f.Existing, partial: true})
}

// Row is a row of a file as it was read.
type Row struct {
	Line int    `json:"line"`
	ID   string `json:"id,omitempty"`
	Data []byte `json:"-"` // JSON
}

// Rows returns the first rows of a file that can be read, at most n.
func (f File) Rows(k *schema.Compiled, n int) ([]Row, error) {
	media, err := f.media()
	if err != nil {
		return nil, err
	}
	var r reader = newJSONReader(f.Body)
	if media == csvType {
		r = newCSVReader(f.Body, k)
	}
	var all []Row
	for len(all) < n {
		x, m, err := r.next()
		if errors.Is(err, io.EOF) || errors.Is(err, errBroken) {
			break
		}
		if m == nil {
			all = append(all, Row{x.line, x.id, x.data})
		}
	}
	return all, nil
}

// Export streams the records of the collection that the request's path names as {collection}, as a listing with the
// parameters format (csv or jsonl), filter, sort and others does.
func (f *Face) Export(c *web.Context, params url.Values) error {
	media, err := formatOf(c, params)
	if err == nil && media == "" {
		err = web.WrongParameter("format", "must be csv or jsonl")
	}
	if err != nil {
		return err
	}
	return explain(f.export(c, params, media))
}

// Mistakes returns the faults that an error of an import lists, as texts with their lines.
func Mistakes(err error) (all []string) {
	faults, _ := errors.AsType[problem.Faults](err)
	for _, f := range faults {
		all = append(all, f.Detail)
	}
	return all
}

package records

import (
	"bytes"
	"encoding/csv"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/web"
)

// exportStep is how many records an export reads at once. The records of different steps are not of the same moment.
const exportStep = 200

// formats are the media types of exports by the parameter format.
var formats = map[string]string{"csv": csvType, "jsonl": jsonType}

// formatOf removes the format from the parameters of a listing and returns its media type, "" for a page.
func formatOf(c *web.Context, params url.Values) (string, error) {
	format, given := params["format"]
	delete(params, "format")
	switch media := formats[strings.Join(format, ",")]; {
	case media != "":
		return media, nil
	case given:
		return "", web.WrongParameter("format", "must be csv or jsonl")
	}
	return fileType(c.Request.Header.Get("Accept")), nil
}

// export streams all records that meet a query and that the sender may see.
func (f *Face) export(c *web.Context, params url.Values, media string) error {
	for _, name := range []string{"limit", "offset", "count", "after", "group", "aggregate", "expand"} {
		if params.Has(name) {
			return web.WrongParameter(name, "an export has all records, each on a line of its own")
		}
	}
	if media == csvType && params.Has("fields") {
		return web.WrongParameter("fields", "CSV has all fields")
	}
	steps := &exportReader{f: f, c: c, params: params, media: media}
	if c.Request.Method == http.MethodHead {
		if err := steps.step(); err != nil {
			return err
		}
		c.Header()["Content-Type"] = []string{media + "; charset=utf-8"}
		c.Writer.WriteHeader(http.StatusOK)
		return nil
	}
	return c.Stream(http.StatusOK, media+"; charset=utf-8", steps) // breaks off the response if a later step fails
}

// exportReader reads an export, step by step.
type exportReader struct {
	f      *Face
	c      *web.Context
	params url.Values
	media  string

	begun, ended bool
	out          bytes.Buffer // records that were not read yet
}

// Read implements io.Reader.
func (r *exportReader) Read(p []byte) (int, error) {
	for r.out.Len() == 0 {
		if r.ended {
			return 0, io.EOF
		}
		if err := r.step(); err != nil {
			return 0, err
		}
	}
	return r.out.Read(p)
}

// step reads the next records. The first step sets the headers.
func (r *exportReader) step() error {
	collection, next := name(r.c), ""
	err := r.f.view(r.c, func(tx *record.Tx) error {
		r.out.Reset()
		k, err := tx.Collection(collection)
		if err != nil {
			return err
		}
		q, err := tx.ParseQuery(collection, r.params)
		if err != nil {
			return err
		}
		q.Limit = exportStep
		page, err := tx.Find(collection, q)
		if err != nil {
			return err
		}
		next = page.Next
		return appendRows(&r.out, k, page, r.media, !r.begun)
	})
	if err != nil {
		return err
	}
	r.params.Set("after", next)
	r.ended = next == ""
	if r.begun {
		return nil
	}
	r.begun = true
	r.c.Header()["Cache-Control"] = []string{"no-store"}
	r.c.Attachment(collection + "." + map[string]string{csvType: "csv", jsonType: "jsonl"}[r.media])
	// A deadline for the request would end a long response: an expired one looks like a client that has gone away.
	_ = http.NewResponseController(r.c.Writer).SetReadDeadline(time.Time{}) // a writer of a test has none
	return nil
}

// appendRows writes the records of a page.
func appendRows(out *bytes.Buffer, k *schema.Compiled, page *record.Page, media string, header bool) error {
	if media == jsonType {
		for i := range page.Items {
			out.Write(append(page.AppendItem(out.AvailableBuffer(), i), '\n'))
		}
		return nil
	}
	w := csv.NewWriter(out)
	if header {
		if err := w.Write(csvHeader(k)); err != nil {
			return engine.Errorf(engine.CodeInternal, "encode CSV: %w", err)
		}
	}
	for _, r := range page.Items {
		var cells []string
		for _, name := range csvHeader(k) {
			cells = append(cells, cellOf(k, r, name))
		}
		if err := w.Write(cells); err != nil {
			return engine.Errorf(engine.CodeInternal, "encode CSV: %w", err)
		}
	}
	w.Flush()
	return w.Error()
}

// cellOf returns a value as csvReader reads it.
func cellOf(k *schema.Compiled, r *record.Record, name string) string {
	v := r.Value(name)
	if i, ok := k.Index(name); ok && k.Fields[i].Type == schema.JSON && !v.IsNull() {
		return string(v.AppendJSON(nil))
	}
	return v.String()
}

// csvHeader returns the names of the columns: the id, the fields without passwords, and then the other properties.
func csvHeader(k *schema.Compiled) []string {
	all := []string{"id"}
	for _, f := range k.Fields {
		if f.Type != schema.Password {
			all = append(all, f.Name)
		}
	}
	for i, c := range schema.Columns() {
		if i > 0 {
			all = append(all, c.Name)
		}
	}
	return all
}

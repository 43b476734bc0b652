package records

import (
	"bytes"
	"encoding/csv"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/query"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/web"
)

// exportStep is how many records an export reads at once. All steps read the same snapshot.
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

// export streams all records that match a query and that the client may see, from one snapshot.
func (f *Face) export(c *web.Context, params url.Values, media string) error {
	for _, name := range []string{"limit", "offset", "count", "after", "group", "aggregate", "expand"} {
		if params.Has(name) {
			return web.WrongParameter(name, "cannot be used in an export, which has all records, one per line")
		}
	}
	if media == csvType && params.Has("fields") {
		return web.WrongParameter("fields", "cannot be used with CSV, which has all fields")
	}
	return f.stream(c, &exportReader{rest: []string{name(c)}, file: name(c), params: params, media: media})
}

// exportSeveral streams all records of several collections that the client may see, from one snapshot, as JSON lines.
// The first member of each line is its collection.
func (f *Face) exportSeveral(c *web.Context) error {
	params, err := url.ParseQuery(c.Request.URL.RawQuery)
	if err != nil {
		return web.WrongParameter("", "the query string is malformed: %v", err)
	}
	for name := range params {
		if name != "collection" {
			return web.WrongParameter(name, "there is no such parameter; an export of several collections takes only collection")
		}
	}
	all := params["collection"]
	switch n := len(all); {
	case n == 0:
		return web.WrongParameter("collection", "is missing; give it once for each collection to export")
	case n > MaxExport:
		return engine.Errorf(engine.CodeLimit, "%d collections; one export has at most %d", n, MaxExport)
	}
	for i, name := range all {
		if slices.Contains(all[:i], name) {
			return web.WrongParameter("collection", "%.80q appears twice", name)
		}
		if err := within(c, name, record.List); err != nil {
			return err
		}
	}
	return f.stream(c, &exportReader{rest: all, named: true, file: "records", params: url.Values{}, media: jsonType})
}

// stream responds with an export. The engine keeps the snapshot for as long as the response takes.
func (f *Face) stream(c *web.Context, r *exportReader) error {
	end, err := f.begin(c, f.turns.exports)
	if err != nil {
		return err
	}
	defer end()
	begun := false
	return f.view(c, func(tx *record.Tx) error {
		if begun {
			return engine.Errorf(engine.CodeUnavailable, "the exported snapshot is no longer available; start again")
		}
		r.tx = tx
		if err := r.check(); err != nil {
			return err
		}
		begun = true
		c.Header()["Cache-Control"] = []string{"no-store"}
		c.Attachment(r.file + "." + map[string]string{csvType: "csv", jsonType: "jsonl"}[r.media])
		if c.Request.Method == http.MethodHead {
			c.Header()["Content-Type"] = []string{r.media + "; charset=utf-8"}
			c.Writer.WriteHeader(http.StatusOK)
			return nil
		}
		// A deadline for the request would end a long response: an expired one looks like a client that has gone away.
		_ = http.NewResponseController(c.Writer).SetReadDeadline(time.Time{}) // a writer of a test has none
		return c.Stream(http.StatusOK, r.media+"; charset=utf-8", r)          // breaks off the response if a later step fails
	})
}

// exportReader reads an export step by step, in one transaction.
type exportReader struct {
	tx     *record.Tx
	rest   []string // collections to read, the first of which is being read
	named  bool     // each record has the name of its collection
	file   string   // name without its extension
	params url.Values
	media  string

	query *query.Query // of the first collection; nil: not begun
	out   bytes.Buffer // records that were not read yet
}

// check returns errors about missing collections and rules before the export begins.
func (r *exportReader) check() error {
	for _, name := range r.rest {
		q, err := r.tx.ParseQuery(name, r.params)
		if err != nil {
			return err
		}
		q.Limit = 1
		if _, err := r.tx.Find(name, q); err != nil {
			return err
		}
	}
	return nil
}

// Read implements io.Reader.
func (r *exportReader) Read(p []byte) (int, error) {
	for r.out.Len() == 0 {
		if len(r.rest) == 0 {
			return 0, io.EOF
		}
		if err := r.step(); err != nil {
			return 0, err
		}
	}
	return r.out.Read(p)
}

// step reads the next records.
func (r *exportReader) step() error {
	collection := r.rest[0]
	k, err := r.tx.Collection(collection)
	if err != nil {
		return err
	}
	first := r.query == nil
	if first {
		if r.query, err = r.tx.ParseQuery(collection, r.params); err != nil {
			return err
		}
		r.query.Limit = exportStep
	}
	page, err := r.tx.Find(collection, r.query)
	if err != nil {
		return err
	}
	r.out.Reset()
	if err := r.appendRows(k, page, first); err != nil {
		return err
	}
	if page.Next == "" {
		r.rest, r.query = r.rest[1:], nil
		return nil
	}
	r.query.After = r.query.Orders.Key(page.Items[len(page.Items)-1])
	return nil
}

// appendRows writes the records of a page to out.
func (r *exportReader) appendRows(k *schema.Compiled, page *record.Page, first bool) error {
	if r.media == jsonType {
		for i := range page.Items {
			line := r.out.AvailableBuffer()
			if r.named {
				line = append(strconv.AppendQuote(append(line, `{"collection":`...), k.Name), ',')
			}
			at := len(line)
			if line = page.AppendItem(line, i); r.named {
				line = append(line[:at], line[at+1:]...) // without its brace
			}
			r.out.Write(append(line, '\n'))
		}
		return nil
	}
	w := csv.NewWriter(&r.out)
	if first {
		if err := w.Write(csvHeader(k)); err != nil {
			return engine.Errorf(engine.CodeInternal, "encode CSV: %w", err)
		}
	}
	for _, x := range page.Items {
		var cells []string
		for _, name := range csvHeader(k) {
			cells = append(cells, cellOf(k, x, name))
		}
		if err := w.Write(cells); err != nil {
			return engine.Errorf(engine.CodeInternal, "encode CSV: %w", err)
		}
	}
	w.Flush()
	return w.Error()
}

// cellOf returns a value in the notation that csvReader reads.
func cellOf(k *schema.Compiled, r *record.Record, name string) string {
	v := r.Value(name)
	if i, ok := k.Index(name); ok && k.Fields[i].Type == schema.JSON && !v.IsNull() {
		return string(v.AppendJSON(nil))
	}
	return v.String()
}

// csvHeader returns the names of the columns: the id, the fields without passwords, and the other columns.
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

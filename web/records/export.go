package records

import (
	"bytes"
	"encoding/csv"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/query"
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
	var out bytes.Buffer
	var q *query.Query
	for begun := false; ; begun = true {
		var last []byte
		err := f.view(c, func(tx *record.Tx) error {
			out.Reset()
			k, err := tx.Collection(name(c))
			if err != nil {
				return err
			}
			if q, err = tx.ParseQuery(name(c), params); err != nil {
				return err
			}
			q.Limit = exportStep
			page, err := tx.Find(name(c), q)
			if err != nil {
				return err
			}
			last = []byte(page.Next)
			return appendRows(&out, k, page, media, !begun)
		})
		if err != nil {
			return err // after the first step it breaks off the response, so that nobody takes it for the whole
		}
		if !begun {
			c.Header()["Content-Type"] = []string{media + "; charset=utf-8"}
			c.Header()["Cache-Control"] = []string{"no-store"}
			c.Attachment(name(c) + "." + map[string]string{csvType: "csv", jsonType: "jsonl"}[media])
			c.Writer.WriteHeader(http.StatusOK)
		}
		if c.Request.Method == http.MethodHead {
			return nil
		}
		if !sent(c.Writer, out.Bytes()) || len(last) == 0 {
			return nil
		}
		params.Set("after", string(last))
	}
}

// sent writes b and reports whether the client is still there.
func sent(w io.Writer, b []byte) bool {
	_, err := w.Write(b)
	return err == nil
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

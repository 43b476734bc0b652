package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/web/records"
)

// Formats of files of records.
const (
	formatCSV  = "csv"
	formatJSON = "jsonl"
)

// formatOf returns the format that the extension of a file's name stands for, "" if it is another one.
func formatOf(file string) string {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".csv":
		return formatCSV
	case ".jsonl", ".ndjson":
		return formatJSON
	}
	return ""
}

// mediaOf returns the media type of a format.
func mediaOf(format string) string {
	if format == formatCSV {
		return "text/csv"
	}
	return "application/jsonl"
}

// exportOptions are the options of `skerry export`.
type exportOptions struct {
	remote
	format string
	filter string
	to     string
}

var exportVerb = verb.Verb{
	Name: "export", Args: "COLLECTION…", Short: "write the records of collections as JSON lines or CSV",
	Long: `The verb uses the server's admin address, so no rules apply. The export is a
snapshot: it has no changes made after it began. Several collections are exported from the
same snapshot, so their references agree; --to is then a folder, in which each gets a file
of JSON lines. Files are created or replaced only when the export is complete.`,
	Start: func(app verb.App) verb.Action {
		o := &exportOptions{}
		settings := append([]verb.Setting{
			urlSetting(&o.url, defaultURL(app)),
			{Name: "format", Arg: "FORMAT", Help: "jsonl or csv (default by the extension of FILE, or jsonl)", Set: verb.Choice(&o.format, formatJSON, formatCSV)},
			{Name: "filter", Arg: "CONDITION", Help: "export only records that meet a condition, like 'done = false && stars > 2'", Set: verb.Text(&o.filter)},
			{Name: "to", Arg: "FILE", Help: "file to write or replace, or a folder for several (default standard output)", Set: verb.Text(&o.to)},
		}, o.accessSettings()...)
		check := func(rest []string) error {
			return verb.Mistakes(o.checkCollections(rest), o.check("url"))
		}
		return verb.Action{Settings: settings, Check: check, Do: func(ctx context.Context, p verb.Process, rest []string) error {
			if len(rest) > 1 {
				return o.exportSeveral(ctx, p, rest)
			}
			return o.export(ctx, p, rest[0])
		}}
	},
}

func (o *exportOptions) checkCollections(rest []string) error {
	if len(rest) == 0 || slices.Contains(rest, "") {
		return errors.New("needs the name of a collection")
	}
	if len(rest) == 1 {
		return nil
	}
	var wrong []error
	if o.to == "" {
		wrong = append(wrong, errors.New("needs --to FOLDER for several collections"))
	}
	if o.format == formatCSV {
		wrong = append(wrong, errors.New("several collections are exported as JSON lines, not as CSV"))
	}
	if o.filter != "" {
		wrong = append(wrong, errors.New("--filter is for one collection"))
	}
	return verb.Mistakes(wrong...)
}

// exportSeveral writes a file for each collection, all of one moment.
func (o *exportOptions) exportSeveral(ctx context.Context, p verb.Process, collections []string) error {
	for _, c := range collections {
		if _, err := o.findCollection(ctx, c); err != nil {
			return err
		}
	}
	resp, err := o.ask(ctx, http.MethodGet, records.DefaultPrefix+"/tx?"+url.Values{"collection": collections}.Encode(), nil, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); media != mediaOf(formatJSON) {
		return fmt.Errorf("%s is not an export of a Skerry server", resp.Request.URL.Redacted())
	}
	if err := os.MkdirAll(o.to, 0o777); err != nil {
		return err
	}
	n := &recordCounter{shown: newProgress(p)}
	defer n.shown.end()
	x := &severalReader{from: bufio.NewReaderSize(resp.Body, 64<<10)}
	if err := x.files(o.to, collections, n); err != nil {
		return err
	}
	n.shown.end()
	_, err = fmt.Fprintf(p.Stdout, "%s: %s of %s, %s\n", o.to, verb.Plural(n.records(), "record"), verb.Plural(len(collections), "collection"), verb.FormatSize(n.bytes))
	return err
}

// severalReader reads an export of several collections.
type severalReader struct {
	from *bufio.Reader
	next []byte // a line that was read, but not written
	err  error  // of the line after it
}

// files writes a file for each collection. All of them appear when the last one is complete.
func (x *severalReader) files(folder string, collections []string, n *recordCounter) error {
	if len(collections) == 0 {
		if x.err == nil || len(x.next) > 0 {
			return errors.New("the export has records of other collections")
		}
		return nil
	}
	return createWhole(filepath.Join(folder, collections[0]+".jsonl"), func(f io.Writer) error {
		w := bufio.NewWriter(io.MultiWriter(f, n))
		if err := x.copyTo(w, collections[0]); err != nil {
			return fmt.Errorf("the export broke off after %s: %w", verb.Plural(n.records(), "record"), err)
		}
		if err := w.Flush(); err != nil {
			return err
		}
		return x.files(folder, collections[1:], n)
	})
}

// copyTo writes the lines of a collection, as an export of it alone has them.
func (x *severalReader) copyTo(w *bufio.Writer, collection string) error {
	begin := append(strconv.AppendQuote([]byte(`{"collection":`), collection), ',')
	for {
		if x.next == nil && x.err == nil {
			x.next, x.err = x.from.ReadBytes('\n')
		}
		rest, ok := bytes.CutPrefix(x.next, begin)
		switch {
		case x.err != nil && x.err != io.EOF:
			return x.err
		case x.err == io.EOF && len(x.next) > 0:
			return io.ErrUnexpectedEOF
		case !ok:
			return nil
		}
		if err := w.WriteByte('{'); err != nil {
			return err
		}
		if _, err := w.Write(rest); err != nil {
			return err
		}
		x.next = nil
	}
}

func (o *exportOptions) export(ctx context.Context, p verb.Process, collection string) error {
	if o.format == "" {
		o.format = formatOf(o.to)
	}
	if o.format == "" {
		o.format = formatJSON
	}
	if _, err := o.findCollection(ctx, collection); err != nil {
		return err
	}
	n := &recordCounter{csv: o.format == formatCSV, shown: newProgress(p)}
	defer n.shown.end()
	if o.to == "" {
		if verb.Terminal(p.Stdout) {
			n.shown = &progress{} // it would be in the middle of the records
		}
		return o.copyTo(ctx, p.Stdout, collection, n)
	}
	if err := createWhole(o.to, func(w io.Writer) error { return o.copyTo(ctx, w, collection, n) }); err != nil {
		return err
	}
	n.shown.end()
	_, err := fmt.Fprintf(p.Stdout, "%s: %s, %s\n", o.to, verb.Plural(n.records(), "record"), verb.FormatSize(n.bytes))
	return err
}

// copyTo writes the records of the collection to w and n.
func (o *exportOptions) copyTo(ctx context.Context, w io.Writer, collection string, n *recordCounter) error {
	params := url.Values{"format": {o.format}}
	if o.filter != "" {
		params.Set("filter", o.filter)
	}
	resp, err := o.ask(ctx, http.MethodGet, collectionPath(collection)+"?"+params.Encode(), nil, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); media != mediaOf(o.format) {
		return fmt.Errorf("%s is not an export of a Skerry server", resp.Request.URL.Redacted())
	}
	if _, err = io.Copy(io.MultiWriter(w, n), resp.Body); err == nil && n.open {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("the export broke off after %s: %w", verb.Plural(n.records(), "record"), err)
	}
	return nil
}

func collectionPath(name string) string { return records.DefaultPrefix + "/" + url.PathEscape(name) }

// collections returns the collections of the server. The address of a web application does not have this list.
func (r *remote) collections(ctx context.Context) ([]schema.Collection, error) {
	var all struct {
		Collections []schema.Collection `json:"collections"`
	}
	err := r.askJSON(ctx, records.DefaultPrefix+"/collections", &all)
	return all.Collections, err
}

// findCollection returns a collection of the server, or an error. It also keeps the verbs away from the address of a web
// application, which would show them only what a stranger may see.
func (r *remote) findCollection(ctx context.Context, name string) (schema.Collection, error) {
	all, err := r.collections(ctx)
	if no, ok := errors.AsType[*refusal](err); ok && no.Code == record.CodeUnknownCollection {
		return schema.Collection{}, fmt.Errorf("%w%s", err, elsewhere(no.Status))
	}
	if err != nil {
		return schema.Collection{}, err
	}
	var names []string
	for _, c := range all {
		if c.Name == name {
			return c, nil
		}
		names = append(names, c.Name)
	}
	return schema.Collection{}, engine.Errorf(record.CodeUnknownCollection, "there is no collection %.80q%s", name, verb.DidYouMean(name, names))
}

// recordCounter counts the records and bytes of an export that is written to it.
type recordCounter struct {
	csv   bool
	shown *progress

	bytes  int64
	lines  int  // of CSV, those that end records
	quoted bool // within quotation marks of CSV
	open   bool // the last line has not ended
}

// Write implements io.Writer.
func (c *recordCounter) Write(b []byte) (int, error) {
	for _, x := range b {
		switch {
		case x == '"' && c.csv:
			c.quoted = !c.quoted
		case x == '\n' && !c.quoted:
			c.lines++
		}
		c.open = x != '\n' || c.quoted
	}
	c.bytes += int64(len(b))
	c.shown.show("exported %s, %s", verb.Plural(c.records(), "record"), verb.FormatSize(c.bytes))
	return len(b), nil
}

// records returns the number of complete records.
func (c *recordCounter) records() int {
	if c.csv && c.lines > 0 {
		return c.lines - 1 // without the header
	}
	return c.lines
}

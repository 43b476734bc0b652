package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/web/problem"
	"github.com/skerrydb/skerry/web/records"
)

// importOptions are the options of `skerry import`.
type importOptions struct {
	remote
	format   string
	existing string
	batch    int
	from     int
	dryRun   bool
	partial  bool
	json     bool
}

var importVerb = verb.Verb{
	Name: "import", Args: "COLLECTION FILE", Short: "create or update records from a file of JSON lines or CSV",
	Long: `The verb uses the server's admin address, so no rules apply. The file is streamed, so
it may have any size. The whole file is checked first; if anything is wrong, nothing is
written. Errors name the lines and columns of FILE. Each batch is then written in one
transaction, so a file of one batch is imported completely or not at all. In a longer file,
a later batch can still fail: records may have changed since the check, or the batch
conflicts with an earlier one, for example because an id appears twice. The error says
which lines were written and which --from continues the import.

Records may refer to other records of FILE: in the same batch in any order, otherwise only
to earlier ones. If the records have ids, --existing skip repeats an import safely. If the
connection is lost, the batch is sent again but written only once.`,
	Start: func(app verb.App) verb.Action {
		o := &importOptions{}
		settings := append([]verb.Setting{
			urlSetting(&o.url, defaultURL(app)),
			{Name: "format", Arg: "FORMAT", Help: "jsonl or csv (default by the extension of FILE)", Set: verb.Choice(&o.format, formatJSON, formatCSV)},
			{Name: "existing", Arg: "WHAT", Default: "refuse", Help: "refuse, skip or update records whose id exists", Set: verb.Choice(&o.existing, "refuse", "skip", "update")},
			{Name: "dry-run", Help: "check the file and write nothing", Set: verb.Toggle(&o.dryRun)},
			{Name: "partial", Help: "import the valid records without checking the whole file first; exit code 1 if there are invalid ones", Set: verb.Toggle(&o.partial)},
			{Name: "batch", Arg: "N", Default: strconv.Itoa(records.MaxImport), Help: "records in one transaction; smaller batches delay other writes less", Set: verb.Whole(&o.batch, 1, records.MaxImport)},
			{Name: "from", Arg: "LINE", Default: "1", Help: "skip the records that begin before this line", Set: verb.Whole(&o.from, 1, math.MaxInt32)},
			verb.JSON(&o.json),
		}, o.accessSettings()...)
		return verb.Action{Settings: settings, Check: o.check, Do: func(ctx context.Context, p verb.Process, rest []string) error {
			return o.load(ctx, p, rest[0], rest[1])
		}}
	},
}

func (o *importOptions) check(rest []string) error {
	var what, form error
	switch {
	case len(rest) < 2 || rest[0] == "" || rest[1] == "":
		what = errors.New("needs the name of a collection and a file")
	case len(rest) > 2:
		what = fmt.Errorf("unexpected argument %q", rest[2])
	case o.format == "":
		if o.format = formatOf(rest[1]); o.format == "" {
			form = fmt.Errorf("needs --format: the name of %s does not end with .jsonl, .ndjson or .csv", rest[1])
		}
	}
	return verb.Mistakes(what, form, o.remote.check("url"))
}

// load checks the file and then imports it.
func (o *importOptions) load(ctx context.Context, p verb.Process, collection, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() && !o.partial && !o.dryRun {
		return verb.Usagef("%s is not a regular file and can be read only once: use --partial or --dry-run", name)
	}
	c, err := o.findCollection(ctx, collection)
	if err != nil {
		return err
	}
	x := &importing{o: o, p: p, name: name, size: info.Size(), path: collectionPath(collection)}
	if o.dryRun || !o.partial {
		if slices.ContainsFunc(c.Fields, func(f schema.Field) bool { return f.Type == schema.Reference && f.Collection == c.Name }) {
			x.refs = newReferences()
		}
		if err := x.check(ctx, f); err != nil {
			return err
		}
		if o.dryRun {
			return nil
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	return x.write(ctx, f)
}

// importing is the import of one file.
type importing struct {
	o    *importOptions
	p    verb.Process
	name string
	size int64 // 0: not known
	path string

	total   records.Imported
	seen    int // records in the parts that have a response
	written int // lines in the parts that were written

	uncertain bool        // whether the part after these was written
	shown     int         // mistakes
	refs      *references // within the file; nil: not followed
}

// maxShown is how many mistakes are printed, but for a dry run, which prints all.
const maxShown = 100

// mistake prints what is wrong with the file.
func (x *importing) mistake(text string) {
	switch x.shown++; {
	case x.shown == maxShown+1 && !x.o.dryRun:
		fmt.Fprintf(x.p.Stderr, "%s: there are more; --dry-run lists all\n", x.name)
	case x.shown <= maxShown || x.o.dryRun:
		fmt.Fprintf(x.p.Stderr, "%s: %s\n", x.name, problem.Clean(text))
	}
}

// check lets the server check all parts.
func (x *importing) check(ctx context.Context, f io.Reader) error {
	query := url.Values{"existing": {x.o.existing}, "dry_run": {"true"}, "partial": {"true"}} // partial: with all mistakes
	if x.refs != nil {
		query.Set("pending", "true")
	}
	err := x.parts(f, "checked", func(_ int, t part) (records.Imported, error) {
		in, err := x.o.send(ctx, x.path+"?"+query.Encode(), http.Header{"Content-Type": {mediaOf(x.o.format)}}, t.body)
		if err == nil {
			x.refs.add(t, &in)
		}
		return in, err
	})
	if wrong, ok := errors.AsType[refusedPart](err); ok {
		x.list(wrong)
		return fmt.Errorf("%s cannot be imported; nothing was written", x.name)
	}
	if err != nil {
		return err
	}
	for _, text := range x.refs.wrong(x.o.batch) {
		x.mistake(text)
	}
	if x.o.dryRun {
		err = x.summary()
	}
	if x.total.Failed > 0 {
		return fmt.Errorf("%d of %s cannot be imported; nothing was written", x.total.Failed, verb.Plural(x.seen, "record"))
	}
	return err
}

// write imports all parts.
func (x *importing) write(ctx context.Context, f io.Reader) error {
	x.total, x.seen, x.refs = records.Imported{}, 0, nil
	query := url.Values{"existing": {x.o.existing}}
	if x.o.partial {
		query.Set("partial", "true")
	}
	key := newKey()
	err := x.parts(f, "imported", func(i int, t part) (records.Imported, error) {
		header := http.Header{"Content-Type": {mediaOf(x.o.format)}, "Idempotency-Key": {key + "-" + strconv.Itoa(i)}}
		in, err := x.o.send(ctx, x.path+"?"+query.Encode(), header, t.body)
		if err == nil {
			x.written = t.last
		} else if errors.As(err, new(uncertain)) {
			x.uncertain = true
			err = fmt.Errorf("lines %d to %d may have been imported: %w", t.first, t.last, err)
		}
		return in, err
	})
	if wrong, ok := errors.AsType[refusedPart](err); ok {
		x.list(wrong)
		err = fmt.Errorf("%s cannot be imported", x.name)
		if t := wrong.part; t.records > 0 {
			err = fmt.Errorf("lines %d to %d cannot be imported", t.first, t.last)
		}
	}
	if err != nil && ctx.Err() != nil { // its text is not printed
		fmt.Fprintf(x.p.Stderr, "%s: %s\n", x.name, x.before())
	}
	if err != nil {
		return fmt.Errorf("%w; %s", err, x.before())
	}
	if err := x.summary(); err != nil {
		return err
	}
	if x.total.Failed > 0 {
		return fmt.Errorf("%d of %s were not imported", x.total.Failed, verb.Plural(x.seen, "record"))
	}
	return nil
}

// before says what was written before an error.
func (x *importing) before() string {
	if x.written == 0 {
		return "nothing was written before that"
	}
	text := fmt.Sprintf("the lines up to %d were imported", x.written)
	if x.total.Failed > 0 {
		text += ", except those listed"
	}
	if !x.uncertain {
		text += fmt.Sprintf("; continue with --from %d", x.written+1)
	}
	return text
}

// refusedPart is a part of which the records cannot be told, or one that the server has refused as a whole.
type refusedPart struct {
	part
	error
}

func (r refusedPart) Unwrap() error { return r.error }

// list prints what is wrong with a part.
func (x *importing) list(r refusedPart) {
	no, ok := errors.AsType[*refusal](r.error)
	if !ok || len(no.Errors) == 0 {
		x.mistake(r.Error())
		return
	}
	for _, f := range no.Errors {
		x.mistake(r.shift(f.Detail))
	}
}

// shift returns the text of a mistake with the line of the file.
func (t part) shift(text string) string {
	rest, ok := strings.CutPrefix(text, "line ")
	if !ok {
		return text
	}
	digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
	n, err := strconv.Atoi(rest[:digits])
	if err != nil {
		return text
	}
	return "line " + strconv.Itoa(t.line(n)) + rest[digits:]
}

// parts sends all parts of the file and adds up the responses.
func (x *importing) parts(f io.Reader, did string, send func(i int, t part) (records.Imported, error)) error {
	s, err := newSplitter(f, x.o.format, x.o.batch, records.MaxBody)
	if err == nil {
		if x.refs != nil {
			s.found = x.refs.found
		}
		err = s.skip(x.o.from)
	}
	bar := newProgress(x.p)
	defer bar.end()
	for i := 1; ; i++ {
		var t part
		if err == nil {
			t, err = s.part()
		}
		switch _, wrong := errors.AsType[malformed](err); {
		case errors.Is(err, io.EOF):
			return nil
		case wrong:
			return refusedPart{part{}, err}
		case errors.As(err, new(verb.ConfigError)):
			return err
		case err != nil:
			return fmt.Errorf("read %s: %w", x.name, err)
		}
		in, err := send(i, t)
		if no, refused := errors.AsType[*refusal](err); refused && no.Status == http.StatusUnprocessableEntity {
			return refusedPart{t, err}
		}
		if err != nil {
			return err
		}
		bar.end()
		for _, m := range in.Errors {
			m.Line = t.line(m.Line)
			x.mistake(m.String())
		}
		x.add(in, t)
		of := ""
		if x.size > 0 {
			of = " of " + verb.FormatSize(x.size)
		}
		bar.show("%s %s, %s%s", did, verb.Plural(x.seen, "record"), verb.FormatSize(s.bytes), of)
	}
}

// add adds the response to a part.
func (x *importing) add(in records.Imported, t part) {
	x.seen += t.records
	x.total.Created += in.Created
	x.total.Updated += in.Updated
	x.total.Skipped += in.Skipped
	x.total.Failed += in.Failed
	x.total.DryRun = in.DryRun
}

// summary prints what was done.
func (x *importing) summary() error {
	in := x.total
	if x.o.json {
		return verb.PrintJSON(x.p.Stdout, in)
	}
	format := "created %s, updated %d, skipped %d\n"
	if in.DryRun {
		format = "would create %s, update %d, skip %d\n"
	}
	_, err := fmt.Fprintf(x.p.Stdout, format, verb.Plural(in.Created, "record"), in.Updated, in.Skipped)
	return err
}

// sendOnce sends a part and returns the response.
func (o *importOptions) sendOnce(ctx context.Context, path string, header http.Header, body []byte) (in records.Imported, err error) {
	resp, err := o.ask(ctx, http.MethodPost, path, header, body)
	if err != nil {
		return in, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&in); err != nil {
		return in, fmt.Errorf("read the response: %w", err)
	}
	return in, nil
}

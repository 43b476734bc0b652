package admin

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/problem"
	"github.com/skerrydb/skerry/web/records"
)

// Limits of imports.
const (
	previewRows  = 10      // rows of the file that a report shows
	previewBytes = 300     // of each
	maxMistakes  = 200     // that a report lists
	formRoom     = 1 << 20 // of the body around the file
)

// importForm is what the form of an import has besides the file.
type importForm struct {
	Format   string `json:"format,omitempty"`
	Existing string `json:"existing,omitempty"`
	Partial  bool   `json:"partial,omitempty"`
	Do       string `json:"do,omitempty"` // check or import
}

// importMistake is why a row cannot be imported.
type importMistake struct {
	Line   int    `json:"line"` // 0: it is in the text
	Column int    `json:"column"`
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

// importPreview is a row of the file as it was read.
type importPreview struct {
	Line int    `json:"line"`
	ID   string `json:"id"`
	Data string `json:"data"`
}

// importReport is the result of an import, or of the check before it.
type importReport struct {
	File     string          `json:"file"`
	Size     int             `json:"size"`
	Written  bool            `json:"written"` // records were written
	Created  int             `json:"created"`
	Updated  int             `json:"updated"`
	Skipped  int             `json:"skipped"`
	Failed   int             `json:"failed"`
	Problem  string          `json:"problem"` // with the file as a whole
	Mistakes []importMistake `json:"mistakes"`
	More     int             `json:"more"` // rows with mistakes that are not listed
	Rows     []importPreview `json:"rows"`
}

// Total returns how many rows were read.
func (r *importReport) Total() int { return r.Created + r.Updated + r.Skipped + r.Failed }

func (a *Admin) importPage(c *web.Context) error {
	return a.showImport(c, http.StatusOK, importForm{}, nil, "")
}

// showImport shows the form with a report, if there is one, as JSON to the module.
func (a *Admin) showImport(c *web.Context, status int, in importForm, r *importReport, trouble string) error {
	if r != nil && c.IsJSON() {
		return c.JSON(status, r)
	}
	collection := c.Path("collection").String()
	var fields []string
	_, err := a.o.Records.View(c, engine.Read{Level: engine.Local}, recordsActor(c), func(tx *record.Tx) error {
		k, err := tx.Collection(collection)
		if err != nil {
			return err
		}
		fields = nil
		for _, f := range k.Fields {
			fields = append(fields, f.Name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return a.show(c, status, "import", web.Locals{
		"title": a.text("Import into %s", collection), "name": collection, "list": Prefix + "/records/" + url.PathEscape(collection), "problem": trouble,
		"form": in, "report": r, "fields": fields, "most": records.MaxImport, "size": records.MaxBody,
	})
}

// errChecked rolls back an import that is only a check, errMistakes one that has mistakes.
var (
	errChecked  = errors.New("a check writes nothing")
	errMistakes = errors.New("rows have mistakes, so nothing was written")
)

// importFile checks or imports the file of the form.
func (a *Admin) importFile(c *web.Context) error {
	var in importForm
	var name string
	var body []byte
	err := c.Uploads(web.UploadOptions{MaxFileBytes: records.MaxBody, MaxBytes: records.MaxBody + formRoom, MaxFiles: 1, Fields: &in}, func(f *web.File) (err error) {
		name = f.ClientName
		body, err = io.ReadAll(f)
		return err
	})
	switch {
	case err != nil && tooLarge(err):
		return a.refuseImport(c, http.StatusRequestEntityTooLarge, in, name, a.text("The file is larger than %s, the limit of an import on this page. Split it, or use “skerry import”, which takes files of any size.", byteText(records.MaxBody)))
	case err != nil:
		return err
	case name == "":
		return a.refuseImport(c, http.StatusUnprocessableEntity, in, "", a.text("Choose a file first."))
	}
	if in.Existing != "skip" && in.Existing != "update" {
		in.Existing = "refuse"
	}
	format := formatFor(in.Format, name)
	if format == "" {
		return a.refuseImport(c, http.StatusUnprocessableEntity, in, name, a.text("The name of %s does not end with .csv, .jsonl or .ndjson, so choose the format.", name))
	}
	return a.runImport(c, in, name, records.File{Format: format, Body: body, Existing: in.Existing})
}

// refuseImport reports a problem with the file as a whole.
func (a *Admin) refuseImport(c *web.Context, status int, in importForm, name, trouble string) error {
	if c.IsJSON() {
		return a.showImport(c, status, in, &importReport{File: name, Problem: trouble}, "")
	}
	return a.showImport(c, status, in, nil, trouble)
}

func tooLarge(err error) bool {
	if engine.CodeOf(err) == problem.CodeBodyTooLarge {
		return true
	}
	faults, ok := errors.AsType[problem.Faults](err)
	return ok && faults[0].Code == problem.CodeBodyTooLarge
}

// formatFor returns the format of a file: the one that was chosen, or that of its name; "" if it cannot be told.
func formatFor(chosen, name string) string {
	if chosen == "csv" || chosen == "jsonl" {
		return chosen
	}
	switch strings.ToLower(path.Ext(name)) {
	case ".csv":
		return "csv"
	case ".jsonl", ".ndjson":
		return "jsonl"
	}
	return ""
}

// runImport imports a file in one transaction, or checks it in one that is rolled back.
func (a *Admin) runImport(c *web.Context, in importForm, name string, f records.File) error {
	collection := c.Path("collection").String()
	r := &importReport{File: name, Size: len(f.Body)}
	var done *records.Imported
	run := func() error {
		_, err := a.o.Records.Update(c, recordsActor(c), func(tx *record.Tx) (err error) {
			k, err := tx.Collection(collection)
			if err != nil {
				return err
			}
			if r.Rows, err = previewOf(f, k); err != nil {
				return err
			}
			if done, err = records.Import(tx, collection, f); err != nil {
				return err
			}
			switch {
			case in.Do != "import":
				return errChecked
			case done.Failed > 0 && !in.Partial:
				return errMistakes
			}
			return nil
		})
		return err
	}
	var err error
	if in.Do == "import" {
		detail := fmt.Sprintf("%s, %d bytes, existing records: %s", name, len(f.Body), f.Existing)
		err = a.act(c, "records.import", collection, detail, run)
	} else {
		err = run()
	}
	status := http.StatusOK
	switch texts := records.Mistakes(err); {
	case err == nil:
		r.Written = true
	case errors.Is(err, errChecked), errors.Is(err, errMistakes):
	case len(texts) > 0 || engine.CodeOf(err) == engine.CodeLimit:
		status, r.Problem = http.StatusUnprocessableEntity, c.Detail(err)
		for _, text := range texts {
			r.Mistakes = append(r.Mistakes, importMistake{Detail: text})
		}
		return a.showImport(c, status, in, r, "")
	default:
		return err
	}
	r.fill(done)
	if r.Failed > 0 && in.Do == "import" && !in.Partial {
		status = http.StatusUnprocessableEntity
		r.Problem = a.text("Nothing was written, because of the mistakes below. Correct the file, or import only the rows without mistakes.")
	}
	return a.showImport(c, status, in, r, "")
}

// fill takes the result of an import over.
func (r *importReport) fill(in *records.Imported) {
	r.Created, r.Updated, r.Skipped, r.Failed = in.Created, in.Updated, in.Skipped, in.Failed
	listed := map[int]bool{}
	for _, m := range in.Errors[:min(len(in.Errors), maxMistakes)] {
		r.Mistakes = append(r.Mistakes, importMistake{m.Line, m.Column, m.Field, shorten(m.Detail, maxPart)})
		listed[m.Line] = true
	}
	r.More = max(0, in.Failed-len(listed))
}

// previewOf returns the first rows of a file, as they were read.
func previewOf(f records.File, k *schema.Compiled) (all []importPreview, err error) {
	rows, err := f.Rows(k, previewRows)
	if err != nil {
		return nil, err
	}
	for _, x := range rows {
		fields, err := membersOf(x.Data)
		if err != nil {
			all = append(all, importPreview{x.Line, x.ID, shorten(string(x.Data), previewBytes)}) // a mistake, which is listed
			continue
		}
		var b strings.Builder
		for i, f := range fields {
			if b.Len() > previewBytes {
				break
			}
			if i > 0 {
				b.WriteString(" · ")
			}
			b.WriteString(shorten(f.name, previewBytes) + ": " + shorten(valueText(f.raw), previewBytes))
		}
		all = append(all, importPreview{x.Line, x.ID, shorten(b.String(), previewBytes)})
	}
	return all, nil
}

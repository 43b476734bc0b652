package admin

import (
	"errors"
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
	"github.com/skerrydb/skerry/web/records"
)

const (
	gridLimit   = 50  // records of a page: Chromium needs 4 to 10 kB for the layout of each cell
	gridColumns = 7   // columns that a page has without being asked, besides the id
	gridText    = 200 // bytes of a cell
	gridShort   = 40  // bytes of a cell that is never cut to some lines, and so needs no element for that: a browser keeps many pages
	gridWords   = 500 // words that the completion of filters offers before it leaves out fields of further collections
)

// gridState is what the URL of a grid asks for.
type gridState struct {
	Filter, Sort, At, After string
	Columns                 []string // nil: the first ones
	Deleted, Count          bool
}

// readGrid reads the parameters of a grid. Those that are malformed count as missing: the page then shows what it has read.
func readGrid(params url.Values) gridState {
	s := gridState{Filter: params.Get("filter"), Sort: params.Get("sort"), At: strings.TrimSpace(params.Get("at")), After: params.Get("after"), Deleted: params.Get("deleted") != "", Count: params.Get("count") != ""}
	for _, list := range params["columns"] {
		for name := range strings.SplitSeq(list, ",") {
			if name = strings.TrimSpace(name); name != "" && !slices.Contains(s.Columns, name) {
				s.Columns = append(s.Columns, name)
			}
		}
	}
	return s
}

// values returns the state as parameters of the page.
func (s gridState) values() url.Values {
	v := url.Values{}
	set := func(name, text string) {
		if text != "" {
			v.Set(name, text)
		}
	}
	set("filter", s.Filter)
	set("sort", s.Sort)
	set("at", s.At)
	set("after", s.After)
	set("columns", strings.Join(s.Columns, ","))
	if s.Deleted {
		set("deleted", "1")
	}
	if s.Count {
		set("count", "1")
	}
	return v
}

// link returns the URL of the grid with a state, relative to its page.
func (s gridState) link() string { return "?" + s.values().Encode() }

// query returns the state as parameters of a query of records.
func (s gridState) query() url.Values {
	v := url.Values{"filter": {s.Filter}, "sort": {s.Sort}, "after": {s.After}, "asof": {readRecordTime(s.At)}, "limit": {strconv.Itoa(gridLimit)}}
	if s.Deleted {
		v.Set("deleted", "all")
	}
	if s.Count {
		v.Set("count", "true")
	}
	return v
}

// gridColumn is a column of the table.
type gridColumn struct {
	Name, Label      string
	Sort             string // ascending, descending or ""
	Link             string // that sorts by it; "": one cannot
	Number, Editable bool
}

// gridRow is a record in the table.
type gridRow struct {
	ID, Path string
	Rev      uint64
	Deleted  bool
	Cells    []gridCell
}

// gridCell is a value in the table.
type gridCell struct {
	Name, Text, Link  string // Link leads to the record that it refers to
	Null, Cut, Number bool
	Editable, Time    bool
	Short             bool   // it fits on few lines
	List              string // of a select of several: its value as JSON
}

// gridChoice is a column that a grid may show.
type gridChoice struct {
	Name, Label string
	On          bool
}

// gridPage shows a page of records.
func (a *Admin) gridPage(c *web.Context) error {
	params, err := url.ParseQuery(c.Request.URL.RawQuery)
	if err != nil {
		return web.WrongParameter("", "the query string is malformed: %v", err)
	}
	return a.showGrid(c, http.StatusOK, readGrid(params), "")
}

// showGrid shows the page of a state, with a problem of an action that was refused.
func (a *Admin) showGrid(c *web.Context, status int, s gridState, problem string) error {
	name := c.Path("collection").String()
	var k *schema.Compiled
	var page *record.Page
	var wrong error
	var words [][2]string
	uncounted := false
	err := a.viewRecords(c, func(tx *record.Tx) (err error) {
		if k, err = tx.Collection(name); err != nil {
			return err
		}
		words = filterWords(tx, k)
		page, wrong = findRecords(tx, name, s.query())
		if uncounted = s.Count && engine.CodeOf(wrong) == record.CodeScan; uncounted {
			less := s
			less.Count = false
			page, wrong = findRecords(tx, name, less.query())
		}
		return nil
	})
	if err == nil && wrong != nil && !refusedRecordQuery(wrong) {
		err = wrong
	}
	if err != nil {
		return err
	}
	views, err := a.savedViews(c, name)
	if err != nil {
		return err
	}
	locals := a.gridLocals(k, s, views)
	locals["problem"], locals["fault"], locals["words"] = problem, (*faultyText)(nil), words
	if wrong != nil {
		status, page = http.StatusUnprocessableEntity, &record.Page{}
		locals["problem"] = c.Detail(wrong)
		if x, ok := errors.AsType[*query.Error](wrong); ok && x.Member == "filter" && x.Code == query.CodeInvalid && s.Filter != "" {
			m := markFault(s.Filter, x.Pos)
			locals["fault"], locals["problem"] = m, a.text("Filter: %s at character %d", x.Text, m.Pos)
		}
	}
	columns := columnsOf(k, s)
	locals["columns"], locals["rows"], locals["total"], locals["wrong"], locals["uncounted"] = columns, rowsOf(k, columns, page.Items, s.At != ""), page.Total, wrong != nil, uncounted
	next := s
	next.After = page.Next
	locals["next"] = next.link()
	if page.Next == "" {
		locals["next"] = ""
	}
	return a.show(c, status, "recordgrid", locals)
}

// gridLocals returns what a page shows besides the records.
func (a *Admin) gridLocals(k *schema.Compiled, s gridState, views []savedView) web.Locals {
	first, counted := s, s
	first.After, counted.Count = "", true
	var choices []gridChoice
	shown := columnsOf(k, s)
	for _, name := range allColumns(k) {
		choices = append(choices, gridChoice{name, fieldLabel(k, name), slices.ContainsFunc(shown, func(x gridColumn) bool { return x.Name == name })})
	}
	var settable []string
	for _, f := range k.Fields {
		if f.Type != schema.Password {
			settable = append(settable, f.Name)
		}
	}
	all := s
	all.After, all.Count, all.Columns = "", false, nil
	return web.Locals{
		"title": collectionTitle(k), "name": k.Name, "hint": k.Hint, "path": Prefix + collectionPath(k.Name), "state": s, "first": first.link(), "count_link": counted.link(),
		"choices": choices, "settable": settable, "views": views, "fields": fieldsForModules(k), "columns_text": strings.Join(s.Columns, ","),
		"export": Prefix + collectionPath(k.Name) + "/export?" + all.values().Encode(), "import_most": records.MaxBody,
	}
}

// collectionTitle returns the name of a collection for people.
func collectionTitle(k *schema.Compiled) string {
	if k.Label != "" {
		return k.Label
	}
	return k.Name
}

// fieldLabel returns the label of a field, "" if it has none.
func fieldLabel(k *schema.Compiled, name string) string {
	if i, ok := k.Index(name); ok {
		return k.Fields[i].Label
	}
	return ""
}

// allColumns returns the names that can be columns besides the id: what people have put in, then what the server adds.
func allColumns(k *schema.Compiled) (all []string) {
	for _, f := range k.Fields {
		if f.Type != schema.Password {
			all = append(all, f.Name)
		}
	}
	for _, col := range schema.Columns() {
		if col.Name != "id" {
			all = append(all, col.Name)
		}
	}
	return all
}

// columnsOf returns the columns of the table after the id. Names that the collection does not have are left out.
func columnsOf(k *schema.Compiled, s gridState) (all []gridColumn) {
	names := s.Columns
	known := allColumns(k)
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !slices.Contains(known, n) })
	if len(names) == 0 {
		fields := slices.Index(known, "rev") // the first that is not the program's
		names = append(slices.Clone(known[:min(gridColumns, fields)]), "updated")
	}
	for _, name := range names {
		all = append(all, columnOf(k, s, name))
	}
	return all
}

func columnOf(k *schema.Compiled, s gridState, name string) gridColumn {
	col := gridColumn{Name: name, Label: fieldLabel(k, name)}
	sortable := true
	if i, ok := k.Index(name); ok {
		f := k.Fields[i]
		col.Editable = true
		col.Number = f.Type == schema.Int || f.Type == schema.Float || f.Type == schema.Decimal
		sortable = f.Type != schema.JSON && !f.Many
	} else {
		col.Number = name == "rev"
	}
	sorted := s
	sorted.After, sorted.Sort = "", name
	switch strings.TrimPrefix(s.Sort, "+") {
	case name:
		col.Sort, sorted.Sort = "ascending", "-"+name
	case "-" + name:
		col.Sort, sorted.Sort = "descending", ""
	}
	if sortable {
		col.Link = sorted.link()
	}
	return col
}

// rowsOf returns the records of a page as the table shows them. Past states cannot be edited.
func rowsOf(k *schema.Compiled, columns []gridColumn, items []*record.Record, past bool) []gridRow {
	rows := make([]gridRow, 0, len(items))
	for _, r := range items {
		row := gridRow{ID: r.ID, Path: Prefix + recordPath(k.Name, r.ID), Rev: r.Rev, Deleted: r.Deleted}
		for _, col := range columns {
			row.Cells = append(row.Cells, cellOf(k, r, col, past))
		}
		rows = append(rows, row)
	}
	return rows
}

func cellOf(k *schema.Compiled, r *record.Record, col gridColumn, past bool) gridCell {
	v := r.Value(col.Name)
	i, isField := k.Index(col.Name)
	text := v.String()
	if isField {
		text = printedValue(&k.Fields[i], v)
	} else if at, ok := v.Time(); ok {
		text = at.Format(time.DateTime)
	}
	cell := gridCell{Name: col.Name, Text: shorten(text, gridText), Null: v.IsNull(), Cut: len(text) > gridText, Number: col.Number}
	if _, ok := v.Time(); ok {
		cell.Time = true
	}
	if isField && k.Fields[i].Many && !v.IsNull() {
		cell.List, cell.Text = text, strings.Join(selectedOptions(v), ", ")
	}
	cell.Short = len(cell.Text) <= gridShort && !strings.Contains(cell.Text, "\n")
	cell.Editable = col.Editable && !past && !r.Deleted && !cell.Cut
	if isField && k.Fields[i].Type == schema.Reference && !v.IsNull() {
		cell.Link = Prefix + recordPath(k.Fields[i].Collection, text)
	}
	return cell
}

// filterWords returns what the completion of filters offers, as [word, what it is]: also the fields of records that it refers to.
func filterWords(tx *record.Tx, k *schema.Compiled) (all [][2]string) {
	add := func(before string, k *schema.Compiled) {
		for _, f := range k.Fields {
			if f.Type != schema.Password {
				all = append(all, [2]string{before + f.Name, string(f.Type)})
			}
		}
	}
	add("", k)
	for _, col := range schema.Columns() {
		all = append(all, [2]string{col.Name, string(col.Type)})
	}
	all = append(all, [][2]string{{"@now", "time"}, {"@today", "time"}, {"null", ""}, {"true", ""}, {"false", ""}, {"in", "in (1, 2)"}}...)
	for _, f := range k.Fields {
		if other, err := tx.Collection(f.Collection); f.Type == schema.Reference && err == nil && len(all) < gridWords {
			add(f.Name+".", other)
		}
	}
	return all
}

// gridField is a field as the module of the grid needs it.
type gridField struct {
	Name     string   `json:"name"`
	Type     string   `json:"type"`
	Options  []string `json:"options,omitempty"`
	Many     bool     `json:"many,omitempty"`
	Required bool     `json:"required,omitempty"`
}

func fieldsForModules(k *schema.Compiled) (all []gridField) {
	for _, f := range k.Fields {
		if f.Type != schema.Password {
			all = append(all, gridField{f.Name, string(f.Type), f.Options, f.Many, f.Required})
		}
	}
	return all
}

// checkFilter says, for the module, whether a filter is well formed, and if not, where it is not.
func (a *Admin) checkFilter(c *web.Context) error {
	name, filter := c.Path("collection").String(), c.Query("filter").String()
	var wrong error
	err := a.viewRecords(c, func(tx *record.Tx) error {
		if _, err := tx.Collection(name); err != nil {
			return err
		}
		_, wrong = tx.ParseQuery(name, url.Values{"filter": {filter}})
		return nil
	})
	if err != nil {
		return err
	}
	out := map[string]any{"ok": wrong == nil}
	if x, ok := errors.AsType[*query.Error](wrong); ok {
		m := markFault(filter, x.Pos)
		out["text"], out["before"], out["at"], out["after"] = a.text("%s at character %d", x.Text, m.Pos), m.Before, m.At, m.After
	} else if wrong != nil {
		out["text"] = c.Detail(wrong)
	}
	return c.JSON(http.StatusOK, out)
}

package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/traversal"
	"github.com/skerrydb/skerry/mail"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/expr"
	"github.com/skerrydb/skerry/record/query"
	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/web"
)

const (
	maxConsoleText        = 64 << 10         // bytes of what is run
	maxConsoleRows        = 200              // rows of a result
	maxConsoleBytes       = 512 << 10        // bytes of a result
	maxConsoleCell        = 1000             // bytes of one cell
	maxConsoleCols        = 40               // columns of a result
	maxConsoleTime        = 10 * time.Second // that one run takes
	maxConsoleCollections = 1000             // collections in the choice
	maxNotes              = 10               // that a result shows
)

// Languages of the console. In addresses and in what browsers keep.
const (
	langCommands = "keys"
	langFilter   = "filter"
	langGremlin  = "gremlin"
	langPromQL   = "promql"
)

func (a *Admin) addConsole(g *web.Group) {
	g.Get("/console", a.console)
	g.Post("/console", a.consoleRun)
}

// consoleGrid is a result of the console: a table, or text.
type consoleGrid struct {
	Columns []string
	Rows    [][]string
	Text    string      // instead of a table
	Plan    string      // how it was found
	Cut     string      // what was left out
	Notes   []string    // for the reader
	Plot    *seriesPlot // of the values over time
	Changes bool        // it may have changed something
	Took    time.Duration
	bytes   int
	items   []json.RawMessage // the rows as JSON, if they are more than texts
}

// add adds a row, unless the result is full.
func (g *consoleGrid) add(cells ...string) bool {
	if len(g.Rows) == maxConsoleRows || g.bytes > maxConsoleBytes {
		return false
	}
	for i, cell := range cells {
		cells[i] = shorten(cell, maxConsoleCell)
		g.bytes += len(cells[i])
	}
	g.Rows = append(g.Rows, cells)
	return true
}

// json returns the rows as JSON.
func (g *consoleGrid) json() string {
	items := g.items
	if items == nil {
		for _, row := range g.Rows {
			var o orderedObject
			for i, name := range g.Columns {
				o = append(o, orderedMember{name, row[i]})
			}
			items = append(items, mustJSON(o))
		}
	}
	text, err := json.MarshalIndent(items[:min(len(items), len(g.Rows))], "", "  ")
	if err != nil {
		return err.Error()
	}
	return shorten(string(text), maxConsoleBytes)
}

// mustJSON encodes a value that is made of texts and numbers.
func mustJSON(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic("BUG: encode plain values: " + err.Error())
	}
	return text
}

// consoleInput is what a person has typed into the console.
type consoleInput struct {
	Lang, Text       string
	Collection, Sort string // of a filter
	Prom             promInput
	Space            uint8 // of commands
	JSON, Write      bool
	Explain          bool   // it is not run, but explained
	Marked, MarkLine string // where an error is: the line, and a second one with a mark under the character
	Problem          string
}

// placedError is an error at a place of the text.
type placedError struct {
	pos int // in bytes
	err error
}

func (p *placedError) Error() string { return p.err.Error() }
func (p *placedError) Unwrap() error { return p.err }

// errWrites refuses what may change something.
var errWrites = engine.Errorf(engine.CodeReadOnly, "this changes data, and changes are not allowed: tick “Allow changes” to run it")

// readConsoleInput returns what a request asks for.
func readConsoleInput(get func(string) web.Value) (in consoleInput, err error) {
	in = consoleInput{Lang: get("lang").Or(langCommands).String(), Collection: get("collection").String(), Sort: get("sort").String(), JSON: get("as").String() == "json", Write: get("write").String() == "1", Explain: get("explain").String() == "1"}
	in.Prom = promInput{Collection: get("series").String(), Range: get("range").String(), From: strings.TrimSpace(get("from").String()), Until: strings.TrimSpace(get("until").String()), Step: strings.TrimSpace(get("step").String())}
	in.Text = strings.ReplaceAll(get("text").String(), "\r\n", "\n")
	if len(in.Text) > maxConsoleText {
		in.Text = in.Text[:maxConsoleText]
		return in, engine.Errorf(engine.CodeLimit, "the text is longer than %d bytes", maxConsoleText)
	}
	in.Space, err = spaceOf(get("space"))
	return in, err
}

// console shows the console, and runs what only reads.
func (a *Admin) console(c *web.Context) error {
	in, err := readConsoleInput(c.Query)
	if err != nil {
		return a.showConsole(c, in, nil, err)
	}
	in.Write = false
	if !c.Query("run").Given() && !in.Explain {
		return a.showConsole(c, in, nil, nil)
	}
	result, err := a.run(c, in)
	return a.showConsole(c, in, result, err)
}

// consoleRun runs what a superadmin has typed. Without “Allow changes” it only reads.
func (a *Admin) consoleRun(c *web.Context) error {
	in, err := readConsoleInput(c.Form)
	if err != nil {
		return a.showConsole(c, in, nil, err)
	}
	if !in.Write || in.Explain {
		result, err := a.run(c, in)
		return a.showConsole(c, in, result, err)
	}
	var result *consoleGrid
	err = a.act(c, "console.run", in.Lang, mail.Redacted(in.Text, maxLogDetail), func() (err error) {
		result, err = a.run(c, in)
		return err
	})
	return a.showConsole(c, in, result, err)
}

// run runs what was typed.
func (a *Admin) run(c *web.Context, in consoleInput) (*consoleGrid, error) {
	ctx, cancel := context.WithTimeout(c, maxConsoleTime)
	defer cancel()
	if strings.TrimSpace(in.Text) == "" && in.Lang != langFilter {
		return nil, engine.Errorf(engine.CodeInvalid, "there is nothing to run")
	}
	begun := a.o.Now()
	var result *consoleGrid
	var err error
	switch {
	case in.Lang == langFilter && a.hasRecords():
		result, err = a.runFilter(ctx, in)
	case in.Lang == langGremlin && a.hasGraphs():
		result, err = a.runGremlin(ctx, in)
	case in.Lang == langPromQL && a.hasPromQL():
		result, err = a.runPromQL(ctx, in)
	case in.Lang == langCommands && a.o.Redis != nil:
		result, err = a.runCommands(ctx, in)
	default:
		err = engine.Errorf(engine.CodeInvalid, "this server has no language %q", in.Lang)
	}
	if result != nil {
		result.Took = a.o.Now().Sub(begun).Round(roundTook)
	}
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = engine.Errorf(engine.CodeLimit, "it took longer than %s and was stopped", maxConsoleTime)
		}
		return result, err
	}
	if in.JSON && len(result.Rows) > 0 && result.Text == "" {
		result.Text = result.json()
	}
	return result, nil
}

func (a *Admin) showConsole(c *web.Context, in consoleInput, result *consoleGrid, err error) error {
	status := http.StatusOK
	if err != nil {
		if engine.CodeOf(err) == engine.CodeInternal && placeOf(err) < 0 {
			return err
		}
		status = http.StatusUnprocessableEntity
		in.Problem = c.Detail(err)
		if pos := placeOf(err); pos >= 0 {
			if engine.CodeOf(err) == engine.CodeInternal { // of a parser
				in.Problem = err.Error()
			}
			in.Marked, in.MarkLine = markPlace(in.Text, pos)
		}
	}
	var names []string
	if a.hasRecords() {
		all, err := a.o.Records.Collections(c, engine.Read{Level: engine.Local})
		if err != nil {
			return err
		}
		for _, one := range all[:min(len(all), maxConsoleCollections)] {
			names = append(names, one.Name)
		}
	}
	return a.show(c, status, "console", web.Locals{
		"title": a.text("Console"), "in": in, "result": result, "collections": names, "records": a.hasRecords(), "graphs": a.hasGraphs(), "commands": a.commandHelp(), "stores": a.promCollections(), "ranges": promRanges(), "points": maxPromPoints,
		"most_rows": maxConsoleRows, "seconds": int(maxConsoleTime / time.Second),
	})
}

// placeOf returns the place of an error in the text, in bytes, or -1.
func placeOf(err error) int {
	if p, ok := errors.AsType[*placedError](err); ok {
		return p.pos
	}
	if p, ok := errors.AsType[*gremlin.SyntaxError](err); ok {
		return p.Pos
	}
	if p, ok := errors.AsType[*traversal.StepError](err); ok {
		return p.Pos
	}
	if p, ok := errors.AsType[*series.ExpressionError](err); ok {
		return p.Pos
	}
	if p, ok := errors.AsType[*expr.Error](err); ok {
		return p.Pos
	}
	if p, ok := errors.AsType[*query.Error](err); ok && p.Member == "filter" {
		return p.Pos
	}
	return -1
}

// runFilter finds records by the filter language.
func (a *Admin) runFilter(ctx context.Context, in consoleInput) (*consoleGrid, error) {
	if in.Collection == "" {
		return nil, engine.Errorf(engine.CodeInvalid, "choose a collection")
	}
	params := url.Values{"limit": {"100"}, "explain": {"true"}}
	if in.Explain {
		params.Set("limit", "1") // the plan is made when the first record is found
	}
	if strings.TrimSpace(in.Text) != "" {
		params.Set("filter", in.Text)
	}
	if in.Sort != "" {
		params.Set("sort", in.Sort)
	}
	var out *consoleGrid
	_, err := a.o.Records.View(ctx, engine.Read{}, record.Program(), func(tx *record.Tx) error {
		out = &consoleGrid{}
		q, err := tx.ParseQuery(in.Collection, params)
		if err != nil {
			return err
		}
		page, err := tx.Find(in.Collection, q)
		if err != nil {
			return err
		}
		if page.Plan != nil {
			if text, err := json.MarshalIndent(page.Plan, "", "  "); err == nil {
				out.Plan = string(text)
			}
		}
		if in.Explain {
			out.Text, out.Plan = out.Plan, ""
			return nil
		}
		if page.Next != "" {
			out.Cut = a.text("There are more records. Only the first %d are shown.", len(page.Items))
		}
		var items [][]consoleMember
		for i := range page.Items {
			object := page.AppendItem(nil, i)
			m, err := consoleMembers(object)
			if err != nil {
				return err
			}
			out.items = append(out.items, object)
			items = append(items, m)
		}
		out.fill(a, items)
		return nil
	})
	return out, err
}

// consoleMember is a member of a JSON object.
type consoleMember struct{ name, text string }

// consoleMembers returns the members of an object in order; those of the member data are among them.
func consoleMembers(object []byte) (all []consoleMember, err error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		text, isText := string(v), ""
		if json.Unmarshal(v, &isText) == nil && v[0] == '"' {
			text = isText
		}
		if name == "data" && v[0] == '{' {
			inner, err := consoleMembers(v)
			if err != nil {
				return nil, err
			}
			all = append(all, inner...)
			continue
		}
		all = append(all, consoleMember{name.(string), text})
	}
	return all, nil
}

// fill makes a table of objects.
func (g *consoleGrid) fill(a *Admin, items [][]consoleMember) {
	at := map[string]int{}
	for _, item := range items {
		for _, m := range item {
			if _, ok := at[m.name]; !ok && len(g.Columns) < maxConsoleCols {
				at[m.name] = len(g.Columns)
				g.Columns = append(g.Columns, m.name)
			}
		}
	}
	for _, item := range items {
		cells := make([]string, len(g.Columns))
		for _, m := range item {
			if i, ok := at[m.name]; ok {
				cells[i] = m.text
			}
		}
		if !g.add(cells...) {
			g.Cut = a.text("The result is larger than a page shows; the rest is left out.")
			return
		}
	}
}

// graphOfSource returns the graph of a source.
func graphOfSource(source string) string {
	if source == "" {
		return graph.Default
	}
	return source
}

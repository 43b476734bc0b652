package page

import (
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// style has the colors twice: for light and dark screens.
const style = `
:root{color-scheme:light dark;--back:#fff;--text:#1c2126;--dim:#55606b;--edge:#d0d6dc;--ours:#0b63ce;--rival:#8a94a0;--behind:#b4231f;--ahead:#12703f;--soft:#fdeceb}
@media (prefers-color-scheme:dark){:root{--back:#14181c;--text:#e6eaee;--dim:#a0abb6;--edge:#343c44;--ours:#6cb2ff;--rival:#77828d;--behind:#ff8f85;--ahead:#5fd39a;--soft:#3a1d1c}}
*{box-sizing:border-box}
body{margin:0 auto;padding:16px;max-width:1240px;background:var(--back);color:var(--text);font:16px/1.45 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.4rem;margin:0 0 4px}h2{font-size:1.1rem;margin:28px 0 6px}h3{font-size:1rem;margin:8px 0 2px}p{margin:4px 0}
a{color:var(--ours)}.dim{color:var(--dim)}
.charts{display:grid;gap:24px;grid-template-columns:repeat(auto-fit,minmax(min(100%,320px),1fr))}
svg{display:block;width:100%;max-width:420px;height:auto}
text{fill:var(--text);font-size:11px}.label{font-weight:600}.value{text-anchor:end}
rect{fill:var(--rival)}rect.ours{fill:var(--ours)}rect.behind{fill:var(--behind)}
tspan.behind{fill:var(--behind)}tspan.ahead{fill:var(--ahead)}.behind{color:var(--behind);font-weight:600}.ahead{color:var(--ahead);font-weight:600}
.losses{border-left:4px solid var(--behind);background:var(--soft);padding:8px 12px}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}
th,td{padding:4px 10px;border-bottom:1px solid var(--edge);text-align:left;vertical-align:top;overflow-wrap:normal}td+td,th{white-space:nowrap}
@media (max-width:480px){th,td{padding:4px 3px;font-size:.78rem}.losses ul{padding-left:18px}}
pre{overflow-x:auto;font-size:.8rem;overflow-wrap:normal}summary{cursor:pointer;margin:8px 0}
`

// view is what the template of a result's page shows.
type view struct {
	Result
	Title, Durability string
	Sections          []section
	Behind, Compared  int
	Behinds           []string // each comparison that Skerry loses, in words
	Missed            int
}

type section struct {
	Title, More string // the first sentence of the caption, and the others
	Charts      []drawn
	Table       Table
}

type drawn struct {
	Metric, Sense, Summary string
	SVG                    template.HTML
}

const (
	barWidth  = 340 // of the picture, in its own units
	barHeight = 27
	labelRoom = 20
)

func (r *Result) view() view {
	a := r.about()
	v := view{Result: *r, Title: a.title, Durability: a.durability}
	for _, t := range r.Tables {
		s := section{Title: "Measurements", Table: t}
		if t.Caption != "" {
			s.Title, s.More, _ = strings.Cut(strings.TrimSuffix(t.Caption, "."), ". ")
			if before, after, ok := strings.Cut(s.Title, ": "); ok && len(s.Title) > 100 {
				s.Title, s.More = before, strings.TrimSuffix(after+". "+s.More, ". ")
			}
		}
		for _, c := range a.charts(t) {
			behind, all := c.behind()
			v.Behind, v.Compared = v.Behind+behind, v.Compared+all
			d := drawn{Metric: c.metric, Sense: "less is better", SVG: c.svg()}
			if c.higher {
				d.Sense = "more is better"
			}
			if all > 0 {
				d.Summary = fmt.Sprintf("behind in %d of %d", behind, all)
			}
			s.Charts = append(s.Charts, d)
			v.Behinds = append(v.Behinds, c.losses()...)
		}
		v.Sections = append(v.Sections, s)
	}
	for _, t := range r.Targets {
		if !t.Reached {
			v.Missed++
		}
	}
	return v
}

// losses returns each comparison that Skerry loses.
func (c chart) losses() (all []string) {
	for _, g := range c.groups {
		for _, b := range g.bars {
			if b.behind {
				all = append(all, fmt.Sprintf("%s: %s, %s %s, %s", g.label, c.metric, b.system, b.text, b.verdict()))
			}
		}
	}
	return all
}

// verdict says in words how a number of Skerry's stands to its best rival's.
func (b bar) verdict() string {
	how := "ahead"
	if b.behind {
		how = "behind"
	} else if b.ratio == 1 {
		how = "equal"
	}
	if b.ratio == 0 {
		return how + " of " + b.rival
	}
	return fmt.Sprintf("%.3g× %s: %s", b.ratio, b.rival, how)
}

// alone returns the greatest value of the groups of one bar, which have a scale in common.
func (c chart) alone() (top float64) {
	for _, g := range c.groups {
		if len(g.bars) == 1 {
			top = max(top, g.bars[0].value)
		}
	}
	return top
}

// svg draws the bars of a chart, those of each group on a scale of their own.
func (c chart) svg() template.HTML {
	esc := template.HTMLEscapeString
	var b strings.Builder
	y := 0
	for _, g := range c.groups {
		if g.label != "" {
			y += labelRoom
			fmt.Fprintf(&b, `<text class="label" x="0" y="%d">%s</text>`, y-6, esc(cut(g.label, 52)))
		}
		top := 0.0
		for _, r := range g.bars {
			top = max(top, r.value)
		}
		if len(g.bars) == 1 {
			top = c.alone()
		}
		for _, r := range g.bars {
			class, verdict := "", ""
			if r.own {
				class = "ours"
			}
			if r.rival != "" {
				tone := "ahead"
				if r.behind {
					class, tone = "ours behind", "behind"
				}
				verdict = fmt.Sprintf(`<tspan class="%s" dx="6">%s</tspan>`, tone, esc(cut(r.verdict(), 34)))
			}
			width := 1.0
			if top > 0 {
				width = max(1, r.value/top*barWidth)
			}
			fmt.Fprintf(&b, `<text x="0" y="%d">%s</text><text class="value" x="%d" y="%d">%s%s</text><rect class="%s" y="%d" width="%.1f" height="8"/>`+"\n",
				y+11, esc(cut(r.system+r.remark, 24)), barWidth, y+11, esc(cut(r.text, 16)), verdict, class, y+15, width)
			y += barHeight
		}
	}
	behind, all := c.behind()
	name := fmt.Sprintf("%s: bars of %d groups, Skerry behind in %d of %d comparisons; the numbers are in the table below", c.metric, len(c.groups), behind, all)
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 %d %d" role="img" aria-label="%s">`+"\n%s</svg>", barWidth, max(y, 1), esc(name), b.String()))
}

// cut shortens a text to n characters.
func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

var pages = template.Must(template.New("").Funcs(template.FuncMap{"style": func() template.CSS { return style }}).Parse(`
{{define "head"}}<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1"><title>{{.}}</title><style>{{style}}</style></head><body>
{{end}}{{define "where"}}<p class="dim">{{with .Machine}}{{.}}{{else}}machine: not in the raw output{{end}}; {{with .Date}}{{.}}{{else}}no date{{end}}; {{with .Commit}}commit {{.}}{{else}}commit: not in the raw output{{end}}</p>
{{end}}{{define "page"}}{{template "head" (printf "%s; %s" .Title .Durability)}}<h1>{{.Title}}: {{.Durability}}</h1>
{{template "where" .}}<p><a href="{{.Name}}.txt">Raw output</a>, <a href="index.html">all benchmarks</a></p>
{{if .Compared}}<p>Skerry is <strong{{if .Behind}} class="behind"{{end}}>behind the best rival in {{.Behind}}</strong> of {{.Compared}} comparisons. Blue: Skerry; red: Skerry, behind; grey: rivals. Each group of bars has a scale of its own, single bars one in common; ratios are Skerry / its best rival.</p>
{{else if .Sections}}<p>No table of this file has a rival beside Skerry.</p>
{{else}}<p>This file has no table with columns; its text is below.</p>
{{end}}{{if or .Behinds .Losses}}<div class="losses"><h2>Where Skerry is behind</h2><ul>
{{range .Losses}}<li>{{.}}</li>
{{end}}</ul>{{with .Behinds}}<details><summary>Every comparison that is lost ({{len .}})</summary><ul>
{{range .}}<li>{{.}}</li>
{{end}}</ul></details>{{end}}</div>
{{end}}{{with .Targets}}<h2>Targets</h2><div class="scroll" tabindex="0" role="region" aria-label="Targets"><table><tr><th scope="col">target</th><th scope="col">aim</th><th scope="col">measured</th><th scope="col"></th></tr>
{{range .}}<tr><td>{{.Name}}</td><td>{{.Aim}}</td><td>{{.Measured}}</td><td>{{if .Reached}}<span class="ahead">reached</span>{{else}}<span class="behind">missed</span>{{end}}</td></tr>
{{end}}</table></div>
{{end}}{{range .Sections}}<h2>{{.Title}}</h2>
{{with .More}}<p class="dim">{{.}}</p>
{{end}}<div class="charts">{{range .Charts}}<section><h3>{{.Metric}}</h3><p class="dim">{{.Sense}}{{with .Summary}}; {{.}}{{end}}</p>
{{.SVG}}</section>
{{end}}</div>
<details><summary>The same in numbers</summary><div class="scroll" tabindex="0" role="region" aria-label="Numbers"><table><tr>{{range .Table.Header}}<th scope="col">{{.}}</th>{{end}}</tr>
{{range .Table.Rows}}<tr>{{range .}}<td>{{.}}</td>{{end}}</tr>
{{end}}</table></div></details>
{{end}}{{with .Unequal}}<h2>What is unequal</h2><ul>
{{range .}}<li>{{.}}</li>
{{end}}</ul>
{{end}}{{if not .Compared}}<h2>Raw output</h2><pre tabindex="0">{{.Text}}</pre>
{{end}}</body></html>
{{end}}{{define "index"}}{{template "head" "Skerry's benchmarks"}}<h1>Skerry's benchmarks</h1>
<p class="dim">Made of the raw output in this folder by <code>make bench-report</code>.</p>
<div class="charts">{{range .}}<section><h2><a href="{{.Page}}">{{.Title}}</a></h2><p>{{.Durability}}</p>
{{template "where" .}}{{if .Compared}}<p><span{{if .Behind}} class="behind"{{end}}>behind in {{.Behind}}</span>, ahead or equal in {{.Ahead}} of {{.Compared}} comparisons</p>
{{else if not .Sections}}<p>no table; the page shows the text</p>
{{else}}<p>no rivals in its tables</p>
{{end}}{{if .Targets}}<p>{{if .Missed}}<span class="behind">{{.Missed}} missed</span>{{else}}0 missed{{end}} of {{len .Targets}} targets</p>
{{end}}<p><a href="{{.Name}}.txt">{{.Name}}.txt</a>{{with .Picture}}, <a href="{{.}}">picture</a>{{end}}</p></section>
{{end}}</div></body></html>
{{end}}`))

// Ahead returns in how many comparisons Skerry is not behind.
func (v view) Ahead() int { return v.Compared - v.Behind }

// Page returns the file name of the page. bench-growth draws a picture of its own beside its output.
func (r Result) Page() string {
	if r.Picture() != "" {
		return r.Name + "-bars.html"
	}
	return r.Name + ".html"
}

// Picture returns the file name of the picture that a benchmark draws itself, or "".
func (r Result) Picture() string {
	if r.Benchmark == "growth" {
		return r.Name + ".html"
	}
	return ""
}

// Write writes the page of a file of raw output beside it, and returns what it shows.
func Write(file string) (Result, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return Result{}, err
	}
	r := Parse(strings.TrimSuffix(filepath.Base(file), ".txt"), string(text))
	return r, write(filepath.Join(filepath.Dir(file), r.Page()), "page", r.view())
}

// Index writes the page of each file of raw output in a folder, and index.html with them all, the newest first.
func Index(dir string) (pages []string, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	var all []view
	for _, file := range files {
		r, err := Write(file)
		if err != nil {
			return nil, err
		}
		all, pages = append(all, r.view()), append(pages, r.Page())
	}
	slices.SortStableFunc(all, func(a, b view) int { return strings.Compare(b.Date, a.Date) })
	return append(pages, "index.html"), write(filepath.Join(dir, "index.html"), "index", all)
}

// write replaces a file by what a template makes of v.
func write(file, name string, v any) error {
	var b strings.Builder
	if err := render(&b, name, v); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}

func render(w io.Writer, name string, v any) error { return pages.ExecuteTemplate(w, name, v) }

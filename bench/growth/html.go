package main

import (
	"fmt"
	"html"
	"os"
	"strings"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// style has the colors twice: for light and dark screens.
const style = `
:root{color-scheme:light dark;--back:#fff;--text:#1c2126;--dim:#5c6670;--grid:#e3e7eb;--skerry:#0b63ce;--redis:#c2410c;--mark:#f5a62333;--save:#0d948833;--edge:#d0d6dc}
@media (prefers-color-scheme:dark){:root{--back:#14181c;--text:#e6eaee;--dim:#9aa5b0;--grid:#2a3138;--skerry:#6cb2ff;--redis:#ff8f57;--mark:#f5a62340;--save:#2dd4bf38;--edge:#343c44}}
*{box-sizing:border-box}
body{margin:0 auto;padding:16px;max-width:1240px;background:var(--back);color:var(--text);font:16px/1.45 system-ui,sans-serif}
h1{font-size:1.4rem;margin:0 0 4px}h2{font-size:1.05rem;margin:20px 0 6px}p{margin:4px 0;color:var(--dim)}
.grid3{display:grid;gap:24px;grid-template-columns:repeat(auto-fit,minmax(min(100%,330px),1fr));margin:20px 0}
svg{display:block;width:100%;height:auto;overflow:visible}
.wide{display:none}@media (min-width:760px){.wide{display:block}.narrow{display:none}}
.grid{stroke:var(--grid)}.axis{stroke:var(--dim)}.tick,.name{fill:var(--dim);font-size:11px}.name{fill:var(--text)}
.line{fill:none;stroke-width:2;stroke-linejoin:round}.thin{stroke-width:1.2}.dash{stroke-dasharray:5 4}
.skerry{stroke:var(--skerry)}.redis{stroke:var(--redis)}.dot{fill:var(--back);stroke-width:2}
.mark{fill:var(--mark)}.save{fill:var(--save)}
ul{display:flex;flex-wrap:wrap;gap:4px 18px;list-style:none;margin:12px 0 0;padding:0;font-size:.9rem}
li{display:flex;align-items:center;gap:6px}li svg{width:26px;flex:none}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}
th,td{padding:4px 10px;border-bottom:1px solid var(--edge);text-align:right;white-space:nowrap}th:first-child,td:first-child{text-align:left}
`

// draw writes the picture of the one-node measurements: one HTML file that needs nothing else.
func (m *measurements) draw(path string) error {
	if m.at(partSkerry, m.largest()) == nil {
		return nil
	}
	return os.WriteFile(path, []byte(m.page()), 0o644)
}

// largest returns the greatest number of keys that was measured.
func (m *measurements) largest() (n uint64) {
	for _, g := range m.one {
		if len(g.windows) > 0 {
			n = max(n, g.keys)
		}
	}
	return n
}

func (m *measurements) page() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1"><title>How Skerry grows</title><style>%s</style></head><body>`+"\n", style)
	fmt.Fprintf(&b, "<h1>How Skerry grows</h1>\n<p>One node, random overwrites %s over RESP, keys of %d bytes with values of %d bytes, each write on disk before its reply. %s, %s.</p>\n",
		shape, rig.KeyBytes, rig.ValBytes, html.EscapeString(rig.Machine()), time.Now().Format(time.DateOnly))
	b.WriteString("<ul>" + key(`<polyline class="line skerry" points="1,7 25,7"/><circle class="dot skerry" cx="13" cy="7" r="3"/>`, "Skerry") +
		key(`<polyline class="line redis" points="1,7 25,7"/><circle class="dot redis" cx="13" cy="7" r="3"/>`, "Redis, appendfsync always") +
		key(`<polyline class="line dash skerry" points="1,7 25,7"/>`, "dashed: live memory; solid: resident") + "</ul>\n<div class=\"grid3\">\n")
	for _, c := range m.growthCharts() {
		fmt.Fprintf(&b, "<section><h2>%s</h2>\n%s</section>\n", html.EscapeString(c.title), c.svg(""))
	}
	b.WriteString("</div>\n")
	m.timelines(&b)
	m.numbers(&b)
	b.WriteString("</body></html>\n")
	return b.String()
}

// key is an entry of the legend.
func key(drawing, text string) string {
	return fmt.Sprintf(`<li><svg viewBox="0 0 26 14">%s</svg>%s</li>`, drawing, html.EscapeString(text))
}

// growthCharts are the charts over the number of keys.
func (m *measurements) growthCharts() []chart {
	var sizes []float64
	for _, g := range m.one {
		if v := float64(g.keys); len(g.windows) > 0 && (len(sizes) == 0 || v > sizes[len(sizes)-1]) {
			sizes = append(sizes, v)
		}
	}
	over := func(title, unit string, log bool) chart {
		return chart{title: title, xName: "keys", yName: unit, logX: true, logY: log, width: 360, height: 250, xTicks: sizes,
			xText: func(v float64) string { return sizeName(uint64(v)) }}
	}
	writes, p99, memory := over("Writes a second", "writes/s", false), over("99th percentile of latency", "p99, ms (log)", true), over("Memory a key", "bytes, key and value included (log)", true)
	for _, system := range []string{partSkerry, partRedis} {
		var rate, late, live, resident []point
		for _, g := range m.one {
			if g.system != system || len(g.windows) == 0 {
				continue
			}
			x := float64(g.keys)
			rate, late = append(rate, point{x, g.rate()}), append(late, point{x, g.p99() / 1000})
			if v := g.liveKey(); v > 0 {
				live = append(live, point{x, v})
			}
			if v := g.residentKey(); v > 0 {
				resident = append(resident, point{x, v})
			}
		}
		writes.lines = append(writes.lines, line{system, system, rate, true})
		p99.lines = append(p99.lines, line{system, system, late, true})
		memory.lines = append(memory.lines, line{system, system + " resident", resident, true}, line{system + " dash", system + " live", live, false})
	}
	return []chart{writes, p99, memory}
}

// shown returns the window to draw over time: one with a snapshot, if there is one.
func (g *grown) shown() *window {
	best := &g.windows[0]
	for i := range g.windows {
		w := &g.windows[i]
		if w.further != nil {
			w = w.further
		}
		if w.calm.Count > 0 && len(w.snapshots) > 0 && (best.calm.Count == 0 || len(best.snapshots) == 0) {
			best = w
		}
	}
	return best
}

// timelines draws throughput over time with the most keys.
func (m *measurements) timelines(b *strings.Builder) {
	keys := m.largest()
	fmt.Fprintf(b, "<h2>Throughput over time with %s keys</h2>\n<ul>%s%s</ul>\n", sizeName(keys),
		key(`<rect class="mark" width="26" height="14"/>`, "Go's garbage collector marks"), key(`<rect class="save" width="26" height="14"/>`, "a snapshot is written (Redis: its file is rewritten)"))
	top := 0.0
	for _, system := range []string{partSkerry, partRedis} {
		if g := m.at(system, keys); g != nil {
			for _, p := range throughput(g.shown()) {
				top = max(top, p.y)
			}
		}
	}
	for _, system := range []string{partSkerry, partRedis} {
		g := m.at(system, keys)
		if g == nil {
			continue
		}
		w := g.shown()
		c := chart{title: system + " over time", xName: "time, s", yName: map[string]string{partSkerry: "Skerry", partRedis: "Redis"}[system] + ", writes/s", height: 190, yMax: top, xText: number,
			lines: []line{{"thin " + system, system, throughput(w), false}}}
		c.xTicks = ticks((time.Duration(len(w.slices)) * slice).Seconds(), 8)
		for _, k := range w.marks {
			c.bands = append(c.bands, band{"mark", k.from.Seconds(), k.to.Seconds()})
		}
		for _, s := range w.snapshots {
			c.bands = append(c.bands, band{"save", s.from.Seconds(), s.to.Seconds()})
		}
		c.width = 360
		b.WriteString(c.svg("narrow"))
		c.width = 1200
		b.WriteString(c.svg("wide"))
	}
}

func throughput(w *window) (all []point) {
	for i, h := range w.slices {
		all = append(all, point{(w.sliceSpan(i).from + slice/2).Seconds(), float64(h.Count) * float64(time.Second/slice)})
	}
	return all
}

// numbers writes the figures behind the charts.
func (m *measurements) numbers(b *strings.Builder) {
	b.WriteString("<h2>The same in numbers</h2>\n<div class=\"scroll\"><table><tr><th>system</th><th>keys</th><th>writes/s</th><th>worst half second</th><th>p99, ms</th><th>CPU a write, µs</th><th>live, B a key</th><th>resident, B a key</th><th>recovery, s</th></tr>\n")
	for _, g := range m.one {
		if len(g.windows) == 0 {
			continue
		}
		fmt.Fprintf(b, "<tr><td>%s</td><td>%s</td><td>%.0f</td><td>%s</td><td>%.1f</td><td>%.2f</td><td>%.0f</td><td>%.0f</td><td>%.2f</td></tr>\n", g.system, sizeName(g.keys), g.rate(),
			rig.Known(g.least(func(w *window) float64 { return w.worst }), "%.0f"), g.p99()/1000, g.server(), g.liveKey(), g.residentKey(), rig.Median(g.recovery))
	}
	b.WriteString("</table></div>\n")
}

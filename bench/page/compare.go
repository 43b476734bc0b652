package page

import (
	"slices"
	"strings"
)

// about is what a benchmark's raw output does not say about itself in a form that a program can read.
type about struct {
	title      string
	durability string            // what is on disk before an answer
	ours       []string          // systems that are Skerry; nil: those whose names begin with skerry or engine
	pair       map[string]string // the only rival of a system of ours; others have every rival
	limit      string            // a system that does less than the others and shows what the machine could do; no rival
}

const unsaid = "durability as in the raw output"

// known are the benchmarks of the Makefile, and two files of other measurements.
var known = map[string]about{
	"admin":            {title: "The admin page", durability: "reads only; the records were on disk before they were acknowledged"},
	"btree":            {title: "Ordered maps", durability: "in memory; nothing is stored"},
	"cache":            {title: "Cached rows of PostgreSQL", durability: "reads only; the rows are durable in PostgreSQL", ours: []string{"memory", "disk"}},
	"cache-burst":      {title: "Cached rows of PostgreSQL, a burst", durability: "reads only; the rows are durable in PostgreSQL", ours: []string{"memory", "disk"}},
	"cluster":          {title: "Three nodes", durability: "fsync on every node before the reply, on both sides"},
	"engines":          {title: "Capabilities on each engine, and the same by hand", durability: "each write on disk before the call returns, on all sides", ours: []string{"embedded", "postgres", "redis"}, pair: map[string]string{"postgres": "pgx", "redis": "go-redis"}},
	"graph":            {title: "Graphs", durability: "Skerry and JanusGraph sync each transaction; TinkerGraph writes nothing to disk"},
	"growth":           {title: "1 k to 50 M keys", durability: "fsync before the reply, on all sides"},
	"kv":               {title: "Keys and values", durability: "fsync before the reply, on all sides"},
	"lane":             {title: "Keys over HTTP, the lane on and off", durability: "each write on disk before it is acknowledged", ours: []string{"on"}},
	"records":          {title: "Records over REST", durability: "each write on disk before its response, except pocketbase's with its defaults"},
	"record-events":    {title: "Events of records", durability: "matching in memory; nothing is stored"},
	"refactoring":      {title: "Before and after one HTTP stack", durability: "fsync before the reply, on both sides"},
	"series":           {title: "Time series", durability: "Skerry: fsync before the reply; Prometheus as each row says"},
	"series-cassandra": {title: "Time series on Cassandra", durability: "commitlog_sync batch, on both sides"},
	"sessions":         {title: "Sessions on each engine", durability: "each session on disk before the reply, on all sides", ours: []string{"embedded", "postgres", "redis", "cassandra"}},
	"voter":            {title: "Procedures", durability: "each vote on disk before its reply; those named -ram have a disk of memory"},
	"web":              {title: "Pages with sessions", durability: "a session's write on disk before the answer; fasthttp is the bare limit and stores nothing", limit: "fasthttp"},
}

// about returns what is known of a result's benchmark.
func (r *Result) about() about {
	a, ok := known[r.Benchmark]
	if !ok {
		a = about{title: r.Benchmark, durability: unsaid}
	}
	return a
}

// own reports whether a system is Skerry.
func (a about) own(system string) bool {
	if a.ours != nil {
		return slices.Contains(a.ours, system)
	}
	return strings.HasPrefix(system, "skerry") || system == "engine" || system == "engine-ram" || system == "after"
}

// bar is one measured number.
type bar struct {
	system string // with what else tells it from its neighbours
	text   string
	value  float64
	own    bool
	remark string // behind the system's name

	// Of Skerry's: its best rival in the same group, and this number over the rival's; "" if it has none.
	rival  string
	ratio  float64
	behind bool
}

// group is the numbers of systems that did the same.
type group struct {
	label string
	bars  []bar
}

// chart is one metric of a table.
type chart struct {
	metric string
	higher bool // is better
	groups []group
}

// behind returns how many comparisons a chart has, and in how many of them Skerry is behind.
func (c chart) behind() (behind, all int) {
	for _, g := range c.groups {
		for _, b := range g.bars {
			if b.rival != "" {
				all++
			}
			if b.behind {
				behind++
			}
		}
	}
	return behind, all
}

// transposed are columns that are systems, not metrics.
var transposed = []string{"google", "tidwall", "skerry", "before", "after"}

// given are columns of numbers that say what was done, not how well.
var given = []string{"keys", "callers", "clients", "connections", "N", "target", "ratio", "best", "resident/live", "beside/calm", "retries"}

// charts returns the metrics of a table that compares systems or shows Skerry alone.
func (a about) charts(t Table) []chart {
	if slices.Contains(t.Header, "skerry") || slices.Contains(t.Header, "after") {
		return a.across(t)
	}
	var labels, metrics []int
	system := -1
	for i, name := range t.Header {
		column := func(is func(cell string) bool) bool {
			return slices.ContainsFunc(t.Rows, func(row []string) bool { return is(row[i]) })
		}
		numbers := column(func(cell string) bool { _, ok := value(cell); return ok })
		text := column(func(cell string) bool { _, ok := value(cell); return !ok && cell != "" && cell != "–" })
		switch {
		case system < 0 && column(a.own):
			system = i
		case name == "" && i == len(t.Header)-1: // a remark
		case slices.Contains(given, name) || text:
			labels = append(labels, i)
		case numbers && !strings.HasPrefix(name, "/ ") && !strings.HasPrefix(name, "x "):
			metrics = append(metrics, i)
		}
	}
	var all []chart
	for _, m := range metrics {
		c := chart{metric: t.Header[m], higher: higher(t.Header[m])}
		for _, row := range t.Rows {
			v, ok := value(row[m])
			if !ok {
				continue
			}
			b := bar{system: "skerry", text: row[m], value: v, own: system < 0}
			if system >= 0 {
				b.system, b.own = row[system], a.own(row[system])
				if a.limit != "" && b.system == a.limit {
					b.remark = " (bare limit)"
				}
			}
			c.add(&b, t, labels, row)
		}
		all = append(all, a.judged(c))
	}
	return all
}

// add puts a bar into the group with the same labels. Faces that only one side has are compared with one another;
// systems whose disk is memory are not compared with the others.
func (c *chart) add(b *bar, t Table, labels []int, row []string) {
	var parts []string
	for _, i := range labels {
		cell, name := row[i], t.Header[i]
		switch {
		case cell == "" || slices.Contains([]string{"ratio", "best", "target", "resident/live", "beside/calm", "retries"}, name):
			continue
		case name == "face":
			b.system += ", " + cell
			if cell != "HTTP" {
				cell = "RESP or gRPC"
			}
		case slices.Contains(given, name):
			cell += " " + name
		}
		parts = append(parts, cell)
	}
	if strings.HasSuffix(b.system, "-ram") {
		parts = append(parts, "no disk")
	}
	label := strings.Join(parts, ", ")
	i := slices.IndexFunc(c.groups, func(g group) bool { return g.label == label })
	if i < 0 {
		i = len(c.groups)
		c.groups = append(c.groups, group{label: label})
	}
	c.groups[i].bars = append(c.groups[i].bars, *b)
}

// across returns the only metric of a table whose columns are systems.
func (a about) across(t Table) []chart {
	c := chart{metric: "ns, or bytes per entry", higher: false}
	if strings.Contains(t.Caption, "/s") {
		end := strings.Index(t.Caption, "/s")
		c.metric, c.higher = t.Caption[strings.LastIndex(t.Caption[:end], " ")+1:end+len("/s")], true
	}
	for _, row := range t.Rows {
		g := group{label: row[0]}
		for i, name := range t.Header {
			if v, ok := value(row[i]); ok && slices.Contains(transposed, name) {
				g.bars = append(g.bars, bar{system: name, text: row[i], value: v, own: a.own(name)})
			}
		}
		c.groups = append(c.groups, g)
	}
	return []chart{a.judged(c)}
}

// higher reports whether more of a metric is better: rates are, times and sizes are not.
func higher(metric string) bool {
	_, unit, rate := strings.Cut(metric, "/")
	return rate && (unit == "s" || strings.HasPrefix(unit, "s "))
}

// judged compares each number of Skerry with its best rival's.
func (a about) judged(c chart) chart {
	if strings.HasPrefix(c.metric, "client ") || strings.HasPrefix(c.metric, "driver ") { // of the load generator
		return c
	}
	for _, g := range c.groups {
		for i := range g.bars {
			b := &g.bars[i]
			if !b.own {
				continue
			}
			best := -1
			for j, r := range g.bars {
				only := a.pair[b.system]
				if r.own || r.remark != "" || only != "" && r.system != only {
					continue
				}
				if best < 0 || (r.value > g.bars[best].value) == c.higher {
					best = j
				}
			}
			if best < 0 {
				continue
			}
			r := g.bars[best]
			b.rival = r.system
			if r.value > 0 {
				b.ratio = b.value / r.value
			}
			b.behind = b.value != r.value && (b.value < r.value) == c.higher
		}
	}
	return c
}

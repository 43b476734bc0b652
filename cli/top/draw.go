package top

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/skerrydb/skerry/cli/verb"
)

// tone is how a piece of text looks. There are no backgrounds, so it is readable on light and on dark terminals.
type tone int

const (
	plain tone = iota
	bold
	dim
	bad
	chosen // the selected node
)

type piece struct {
	text string
	tone tone
}

// line is a line of the screen.
type line []piece

func (l line) String() string {
	var b strings.Builder
	for _, p := range l {
		b.WriteString(p.text)
	}
	return strings.TrimRight(b.String(), " ")
}

// view is all that a screen shows.
type view struct {
	nodes  []*Node
	chosen int
	paused bool
	every  time.Duration
	now    time.Time
	ascii  bool // draw without Unicode's blocks
}

// column is a column of the list. The first of the columns stay longest if the terminal is narrow.
type column struct {
	name string
	cell func(n *Node) string
	left bool
}

var columns = []column{
	{"NODE", func(n *Node) string { return n.title() }, true},
	{"ROLE", func(n *Node) string { return n.Role }, true},
	{"REQ/S", func(n *Node) string { return n.rate(func(s *Sample) float64 { return s.Requests }, count) }, false},
	{"P99", func(n *Node) string { return n.rate(func(s *Sample) float64 { return s.P99 }, millis) }, false},
	{"WRITES/S", func(n *Node) string { return n.rate(func(s *Sample) float64 { return s.Writes }, count) }, false},
	{"LAG", func(n *Node) string { return n.lag() }, false},
	{"MEMORY", func(n *Node) string { return n.value(func(s *Sample) float64 { return s.Data }, size) }, false},
	{"OF", func(n *Node) string { return n.value(func(s *Sample) float64 { return s.Limit }, size) }, false},
	{"DISK", func(n *Node) string { return n.value(func(s *Sample) float64 { return s.Disk }, size) }, false},
	{"P50", func(n *Node) string { return n.rate(func(s *Sample) float64 { return s.P50 }, millis) }, false},
	{"CPU", func(n *Node) string {
		return n.rate(func(s *Sample) float64 { return s.CPU }, func(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) })
	}, false},
	{"RESIDENT", func(n *Node) string { return n.value(func(s *Sample) float64 { return s.Resident }, size) }, false},
	{"KEYS", func(n *Node) string { return n.value(func(s *Sample) float64 { return s.Keys }, count) }, false},
}

// title names a node: its number in the cluster and its address.
func (n *Node) title() string {
	name := strings.TrimPrefix(n.Name, "http://")
	if n.ID != 0 {
		name = fmt.Sprintf("%d %s", n.ID, name)
	}
	return name
}

// value formats a number of the last sample; a node that does not answer has none.
func (n *Node) value(of func(s *Sample) float64, format func(float64) string) string {
	if n.Now == nil || n.Down != nil {
		return "-"
	}
	if v := of(n.Now); v != 0 || n.Watched { // others have reported little
		return format(v)
	}
	return "-"
}

// rate is value for what needs two samples.
func (n *Node) rate(of func(s *Sample) float64, format func(float64) string) string {
	if !n.measured {
		return "-"
	}
	return n.value(of, format)
}

func (n *Node) lag() string {
	if n.ID == 0 || n.Role == "leader" {
		return "-"
	}
	return n.value(func(*Sample) float64 { return n.Lag }, count)
}

func count(v float64) string {
	switch {
	case v >= 1e9:
		return fmt.Sprintf("%.1fG", v/1e9)
	case v >= 1e6:
		return fmt.Sprintf("%.1fM", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.1fk", v/1e3)
	case v >= 10 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.1f", v)
}

func millis(v float64) string {
	switch {
	case v == 0:
		return "-"
	case v >= 1000:
		return fmt.Sprintf("%.1f s", v/1000)
	case v >= 10:
		return fmt.Sprintf("%.0f ms", v)
	}
	return fmt.Sprintf("%.2f ms", v)
}

func size(v float64) string {
	return verb.FormatSize(int64(min(max(v, 0), math.MaxInt64/2)))
}

// draw fills a screen of a width and a height.
func (v *view) draw(width, height int) []line {
	var lines []line
	lines = append(lines, v.head(), nil)
	lines = append(lines, v.list(width)...)
	lines = append(lines, nil)
	lines = append(lines, v.wrong()...)
	if n := v.selected(); n != nil && n.Watched {
		lines = append(lines, nil)
		lines = append(lines, v.history(n, width)...)
	}
	foot := line{{"q quit  p pause  up/down, tab: node", dim}}
	room := max(0, height-1)
	if len(lines) > room {
		lines = lines[:room]
	}
	for len(lines) < room {
		lines = append(lines, nil)
	}
	if height > 0 {
		lines = append(lines, foot)
	}
	for i, l := range lines {
		lines[i] = l.cut(width)
	}
	return lines
}

// cut shortens a line to a width.
func (l line) cut(width int) line {
	var short line
	for _, p := range l {
		r := []rune(p.text)
		if len(r) > width {
			r = r[:max(width, 0)]
		}
		if len(r) > 0 {
			short = append(short, piece{string(r), p.tone})
		}
		width -= len(r)
	}
	return short
}

func (v *view) selected() *Node {
	if v.chosen < 0 || v.chosen >= len(v.nodes) {
		return nil
	}
	return v.nodes[v.chosen]
}

func (v *view) head() line {
	what := verb.Plural(len(v.nodes), "server")
	var requests, writes float64
	for _, n := range v.nodes {
		if n.Role == "leader" || n.ID != 0 {
			what = verb.Plural(len(v.nodes), "node")
		}
		if n.Now != nil && n.Down == nil {
			requests += n.Now.Requests
			if n.ID == 0 || n.Role == "leader" { // followers count the same transactions
				writes += n.Now.Writes
			}
		}
	}
	l := line{{"skerry top", bold}, {fmt.Sprintf("  %s  %s  %s req/s  %s writes/s", v.now.UTC().Format(time.TimeOnly), what, count(requests), count(writes)), plain}}
	if v.paused {
		return append(l, piece{"  paused", bold})
	}
	return append(l, piece{fmt.Sprintf("  every %v", v.every), dim})
}

// list returns the nodes, with as many columns as have room.
func (v *view) list(width int) (lines []line) {
	const most = 40 // characters of a name
	const mark = 2
	cells := make([][]string, len(v.nodes)+1)
	used := mark
	var fits []column
	for _, c := range columns {
		wide := len(c.name)
		texts := []string{c.name}
		for _, n := range v.nodes {
			text := c.cell(n)
			if r := []rune(text); len(r) > most {
				text = string(r[:most-1]) + "~"
			}
			texts = append(texts, text)
			wide = max(wide, len([]rune(text)))
		}
		if len(fits) > 1 && used+wide > width {
			break
		}
		used += wide + 2
		fits = append(fits, c)
		for i, text := range texts {
			pad := strings.Repeat(" ", wide-len([]rune(text)))
			if c.left {
				text += pad
			} else {
				text = pad + text
			}
			cells[i] = append(cells[i], text)
		}
	}
	lines = append(lines, line{{"  " + strings.Join(cells[0], "  "), dim}})
	for i, n := range v.nodes {
		l := line{{"  ", plain}}
		look := plain
		if i == v.chosen {
			l, look = line{{"> ", bold}}, chosen
		}
		if len(n.Wrong) > 0 {
			l[0] = piece{l[0].text[:1] + "!", bad}
		}
		lines = append(lines, append(l, piece{strings.Join(cells[i+1], "  "), look}))
	}
	return lines
}

// wrong returns what is wrong now.
func (v *view) wrong() (lines []line) {
	for _, n := range v.nodes {
		for _, text := range n.Wrong {
			lines = append(lines, line{{"! ", bad}, {n.title() + ": " + text, bad}})
		}
	}
	if lines == nil {
		return []line{{{"nothing is wrong", plain}}}
	}
	return lines
}

// history returns the sparklines of a node.
func (v *view) history(n *Node, width int) []line {
	const names = 10
	const numbers = 11 // for the greatest value
	lines := []line{{{"History of " + n.title(), bold}}}
	for _, m := range []struct {
		name   string
		of     func(s Sample) float64
		format func(float64) string
	}{
		{"requests", func(s Sample) float64 { return s.Requests }, count},
		{"writes", func(s Sample) float64 { return s.Writes }, count},
		{"p99", func(s Sample) float64 { return s.P99 }, millis},
		{"memory", func(s Sample) float64 { return s.Data }, size},
	} {
		var values []float64
		top := 0.0
		for _, s := range n.history[max(0, len(n.history)-max(1, width-names-numbers)):] {
			values = append(values, m.of(s))
			top = max(top, m.of(s))
		}
		most := ""
		if top > 0 {
			most = " " + m.format(top)
		}
		lines = append(lines, line{{fmt.Sprintf("%-*s", names, m.name), dim}, {spark(values, top, v.ascii), plain}, {most, dim}})
	}
	return lines
}

// spark draws values as blocks from 0 to top.
func spark(values []float64, top float64, ascii bool) string {
	steps := []rune("▁▂▃▄▅▆▇█")
	if ascii {
		steps = []rune("_.-=+*%#")
	}
	var b strings.Builder
	for _, v := range values {
		i := 0
		if top > 0 {
			i = int(math.Round(min(max(v/top, 0), 1) * float64(len(steps)-1)))
		}
		b.WriteRune(steps[i])
	}
	return b.String()
}

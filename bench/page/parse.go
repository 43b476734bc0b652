// Package page makes HTML pages of the raw output of the benchmarks: one of each file, and one of them all.
//
// It knows how the programs print tables, targets and losses; it must not know how anything is measured.
package page

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Result is one file of raw output.
type Result struct {
	Name      string // of the file, without .txt
	Benchmark string // the name without its date
	Date      string // "": the file has none
	Machine   string // "": the same
	Commit    string // "": the same
	Text      string // all of it
	Tables    []Table
	Targets   []Target
	Losses    []string // as the program printed them
	Unequal   []string // the same, of what is unequal
}

// Table is one table. Every row has as many cells as Header.
type Table struct {
	Caption string
	Header  []string
	Rows    [][]string
}

// Target is what a run should reach, and what it measured.
type Target struct {
	Name, Measured, Aim string
	Reached             bool
}

var (
	dated    = regexp.MustCompile(`^(.*?)-(\d{4}-\d\d-\d\d)$`)
	dateLine = regexp.MustCompile(`\b20\d\d-\d\d-\d\d\b(?: \d\d:\d\d)?`)
	commits  = regexp.MustCompile(`\bcommits? ([0-9a-f]{7,40}(?:-dirty)?)\b`)
	target   = regexp.MustCompile(`^(reached|MISSED) +(.*?) {2,}(\S+(?: \S+)?) +\(aim (.*)\)$`)
	number   = regexp.MustCompile(`^[-−+]?\d[\d.,]*(?:%|×)?\*?$`)
	wide     = regexp.MustCompile(` {2,}`)
)

// Parse reads the raw output of the file name, without its .txt.
func Parse(name, text string) Result {
	r := Result{Name: name, Benchmark: name, Text: text}
	if m := dated.FindStringSubmatch(name); m != nil {
		r.Benchmark, r.Date = m[1], m[2]
	}
	lines := strings.Split(strings.ReplaceAll(text, "\r", ""), "\n")
	const head = 12 // the lines that may say where and when
	for _, line := range lines[:min(head, len(lines))] {
		if m := dateLine.FindString(line); len(m) > len(r.Date) {
			r.Date = m
		}
		if m := commits.FindStringSubmatch(line); m != nil && r.Commit == "" {
			r.Commit = m[1]
		}
		if r.Machine == "" && (strings.Contains(line, " cores") || strings.Contains(line, "CPUs, ")) {
			r.Machine, _, _ = strings.Cut(line, ", generator")
			r.Machine, _, _ = strings.Cut(r.Machine, ";")
			if before, _, ok := strings.Cut(r.Machine, " of a virtual"); ok {
				r.Machine = before
			}
		}
	}
	var last string // header of the table before
	for _, block := range blocks(lines) {
		switch first := block[0]; {
		case first == "Targets:":
			r.targets(block[1:])
		case strings.HasPrefix(first, "Where Skerry "):
			if len(block) > 1 && block[1] != "nowhere" {
				r.Losses = append(r.Losses, items(block[1:])...)
			}
		case first == "What is unequal:":
			r.Unequal = append(r.Unequal, items(block[1:])...)
		default:
			last = r.table(block, last)
		}
	}
	return r
}

// blocks splits lines at empty ones, and before the titles of lists that follow something without an empty line.
func blocks(lines []string) (all [][]string) {
	var block []string
	end := func() {
		if len(block) > 0 {
			all = append(all, block)
		}
		block = nil
	}
	for _, line := range lines {
		line = strings.TrimRight(strings.ReplaceAll(line, "\t", "    "), " ")
		if line == "" || line == "Targets:" || strings.HasPrefix(line, "Where Skerry ") {
			end()
		}
		if line != "" {
			block = append(block, line)
		}
	}
	end()
	return all
}

func (r *Result) targets(lines []string) {
	for _, line := range lines {
		if m := target.FindStringSubmatch(line); m != nil {
			r.Targets = append(r.Targets, Target{Name: m[2], Measured: m[3], Aim: m[4], Reached: m[1] == "reached"})
		}
	}
}

// items joins the lines of a list whose items begin with "- ". A list without them has one item a line.
func items(lines []string) (all []string) {
	for _, line := range lines {
		text, begins := strings.CutPrefix(line, "- ")
		if !begins && strings.HasPrefix(line, "  ") && len(all) > 0 {
			all[len(all)-1] += " " + strings.TrimSpace(line)
			continue
		}
		all = append(all, wide.ReplaceAllString(text, " "))
	}
	return all
}

// table adds the table in a block, if there is one, and returns its header. last is the header of the table before,
// which the medians of the same measurements may share.
func (r *Result) table(block []string, last string) string {
	for i, line := range block {
		begin := i + 1
		if line == "medians" && last != "" && begin < len(block) && isRow(block[begin]) {
			line, i = last, begin
		} else if !isHeader(line) {
			continue
		}
		end := begin
		for end < len(block) && isRow(block[end]) {
			end++
		}
		if end == begin {
			continue
		}
		t := columns(line, block[begin:end])
		t.Caption = strings.Join(block[:i], " ")
		if t.Caption == "medians" { // the rounds are in the raw output
			r.Tables = slices.DeleteFunc(r.Tables, func(o Table) bool {
				return slices.Equal(o.Header[:min(2, len(o.Header))], t.Header[:min(2, len(t.Header))])
			})
		}
		r.Tables = append(r.Tables, t)
		return line
	}
	return last
}

// isHeader reports whether a line can name the columns of a table: three names without a number.
func isHeader(line string) bool {
	names := wide.Split(strings.TrimSpace(line), -1)
	return len(names) >= 3 && !slices.ContainsFunc(strings.Fields(line), number.MatchString)
}

// isRow reports whether a line can be a row: it has two numbers at least, and no word introduces them.
func isRow(line string) bool {
	n := 0
	for _, word := range strings.Fields(line) {
		if number.MatchString(word) || word == "–" {
			n++
		}
		if strings.HasSuffix(word, ":") {
			return false
		}
	}
	return n >= 2
}

// span is a column: the characters from begin to before end.
type span struct {
	begin, end int
	name       string
	filled     bool // a row has something there
}

// columns splits a table where no line has anything.
func columns(header string, rows []string) Table {
	grid := [][]rune{[]rune(header)}
	for _, row := range rows {
		grid = append(grid, []rune(row))
	}
	spans := merge(gaps(grid))
	var t Table
	bar, group := false, ""
	for _, s := range spans {
		if s.name == "|" {
			bar = true
			continue
		}
		if before, after, ok := strings.Cut(s.name, ": "); ok && bar { // names the group of columns beside the bar
			group, s.name = before, after
		}
		if group != "" {
			s.name = group + ": " + s.name
		}
		t.Header = append(t.Header, s.name)
	}
	for _, line := range grid[1:] {
		var cells []string
		for _, s := range spans {
			if s.name != "|" {
				cells = append(cells, s.of(line))
			}
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

func (s span) of(line []rune) string {
	return strings.TrimSpace(string(line[min(s.begin, len(line)):min(s.end, len(line))]))
}

// gaps returns the spans between the positions at which every line is blank.
func gaps(grid [][]rune) (all []span) {
	width := 0
	for _, line := range grid {
		width = max(width, len(line))
	}
	open := false
	for x := range width {
		used := slices.ContainsFunc(grid, func(line []rune) bool { return x < len(line) && line[x] != ' ' })
		if used && !open {
			all = append(all, span{begin: x})
		}
		if used {
			all[len(all)-1].end = x + 1
		}
		open = used
	}
	for i := range all {
		s := &all[i]
		s.name = s.of(grid[0])
		s.filled = slices.ContainsFunc(grid[1:], func(line []rune) bool { return s.of(line) != "" })
	}
	return all
}

// merge joins spans to columns: a name of several words stands over one number, and words of one cell have no name.
func merge(spans []span) (all []span) {
	for _, s := range spans {
		if len(all) == 0 {
			all = append(all, s)
			continue
		}
		left := &all[len(all)-1]
		near := s.begin-left.end == 1
		switch {
		case !left.filled: // the words before the last of a name
			left.name, left.end, left.filled = strings.TrimSpace(left.name+" "+s.name), s.end, s.filled
		case s.name == "" && (near || left.name == "" && len(all) > 1):
			left.end = s.end
		default:
			all = append(all, s)
		}
	}
	return all
}

// value returns the number of a cell: "1.5", "10 M", "0.356 (356)", "12*".
func value(cell string) (v float64, ok bool) {
	words := strings.Fields(cell)
	if len(words) == 0 || !number.MatchString(words[0]) {
		return 0, false
	}
	v, err := strconv.ParseFloat(strings.Trim(strings.ReplaceAll(words[0], ",", ""), "*×%"), 64)
	if err != nil {
		return 0, false
	}
	if len(words) > 1 {
		switch words[1] {
		case "k":
			v *= 1e3
		case "M":
			v *= 1e6
		}
	}
	return v, true
}

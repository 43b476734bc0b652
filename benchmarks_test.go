package skerry_test

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

const tableEnd = "<!-- end -->"

// engines is the run of bench-engines that the documents show.
const engines = "engines-2026-11-25"

// TestBenchmarkTables: the tables of docs/benchmarks.md match the raw output.
func TestBenchmarkTables(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"kv-2026-11-21", "cluster-2026-11-21", "voter-2026-11-21", "web-2026-11-27", "records-2026-11-23", engines, "cache-2026-11-27", "lane-2026-11-27", "series-2026-11-28", "series-cassandra-2026-11-28", "sessions-2026-11-28", "graph-2026-11-30", "admin-2026-11-30"} {
		file := "bench/results/" + name + ".txt"
		expectSection(t, "docs/benchmarks.md", "<!-- targets of "+file+" -->\n", tableEnd, targetsTable(t, file))
	}
	const growth = "bench/results/growth-2026-11-23"
	expectSection(t, "docs/benchmarks.md", "<!-- growth of "+growth+".txt -->\n", tableEnd, growthSection(t, growth))
	const btree = "bench/results/btree-2026-11-21.txt"
	expectSection(t, "docs/benchmarks.md", "<!-- ratios of "+btree+" -->\n", tableEnd, ratiosTable(t, btree))
}

// TestEnginesTable: the measured table of docs/engines.md matches the raw output.
func TestEnginesTable(t *testing.T) {
	t.Parallel()
	file := "bench/results/" + engines + ".txt"
	expectSection(t, "docs/engines.md", "<!-- rates of "+file+" -->\n", tableEnd, ratesTable(t, file))
}

// rate is a line of the raw output of bench-engines: operation, callers, system, calls a second, p50, p99 and CPU time.
var rate = regexp.MustCompile(`(?m)^(\S.*?) +(\d+)  (\S+) +(\d+) +\d+ +\d+ +[\d.]+$`)

// ratesTable returns the calls a second of each operation by 1 and by 64 callers, on each engine and by hand.
func ratesTable(t *testing.T, file string) string {
	t.Helper()
	columns := []string{"embedded", "postgres", "pgx", "redis", "go-redis"}
	var rows []string
	cells := map[string]map[string]string{}
	for _, m := range rate.FindAllStringSubmatch(rawOutput(t, file), -1) {
		row := m[1] + " | " + m[2]
		if cells[row] == nil {
			rows = append(rows, row)
			cells[row] = map[string]string{}
		}
		cells[row][m[3]] = m[4]
	}
	if len(rows) < 10 {
		t.Fatalf("%s has %d rows", file, len(rows))
	}
	var b strings.Builder
	b.WriteString("\n| calls a second | callers | embedded | PostgreSQL | *pgx by hand* | Redis | *go-redis by hand* |\n|---|---|---|---|---|---|---|\n")
	for _, row := range rows {
		fmt.Fprintf(&b, "| %s", row)
		for _, c := range columns {
			fmt.Fprintf(&b, " | %s", cmp.Or(cells[row][c], "–"))
		}
		b.WriteString(" |\n")
	}
	return b.String() + "\n"
}

func rawOutput(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// target is a line of raw output such as "MISSED   writes: Skerry / etcd   11.33×   (aim ≥ 12×)".
var target = regexp.MustCompile(`^(reached|MISSED) +(.*?) {2,}(\S+(?: \S+)?) +\(aim (.*)\)$`)

// targetsTable returns the targets in a file of raw output, each with what was measured.
func targetsTable(t *testing.T, file string) string {
	t.Helper()
	_, list, _ := strings.Cut(rawOutput(t, file), "\nTargets:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	var b strings.Builder
	b.WriteString("\n| target | aim | measured | |\n|---|---|---|---|\n")
	n := 0
	for line := range strings.SplitSeq(strings.TrimSpace(list), "\n") {
		m := target.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("%s: %q is no target", file, line)
		}
		n++
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", m[2], m[4], m[3], map[string]string{"reached": "reached", "MISSED": "**missed**"}[m[1]])
	}
	if n < 2 {
		t.Fatalf("%s has %d targets", file, n)
	}
	return b.String() + "\n"
}

// growthSection returns the targets, the tables and the losses of a run of bench-growth, with links to its files. Before
// the first run it only says so.
func growthSection(t *testing.T, run string) string {
	t.Helper()
	if _, err := os.Stat(run + ".txt"); errors.Is(err, fs.ErrNotExist) {
		return "\nThis comparison has not run on a quiet machine yet.\n\n"
	}
	text := rawOutput(t, run+".txt")
	part := func(begin string) string {
		_, rest, found := strings.Cut(text, "\n"+begin)
		if !found {
			t.Fatalf("%s.txt has no %q", run, begin)
		}
		rest, _, _ = strings.Cut(rest, "\n\n")
		return begin + strings.TrimRight(rest, "\n")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n[Raw output](../%s.txt), with what is unequal; [the same as a picture](../%s.html).\n%s", run, run, targetsTable(t, run+".txt"))
	for _, begin := range []string{"One node, writes", "One node, memory", "One node, beside a snapshot", "Three nodes on this machine"} {
		title, rows, _ := strings.Cut(part(begin), "\n")
		fmt.Fprintf(&b, "%s\n\n```\n%s\n```\n\n", title, rows)
	}
	_, losses, _ := strings.Cut(part("Where Skerry loses:"), "\n")
	return b.String() + "Where Skerry loses, as the program prints it:\n\n" + losses + "\n\n"
}

// ratio is a line of the B-tree's raw output: an operation, three times, two ratios and,
// if there is one, the target.
var ratio = regexp.MustCompile(`^(\S.*?) {2,}(?:[\d.]+ +){4}([\d.]+)(?: +([\d.]+)(?: +(met|MISSED))?)?$`)

// ratiosTable returns the CPU time of each operation on each load, as a multiple of tidwall/btree's.
func ratiosTable(t *testing.T, file string) string {
	t.Helper()
	var loads, ops []string
	cells, aims := map[string][]string{}, map[string]string{}
	lines := strings.Split(rawOutput(t, file), "\n")
	for i, line := range lines {
		if strings.Contains(line, "x tidwall") {
			loads = append(loads, lines[i-1])
		}
		m := ratio.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		op := m[1]
		if cells[op] == nil {
			ops = append(ops, op)
		}
		if aims[op] = m[3]; m[4] == "MISSED" {
			m[2] = "**" + m[2] + "**"
		}
		cells[op] = append(cells[op], m[2])
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n| | %s | aim |\n|---|%s---|\n", strings.Join(loads, " | "), strings.Repeat("---|", len(loads)))
	for _, op := range ops {
		if len(cells[op]) != len(loads) {
			t.Fatalf("%s: %s has %d values for %d loads", file, op, len(cells[op]), len(loads))
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", op, strings.Join(cells[op], " | "), aims[op])
	}
	return b.String() + "\n"
}

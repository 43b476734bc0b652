package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// event is one line of go test -json; see go doc test2json.
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

// tracker collects the events of one run of go test.
type tracker struct {
	out      io.Writer
	results  io.Writer
	output   map[string][]string // package and test → output
	outcomes map[string]string   // package and test → pass, fail, skip; "" while it runs
	parents  map[string]bool     // tests that have subtests: these are not counted
	fatal    map[string]bool     // packages with a failure that is never flaky
	packages int
	again    []failure // not in results yet
	slow     []event   // tests that took long
}

func newTracker(out, results io.Writer) *tracker {
	return &tracker{out: out, results: results, output: map[string][]string{}, outcomes: map[string]string{},
		parents: map[string]bool{}, fatal: map[string]bool{}}
}

// follow reads events from in to their end.
func (t *tracker) follow(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Fprintln(t.out, lines.Text()) // output of the go command itself
			continue
		}
		t.take(e)
	}
	return lines.Err()
}

func (t *tracker) take(e event) {
	id := e.Package + " " + e.Test
	switch e.Action {
	case "build-output":
		fmt.Fprint(t.out, e.Output)
	case "run":
		t.outcomes[id] = ""
		if i := strings.LastIndexByte(e.Test, '/'); i > 0 {
			t.parents[e.Package+" "+e.Test[:i]] = true
		}
	case "output":
		t.output[id] = append(t.output[id], e.Output)
		if strings.HasPrefix(e.Output, "WARNING: DATA RACE") {
			t.fatal[e.Package] = true
		}
	case "pass", "fail", "skip":
		if e.Test == "" {
			t.packages++
			t.finish(e)
			return
		}
		t.outcomes[id] = e.Action
		if e.Elapsed >= slow && !strings.Contains(e.Test, "/") {
			t.slow = append(t.slow, e)
		}
		if e.Action == "pass" {
			delete(t.output, id)
		}
	}
}

// finish reports one package whose tests have ended.
func (t *tracker) finish(e event) {
	passed, failed := 0, map[string]*failure{}
	failures := 0
	failedBelow := map[string]bool{} // tests with a failed subtest, which counts instead
	for _, id := range slices.Backward(t.of(e.Package)) {
		outcome := t.outcomes[id]
		delete(t.outcomes, id)
		switch outcome {
		case "":
			outcome = "fail" // it did not end: a panic, an exit, a timeout
			t.fatal[e.Package] = true
		case "skip":
			fmt.Fprintf(t.results, "skip %s %s\n", id, reason(t.output[id]))
			continue
		}
		text := indent(t.output[id])
		top, _, _ := strings.Cut(strings.TrimPrefix(id, e.Package+" "), "/")
		if outcome == "fail" {
			fmt.Fprint(t.out, text)
			if failed[top] == nil {
				failed[top] = &failure{pkg: e.Package, test: top}
			}
			failed[top].output += text
		}
		if t.parents[id] && (outcome == "pass" || failedBelow[id]) {
			fmt.Fprintf(t.results, "ran %s\n", id) // another step may skip it
			continue
		}
		if outcome == "pass" {
			passed++
			fmt.Fprintf(t.results, "pass %s\n", id)
			continue
		}
		failures++
		failed[top].ids = append(failed[top].ids, id)
		for i := strings.LastIndexByte(id, '/'); i > len(e.Package); i = strings.LastIndexByte(id[:i], '/') {
			failedBelow[id[:i]] = true
		}
	}
	t.judge(failed, t.fatal[e.Package])
	switch {
	case e.Action == "fail":
		if failures == 0 {
			fmt.Fprintf(t.results, "fail %s (the package)\n", e.Package)
		}
		fmt.Fprint(t.out, indent(t.output[e.Package+" "]))
		fmt.Fprintf(t.out, "FAIL  %-28s %3.0fs  %d failed, %d passed\n", short(e.Package), e.Elapsed, failures, passed)
	case passed > 0:
		fmt.Fprintf(t.out, "ok    %-28s %3.0fs  %d passed\n", short(e.Package), e.Elapsed, passed)
	}
	maps.DeleteFunc(t.output, func(id string, _ []string) bool { return strings.HasPrefix(id, e.Package+" ") })
}

// slow is how many seconds a test takes that is named as slow, and maxSlow how many are.
const (
	slow    = 20
	maxSlow = 15
)

// slowest prints which tests took longest, so that people know what a run waits for. Tests in parallel wait for each
// other.
func (t *tracker) slowest() {
	slices.SortStableFunc(t.slow, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	for _, e := range t.slow[:min(len(t.slow), maxSlow)] {
		fmt.Fprintf(t.out, "slow  %-28s %3.0fs  %s\n", short(e.Package), e.Elapsed, e.Test)
	}
}

// judge records the failures of one package, or keeps them to be repeated.
func (t *tracker) judge(failed map[string]*failure, fatal bool) {
	for _, top := range slices.Sorted(maps.Keys(failed)) {
		if f := failed[top]; !fatal && mayFlicker(short(f.pkg), f.test) {
			t.again = append(t.again, *f)
		} else {
			f.write(t.results, "fail")
		}
	}
}

// of lists the tests of one package in order.
func (t *tracker) of(pkg string) []string {
	var ids []string
	for id := range t.outcomes {
		if strings.HasPrefix(id, pkg+" ") {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func short(pkg string) string {
	if rest, ok := strings.CutPrefix(pkg, "github.com/skerrydb/skerry"); ok {
		return "." + rest
	}
	return pkg
}

// indent returns the last lines of one output, and before them those with a seed. Lines that only report the progress of go test are
// left out.
func indent(lines []string) string {
	const keep = 200
	var b strings.Builder
	lines = slices.DeleteFunc(slices.Clone(lines), func(l string) bool {
		return strings.HasPrefix(l, "=== ") || l == "FAIL\n" || strings.HasPrefix(l, "FAIL\t")
	})
	if n := len(lines) - keep; n > 0 {
		for _, l := range lines[:n] {
			if strings.Contains(l, "SKERRY_SEED=") {
				b.WriteString("      " + cut(l))
			}
		}
		fmt.Fprintf(&b, "      … %d lines left out\n", n)
		lines = lines[n:]
	}
	for _, l := range lines {
		b.WriteString("      " + l)
	}
	return b.String()
}

// cut returns a line that is not longer than people read.
func cut(line string) string {
	const most = 500
	if len(line) <= most {
		return line
	}
	return line[:most] + " …\n"
}

// reason returns the message of a skipped test, in one line.
func reason(lines []string) string {
	for _, l := range lines {
		l = strings.TrimSpace(l)
		if l != "" && !strings.HasPrefix(l, "===") && !strings.HasPrefix(l, "---") {
			return l
		}
	}
	return "(without a reason)"
}

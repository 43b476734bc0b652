// Command report reads the output of go test -json, shows what a person needs
// of it, and counts.
//
//	go test -json ./... | report -results FILE -name tests
//	report -sum FILE
//
// The first form prints a line a package and the whole output of what failed,
// and adds one line a test to FILE: its outcome and its name. The second prints
// what was skipped and why, then the counts of FILE as the last line; a test
// that ran more than once counts once, with its worst outcome. It exits with 1
// if anything failed or nothing ran.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

func main() {
	results := flag.String("results", "", "file to add outcomes to")
	name := flag.String("name", "tests", "what this run is called")
	sum := flag.String("sum", "", "file of outcomes to count")
	flag.Parse()
	var err error
	ok := true
	if *sum != "" {
		ok, err = summarise(*sum, os.Stdout)
	} else {
		err = follow(os.Stdin, os.Stdout, *results, *name)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// event is one line of go test -json; see go doc test2json.
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

// tracker gathers the events of one run of go test.
type tracker struct {
	out      io.Writer
	results  io.Writer
	name     string
	output   map[string][]string // package and test → what it printed
	outcomes map[string]string   // package and test → pass, fail, skip; "" while it runs
	parents  map[string]bool     // tests that have subtests: these are not counted
}

// follow reads events from in to their end.
func follow(in io.Reader, out io.Writer, results, name string) error {
	file, err := os.OpenFile(results, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	t := &tracker{out: out, results: file, name: name,
		output: map[string][]string{}, outcomes: map[string]string{}, parents: map[string]bool{}}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	packages := 0
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Fprintln(out, lines.Text()) // the go command itself speaks
			continue
		}
		if e.Test == "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip") {
			packages++
		}
		t.take(e)
	}
	if packages == 0 {
		fmt.Fprintf(file, "fail %s: no package was tested\n", name)
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
	case "pass", "fail", "skip":
		if e.Test == "" {
			t.finish(e)
			return
		}
		t.outcomes[id] = e.Action
		if e.Action == "pass" {
			delete(t.output, id)
		}
	}
}

// finish reports one package whose tests are over.
func (t *tracker) finish(e event) {
	passed, failed := 0, 0
	failedBelow := map[string]bool{} // tests with a subtest that failed: that one counts
	for _, id := range slices.Backward(t.of(e.Package)) {
		outcome := t.outcomes[id]
		delete(t.outcomes, id)
		switch outcome {
		case "":
			outcome = "fail" // it never came to its end: a panic, an exit, a time-out
		case "skip":
			fmt.Fprintf(t.results, "skip %s %s\n", id, reason(t.output[id]))
			continue
		}
		if outcome == "fail" {
			fmt.Fprint(t.out, indent(t.output[id]))
		}
		if t.parents[id] && (outcome == "pass" || failedBelow[id]) {
			continue
		}
		if outcome == "fail" {
			failed++
			for i := strings.LastIndexByte(id, '/'); i > len(e.Package); i = strings.LastIndexByte(id[:i], '/') {
				failedBelow[id[:i]] = true
			}
		} else {
			passed++
		}
		fmt.Fprintf(t.results, "%s %s\n", outcome, id)
	}
	switch {
	case e.Action == "fail":
		if failed == 0 {
			fmt.Fprintf(t.results, "fail %s (the package)\n", e.Package)
		}
		fmt.Fprint(t.out, indent(t.output[e.Package+" "]))
		fmt.Fprintf(t.out, "FAIL  %-28s %3.0fs  %d failed, %d passed\n", short(e.Package), e.Elapsed, failed, passed)
	case passed > 0:
		fmt.Fprintf(t.out, "ok    %-28s %3.0fs  %d passed\n", short(e.Package), e.Elapsed, passed)
	}
	maps.DeleteFunc(t.output, func(id string, _ []string) bool { return strings.HasPrefix(id, e.Package+" ") })
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

// indent keeps the last lines of one output, without those that only say what
// go test does.
func indent(lines []string) string {
	const keep = 200
	var b strings.Builder
	lines = slices.DeleteFunc(slices.Clone(lines), func(l string) bool {
		return strings.HasPrefix(l, "=== ") || l == "FAIL\n" || strings.HasPrefix(l, "FAIL\t")
	})
	if n := len(lines) - keep; n > 0 {
		fmt.Fprintf(&b, "      … %d lines left out\n", n)
		lines = lines[n:]
	}
	for _, l := range lines {
		b.WriteString("      " + l)
	}
	return b.String()
}

// reason is what a skipped test said, in one line.
func reason(lines []string) string {
	for _, l := range lines {
		l = strings.TrimSpace(l)
		if l != "" && !strings.HasPrefix(l, "===") && !strings.HasPrefix(l, "---") {
			return l
		}
	}
	return "(without a reason)"
}

// summarise counts the outcomes in a file and reports whether all is well.
func summarise(file string, out io.Writer) (bool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return false, err
	}
	rank := map[string]int{"skip": 1, "pass": 2, "fail": 3}
	worst := map[string]string{}
	why := map[string]string{}
	for line := range strings.Lines(string(text)) {
		outcome, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		if outcome == "skip" {
			if f := strings.SplitN(id, " ", 3); len(f) == 3 && f[0] != "check" {
				id = f[0] + " " + f[1]
				why[id] = f[2]
			}
		}
		if rank[outcome] > rank[worst[id]] {
			worst[id] = outcome
		}
	}
	ids := make([]string, 0, len(worst))
	for id := range worst {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	count := map[string]int{}
	for _, id := range ids {
		count[worst[id]]++
		switch worst[id] {
		case "skip":
			fmt.Fprintln(out, "skipped:", id, why[id])
		case "fail":
			fmt.Fprintln(out, "failed: ", id)
		}
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", count["pass"], count["fail"], count["skip"])
	return count["fail"] == 0 && count["pass"] > 0, nil
}

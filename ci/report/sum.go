package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// verdict is the result of one test or check in all its runs.
type verdict struct {
	outcome string // the worst one
	said    string // why it was skipped, or the output of its first failure
}

// summarise counts the outcomes in a file and reports whether there are no failures. Unless skips is "",
// skipped tests must be on the list in that file.
func summarise(file, skips string, out io.Writer) (bool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return false, err
	}
	verdicts := read(string(text))
	if skips != "" {
		if err := refuseSkips(verdicts, skips); err != nil {
			return false, err
		}
	}
	ids := slices.Sorted(maps.Keys(verdicts))
	flaky := map[string]bool{}
	count := map[string]int{}
	for _, id := range ids {
		v := verdicts[id]
		count[v.outcome]++
		if v.outcome == "flaky" {
			flaky[topLevel(id)] = true
			seed := cmp.Or((&failure{output: v.said}).seed(), "no seed")
			fmt.Fprintf(out, "FLAKY:   %s failed (%s) and passed when run again. It first printed:\n%s", id, seed, v.said)
		}
	}
	list(out, "skipped:", "skip", ids, verdicts)
	outputs(out, ids, verdicts)
	list(out, "failed: ", "fail", ids, verdicts)
	if len(flaky) > maxFlaky {
		count["fail"]++
		fmt.Fprintf(out, "failed:  %d tests flickered, more than %d\n", len(flaky), maxFlaky)
	}
	passed := count["pass"] + count["flaky"]
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", passed, count["fail"], count["skip"])
	return count["fail"] == 0 && passed > 0, nil
}

// list prints the tests of one outcome, a line each.
func list(out io.Writer, heading, outcome string, ids []string, verdicts map[string]verdict) {
	for _, id := range ids {
		switch v := verdicts[id]; {
		case v.outcome != outcome:
		case strings.Contains(v.said, "\n"):
			fmt.Fprintln(out, heading, id)
		default:
			fmt.Fprintln(out, heading, strings.TrimSpace(id+" "+v.said))
		}
	}
}

// maxOutput is how many lines of each failure are repeated at the end.
const maxOutput = 12

// outputs repeats what failed tests printed: of a long log people often have the end only.
func outputs(out io.Writer, ids []string, verdicts map[string]verdict) {
	done := map[string]bool{}
	for _, id := range ids {
		v := verdicts[id]
		if v.outcome != "fail" || !strings.Contains(v.said, "\n") || done[topLevel(id)] {
			continue
		}
		done[topLevel(id)] = true
		lines := strings.SplitAfter(v.said, "\n")
		fmt.Fprintf(out, "FAILED:  %s printed:\n%s", id, strings.Join(lines[:min(len(lines), maxOutput)], ""))
	}
}

// topLevel returns id without the names of subtests.
func topLevel(id string) string {
	pkg, test, _ := strings.Cut(id, " ")
	test, _, _ = strings.Cut(test, "/")
	return pkg + " " + test
}

// read collects the verdicts of results.
func read(results string) map[string]verdict {
	rank := map[string]int{"skip": 1, "ran": 2, "pass": 3, "flaky": 4, "fail": 5}
	verdicts := map[string]verdict{}
	for line := range strings.Lines(results) {
		outcome, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		v, id := verdict{outcome: outcome}, rest
		if f := strings.SplitN(rest, " ", 3); f[0] != "check" && len(f) == 3 {
			id, v.said = f[0]+" "+f[1], f[2]
		}
		if text, err := strconv.Unquote(v.said); err == nil {
			v.said = text
		}
		if rank[outcome] > rank[verdicts[id].outcome] {
			verdicts[id] = v
		}
	}
	return verdicts
}

// unpromised is how a case of the engine suite says that the engine does not promise what the case needs. What
// each engine promises is in docs/engines.md, which a test prints from real servers.
const unpromised = ", which this engine does not promise"

// refuseSkips turns each skip that is not on the list in file into a failure. A line of the list is a package,
// a test and the reason; # begins a comment. TEST/... lists all cases of the engine suite that TEST skipped for
// want of a promise.
func refuseSkips(verdicts map[string]verdict, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 0 && f[0] != "#" {
			if len(f) < 3 {
				return fmt.Errorf("%s: %q is not a package, a test and a reason", file, line)
			}
			listed[f[0]+" "+f[1]] = true
		}
	}
	for id, v := range verdicts {
		known := listed[short(id)] || listed[topLevel(short(id))+"/..."] && strings.Contains(v.said, unpromised)
		if v.outcome == "skip" && !known {
			verdicts[id] = verdict{"fail", strings.TrimSpace("was skipped, and " + file + " does not list it. " + v.said)}
		}
	}
	return nil
}

package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

const (
	moreRuns = 2 // how often a failed test is repeated at most
	maxFlaky = 2 // how many different tests may be flaky in one run
)

// failure is one top-level test that failed.
type failure struct {
	pkg, test string
	ids       []string // the test, or its subtests that failed
	output    string
}

// mayFlicker reports whether a failed test of pkg, a path like "./cli", is repeated. Tests of data safety are
// not: their one failure in a thousand runs may be a lost write. Nor are tests whose package panicked, timed
// out or has a data race; finish ensures that.
func mayFlicker(pkg, test string) bool {
	safety := regexp.MustCompile(`^\./(archive|btree|client|engine|examples|feed|journal|kv|proc|raft|workload)(/|$)`)
	if safety.MatchString(pkg) {
		return false
	}
	if strings.HasPrefix(pkg, "./cache") { // a read that is older than promised
		return !regexp.MustCompile(`Barrier|Changes|Check|Coheren|Fault|Forced|Kill|Model|Restart|Torn`).MatchString(test)
	}
	kills := regexp.MustCompile(`Archive|Backup|Dies|Fault|Kill|Majority|Outcome|PutBack|Replaced|Restart`)
	return pkg != "./cli" || !kills.MatchString(test)
}

// write adds the outcome to results, with the quoted output after the name.
func (f *failure) write(results io.Writer, outcome string) {
	for _, id := range f.ids {
		fmt.Fprintf(results, "%s %s %q\n", outcome, id, f.output)
	}
}

// seed returns the setting that repeats the failure's random choices, or "" if its output has none. Of several seeds the last one
// failed.
func (f *failure) seed() string {
	all := regexp.MustCompile(`SKERRY_SEED=\d+`).FindAllString(f.output, -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// settle repeats the test, alone, with the flags of args and the seed of the failure, until it passes once or
// has failed moreRuns more times.
func (f *failure) settle(run runner, args []string, out, results io.Writer) error {
	flags := slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return strings.HasPrefix(arg, ".") })
	flags = append(flags, "-count=1", "-run", "^"+f.test+"$", f.pkg)
	for n := range moreRuns {
		var text, outcomes strings.Builder
		t := newTracker(&text, &outcomes)
		if err := run(f.seed(), flags, t.follow); err != nil {
			return err
		}
		if t.packages == 1 && len(t.again) == 0 && passed(outcomes.String()) {
			fmt.Fprintf(out, "FLAKY %s %s failed and passed when run again (%d)\n", short(f.pkg), f.test, n+1)
			f.write(results, "flaky")
			return nil
		}
		fmt.Fprintf(out, "%s      %s %s failed again (%d)\n", &text, short(f.pkg), f.test, n+1)
	}
	f.write(results, "fail")
	return nil
}

// passed reports whether results has at least one pass and no failure.
func passed(results string) bool {
	found := false
	for _, v := range read(results) {
		if v.outcome == "fail" {
			return false
		}
		found = found || v.outcome == "pass"
	}
	return found
}

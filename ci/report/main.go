// Command report runs go test, prints the parts of its output that people need, and counts the results.
//
//	report -results FILE -name NAME -- ARGUMENTS OF GO TEST
//	report -sum FILE -skips LIST
//
// The first form prints a line for each package and the whole output of failures, repeats some of the failed
// tests (again.go), and adds a line for each test to FILE: its outcome and its name. The second form prints
// flaky tests, skipped tests with their reasons, failed tests with the beginning of their output, and the counts
// of FILE as the last line. A test that ran more than once counts once, with its worst outcome. With -skips, a
// skipped test that is not in LIST counts as failed. The exit code is 1 if anything failed or nothing ran.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
)

func main() {
	results := flag.String("results", "", "file to add outcomes to")
	name := flag.String("name", "tests", "what this run is called")
	sum := flag.String("sum", "", "file of outcomes to count")
	skips := flag.String("skips", "", "file that lists the tests that may be skipped")
	flag.Parse()
	var err error
	ok := true
	if *sum != "" {
		ok, err = summarise(*sum, *skips, os.Stdout)
	} else {
		err = test(goTest, flag.Args(), os.Stdout, *results, *name)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// runner runs go test -json with env, one setting or "", added to the environment,
// and passes its output to read.
type runner func(env string, args []string, read func(io.Reader) error) error

func goTest(env string, args []string, read func(io.Reader) error) error {
	cmd := exec.Command("go", slices.Concat([]string{"test", "-json"}, args)...)
	if env != "" {
		cmd.Env = append(os.Environ(), env)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return err
	}
	err = read(out)
	_, _ = io.Copy(io.Discard, out) // it must not block on a full pipe
	_ = cmd.Wait()                  // the output has the failures
	return err
}

// test runs go test with args, prints and counts its results, and repeats failures that may be flaky.
func test(run runner, args []string, out io.Writer, results, name string) error {
	file, err := os.OpenFile(results, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	t := newTracker(out, file)
	if err := run("", args, t.follow); err != nil {
		return err
	}
	t.slowest()
	if t.packages == 0 {
		fmt.Fprintf(file, "fail %s: no package was tested\n", name)
	}
	for _, f := range t.again {
		if err := f.settle(run, args, out, file); err != nil {
			return err
		}
	}
	return nil
}

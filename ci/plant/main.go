// Command plant tests the tests: it makes one mistake at a time in a copy of the
// repository and expects the test that is named for it to fail.
//
//	go run ./ci/plant [-v] [NAME…]
//
// It knows the mistakes in ci/plant/bugs, each a small diff with a head; it must
// not know what the tests test. A mistake that survives is a test to be written.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// testTime is how long one test may take. A longer one hangs, which counts as a failure.
const testTime = 2 * time.Minute

func main() {
	verbose := flag.Bool("v", false, "print what the tests print")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, flag.Args(), *verbose)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "plant:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, names []string, verbose bool) error {
	bugs, err := loadBugs(bugFolder)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "skerry-plant-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := copyRepository(ctx, dir); err != nil {
		return err
	}
	tried, survived := 0, 0
	for _, b := range bugs {
		if len(names) > 0 && !slices.Contains(names, b.name) {
			continue
		}
		tried++
		began := time.Now()
		verdict, out, err := b.plant(ctx, dir)
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", b.name, err, out)
		}
		fmt.Printf("%-8s %6.1fs  %-45s %s\n", verdict, time.Since(began).Seconds(), b.name, b.test)
		if verbose {
			fmt.Printf("%s\n", out)
		}
		if verdict != caught {
			survived++
		}
	}
	switch {
	case tried == 0:
		return fmt.Errorf("none of %q is in %s", names, bugFolder)
	case survived > 0:
		return fmt.Errorf("%d of %d bugs survived their tests", survived, tried)
	}
	return nil
}

// copyRepository copies the files that git tracks or would add, as they are now.
func copyRepository(ctx context.Context, dir string) error {
	out, err := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return fmt.Errorf("list files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		b, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue // removed without git rm
		}
		if err != nil {
			return err
		}
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, b, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// verdict is the result of planting a bug.
type verdict string

const (
	caught   verdict = "caught"
	survives verdict = "SURVIVED"
)

// plant makes the mistake in the copy at dir, runs its test and undoes the mistake.
func (b *bug) plant(ctx context.Context, dir string) (v verdict, out []byte, err error) {
	for _, c := range b.changes {
		path := filepath.Join(dir, c.file)
		was, err := os.ReadFile(path)
		if err != nil {
			return "", nil, err
		}
		now, err := c.apply(was)
		if err != nil {
			return "", nil, err
		}
		if err := os.WriteFile(path, now, 0o644); err != nil {
			return "", nil, err
		}
		defer func() { err = errors.Join(err, os.WriteFile(path, was, 0o644)) }()
	}
	t := exec.CommandContext(ctx, "go", "test", "-count=1", "-failfast", "-timeout", testTime.String(), "-run", testPattern(b.test), b.pkg)
	t.Dir = dir
	t.Env = append(os.Environ(), b.env...)
	out, err = t.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return "", nil, ctx.Err()
	case bytes.Contains(out, []byte("[build failed]")), bytes.Contains(out, []byte("[setup failed]")):
		return "", out, fmt.Errorf("it does not build: %w", err)
	case bytes.Contains(out, []byte("[no tests to run]")):
		return "", out, fmt.Errorf("there is no test %s in %s", b.test, b.pkg)
	case err == nil:
		return survives, out, nil
	}
	return caught, out, nil
}

// testPattern returns the -run pattern of a test and optional subtests: TestA/b/c.
func testPattern(name string) string { return "^" + strings.ReplaceAll(name, "/", "$/^") + "$" }

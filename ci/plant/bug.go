package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const bugFolder = "ci/plant/bugs"

// bug is one mistake. Its file begins with
//
//	bug: what is wrong
//	test: PACKAGE TEST
//	needs: how many seeds, or how long, until it was found
//
// and optionally env: NAME=VALUE. A diff follows, whose parts have no line numbers: the lines that a part
// removes or keeps must be in the file exactly once.
type bug struct {
	name        string
	text, needs string
	pkg, test   string
	env         []string
	changes     []change
}

// change is one part of a diff.
type change struct {
	file     string
	old, now string
}

func loadBugs(dir string) ([]*bug, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.diff"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("no bugs in %s (%v): run plant in the root of the repository", dir, err)
	}
	var bugs []*bug
	for _, path := range paths { // sorted by name
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		b, err := parseBug(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		b.name = strings.TrimSuffix(filepath.Base(path), ".diff")
		bugs = append(bugs, b)
	}
	return bugs, nil
}

func parseBug(text string) (*bug, error) {
	b := &bug{}
	var file string
	var part *change
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		name, isFile := strings.CutPrefix(strings.TrimSpace(line), "--- ")
		switch {
		case part == nil && key == "bug":
			b.text = value
		case part == nil && key == "needs":
			b.needs = value
		case part == nil && key == "env":
			b.env = append(b.env, value)
		case part == nil && key == "test":
			b.pkg, b.test, _ = strings.Cut(value, " ")
		case isFile:
			file = name
		case strings.HasPrefix(line, "@@"):
			b.changes = append(b.changes, change{file: file})
			part = &b.changes[len(b.changes)-1]
		case part == nil && strings.TrimSpace(line) == "":
		case part == nil || file == "":
			return nil, fmt.Errorf("the line %q is neither head nor diff", line)
		case line == "\n":
			part.old, part.now = part.old+line, part.now+line
		case line[0] == ' ':
			part.old, part.now = part.old+line[1:], part.now+line[1:]
		case line[0] == '-':
			part.old += line[1:]
		case line[0] == '+':
			part.now += line[1:]
		default:
			return nil, fmt.Errorf("the line %q is no part of a diff", line)
		}
	}
	if b.text == "" || b.pkg == "" || b.test == "" || b.needs == "" || len(b.changes) == 0 {
		return nil, fmt.Errorf("bug, test, needs or the diff is missing")
	}
	return b, nil
}

// apply makes the change in a file.
func (c *change) apply(file []byte) ([]byte, error) {
	if n := bytes.Count(file, []byte(c.old)); n != 1 {
		return nil, fmt.Errorf("%s has the lines that are to be changed %d times:\n%s", c.file, n, c.old)
	}
	return bytes.Replace(file, []byte(c.old), []byte(c.now), 1), nil
}

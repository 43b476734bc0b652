package procvet_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/proc/procvet"
)

// line is a position in a source file.
type line struct {
	file string
	line int
}

var (
	wantComment = regexp.MustCompile(`(?:// want|/\* want) ((?:\x60[^\x60]+\x60 ?)+)(?:$|\*/)`)
	wantText    = regexp.MustCompile("`([^`]+)`")
	outputLine  = regexp.MustCompile(`^(.+?):(\d+):\d+: (.+)$`)
)

// wanted parses the comments in all files below dir that state the expected findings of
// their line.
func wanted(t *testing.T, dir string) map[line][]*regexp.Regexp {
	t.Helper()
	all := map[line][]*regexp.Regexp{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".go" {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		for i, s := range strings.Split(string(text), "\n") {
			m := wantComment.FindStringSubmatch(s)
			if m == nil {
				if strings.Contains(s, "// want") || strings.Contains(s, "/* want") {
					t.Errorf("%s:%d: not understood: %s", rel, i+1, s)
				}
				continue
			}
			for _, q := range wantText.FindAllStringSubmatch(m[1], -1) {
				at := line{rel, i + 1}
				all[at] = append(all[at], regexp.MustCompile(q[1]))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestRules checks that in a separate program each rule finds exactly what the comments
// state, in the same package and across packages.
func TestRules(t *testing.T) {
	t.Parallel()
	const dir = "testdata/app"
	want := wanted(t, dir)
	if len(want) < 100 {
		t.Fatalf("found only %d lines with wishes: the search is broken", len(want))
	}
	var out bytes.Buffer
	n, err := procvet.Run(dir, []string{"./..."}, &out)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if n != len(lines) {
		t.Errorf("Run says %d findings and writes %d lines", n, len(lines))
	}
	for _, s := range lines {
		m := outputLine.FindStringSubmatch(s)
		if m == nil {
			t.Errorf("not of the form file:line:col: message: %s", s)
			continue
		}
		number, _ := strconv.Atoi(m[2])
		at := line{m[1], number}
		i := slices.IndexFunc(want[at], func(re *regexp.Regexp) bool { return re.MatchString(m[3]) })
		if i < 0 {
			t.Errorf("not wanted: %s", s)
			continue
		}
		want[at] = slices.Delete(want[at], i, i+1)
	}
	for at, missing := range want {
		for _, re := range missing {
			t.Errorf("%s:%d: nothing found like %s", at.file, at.line, re)
		}
	}
}

// TestRepository checks that the procedures of this repository comply with the rules.
func TestRepository(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	n, err := procvet.Run("../..", []string{"./..."}, &out)
	if err != nil {
		t.Fatal(err)
	}
	if n != 0 {
		t.Errorf("%d findings:\n%s", n, out.String())
	}
}

// TestDocument checks that docs/vet.md has a row for each rule.
func TestDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/vet.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []procvet.Kind{
		procvet.KindClock, procvet.KindWait, procvet.KindGoroutine, procvet.KindIO, procvet.KindLog, procvet.KindRandom,
		procvet.KindWrite, procvet.KindEscape, procvet.KindNested, procvet.KindReadOnly, procvet.KindLoop, procvet.KindKeys, procvet.KindAllow,
	} {
		if !bytes.Contains(text, []byte("\n| `"+string(k)+"` |")) {
			t.Errorf("no row for %s", k)
		}
	}
}

// Package tinkerpop runs TinkerPop's feature files against a Gremlin server, with
// the harness of its driver for Go, and TinkerPop's own server.
//
// It knows the jars, how the server is started, and what the harness prints. It must
// not know how a server answers.
package tinkerpop

import (
	"archive/zip"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/ci/daemon"
)

// pom names the jars. ci/jars brings them.
//
//go:embed pom.xml
var pom []byte

// Resources are the features and the graphs of the jar, as files.
type Resources struct {
	Features string // the folder with the feature files
	Graphs   string // the folder with GraphSON files: tinkerpop-modern-v3.json and so on
}

// Open unpacks the jar. It skips the test if the jar is missing, or fails it if
// SKERRY_REQUIRE_SERVERS is set.
func Open(tb testing.TB) Resources {
	tb.Helper()
	jar, err := find()
	if err != nil {
		daemon.Missing(tb, fmt.Sprintf("TinkerPop's features (%v; ci/jars tinkerpop tinkerpop fetches them)", err), "maven")
	}
	zr, err := zip.OpenReader(jar)
	if err != nil {
		tb.Fatal(err)
	}
	defer zr.Close()
	dir := tb.TempDir()
	out := Resources{Features: filepath.Join(dir, "features"), Graphs: filepath.Join(dir, "graphs")}
	const features = "org/apache/tinkerpop/gremlin/test/features/"
	for _, f := range zr.File {
		switch {
		case strings.HasPrefix(f.Name, features) && strings.HasSuffix(f.Name, ".feature"):
			unpack(tb, f, filepath.Join(out.Features, filepath.FromSlash(strings.TrimPrefix(f.Name, features))))
		case strings.Contains(f.Name, "/io/graphson/") && strings.HasSuffix(f.Name, "-v3.json"):
			unpack(tb, f, filepath.Join(out.Graphs, path.Base(f.Name)))
		}
	}
	return out
}

func find() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(pom)
	found, err := filepath.Glob(filepath.Join(cache, "skerry", fmt.Sprintf("tinkerpop-%.6x", sum), "gremlin-test-*.jar"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("no jar is in %s", filepath.Join(cache, "skerry"))
	}
	return found[0], nil
}

func unpack(tb testing.TB, f *zip.File, to string) {
	tb.Helper()
	r, err := f.Open()
	if err != nil {
		tb.Fatal(err)
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		tb.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o600); err != nil {
		tb.Fatal(err)
	}
}

// Result is what came of the scenarios.
type Result struct {
	Passed    int
	Failed    map[string]string // why, by name
	Undefined int               // whose steps the harness does not have
}

// Run runs the features in a folder against the server at url. The server must have
// the graphs of the features as sources ggraph, which is empty, gmodern and so on.
func Run(tb testing.TB, url, features string) Result {
	tb.Helper()
	bin := filepath.Join(tb.TempDir(), "harness")
	const pkg = "github.com/apache/tinkerpop/gremlin-go/v3/driver/cucumber"
	build := exec.CommandContext(tb.Context(), "go", "test", "-c", "-o", bin, pkg)
	build.Dir, build.Env = harness(tb), append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		tb.Fatalf("build the harness: %v\n%s", err, out)
	}
	run := exec.CommandContext(tb.Context(), bin, "-test.run", "^TestCucumberFeatures$")
	run.Dir, run.Env = tb.TempDir(), append(os.Environ(), "GREMLIN_SERVER_URL="+url, "CUCUMBER_FEATURE_FOLDER="+features)
	out, _ := run.CombinedOutput() // it fails if a scenario does: read tells
	r, err := read(string(out))
	if err != nil {
		tb.Fatalf("%v:\n%s", err, out[max(0, len(out)-4000):])
	}
	return r
}

// harness returns the folder of the module with the harness.
func harness(tb testing.TB) string {
	tb.Helper()
	root, err := exec.CommandContext(tb.Context(), "go", "env", "GOMOD").Output()
	if err != nil {
		tb.Fatal(err)
	}
	return filepath.Join(filepath.Dir(strings.TrimSpace(string(root))), "ci", "tinkerpop", "harness")
}

var (
	colors = regexp.MustCompile(`\x1b\[[0-9;]*m`)
	totals = regexp.MustCompile(`(?m)^\d+ scenarios \((.*)\)$`)
	total  = regexp.MustCompile(`(\d+) (passed|failed|undefined)`)
	failed = regexp.MustCompile(`(?m)^ +--- FAIL: TestCucumberFeatures/(\S+) .*\n(?: +suite\.go:\d+: (.*)\n)?`)
)

// read reads what the harness prints.
func read(out string) (r Result, err error) {
	out = colors.ReplaceAllString(out, "")
	m := totals.FindStringSubmatch(out)
	if m == nil {
		return r, fmt.Errorf("the harness did not end")
	}
	want := 0
	for _, part := range total.FindAllStringSubmatch(m[1], -1) {
		n, _ := strconv.Atoi(part[1])
		switch part[2] {
		case "passed":
			r.Passed = n
		case "failed":
			want = n
		case "undefined":
			r.Undefined = n
		}
	}
	r.Failed = map[string]string{}
	for _, f := range failed.FindAllStringSubmatch(out, -1) {
		r.Failed[f[1]] = f[2]
	}
	if len(r.Failed) != want {
		return r, fmt.Errorf("the harness reports %d failures and names %d", want, len(r.Failed))
	}
	return r, nil
}

// Names returns the names of the scenarios that failed, sorted.
func (r Result) Names() []string {
	var out []string
	for name := range r.Failed {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

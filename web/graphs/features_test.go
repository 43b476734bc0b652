package graphs_test

import (
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/ci/tinkerpop"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/files"
	"github.com/skerrydb/skerry/web/graphs"

	web "github.com/skerrydb/skerry/web/gremlin"
)

// known matches a row of the table of docs/gremlin.md.
var known = regexp.MustCompile("(?m)^\\| `(g_\\S+)` \\| (.+) \\|$")

// TestFeatures: TinkerPop's scenarios pass, but for those that docs/gremlin.md lists.
func TestFeatures(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs the harness of a driver")
	}
	from := tinkerpop.Open(t)
	eng := testengine.Open(t, testengine.Options{})
	db, err := graph.New(eng)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Create(t.Context(), "ggraph"); err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{
		"modern": "tinkerpop-modern", "classic": "tinkerpop-classic", "crew": "tinkerpop-crew", "sink": "tinkerpop-sink", "grateful": "grateful-dead",
	} {
		load(t, db, "g"+name, filepath.Join(from.Graphs, file+"-v3.json"))
	}
	backend, err := graphs.New(eng)
	if err != nil {
		t.Fatal(err)
	}
	face, err := web.New(web.Options{Backend: backend, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(face)
	defer s.Close()
	defer face.Close()
	got := tinkerpop.Run(t, strings.Replace(s.URL, "http://", "ws://", 1)+"/gremlin", from.Features)

	page, err := os.ReadFile("../../docs/gremlin.md")
	if err != nil {
		t.Fatal(err)
	}
	expected := map[string]bool{}
	for _, m := range known.FindAllStringSubmatch(string(page), -1) {
		expected[m[1]] = true
		if _, failed := got.Failed[m[1]]; !failed {
			t.Errorf("%s passes: take it out of docs/gremlin.md", m[1])
		}
		t.Logf("%s: %s", m[1], m[2])
	}
	for _, name := range got.Names() {
		if !expected[name] {
			t.Errorf("%s: %s", name, got.Failed[name])
		}
	}
	t.Logf("%d scenarios pass, %d fail as listed, %d are undefined", got.Passed, len(expected), got.Undefined)
	if got.Passed < 1900 {
		t.Errorf("only %d scenarios pass", got.Passed)
	}
}

func load(t *testing.T, db *graph.DB, name, file string) {
	t.Helper()
	if err := db.Create(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	src := files.Source{Format: files.GraphSON, Vertices: []files.File{{Name: file, Open: func() (io.ReadCloser, error) { return os.Open(file) }}}}
	if _, err := files.Import(t.Context(), db, name, src, files.ImportOptions{}); err != nil {
		t.Fatal(err)
	}
}

package people_test

import (
	"bytes"
	"context"
	"flag"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/examples/people"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/traversal"
	"github.com/skerrydb/skerry/webtest"
)

var rewrite = flag.Bool("rewrite", false, "write the transcript into README.md, and people.svg, anew")

// serve runs a server on a folder until stop is called, and returns the URL for Gremlin.
func serve(t *testing.T, dir string) (url string, db *graph.DB, stop func()) {
	t.Helper()
	eng, err := embedded.Open(dir, embedded.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := skerry.Open(eng, skerry.Options{
		HTTP: "127.0.0.1:0", RESP: skerry.Off, Admin: skerry.Off, Gremlin: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
		Web: skerry.Web{Name: "people", Application: people.Application},
	})
	if err != nil {
		t.Fatal(err)
	}
	if db, err = graph.New(eng); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Run(context.Background()) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		srv.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := eng.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	eventually.True(t, "the index is there", func() (there bool) {
		_, err := db.View(t.Context(), engine.Read{}, graph.Default, func(tx *graph.Tx) error {
			all, err := tx.Indexes()
			there = len(all) == 1 && !all[0].Filling
			return err
		})
		return there && err == nil
	})
	return strings.Replace(srv.GremlinURL(), "ws://", "http://", 1), db, stop
}

// TestLesson runs the texts over HTTP and the queries in Go, each on a graph of its own: the results are the same, and
// those in README.md. What the lesson has added is there after the server has stopped and started.
func TestLesson(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	url, _, stop := serve(t, dir)
	_, db, _ := serve(t, t.TempDir())
	for _, s := range people.Lesson() {
		texts, err1 := people.Ask(t.Context(), url, s.Text)
		typed, err2 := s.Run(t.Context(), db)
		if err1 != nil || err2 != nil || !slices.Equal(texts, typed) || len(texts) == 0 {
			t.Errorf("%s\n%q, %v, and in Go\n%q, %v", s.Text, texts, err1, typed, err2)
		}
	}
	stop()
	url, _, _ = serve(t, dir)
	if names, err := people.Ask(t.Context(), url, "g.V().values('name')"); err != nil || !slices.Equal(names, []string{"guy", "john", "ann", "eva", "leo"}) {
		t.Errorf("after a restart: %q, %v", names, err)
	}
}

// long matches the whole numbers of Go, which are longs in Gremlin.
var long = regexp.MustCompile(`\b(\d+)L\b`)

// TestSameTraversals: each text says what its query in Go says.
func TestSameTraversals(t *testing.T) {
	t.Parallel()
	for _, s := range people.Lesson() {
		q, err := gremlin.Parse(s.Text, nil)
		if err != nil {
			t.Errorf("%s: %v", s.Text, err)
			continue
		}
		if typed := long.ReplaceAllString(s.Query(traversal.Query{}).String(), "$1"); q.String() != typed {
			t.Errorf("the text is\n%s\nand in Go\n%s", q, typed)
		}
	}
}

// TestTranscript: README.md has what the program prints.
func TestTranscript(t *testing.T) {
	t.Parallel()
	url, _, _ := serve(t, t.TempDir())
	var out bytes.Buffer
	if err := people.Transcript(t.Context(), &out, url); err != nil {
		t.Fatal(err)
	}
	golden(t, "README.md", "```groovy\n", "```", out.String())
	err := people.Transcript(t.Context(), &out, url) // the name guy is taken
	if err == nil || !strings.Contains(err.Error(), "g.addV('person').property('name', 'guy')") || !strings.Contains(err.Error(), "unique") {
		t.Errorf("the lesson again: %v", err)
	}
}

// TestSetUp: the lines of Groovy with which the lesson opens a graph are not needed, and are refused.
func TestSetUp(t *testing.T) {
	t.Parallel()
	url, _, _ := serve(t, t.TempDir())
	for text, want := range map[string]string{
		`JanusGraph graph = JanusGraphFactory.build().set("storage.backend", "cql").set("storage.hostname", "172.17.0.4").open();`: "declarations are not supported",
		`g = TinkerGraph.open().traversal()`: "assignments are not supported",
		`g.V(`:                               "the end of the text",
		`people.V().count()`:                 "there is no graph",
	} {
		if _, err := people.Ask(t.Context(), url, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if n, err := people.Ask(t.Context(), url, "g.V().count()"); err != nil || !slices.Equal(n, []string{"0"}) {
		t.Errorf("%q, %v", n, err)
	}
	if _, err := people.Ask(t.Context(), strings.Replace(url, "/gremlin", "/other", 1), "g.V()"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("another path: %v", err)
	}
}

// golden compares the part of a file between two marks, or after the first, with text.
func golden(t *testing.T, file, after, before, text string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok1 := strings.Cut(string(b), after)
	got, tail, ok2 := strings.Cut(rest, before)
	if before == "" {
		got, tail, ok2 = rest, "", true
	}
	if !ok1 || !ok2 {
		t.Fatalf("%s has no %s…%s", file, after, before)
	}
	if got == text {
		return
	}
	if !*rewrite {
		t.Errorf("%s differs; go test ./examples/people -rewrite writes it anew:\n%s", file, text)
	} else if err := os.WriteFile(file, []byte(head+after+text+before+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestPage: the page shows who knows whom, and people.svg is its picture of the lesson's end.
func TestPage(t *testing.T) {
	t.Parallel()
	site := webtest.Start(t, skerry.Web{Name: "people", Application: people.Application})
	b := site.Browser()
	b.Get("/").Expect(200, "Nobody yet").Lacks("<svg")
	b.Get("/").Submit("form").Expect(200, "<svg", "guy knows john since 2014 and ann since 2019.", "eva knows nobody.", "ann, eva, guy, john").Lacks("<form")
	b.Post("/").Expect(409, "unique")

	_, db, _ := serve(t, t.TempDir())
	for _, s := range people.Lesson() {
		if _, err := s.Run(t.Context(), db); err != nil {
			t.Fatal(err)
		}
	}
	p, err := people.Look(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "people.svg", "<svg", "", strings.TrimPrefix(p.Picture().File(), "<svg"))
}

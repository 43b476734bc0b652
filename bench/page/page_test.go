package page

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

const results = "../results"

// TestTables: what is read of the raw output in results is that of testdata/tables.txt.
func TestTables(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(results, "*.txt"))
	if err != nil || len(files) < 15 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	var b strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r := Parse(strings.TrimSuffix(filepath.Base(file), ".txt"), string(text))
		v := r.view()
		missed := strings.Count(string(text), "\nMISSED ")
		if v.Missed != missed {
			t.Errorf("%s: %d missed targets, the file has %d", file, v.Missed, missed)
		}
		fmt.Fprintf(&b, "%s: %s | %s | %s\n", r.Name, r.Machine, r.Date, r.Commit)
		fmt.Fprintf(&b, "  %d targets, %d missed; behind in %d of %d; %d losses, %d inequalities\n", len(r.Targets), v.Missed, v.Behind, v.Compared, len(r.Losses), len(r.Unequal))
		for i, s := range v.Sections {
			tab := r.Tables[i]
			fmt.Fprintf(&b, "  %s: %d rows\n    %s\n    %s\n    %s\n", s.Title, len(tab.Rows), strings.Join(tab.Header, " | "),
				strings.Join(tab.Rows[0], " | "), strings.Join(tab.Rows[len(tab.Rows)-1], " | "))
		}
	}
	golden(t, "tables.txt", b.String())
}

// TestLosses: the losses of one file, in words.
func TestLosses(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(results, "kv-2026-11-21.txt"))
	if err != nil {
		t.Fatal(err)
	}
	r := Parse("kv-2026-11-21", string(text))
	golden(t, "losses.txt", strings.Join(r.view().Behinds, "\n")+"\n")
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test ./page -rewrite rewrites it):\n%s", file, got)
	}
}

// TestCommitted: the pages in results are those that the raw output makes.
func TestCommitted(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(results, "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	pages, err := Index(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) != len(files)+1 {
		t.Errorf("%d pages of %d files", len(pages), len(files))
	}
	total := 0
	for _, p := range pages {
		got, err := os.ReadFile(filepath.Join(dir, p))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join(results, p))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not that of the raw output: make bench-report makes it (%v)", p, err)
		}
		if bytes.Contains(got, []byte("<script")) || regexp.MustCompile(`(?:src|href)="[a-z]+:`).Match(got) {
			t.Errorf("%s has a script or loads something", p)
		}
		total += len(got)
	}
	if most := 1 << 20; total > most {
		t.Errorf("the pages have %d bytes, more than %d", total, most)
	}
}

// TestHostile: markup in names is text, and odd output makes a page too.
func TestHostile(t *testing.T) {
	for name, text := range map[string]string{
		"empty":      "",
		"newlines":   "\n\n\n\r\n",
		"no rows":    "one  two  three\n",
		"medians":    "medians\nmedians\n",
		"bare lists": "Targets:\nWhere Skerry loses:\nWhat is unequal:\n",
		"bars":       "|  |  |\n1  2  3\n",
		"short":      "a  b  c\nskerry  1  2\nx  3\n",
		"zeros":      "system  op  x/s\nskerry  a  0  0\nother  a  0  0\n",
		"huge":       "system  op  x/s\nskerry  a  1" + strings.Repeat("0", 400) + "  1\nother  a  2  2\n",
	} {
		r := Parse(name, text)
		var b strings.Builder
		if err := render(&b, "page", r.view()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	const evil = `<script>alert(1)</script>`
	text := "on " + evil + ", 2 cores\n\n" + evil + "\nsystem  " + evil + "  requests/s  p99 µs\n" +
		"skerry  " + evil + "           100      20\nre\"dis  " + evil + "           200      10\n\n" +
		"Targets:\nMISSED   " + evil + "   1×   (aim ≥ 2×)\n\nWhere Skerry loses:\n- " + evil + "\n\nWhat is unequal:\n- " + evil + "\n"
	r := Parse(evil, text)
	if len(r.Tables) != 1 || len(r.Targets) != 1 || len(r.Losses) != 1 || len(r.Unequal) != 1 {
		t.Fatalf("read %+v", r)
	}
	v := r.view()
	if v.Behind != 2 || v.Compared != 2 {
		t.Errorf("behind in %d of %d, want 2 of 2", v.Behind, v.Compared)
	}
	var b strings.Builder
	if err := render(&b, "page", v); err != nil {
		t.Fatal(err)
	}
	if err := render(&b, "index", []view{v}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "<script") || strings.Contains(b.String(), `re"dis`) || !strings.Contains(b.String(), "0.5× re&#34;dis: behind") {
		t.Errorf("the page has markup of the raw output, or no loss:\n%s", b.String())
	}
}

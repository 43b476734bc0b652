package view_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"html/template"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/view"
)

var rewrite = flag.Bool("rewrite", false, "write what the code says into testdata")

// section is one part of a golden file: "-- verb argument --" and what follows.
type section struct{ verb, arg, text string }

var heading = regexp.MustCompile(`(?m)^-- (\w+)(?: (\S+))? --\n`)

func sections(text string) (head string, list []section) {
	at := heading.FindAllStringSubmatchIndex(text, -1)
	if len(at) == 0 {
		return text, nil
	}
	for i, m := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		s := section{verb: text[m[2]:m[3]], text: text[m[1]:end]}
		if m[4] >= 0 {
			s.arg = text[m[4]:m[5]]
		}
		list = append(list, s)
	}
	return text[:at[0][0]], list
}

// TestGolden runs testdata/*.txt. "file" writes a view, "layout" names the
// layout, "locals" are JSON, in which {"html": "…"} is a template.HTML;
// "render", "fragment", "check" and "warnings" show what comes of it.
func TestGolden(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(names) < 5 {
		t.Fatalf("%d golden files, %v", len(names), err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			golden(t, name)
		})
	}
}

func golden(t *testing.T, name string) {
	before, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	head, list := sections(string(before))
	after := strings.Builder{}
	after.WriteString(head)
	g := &goldenRun{files: fstest.MapFS{}, locals: map[string]any{}}
	for _, s := range list {
		if s.arg == "" {
			fmt.Fprintf(&after, "-- %s --\n", s.verb)
		} else {
			fmt.Fprintf(&after, "-- %s %s --\n", s.verb, s.arg)
		}
		after.WriteString(g.do(t, s))
	}
	if *rewrite {
		if err := os.WriteFile(name, []byte(after.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, got := strings.Split(string(before), "\n"), strings.Split(after.String(), "\n")
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || want[i] != got[i] {
			t.Errorf("%s:%d:\n got %q\nwant %q", name, i+1, got[min(i, len(got)-1)], want[min(i, len(want)-1)])
			return
		}
	}
}

type goldenRun struct {
	files  fstest.MapFS
	layout string
	locals map[string]any
	log    bytes.Buffer
	views  *view.Views
	err    error
}

// do runs one section and returns what its text should be.
func (g *goldenRun) do(t *testing.T, s section) string {
	switch s.verb {
	case "file":
		g.files[s.arg] = &fstest.MapFile{Data: []byte(s.text)}
		g.views = nil
		return s.text
	case "layout":
		g.layout, g.views = s.arg, nil
		return s.text
	case "locals":
		g.locals = nil
		if err := json.Unmarshal([]byte(s.text), &g.locals); err != nil {
			t.Fatalf("locals: %v", err)
		}
		for k, v := range g.locals {
			if m, ok := v.(map[string]any); ok && len(m) == 1 && m["html"] != nil {
				g.locals[k] = template.HTML(m["html"].(string))
			}
		}
		return s.text
	case "warnings":
		defer g.log.Reset()
		return g.log.String()
	}
	g.load()
	if g.err != nil {
		return "error: " + g.err.Error() + "\n"
	}
	var b bytes.Buffer
	var err error
	switch s.verb {
	case "check":
		return "ok\n"
	case "render":
		err = g.views.Render(&b, s.arg, g.locals)
	case "fragment":
		err = g.views.Fragment(&b, s.arg, g.locals)
	default:
		t.Fatalf("what is -- %s --?", s.verb)
	}
	if err != nil {
		if b.Len() > 0 {
			t.Errorf("%s failed after writing %q", s.arg, b.String())
		}
		if _, ok := errors.AsType[*engine.Error](err); !ok {
			t.Errorf("%s: an error without a code: %v", s.arg, err)
		}
		return "error: " + err.Error() + "\n"
	}
	return b.String()
}

func (g *goldenRun) load() {
	if g.views != nil {
		return
	}
	plain := slog.NewTextHandler(&g.log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}})
	g.views, g.err = view.New(view.Options{FS: g.files, Layout: g.layout, Logger: slog.New(plain), Funcs: template.FuncMap{
		"upper": strings.ToUpper,
		"fail":  func() (string, error) { return "", errors.New("no luck") },
	}})
}

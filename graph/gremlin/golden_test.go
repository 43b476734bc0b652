package gremlin

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/graph/value"
)

var rewrite = flag.Bool("rewrite", false, "write the answers of testdata anew")

// variables are what the texts of testdata use.
func variables() *value.Map {
	m := &value.Map{}
	for _, name := range strings.Fields("e11 e7 eid10 eid11 eid12 eid7 eid8 eid9 vid1 vid2 vid250 vid3 vid4 vid5 vid6 vid7 xx0 xx1 xx2 xx3 $x é") {
		m.Set(name, int32(1))
	}
	return m
}

// golden calls answer for each text of a file and compares what it returns with
// the line after the text, which begins with mark.
func golden(t *testing.T, file, mark string, answer func(text string) string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	var out strings.Builder
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, mark):
			continue
		case line == "" || strings.HasPrefix(line, "#"):
			fmt.Fprintln(&out, line)
			continue
		}
		got := mark + answer(line)
		fmt.Fprintf(&out, "%s\n%s\n", line, got)
		if *rewrite {
			continue
		}
		want := ""
		if i+1 < len(lines) {
			want = lines[i+1]
		}
		if got != want {
			t.Errorf("%s\ngot  %s\nwant %s", line, got, want)
		}
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPrint(t *testing.T) {
	golden(t, "testdata/print.txt", "= ", func(text string) string {
		q, err := Parse(text, variables())
		if err != nil {
			return err.Error()
		}
		again, err := Parse(q.String(), nil)
		if err != nil || !same(q, again) {
			t.Errorf("%s\nprinted as %s\nis read as %v, %v", text, q, again, err)
		}
		return q.String()
	})
}

func TestRefused(t *testing.T) {
	golden(t, "testdata/refused.txt", "! ", func(text string) string {
		q, err := Parse(text, variables())
		var bad *SyntaxError
		if !errors.As(err, &bad) {
			t.Errorf("%s is read as %v, %v", text, q, err)
			return "accepted"
		}
		return fmt.Sprintf("%d:%d:%d %s", bad.Pos, bad.Line, bad.Col, bad.Msg)
	})
}

func TestTexts(t *testing.T) {
	data, err := os.ReadFile("testdata/texts.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, text := range strings.Split(string(data), "\n") {
		if text == "" || text[0] == '#' {
			continue
		}
		n++
		q, err := Parse(text, variables())
		if err != nil {
			t.Errorf("%s\n%v", text, err)
			continue
		}
		again, err := Parse(q.String(), nil)
		if err != nil || !same(q, again) {
			t.Errorf("%s\nprinted as %s\nis read as %v, %v", text, q, again, err)
		}
	}
	if n < 100 {
		t.Errorf("there are only %d texts", n)
	}
}

package history_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/workload/history"
)

// TestCases checks every history of testdata/*.txt. "== name: verdict" begins one;
// what it must be explained with stands on lines that begin with "> ".
func TestCases(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range strings.Split(string(b), "\n== ")[1:] {
			head, lines, _ := strings.Cut(part, "\n")
			name, verdict, ok := strings.Cut(head, ": ")
			if !ok {
				t.Fatalf("%s: %q names no verdict", file, head)
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				checkCase(t, lines, history.Verdict(verdict))
			})
		}
	}
}

func checkCase(t *testing.T, text string, verdict history.Verdict) {
	var lines, want []string
	for line := range strings.Lines(text) {
		if w, ok := strings.CutPrefix(line, "> "); ok {
			want = append(want, strings.TrimSpace(w))
		} else {
			lines = append(lines, line)
		}
	}
	ops, err := history.Read(strings.NewReader(strings.Join(lines, "")))
	if err != nil {
		t.Fatal(err)
	}
	r := history.Check(t.Context(), ops, history.Options{Timeout: time.Minute})
	if r.Verdict != verdict {
		t.Fatalf("got %s, want %s\n%s", r.Verdict, verdict, r.Explanation)
	}
	if (r.Explanation == "") != (verdict == history.Correct) {
		t.Errorf("%s is explained with %q", verdict, r.Explanation)
	}
	for _, w := range want {
		if !strings.Contains(r.Explanation, w) {
			t.Errorf("the explanation does not say %q:\n%s", w, r.Explanation)
		}
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	// Writes that can only be distinguished by adding up every subset.
	var ops []history.Op
	for i := range 40 {
		ops = append(ops, history.Op{Client: int64(i), Call: 0, Outcome: history.Unknown,
			Step: history.Step{Kind: history.Add, Key: "k", Delta: 1 << i}})
	}
	ops = append(ops, history.Op{Call: 1, Return: 2, Outcome: history.OK,
		Step: history.Step{Kind: history.Get, Key: "k", Got: history.Some("-1")}})
	r := history.Check(t.Context(), ops, history.Options{Timeout: 50 * time.Millisecond})
	if r.Verdict != history.Undecided || !strings.Contains(r.Explanation, "time") {
		t.Errorf("out of time: %+v", r)
	}
	r = history.Check(t.Context(), ops, history.Options{MaxSearchBytes: 1 << 20})
	if r.Verdict != history.Undecided || !strings.Contains(r.Explanation, "memory") {
		t.Errorf("out of memory: %+v", r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r := history.Check(ctx, ops, history.Options{}); r.Verdict != history.Undecided {
		t.Errorf("cancelled: %+v", r)
	}
}

func TestCheckInvalid(t *testing.T) {
	t.Parallel()
	ops := []history.Op{{Outcome: "perhaps", Step: history.Step{Kind: history.Get}}}
	if r := history.Check(t.Context(), ops, history.Options{}); r.Verdict != history.Undecided || !strings.Contains(r.Explanation, "operation 1 ") {
		t.Errorf("%+v", r)
	}
}

func TestHTML(t *testing.T) {
	t.Parallel()
	for _, got := range []string{"1", "2"} {
		ops := []history.Op{
			{Client: 1, Call: 1, Return: 2, Outcome: history.OK, Step: history.Step{Kind: history.Set, Key: "kk", Value: history.Some("1")}},
			{Client: 2, Call: 3, Return: 4, Outcome: history.OK, Step: history.Step{Kind: history.Get, Key: "kk", Got: history.Some(got)}},
		}
		r := history.Check(t.Context(), ops, history.Options{})
		var page bytes.Buffer
		if err := r.WriteHTML(&page); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(page.String(), "<html") || !strings.Contains(page.String(), "kk") {
			t.Errorf("%s: no page that shows the history: %.200s", r.Verdict, page.String())
		}
	}
	none := history.Check(t.Context(), nil, history.Options{})
	if err := none.WriteHTML(&bytes.Buffer{}); err == nil || none.Verdict != history.Correct {
		t.Errorf("an empty history is %s, and can be drawn", none.Verdict)
	}
}

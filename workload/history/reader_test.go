package history_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/workload/history"
)

// TestLineErrors: each pair of lines of the file is a malformed line and why it is.
func TestLineErrors(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("testdata/malformed")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(lines) < 20 || len(lines)%2 != 0 {
		t.Fatalf("%d lines", len(lines))
	}
	for pair := range slices.Chunk(lines, 2) {
		_, err := history.Read(strings.NewReader("\n# a comment\n" + pair[0] + "\n"))
		wrong, ok := errors.AsType[*history.LineError](err)
		if !ok || wrong.Line != 3 || "> "+wrong.Why != pair[1] {
			t.Errorf("%s\ngot:  %v\nwant: %s", pair[0], err, pair[1])
		}
	}
}

func TestReadEvents(t *testing.T) {
	t.Parallel()
	const text = `
{"event":"call","id":7,"client":1,"op":"set","key":"x","value":"1","call":1}
{"event":"call","id":8,"client":2,"op":"txn","steps":[{"op":"get","key":"x"}],"call":2}
{"event":"call","id":9,"client":3,"op":"delete","key":"x","call":3}
{"event":"return","id":8,"steps":[{"op":"get","key":"x","result":"1"}],"return":4,"outcome":"ok"}
{"event":"return","id":7,"return":5,"outcome":"fail"}
{"event":"call","id":7,"client":1,"op":"add","key":"n","delta":-2,"call":6}
`
	ops, err := history.Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	want := []history.Op{
		{Client: 2, Step: history.Step{Kind: history.Txn}, Steps: []history.Step{{Kind: history.Get, Key: "x", Got: history.Some("1")}}, Call: 2, Return: 4, Outcome: history.OK},
		{Client: 1, Step: history.Step{Kind: history.Set, Key: "x", Value: history.Some("1")}, Call: 1, Return: 5, Outcome: history.Fail},
		{Client: 3, Step: history.Step{Kind: history.Delete, Key: "x"}, Call: 3, Outcome: history.Unknown},
		{Client: 1, Step: history.Step{Kind: history.Add, Key: "n", Delta: -2}, Call: 6, Outcome: history.Unknown},
	}
	if !reflect.DeepEqual(ops, want) {
		t.Errorf("got  %+v\nwant %+v", ops, want)
	}
	for _, bad := range []struct{ text, why string }{
		{`{"event":"return","id":1,"return":5,"outcome":"ok"}`, "line 1: return of 1, which has not been called"},
		{strings.Repeat(`{"event":"call","id":7,"client":1,"op":"get","key":"x","call":1}`+"\n", 2), "line 2: call 7 was made in line 1 and has not returned"},
		{`{"event":"call","id":7,"client":1,"op":"get","key":"x","call":1}` + "\n" + `{"event":"return","id":7,"key":"y","return":2,"outcome":"fail"}`, `line 2: field "key" is in both the call, line 1, and the return`},
		{`{"event":"call","id":7,"client":1,"op":"txn","steps":[{"op":"get","key":"x"}],"call":1}` + "\n" + `{"event":"return","id":7,"steps":[{"op":"set","key":"x","value":"1"}],"return":2,"outcome":"ok"}`, `line 2: the steps differ from those of the call, line 1`},
	} {
		if _, err := history.Read(strings.NewReader(bad.text)); err == nil || err.Error() != bad.why {
			t.Errorf("%s\ngot:  %v\nwant: %s", bad.text, err, bad.why)
		}
	}
}

func TestReadLimits(t *testing.T) {
	t.Parallel()
	const line = `{"client":1,"op":"get","key":"%s","call":1,"outcome":"unknown"}`
	room := history.MaxLineBytes - len(line) + 2
	if _, err := history.Read(strings.NewReader(fmt.Sprintf(line, strings.Repeat("k", room)))); err != nil {
		t.Errorf("the longest line: %v", err)
	}
	for _, more := range []int{1, 2, 3, 100} {
		_, err := history.Read(strings.NewReader("\n" + fmt.Sprintf(line, strings.Repeat("k", room+more)) + "\n"))
		if want := fmt.Sprintf("line 2: longer than %d bytes", history.MaxLineBytes); err == nil || err.Error() != want {
			t.Errorf("%d bytes too long: %.100v", more, err)
		}
	}
	keys := make([]string, history.MaxKeys+1)
	big := history.Op{Step: history.Step{Kind: history.MGet, Keys: keys}, Outcome: history.Unknown}
	if err := big.Validate(); err == nil {
		t.Error("more than MaxKeys keys are valid")
	}
	steps := make([]history.Step, history.MaxSteps+1)
	for i := range steps {
		steps[i].Kind = history.Get
	}
	big = history.Op{Step: history.Step{Kind: history.Txn}, Steps: steps, Outcome: history.Unknown}
	if err := big.Validate(); err == nil {
		t.Error("more than MaxSteps steps are valid")
	}
	broken := iotest.ErrReader(errors.New("pulled out"))
	if _, err := history.Read(broken); err == nil || !strings.Contains(err.Error(), "pulled out") {
		t.Errorf("a reader that fails: %v", err)
	}
}

// TestRoundTrip: what is written is read again as it was.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(seed.Of(t), 0))
	for _, mode := range modes {
		ops := generate(rng, mode, 200, 5, 0.1)
		var file bytes.Buffer
		if err := history.Write(&file, ops); err != nil {
			t.Fatal(err)
		}
		text := file.String()
		again, err := history.Read(&file)
		if err != nil {
			t.Fatal(err)
		}
		var second bytes.Buffer
		if err := history.Write(&second, again); err != nil {
			t.Fatal(err)
		}
		if len(again) != len(ops) || second.String() != text {
			t.Fatalf("%s: %d operations became %d", mode, len(ops), len(again))
		}
		a := history.Check(t.Context(), ops, history.Options{})
		b := history.Check(t.Context(), again, history.Options{})
		if a.Verdict != history.Correct || b.Verdict != a.Verdict || b.Partitions != a.Partitions {
			t.Errorf("%s: %+v, read again %+v", mode, a, b)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"testdata/anomalies.txt", "testdata/levels.txt", "testdata/malformed"} {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			if strings.HasPrefix(line, "{") {
				f.Add(line)
			}
		}
	}
	f.Add(`{"event":"call","id":1,"client":1,"op":"set","key":"x","value":"1","call":1}` + "\n" + `{"event":"return","id":1,"return":5,"outcome":"ok"}`)
	f.Fuzz(func(t *testing.T, text string) {
		ops, err := history.Read(strings.NewReader(text))
		if err != nil {
			if _, ok := errors.AsType[*history.LineError](err); !ok {
				t.Fatalf("an error without a line: %v", err)
			}
			return
		}
		var first, second bytes.Buffer
		if err := history.Write(&first, ops); err != nil {
			t.Fatalf("an operation that was read cannot be written: %v", err)
		}
		again, err := history.Read(bytes.NewReader(first.Bytes()))
		if err != nil {
			t.Fatalf("an operation that was written cannot be read: %v\n%s", err, first.String())
		}
		if err := history.Write(&second, again); err != nil || first.String() != second.String() {
			t.Fatalf("%v\n%s\nbecame\n%s", err, first.String(), second.String())
		}
		r := history.Check(t.Context(), ops, history.Options{MaxSearchBytes: 1 << 20})
		if (r.Verdict == history.Correct) != (r.Explanation == "") {
			t.Fatalf("%s: %q", r.Verdict, r.Explanation)
		}
	})
}

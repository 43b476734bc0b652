package proc_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/proc"
)

// answers returns a procedure p with the result v.
func answers[Out any](v Out) proc.Procedure {
	return proc.Define("p", func(*proc.Tx, struct{}) (Out, error) { return v, nil })
}

// Results of versions of a procedure.
type (
	Inside struct {
		Via int `json:"via"`
	}
	wider struct {
		Z *bool             `json:"z,omitempty"`
		Y []byte            `json:"y"`
		X json.Number       `json:"x"`
		M map[string]string `json:"m"`
		O struct{ P int }   `json:"o,omitzero"`
		*Inside
	}
	list = []struct {
		X int    `json:"x"`
		S string `json:"s<"`
	}
)

// TestReplayByOtherVersion checks that an answer remembered by one version of the program
// is returned by another as its own result, over RESP and as JSON alike, or fails on both.
func TestReplayByOtherVersion(t *testing.T) {
	at := time.Date(2026, 11, 21, 10, 0, 0, 5, time.FixedZone("", 3600))
	for _, x := range []struct {
		old, now proc.Procedure
		want     string // "": it fails
	}{
		{answers(map[string]int{"x": 1}), answers(point{}), `{"x":1,"y":null} {2 "x" 1 "y" null`},
		{answers(map[string]int{"x": 1}), answers(wider{}), `{"y":null,"x":1,"m":null} {6 "z" null "y" "" "x" "1" "m" {0 "o" {1 "P" 0 "via" null`},
		{answers(wider{X: "7", M: map[string]string{"<": "\u2028"}, Inside: &Inside{3}}), answers(map[string]json.RawMessage{}),
			`{"y":null,"x":7,"m":{"\u003c":"\u2028"},"via":3} {4 "y" "null" "x" "7" "m" "{\"\\u003c\":\"\\u2028\"}" "via" "3"`},
		{answers(list{{1, "<"}, {2, ""}}), answers([]map[string]json.RawMessage{}),
			`[{"x":1,"s\u003c":"\u003c"},{"x":2,"s\u003c":""}] [2 {2 "x" "1" "s<" "\"\\u003c\"" {2 "x" "2" "s<" "\"\""`},
		{answers(list{{1, "<"}, {2, ""}}), answers([]struct {
			S string `json:"s<"`
			N *struct{}
			E struct{} `json:"x"`
		}{}), `[{"s\u003c":"\u003c","N":null,"x":null},{"s\u003c":"","N":null,"x":null}] [2 {3 "s<" "<" "N" null "x" null {3 "s<" "" "N" null "x" null`},
		{answers(list{{1, "<"}}), answers(struct{}{}), "null null"},
		{answers([]int{1}), answers([2]int{}), ""},
		{answers([]int{1, 2}), answers([2]int{}), "[1,2] [2 1 2"},
		{answers([]int(nil)), answers([2]int{}), ""},
		{answers([]int(nil)), answers([]int{}), "null [0"},
		{answers(at), answers(""), `"2026-11-21T10:00:00.000000005+01:00" "2026-11-21T10:00:00.000000005+01:00"`},
		{answers("yesterday"), answers(at), ""},
		{answers((*string)(nil)), answers(""), ""},
		{answers((*int)(nil)), answers(0), ""},
		{answers(1), answers(new(int8)), "1 1"},
		{answers(1), answers(true), ""},
		{answers(true), answers(1), ""},
		{answers(300), answers(int8(0)), ""},
		{answers(-1), answers(uint(0)), ""},
		{answers(1e300), answers(float32(0)), ""},
		{answers("x"), answers([]byte{}), ""},
		{answers("x"), answers(wider{}), ""},
		{answers("x"), answers(map[int]int{}), ""},
		{answers(map[string]int{"x": 1}), answers(map[int]int{}), ""},
		{answers(map[string]int{"1": 1}), answers(map[int]int{}), `{"1":1} {1 "1" 1`},
	} {
		eng := openEngine(t)
		first, err := once(t, setOn(t, eng, proc.Options{}, x.old), "k", "p")
		if err != nil {
			t.Fatal(err)
		}
		now := setOn(t, eng, proc.Options{}, x.now)
		if x.want == "" {
			for what, err := range replayed(t, now) {
				if engine.CodeOf(err) != engine.CodeUnsupported || !strings.Contains(err.Error(), "another shape") {
					t.Errorf("%s: %s says %v", first, what, err)
				}
			}
			continue
		}
		if got, err := once(t, now, "k", "p"); err != nil || got != "again "+x.want {
			t.Errorf("%s:\n%s, %v; want\nagain %s", first, got, err, x.want)
		}
	}
}

// replayed requests the answer under the key k in both encodings, each of which must
// fail.
func replayed(t *testing.T, s *proc.Set) map[string]error {
	t.Helper()
	c := begin(t, s, "p")
	defer c.End()
	if err := c.Once([]byte("k")); err != nil {
		t.Fatal(err)
	}
	errs := map[string]error{}
	if _, err := c.Do(t.Context(), engine.Read{}, func(c *proc.Call) error {
		b, err := c.AppendJSON([]byte("before"))
		if errs["AppendJSON"] = err; string(b) != "before" {
			t.Errorf("AppendJSON failed and returned %q", b)
		}
		errs["Write"] = c.Write(new(discard))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return errs
}

// TestReplayLimit checks that the present limit applies to remembered results.
func TestReplayLimit(t *testing.T) {
	eng := openEngine(t)
	long := answers(strings.Repeat("x", 100))
	if _, err := once(t, setOn(t, eng, proc.Options{}, long), "k", "p"); err != nil {
		t.Fatal(err)
	}
	for what, err := range replayed(t, setOn(t, eng, proc.Options{MaxResult: 99}, long)) {
		if engine.CodeOf(err) != engine.CodeLimit || !strings.Contains(err.Error(), "the result of p is over the limit of 99 bytes") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

package typescript_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/proc/typescript"
)

var rewrite = flag.Bool("rewrite", false, "write the modules in testdata anew")

// schemasOf parses a list of schemas in the format of GET /api/procedures.
func schemasOf(t testing.TB, file string) (schemas []proc.Schema) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &schemas); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return schemas
}

func generate(t testing.TB, schemas []proc.Schema, o typescript.Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := typescript.Generate(&b, schemas, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestGolden compares the modules generated from testdata/*.json. The runtime, which is the
// same in all, is omitted from all but one.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) < 4 {
		t.Fatalf("%v: %v", files, err)
	}
	tail, err := os.ReadFile("runtime.ts")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		got := generate(t, schemasOf(t, file), typescript.Options{Source: "testdata\n" + filepath.Base(file)})
		own, ok := strings.CutSuffix(got, string(tail))
		if !ok {
			t.Errorf("%s: the module does not end in the runtime", file)
		}
		golden := strings.TrimSuffix(file, "json") + "golden.ts"
		if *rewrite {
			if err := os.WriteFile(golden, []byte(own), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if own != string(want) {
			t.Errorf("%s: made\n%s\nnot\n%s", file, own, want)
		}
	}
}

// TestOrder checks that the order of the schemas does not matter, and that they are not
// modified.
func TestOrder(t *testing.T) {
	schemas := schemasOf(t, "testdata/names.json")
	want := generate(t, schemas, typescript.Options{})
	slices.Reverse(schemas)
	first := schemas[0].Name
	if got := generate(t, schemas, typescript.Options{}); got != want {
		t.Error("another order makes another module")
	}
	if schemas[0].Name != first {
		t.Error("the caller's list was sorted")
	}
}

func TestMalformed(t *testing.T) {
	deep := proc.Type{Kind: proc.KindInt}
	for range 101 {
		of := deep
		deep = proc.Type{Kind: proc.KindList, Of: &of}
	}
	for _, c := range []struct {
		schemas []proc.Schema
		want    string
	}{
		{[]proc.Schema{{Name: "a"}}, `procedure "a": result: unknown kind ""`},
		{[]proc.Schema{{Name: "a", Result: proc.Type{Kind: "tree"}}}, `procedure "a": result: unknown kind "tree"`},
		{[]proc.Schema{{Name: "a", Result: proc.Type{Kind: proc.KindMap}}}, `procedure "a": result: map without an element type`},
		{[]proc.Schema{{Name: "a", Args: []proc.Field{{Name: "x", Type: proc.Type{Kind: proc.KindObject, Fields: []proc.Field{{Name: "y"}}}}}}},
			`procedure "a": argument "x": field "y": unknown kind ""`},
		{[]proc.Schema{{Name: "a", Result: deep}}, `procedure "a": result: types are nested more than 100 deep`},
		{[]proc.Schema{{Name: "a", Result: proc.Type{Kind: proc.KindNull}}, {Name: "a", Result: proc.Type{Kind: proc.KindNull}}}, `two procedures are named "a"`},
	} {
		var b bytes.Buffer
		if err := typescript.Generate(&b, c.schemas, typescript.Options{}); err == nil || err.Error() != c.want {
			t.Errorf("%v, not %s", err, c.want)
		}
		if b.Len() > 0 {
			t.Errorf("%s: half a module was written", c.want)
		}
	}
}

// full is a full disk.
type full struct{}

var errFull = errors.New("no room")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestWriteFails(t *testing.T) {
	if err := typescript.Generate(full{}, schemasOf(t, "testdata/kinds.json"), typescript.Options{}); !errors.Is(err, errFull) {
		t.Errorf("the error is %v", err)
	}
}

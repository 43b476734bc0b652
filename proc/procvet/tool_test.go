package procvet_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/skerrydb/skerry/proc/procvet"
)

// asTool makes the test binary act as a tool for go vet -vettool.
const asTool = "SKERRY_PROCVET_AS_TOOL"

func TestMain(m *testing.M) {
	if os.Getenv(asTool) != "" {
		unitchecker.Main(procvet.Analyzer())
	}
	os.Exit(m.Run())
}

// TestVetTool runs under go vet, which analyzes one package at a time and passes the facts
// of the others in files.
func TestVetTool(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("looks at the standard library too, which takes seconds")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "vet", "-vettool="+self, "./across")
	cmd.Dir = "testdata/app"
	cmd.Env = append(os.Environ(), asTool+"=1")
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); !errors.As(err, &exit) {
		t.Fatalf("go vet found nothing: %v\n%s", err, out)
	}
	if want := "helper.Fetch → helper.fetch → deep.Load, which calls os.ReadFile at deep/deep.go:"; !strings.Contains(string(out), want) {
		t.Errorf("without %q:\n%s", want, out)
	}
	if n := bytes.Count(out, []byte("(procedure across)")); n != 8 {
		t.Errorf("%d findings:\n%s", n, out)
	}
}

// program writes a module with one package that uses this repository's proc, and returns
// its directory.
func program(t *testing.T, files map[string]string) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	own, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	version, _, _ := strings.Cut(string(own[bytes.Index(own, []byte("\ngo "))+1:]), "\n")
	files["go.mod"] = "module shop\n\n" + version + "\n\nrequire github.com/skerrydb/skerry v0.0.0\n\nreplace github.com/skerrydb/skerry => " + root + "\n"
	for name, text := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestModuleNames checks that a module named like a package of the standard library is
// analyzed, and that file names are relative to the given directory.
func TestModuleNames(t *testing.T) {
	t.Parallel()
	dir := program(t, map[string]string{
		"main.go": `package main

import (
	"github.com/skerrydb/skerry/proc"
	"shop/db"
)

func main() {
	proc.Define("buy", func(tx *proc.Tx, _ struct{}) (string, error) { return db.Load(), nil })
}
`,
		"db/db.go": "package db\n\nimport \"os\"\n\nfunc Load() string { return os.Getenv(\"x\") }\n",
	})
	var out bytes.Buffer
	n, err := procvet.Run(dir, nil, &out)
	if err != nil {
		t.Fatal(err)
	}
	if want := regexp.MustCompile(`^main\.go:9:\d+: calls db\.Load, which calls os\.Getenv at db/db\.go:5: .*\(procedure buy\)\n$`); n != 1 || !want.Match(out.Bytes()) {
		t.Errorf("%d findings:\n%s", n, out.String())
	}
	out.Reset()
	if n, err := procvet.Run(filepath.Join(dir, "db"), []string{".."}, &out); n != 1 || err != nil || !strings.HasPrefix(out.String(), dir) {
		t.Errorf("from a folder below: %d findings, %v:\n%s", n, err, out.String())
	}
	out.Reset()
	if n, err := procvet.Run(dir, []string{"./db"}, &out); n != 0 || err != nil || out.Len() != 0 {
		t.Errorf("a package without procedures: %d findings, %v:\n%s", n, err, out.String())
	}
}

// TestLoadErrors checks that load errors are reported with their position, and briefly.
func TestLoadErrors(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	many.WriteString("package many\n\nimport \"github.com/skerrydb/skerry/proc\"\n\nvar _ proc.Options\n")
	for range procvet.MaxLoadErrors + 5 {
		many.WriteString("var _ = missing\n")
	}
	dir := program(t, map[string]string{
		"bad/bad.go":       "package bad\n\nimport \"github.com/skerrydb/skerry/proc\"\n\nvar x int = proc.MaxDepth + \"\"\n",
		"syntax/syntax.go": "package syntax\n\nimport _ \"github.com/skerrydb/skerry/proc\"\n\nfunc {\n",
		"absent/absent.go": "package absent\n\nimport _ \"shop/none\"\n",
		"many/many.go":     many.String(),
		"empty/readme":     "",
	})
	for _, c := range []struct{ pattern, want string }{
		{"./bad", `bad/bad\.go:5:\d+: .*string`},
		{"./syntax", `syntax/syntax\.go:5:\d+: `},
		{"./absent", `shop/none`},
		{"./many", `many\.go:25:.*\n\tand 5 more$`},
		{"./empty", `no Go files`},
		{"./nowhere", `nowhere`},
		{"bad/bad.go", `give packages, not files`},
	} {
		var out bytes.Buffer
		n, err := procvet.Run(dir, []string{c.pattern}, &out)
		if err == nil || n != 0 || out.Len() != 0 || !regexp.MustCompile(c.want).MatchString(err.Error()) {
			t.Errorf("%s: %d findings, error %v", c.pattern, n, err)
		}
	}
}

// TestWriter checks that an error of the writer is returned.
func TestWriter(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	w.Close()
	if _, err := procvet.Run("testdata/app", []string{"./clock"}, w); !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

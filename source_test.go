package skerry_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/skerrydb/skerry"
)

// TestFiles: a program's files are the embedded ones in production, and those on disk in development, in the
// folder of its source or above it in the same module.
func TestFiles(t *testing.T) {
	t.Parallel()
	embedded := fstest.MapFS{"views/a.html": {Data: []byte("embedded")}, "note.txt": {Data: []byte("x")}}
	module := t.TempDir()
	below := filepath.Join(module, "cmd", "server")
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(source, want string) {
		t.Helper()
		s := &skerry.Services{Source: source}
		got, err := fs.ReadFile(s.Files(embedded, "views"), "a.html")
		if err != nil || string(got) != want {
			t.Errorf("source %q: %q, %v; want %q", source, got, err, want)
		}
	}
	if err := os.MkdirAll(below, 0o700); err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(filepath.Dir(module), "views", "a.html"), "outside")
	t.Cleanup(func() { os.RemoveAll(filepath.Join(filepath.Dir(module), "views")) })
	write(filepath.Join(module, "go.mod"), "module x\n")
	expect("", "embedded")
	expect(below, "embedded") // what is above the module is somebody else's
	write(filepath.Join(module, "views", "a.html"), "of the module")
	expect(below, "of the module")
	write(filepath.Join(below, "views", "a.html"), "beside main")
	expect(below, "beside main")
	expect(module, "of the module")

	for dir, want := range map[string]string{"veiws": "go:embed", "note.txt": "not a folder", "../x": "invalid"} {
		_, err := fs.ReadFile((&skerry.Services{Source: module}).Files(embedded, dir), "a.html")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Files(%q): %v", dir, err)
		}
	}
}

package verb_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/skerrydb/skerry/cli/verb"
)

// TestTerminal: a pseudo-terminal is a terminal; files, pipes, other devices and closed files are none.
func TestTerminal(t *testing.T) {
	t.Parallel()
	open := func(path string) *os.File {
		t.Helper()
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	closed := open(filepath.Join(t.TempDir(), "closed"))
	_ = closed.Close()
	for name, f := range map[string]*os.File{"null": open(os.DevNull), "file": open(filepath.Join(t.TempDir(), "file")), "pipe": w, "closed": closed} {
		if verb.Terminal(f) {
			t.Errorf("%s is a terminal", name)
		}
	}
	if verb.Terminal(&bytes.Buffer{}) {
		t.Error("a buffer is a terminal")
	}
	if runtime.GOOS == "linux" && !verb.Terminal(open("/dev/ptmx")) { // opening it makes a new one
		t.Error("/dev/ptmx is no terminal")
	}
}

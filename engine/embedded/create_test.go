package embedded

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// TestCreateAfter creates a folder after the attempts of processes that were killed, but not over data.
func TestCreateAfter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	create := func() error { return CreateAfter(t.Context(), dir, 1<<48, time.Unix(1, 0), Options{}) }
	if !Unused(dir) {
		t.Error("a missing folder is not unused")
	}
	for _, name := range []string{"LOCK", filepath.Join(snapshotDir, "1.snap.tmp"), filepath.Join(logDir, "")} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if name == logDir {
			continue
		}
		if err := os.WriteFile(path, []byte("half"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !Unused(dir) {
		t.Error("a folder that was left unfinished is not unused")
	}
	if err := create(); err != nil {
		t.Fatal(err)
	}
	if err := create(); engine.CodeOf(err) != engine.CodeInvalid || Unused(dir) {
		t.Errorf("over a folder that is there: %v", err)
	}
	db, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if p := db.Position(); p < 1<<48 {
		t.Errorf("the position is %d", p)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

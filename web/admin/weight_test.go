package admin_test

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mostFirstLoad is how much the first page may weigh with everything that any page loads, compressed.
const mostFirstLoad = 90_000

// TestWeight: all modules and styles together, with uPlot, are less than the limit for a first load.
func TestWeight(t *testing.T) {
	t.Parallel()
	total := 0
	err := filepath.WalkDir("assets", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".txt") {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(content) // a bytes.Buffer takes everything
		_ = z.Close()
		t.Logf("%6d bytes compressed: %s", b.Len(), path)
		total += b.Len()
		return nil
	})
	if err != nil || total > mostFirstLoad {
		t.Errorf("%d bytes compressed, at most %d: %v", total, mostFirstLoad, err)
	}
	t.Logf("%6d bytes compressed in all", total)
}

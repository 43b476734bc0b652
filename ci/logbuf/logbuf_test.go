package logbuf

import (
	"strings"
	"sync"
	"testing"
)

// TestBuffer is for the race detector too.
func TestBuffer(t *testing.T) {
	t.Parallel()
	var b Buffer
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			for range 100 {
				if n, err := b.Write([]byte("x\n")); n != 2 || err != nil {
					t.Errorf("wrote %d bytes, %v", n, err)
				}
				_ = b.String()
			}
		})
	}
	all.Wait()
	if got := b.String(); got != strings.Repeat("x\n", 1000) {
		t.Errorf("%d bytes", len(got))
	}
}

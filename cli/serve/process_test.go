package serve

import (
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/skerrydb/skerry/engine"
)

// TestProcessMetrics: each has a value, and those of others follow.
func TestProcessMetrics(t *testing.T) {
	runtime.GC()
	other := func() iter.Seq[engine.Metric] {
		return func(yield func(engine.Metric) bool) { yield(engine.Metric{Name: "other", Value: 1}) }
	}
	huge := &hugePages{}
	huge.bytes.Store(2 << 20)
	counters, last := 0, ""
	for m := range processMetrics(huge, other)() {
		if m.Value <= 0 && m.Name != "heap_unused_bytes" {
			t.Errorf("%s is %v", m.Name, m.Value)
		}
		if m.Counter {
			counters++
		}
		last = m.Name
	}
	want := 2
	if _, ok := pageFaults("/proc/self/stat"); ok {
		want = 3
	}
	if counters != want || last != "other" {
		t.Errorf("%d counters, %s is the last", counters, last)
	}
	for range processMetrics(huge, nil)() {
		break
	}
}

func TestPageFaults(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stat")
	for text, want := range map[string]float64{
		"42 (a) b (c) R 1 42 42 0 -1 4194304 987 0 0 0 5 6": 987,
		"42 (a) R 1 2": -1, "": -1,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if n, ok := pageFaults(file); ok != (want >= 0) || ok && n != want {
			t.Errorf("%q: %v, %v", text, n, ok)
		}
	}
}

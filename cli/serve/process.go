package serve

import (
	"bytes"
	"iter"
	"os"
	"runtime/metrics"
	"strconv"

	"github.com/skerrydb/skerry/engine"
)

// processMetrics returns the metrics of this process's memory, and then those of more, which may be nil.
func processMetrics(huge *hugePages, more func() iter.Seq[engine.Metric]) func() iter.Seq[engine.Metric] {
	own := []struct{ name, from, help string }{
		{"heap_live_bytes", "/gc/heap/live:bytes", "Memory that the last run of the garbage collector found in use."},
		{"heap_unused_bytes", "/memory/classes/heap/free:bytes", "Free memory that the process keeps for reuse."},
		{"collector_cpu_seconds_total", "/cpu/classes/gc/total:cpu-seconds", "CPU time of the garbage collector, counted at the end of each run."},
		{"available_cpu_seconds_total", "/cpu/classes/total:cpu-seconds", "CPU time that the process could have used, counted at the same time."},
	}
	return func() iter.Seq[engine.Metric] {
		return func(yield func(engine.Metric) bool) {
			samples := make([]metrics.Sample, len(own))
			for i := range own {
				samples[i].Name = own[i].from
			}
			metrics.Read(samples)
			for i, m := range own {
				metric := engine.Metric{Name: m.name, Help: m.help}
				if v := samples[i].Value; v.Kind() == metrics.KindFloat64 {
					metric.Value, metric.Counter = v.Float64(), true
				} else {
					metric.Value = float64(v.Uint64())
				}
				if !yield(metric) {
					return
				}
			}
			if !yield(engine.Metric{Name: "heap_huge_bytes", Help: "Memory of the heap that was in huge pages at the last look.", Value: float64(huge.bytes.Load())}) {
				return
			}
			if n, ok := pageFaults("/proc/self/stat"); ok && !yield(engine.Metric{
				Name: "page_faults_total", Help: "Page faults without disk access, most of them the first use of memory.", Counter: true, Value: n,
			}) {
				return
			}
			if more != nil {
				for m := range more() {
					if !yield(m) {
						return
					}
				}
			}
		}
	}
}

// pageFaults returns the minor page faults of a process. Source: proc_pid_stat(5), minflt; the name of the program in
// parentheses before it may contain anything.
func pageFaults(file string) (n float64, ok bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 8 {
		return 0, false
	}
	n, err = strconv.ParseFloat(string(fields[7]), 64)
	return n, err == nil
}

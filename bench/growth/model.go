package main

import (
	"fmt"
	"math"

	"github.com/skerrydb/skerry/bench/rig"
)

// model prints what the capacity model of package cli/size is computed from and checked against, one value a line: nodes,
// keys, a name with its unit, the value. The test of that package reads it.
func (m *measurements) model() {
	var lines []string
	add := func(nodes int, keys uint64, name string, v float64) {
		if !math.IsNaN(v) && v > 0 {
			lines = append(lines, fmt.Sprintf("%d %d %s %.6g", nodes, keys, name, v))
		}
	}
	for _, g := range m.one {
		if g.system != partSkerry || len(g.windows) == 0 {
			continue
		}
		add(1, g.keys, "live_bytes", g.live())
		add(1, g.keys, "resident_bytes", g.resident())
		add(1, g.keys, "write_micros", g.server())
		add(1, g.keys, "writes_second", g.rate())
		add(1, g.keys, "log_bytes_write", g.median(func(w *window) float64 { return w.logged }))
		add(1, g.keys, "snapshot_bytes", g.saved)
		add(1, g.keys, "snapshot_seconds", g.snapshotSeconds())
		add(1, g.keys, "recovery_bytes", rig.Median(g.read))
		add(1, g.keys, "recovery_seconds", rig.Median(g.recovery))
	}
	for _, g := range m.three {
		if g.system != partSkerry || len(g.rate) == 0 {
			continue
		}
		add(3, g.keys, "resident_bytes", rig.Median(g.resident))
		add(3, g.keys, "write_micros", rig.Median(g.server))
		add(3, g.keys, "writes_second", rig.Median(g.rate))
		add(3, g.keys, "disk_bytes", g.disk)
	}
	if len(lines) == 0 {
		return
	}
	fmt.Fprintln(m.w, "\nFor the capacity model (nodes, keys, value):")
	for _, l := range lines {
		fmt.Fprintln(m.w, l)
	}
}

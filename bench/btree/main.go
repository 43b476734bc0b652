// Command btree compares the ordered maps of package btree with google/btree and tidwall/btree, and prints a
// table with the targets beside the ratios.
//
// It knows the three libraries and the loads; it must not know what the maps are used for. Within one run all
// contenders get the same keys in the same order, by turns in each round; the results are medians over the
// rounds.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/skerrydb/skerry/bench/rig"
)

func main() {
	rounds := flag.Int("rounds", 5, "rounds; the figures are medians")
	only := flag.String("only", "", "run only the loads whose name contains this")
	scale := flag.Float64("scale", 1, "factor on the number of keys, for a quick look")
	wall := flag.Bool("wall", false, "measure time on the wall instead of CPU time")
	out := flag.String("out", "", "`file` for the output (default results/btree-DATE.txt, none with -only or -scale)")
	flag.Parse()

	w, done, err := rig.Report(*out, "btree", *only != "" || *scale != 1)
	if err != nil {
		fmt.Fprintln(os.Stderr, "btree:", err)
		os.Exit(1)
	}
	defer done()
	now, unit := clock(cpuClock), "ns of CPU time, the collector's included,"
	if *wall {
		now, unit = wallClock, "ns"
	}
	fmt.Fprintf(w, "%s, %d CPUs, GOMAXPROCS %d; %s per operation, medians of %d rounds\n",
		runtime.Version(), runtime.NumCPU(), runtime.GOMAXPROCS(0), unit, *rounds)
	missed := 0
	for _, l := range loads(*scale) {
		if strings.Contains(l.name, *only) {
			missed += l.run(w, now, *rounds)
		}
	}
	fmt.Fprintf(w, "\ntargets missed: %d\n", missed)
}

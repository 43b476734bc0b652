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
)

func main() {
	rounds := flag.Int("rounds", 5, "rounds; the figures are medians")
	only := flag.String("only", "", "run only the loads whose name contains this")
	scale := flag.Float64("scale", 1, "factor on the number of keys, for a quick look")
	wall := flag.Bool("wall", false, "measure time on the wall instead of CPU time")
	flag.Parse()

	now, unit := clock(cpuClock), "ns of CPU time, the collector's included,"
	if *wall {
		now, unit = wallClock, "ns"
	}
	fmt.Printf("%s, %d CPUs, GOMAXPROCS %d; %s per operation, medians of %d rounds\n",
		runtime.Version(), runtime.NumCPU(), runtime.GOMAXPROCS(0), unit, *rounds)
	missed := 0
	for _, l := range loads(*scale) {
		if strings.Contains(l.name, *only) {
			missed += l.run(os.Stdout, now, *rounds)
		}
	}
	fmt.Printf("\ntargets missed: %d\n", missed)
}

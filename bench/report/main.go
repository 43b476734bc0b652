// Command report makes HTML pages of all raw output of the benchmarks, and index.html with links to them.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/skerrydb/skerry/bench/page"
)

func main() {
	dir := flag.String("dir", "results", "`folder` of the raw output")
	flag.Parse()
	made, err := page.Index(*dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
	fmt.Printf("wrote %d pages in %s; begin with index.html\n", len(made), *dir)
}

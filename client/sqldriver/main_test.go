package sqldriver

import "flag"

var rewrite = flag.Bool("rewrite", false, "write what is understood into testdata")

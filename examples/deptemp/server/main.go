// Command server serves departments through a cache: `server serve`, and every other verb that skerry has.
// $DEPTEMP_POSTGRES is the URL of the database; with $DEPTEMP_CACHE_DIR, that folder is a disk tier of 8 GiB.
package main

import (
	"os"

	"github.com/skerrydb/skerry/cache"
	"github.com/skerrydb/skerry/cli"
	"github.com/skerrydb/skerry/examples/deptemp"
)

func main() {
	o := deptemp.Options{Cache: cache.Options{MemoryBytes: 1 << 30}}
	if dir := os.Getenv("DEPTEMP_CACHE_DIR"); dir != "" {
		o.Cache.Dir, o.Cache.DiskBytes = dir, 8<<30
	}
	cli.Main(cli.App{Name: "deptemp", Web: deptemp.Application(o)})
}

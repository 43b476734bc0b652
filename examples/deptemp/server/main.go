// Command server serves departments through a cache: `server serve`, and every other verb that skerry has.
// $DEPTEMP_POSTGRES is the URL of the database; with $DEPTEMP_CACHE_DIR, that folder is a disk tier of 8 GiB;
// $DEPTEMP_CACHE_MIB is the size of the memory tier.
package main

import (
	"log"
	"os"
	"strconv"

	"github.com/skerrydb/skerry/cache"
	"github.com/skerrydb/skerry/cli"
	"github.com/skerrydb/skerry/examples/deptemp"
)

func main() {
	o := deptemp.Options{Cache: cache.Options{MemoryBytes: 1 << 30}}
	if dir := os.Getenv("DEPTEMP_CACHE_DIR"); dir != "" {
		o.Cache.Dir, o.Cache.DiskBytes = dir, 8<<30
	}
	if text := os.Getenv("DEPTEMP_CACHE_MIB"); text != "" {
		mib, err := strconv.ParseInt(text, 10, 32)
		if err != nil || mib < 1 {
			log.Fatalf("deptemp: DEPTEMP_CACHE_MIB is %q, not a number of MiB", text)
		}
		o.Cache.MemoryBytes = mib << 20
	}
	cli.Main(cli.App{Name: "deptemp", Web: deptemp.Application(o)})
}

package skerry

import (
	"fmt"
	"strconv"

	"github.com/skerrydb/skerry/cache"
	"github.com/skerrydb/skerry/web/admin"
)

// forPeople returns what the caches count, for the admin page.
func (k *caches) forPeople() []admin.Cache {
	var all []admin.Cache
	for _, c := range k.list() {
		all = append(all, cacheForPeople(c.Stats()))
	}
	return all
}

func cacheForPeople(s cache.Stats) admin.Cache {
	c := admin.Cache{Name: s.Name, Fresh: s.Fresh, Age: s.Age, Staleness: s.Staleness}
	c.Reads = append(c.Reads, admin.Tier{Name: "Memory", Reads: s.MemoryHits}, admin.Tier{Name: "Memory: the key is missing", Reads: s.MissingHits})
	if s.Disk != nil {
		c.Reads = append(c.Reads, admin.Tier{Name: "Disk", Reads: s.DiskHits})
	}
	c.Reads = append(c.Reads, admin.Tier{Name: "A load that was under way", Reads: s.Joined}, admin.Tier{Name: "The source", Reads: s.Loaded})
	row := func(name string, format string, args ...any) {
		c.Rows = append(c.Rows, admin.Row{Name: name, Value: fmt.Sprintf(format, args...)})
	}
	count := func(name string, n uint64) {
		c.Rows = append(c.Rows, admin.Row{Name: name, Value: strconv.FormatUint(n, 10)})
	}
	row("Memory", "%d of %d MiB, %d entries, %d evicted", s.Memory.Bytes>>20, s.Memory.Max>>20, s.Memory.Entries, s.Memory.Evicted)
	if d := s.Disk; d != nil {
		row("Disk", "%d of %d MiB, %d entries, %d not written yet, %d corrupt", d.Bytes>>20, d.Max>>20, d.Entries, d.Queued, d.Corrupt)
		if d.Error != "" {
			row("Disk is off", "%s", d.Error)
		}
	}
	row("Calls of the source", "%d, %d under way, %d keys waiting", s.Loads, s.Calls, s.Queued)
	count("Keys that the source failed to load", s.Failed)
	count("Loads ahead of the end of a life", s.Refreshes)
	count("Keys that changed", s.Invalidations)
	count("Values that changed while they were loaded", s.NotKept)
	count("Reads that waited for a position", s.Waits)
	count("Times emptied", s.Flushes)
	count("Gaps in the feed of changes", s.Gaps)
	count("Times that the feed was lost", s.Lost)
	row("Changes to come", "%d bytes", s.LagBytes)
	return c
}

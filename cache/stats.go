package cache

import (
	"iter"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/cache/memory"
	"github.com/skerrydb/skerry/engine"
)

// counters count since the cache was opened.
type counters struct {
	memory, missing, disk                   atomic.Uint64 // reads
	joined, waits                           atomic.Uint64
	loads, loaded, failed, dirty, refreshes atomic.Uint64
	invalidations, flushes, gaps, lost      atomic.Uint64
}

// Stats are the metrics of a cache. Durations are in nanoseconds in JSON.
type Stats struct {
	Name string `json:"name"`

	// Reads by who answered them: the memory tier with an entry or with the news that the key is missing, the
	// disk tier, or a load that was under way already. Loaded counts keys asked of the source, in Loads calls.
	MemoryHits  uint64 `json:"memory_hits"`
	MissingHits uint64 `json:"missing_hits"`
	DiskHits    uint64 `json:"disk_hits"`
	Joined      uint64 `json:"joined"`
	Loads       uint64 `json:"loads"`
	Loaded      uint64 `json:"loaded"`
	Refreshes   uint64 `json:"refreshes"`
	Failed      uint64 `json:"failed"`   // keys that the source failed to load
	NotKept     uint64 `json:"not_kept"` // values that changed while they were loaded
	Waits       uint64 `json:"waits"`    // reads that waited for a position

	Invalidations uint64 `json:"invalidations"` // keys that the feed reported
	Flushes       uint64 `json:"flushes"`       // by an operator, or because anything may have changed
	Gaps          uint64 `json:"gaps"`          // times that the feed could not say what had changed
	Lost          uint64 `json:"lost_feeds"`    // times that the feed was lost

	Position  Position      `json:"position"`
	Fresh     bool          `json:"fresh"`     // whether the tiers may answer now
	Age       time.Duration `json:"age"`       // how old an answer can be now; 0 if unknown
	Staleness time.Duration `json:"staleness"` // how old it may be: Options.Staleness, or Options.TTL without a feed
	LagBytes  int64         `json:"lag_bytes"`

	Queued int `json:"queued"` // keys that wait for a call of the source
	Calls  int `json:"calls"`  // calls of the source under way

	Memory memory.Stats `json:"memory"`
	Disk   *DiskStats   `json:"disk,omitempty"` // nil: no disk tier
}

// DiskStats are the metrics of a disk tier.
type DiskStats struct {
	Entries int    `json:"entries"`
	Bytes   int64  `json:"bytes"` // of all files
	Max     int64  `json:"max"`
	Queued  int    `json:"queued"`          // records that are not written yet
	Corrupt uint64 `json:"corrupt"`         // entries that were dropped because they could not be read back
	Error   string `json:"error,omitempty"` // why it is switched off
}

// Stats returns the metrics of now.
func (c *Cache) Stats() Stats {
	n := &c.count
	s := Stats{
		Name: c.o.Name, MemoryHits: n.memory.Load(), MissingHits: n.missing.Load(), DiskHits: n.disk.Load(), Joined: n.joined.Load(),
		Loads: n.loads.Load(), Loaded: n.loaded.Load(), Refreshes: n.refreshes.Load(), Failed: n.failed.Load(), NotKept: n.dirty.Load(),
		Waits: n.waits.Load(), Invalidations: n.invalidations.Load(), Flushes: n.flushes.Load(), Gaps: n.gaps.Load(), Lost: n.lost.Load(),
		Position: Position(c.state.pos.Load()), Fresh: c.fresh(), Staleness: c.o.TTL, LagBytes: c.state.lag.Load(), Memory: c.mem.Stats(),
	}
	if c.o.Feed != nil {
		s.Staleness = c.o.Staleness
		if proof := c.state.proof.Load(); proof != 0 {
			s.Age = time.Duration(c.clock.now() - proof)
		}
	}
	s.Queued, s.Calls = c.loader.waiting(), c.loader.running()
	if c.disk != nil {
		d := c.disk.Stats()
		s.Disk = &DiskStats{Entries: d.Entries, Bytes: d.Bytes, Max: d.Max, Queued: d.Queued, Corrupt: d.Corrupt}
		if d.Failed != nil {
			s.Disk.Error = d.Failed.Error()
		}
	}
	return s
}

// Metrics yields the metrics for /metrics.
func (c *Cache) Metrics() iter.Seq[engine.Metric] {
	s := c.Stats()
	at := engine.Label{Name: "cache", Value: s.Name}
	return func(yield func(engine.Metric) bool) {
		gauge := func(name, help string, v float64) bool {
			return yield(engine.Metric{Name: name, Help: help, Labels: []engine.Label{at}, Value: v})
		}
		count := func(name, help string, v uint64) bool {
			return yield(engine.Metric{Name: name, Help: help, Labels: []engine.Label{at}, Counter: true, Value: float64(v)})
		}
		hits := func(tier string, v uint64) bool {
			return yield(engine.Metric{Name: "cache_hits_total", Help: "Reads answered by a tier; missing: by the memory tier, that there is no such key.",
				Labels: []engine.Label{at, {Name: "tier", Value: tier}}, Counter: true, Value: float64(v)})
		}
		fresh := 0.0
		if s.Fresh {
			fresh = 1
		}
		ok := hits("memory", s.MemoryHits) && hits("missing", s.MissingHits) && hits("disk", s.DiskHits) &&
			count("cache_joined_total", "Reads that waited for a load that another one had begun.", s.Joined) &&
			count("cache_loads_total", "Calls of the source.", s.Loads) &&
			count("cache_loaded_keys_total", "Keys that were asked of the source.", s.Loaded) &&
			count("cache_failed_keys_total", "Keys that the source failed to load.", s.Failed) &&
			count("cache_refreshes_total", "Entries that were loaded again before their time was over.", s.Refreshes) &&
			count("cache_not_kept_total", "Values that changed while they were loaded.", s.NotKept) &&
			count("cache_waits_total", "Reads that waited for a position.", s.Waits) &&
			count("cache_invalidations_total", "Keys that the feed of changes reported.", s.Invalidations) &&
			count("cache_flushes_total", "Times that the cache was emptied by an operator, or because anything may have changed.", s.Flushes) &&
			count("cache_gaps_total", "Times that the cache was emptied because the feed of changes had a gap.", s.Gaps) &&
			count("cache_lost_feeds_total", "Times that the feed of changes was lost.", s.Lost) &&
			gauge("cache_fresh", "1 while the tiers may answer; otherwise reads go to the source.", fresh) &&
			gauge("cache_age_seconds", "How old an answer of the tiers can be now.", s.Age.Seconds()) &&
			gauge("cache_staleness_seconds", "How old an answer of the tiers may be.", s.Staleness.Seconds()) &&
			gauge("cache_lag_bytes", "How many bytes of its history the feed is behind the source.", float64(s.LagBytes)) &&
			gauge("cache_position", "The position up to which every change has been applied.", float64(s.Position)) &&
			gauge("cache_queued_keys", "Keys that wait for a call of the source.", float64(s.Queued)) &&
			gauge("cache_calls", "Calls of the source under way.", float64(s.Calls)) &&
			gauge("cache_memory_bytes", "Memory of the memory tier, with its index.", float64(s.Memory.Bytes)) &&
			gauge("cache_memory_max_bytes", "The most memory that the memory tier may have.", float64(s.Memory.Max)) &&
			gauge("cache_memory_entries", "Entries in the memory tier.", float64(s.Memory.Entries)) &&
			count("cache_evicted_total", "Entries that the memory tier dropped to make room.", uint64(s.Memory.Evicted))
		if !ok || s.Disk == nil {
			return
		}
		_ = gauge("cache_disk_bytes", "Bytes of the files of the disk tier.", float64(s.Disk.Bytes)) &&
			gauge("cache_disk_entries", "Entries in the disk tier.", float64(s.Disk.Entries))
	}
}

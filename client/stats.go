package client

import (
	"iter"
	"maps"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"
)

// buckets is the number of buckets of a histogram: four for each doubling, starting at 1
// µs.
const buckets = 4 * 28

// procStats counts the calls of one procedure or command on one node. Only one goroutine at
// a time writes; others may read.
type procStats struct {
	name   string
	errors atomic.Uint64
	took   [buckets]atomic.Uint64
}

// bucket returns the bucket for a duration. The two bits after the highest one select a
// quarter of a doubling.
func bucket(nanos int64) int {
	us := uint64(max(nanos, 0)) / 1000
	if us < 4 {
		return int(us)
	}
	n := bits.Len64(us) // at least 3
	return min(4*(n-2)+int(us>>(n-3))&3, buckets-1)
}

// bucketEnd returns the exclusive upper bound of a bucket.
func bucketEnd(i int) time.Duration {
	i++
	if i < 4 {
		return time.Duration(i) * time.Microsecond
	}
	return time.Duration(4+i%4) << (i/4 - 1) * time.Microsecond
}

// Stats is a snapshot of a Client's metrics.
type Stats struct {
	InFlight int    // calls waiting for their reply, including those that were given up
	Retries  uint64 // calls that were sent again
	Unknown  uint64 // calls that ended with ErrOutcomeUnknown
	TimedOut uint64 // calls that timed out, including some of Unknown
	Leader   string // address of the node that receives writes

	CacheHits, CacheMisses uint64
	CacheBytes             int

	Nodes []NodeStats
}

// NodeStats is the metrics of one node.
type NodeStats struct {
	Addr              string
	Connected         int              // connections that are open
	InFlight          int              // calls in its queues
	Connects          uint64           // connections that were made; all but the first of each link were reconnects
	DialErrors        uint64           // attempts that failed
	BytesOut, BytesIn uint64           // commands and replies, without greetings and TLS
	Procedures        []ProcedureStats // by name; commands of Do by theirs, rare ones as "other"
}

// ProcedureStats is the metrics of the replies to one procedure or command on one node.
// Calls that ended without a reply are not counted.
type ProcedureStats struct {
	Name   string
	Calls  uint64
	Errors uint64 // error replies, included in Calls
	took   [buckets]uint64
}

// Quantile returns the duration within which the fraction q, 0 to 1, of the calls got their
// replies. It may be up to a quarter too long. It returns 0 if there were no calls.
func (p *ProcedureStats) Quantile(q float64) time.Duration {
	if p.Calls == 0 {
		return 0
	}
	rank := uint64(q * float64(p.Calls))
	seen := uint64(0)
	for i, n := range p.took {
		if seen += n; seen > rank || seen == p.Calls {
			return bucketEnd(i)
		}
	}
	return bucketEnd(buckets - 1)
}

// Histogram yields the upper bound of each non-empty bucket and the number of calls that
// took less than it, but not less than the bound before.
func (p *ProcedureStats) Histogram() iter.Seq2[time.Duration, uint64] {
	return func(yield func(time.Duration, uint64) bool) {
		for i, n := range p.took {
			if n > 0 && !yield(bucketEnd(i), n) {
				return
			}
		}
	}
}

// counters are the fields of Stats that belong to no node.
type counters struct {
	retries, unknown, timedOut, hits, misses atomic.Uint64
}

// Stats returns the current metrics. They are read one after another, so they may be
// slightly inconsistent.
func (c *Client) Stats() Stats {
	s := Stats{
		InFlight:    int(c.inFlight.used.Load()),
		Retries:     c.counts.retries.Load(),
		Unknown:     c.counts.unknown.Load(),
		TimedOut:    c.counts.timedOut.Load(),
		Leader:      c.route.Load().addr,
		CacheHits:   c.counts.hits.Load(),
		CacheMisses: c.counts.misses.Load(),
		CacheBytes:  c.cache.bytes(),
	}
	for _, n := range *c.nodes.Load() {
		s.Nodes = append(s.Nodes, n.stats())
	}
	return s
}

func (n *node) stats() NodeStats {
	s := NodeStats{Addr: n.addr, Connects: n.connects.Load(), DialErrors: n.dialErrors.Load(),
		BytesOut: n.bytesOut.Load(), BytesIn: n.bytesIn.Load()}
	for _, l := range n.links {
		if l.up.Load() {
			s.Connected++
		}
		l.mu.Lock()
		s.InFlight += int(l.q.tail - l.q.head)
		l.mu.Unlock()
	}
	procs := *n.procs.Load()
	for _, name := range slices.Sorted(maps.Keys(procs)) {
		p := procs[name]
		ps := ProcedureStats{Name: name, Errors: p.errors.Load()}
		for i := range p.took {
			ps.took[i] = p.took[i].Load()
			ps.Calls += ps.took[i]
		}
		s.Procedures = append(s.Procedures, ps)
	}
	return s
}

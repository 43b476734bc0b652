package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/skerrydb/skerry/bench/rig"
)

// Results of Volt's own Go client with the same procedure, on the same kind of machine, from an earlier
// measurement. The server was a stand-in that speaks Volt's protocol and stores nothing on disk.
const (
	voltBlocking = 71_000
	voltAsync    = 198_000
	voltSQL      = 61_000
)

const recorded = `
Not of this run: Volt's own Go client against a stand-in for its server, without any disk, as recorded in November 2026 on
the same kind of machine: 71,000 votes/s blocking, 198,000 non-blocking, 61,000 through database/sql; 5 to 16 µs of client
CPU and 38 to 53 allocations a call; 104 MB (non-blocking) and 902 MB (blocking) resident with 102,400 calls in flight.
`

const unequal = `
What is unequal:
- Server and load generator share the machine's cores; each load generator is a process of its own. redis-server answers
  on one thread and leaves a second core to it; Skerry and PostgreSQL use every core and share them.
- "raw RESP" is one single-threaded epoll generator with the same bytes for Skerry and Redis. server µs and client µs are
  CPU times of the processes a vote (for PostgreSQL: of all its processes).
- PostgreSQL keeps a row a vote and counts them when somebody asks; the others keep counters a contestant and state, which
  would be rows that its sessions wait for. pgx sends each vote with a Sync of its own, so that each is a transaction: votes
  of a pipeline that share one would fail together, and deadlock on one another's phones.
- PostgreSQL has shared_buffers of 1 GB and no checkpoint in a window; all else that matters is Debian's default.
- -ram: the data is on tmpfs, where fsync costs next to nothing, for Redis (appendfsync always) and Skerry alike; neither
  is told to leave it out.
- The engine in process is called as the RESP face calls it, with 64 calls in one hand-over; the process has one core for
  the calls, the procedure, the log and the collector. Its target is judged by the CPU time a vote, which other work on
  the machine changes less than it changes the rate.
- p50 and p99 of blocking callers are of every 16th of them, those of calls that do not wait of every 64th call.
- B a call: resident memory of the client above that before its calls, a call in flight; allocs: of the whole client
  process, a vote.
- After every turn the server's totals are compared with the votes that were acknowledged; a difference ends the run.
`

func (m *measurements) targets(p *plan) {
	fmt.Fprintf(m.w, "\nTargets:\n")
	rate := func(c *cell) float64 { return rig.Median(c.rate) }
	client := func(c *cell) float64 { return rig.Median(c.client) }
	allocs := func(c *cell) float64 { return rig.Median(c.allocs) }
	const async, blocking, sql = "skerry client, non-blocking", "skerry client, blocking", "skerry database/sql"
	ratio := func(a, b string) float64 { return m.best(rate, a) / m.best(rate, b) }
	for _, t := range []rig.Target{
		rig.AtLeast("Skerry / PostgreSQL, the best of each (a commit a vote)", m.best(rate, "skerry ")/max(m.best(rate, "postgres pgx, pipelined"), m.best(rate, "postgres pgbench")), 10, "×"),
		rig.AtLeast("Skerry / Redis, raw 8×64, fsync on both", ratio("skerry raw RESP 8×64", "redis raw RESP 8×64"), 1.5, "×"),
		rig.AtLeast("Skerry / Redis, raw 8×512, fsync on both", ratio("skerry raw RESP 8×512", "redis raw RESP 8×512"), 1.5, "×"),
		rig.AtLeast("Skerry / Redis, raw 8×64, no disk on both", ratio("skerry-ram raw RESP 8×64", "redis-ram raw RESP 8×64"), 3, "×"),
		rig.AtLeast("Skerry / Redis, raw 8×512, no disk on both", ratio("skerry-ram raw RESP 8×512", "redis-ram raw RESP 8×512"), 3, "×"),
		rig.AtLeast("blocking / Volt's client as recorded", m.best(rate, blocking)/voltBlocking, 3, "×"),
		rig.AtLeast("non-blocking / Volt's client as recorded", m.best(rate, async)/voltAsync, 3, "×"),
		rig.AtLeast("database/sql / Volt's client as recorded", m.best(rate, sql)/voltSQL, 3, "×"),
		rig.AtMost("client CPU a non-blocking call", m.least(client, async), 0.5, " µs"),
		rig.AtMost("client CPU a blocking call", m.least(client, blocking), 2, " µs"),
		rig.AtMost("client CPU a call through database/sql", m.least(client, sql), 4, " µs"),
		rig.AtMost("allocations a non-blocking call", round(m.least(allocs, async)), 0, ""),
		rig.AtMost("allocations a blocking call", round(m.least(allocs, blocking)), 2, ""),
		rig.AtMost("allocations a call through database/sql", round(m.least(allocs, sql)), 9, ""),
		rig.AtMost("client memory a non-blocking call, 100,000 in flight", m.least(func(c *cell) float64 { return rig.Median(c.memory) }, "skerry client, non-blocking 100"), 400, " B"),
		rig.AtLeast("engine alone, votes a second of one core's time, no disk", 1000/m.least(client, "engine-ram"), 600, " k/s"),
		rig.AtLeast("engine alone, votes a second of one core's time, disk", 1000/m.least(client, "engine in"), 600, " k/s"),
	} {
		fmt.Fprintln(m.w, t)
	}
	if p.Quick {
		fmt.Fprintln(m.w, "This was a quick run: its figures show that the comparison works, nothing else.")
	}
}

// round makes 0 of the few allocations a second of the Go runtime.
func round(v float64) float64 { return math.Round(v*10) / 10 }

// best returns the largest value of the cells whose key begins with prefix, NaN if there is none.
func (m *measurements) best(of func(*cell) float64, prefix string) float64 {
	return -m.least(func(c *cell) float64 { return -of(c) }, prefix)
}

// least returns the smallest value in the same way.
func (m *measurements) least(of func(*cell) float64, prefix string) float64 {
	least := math.NaN()
	for key, c := range m.cells {
		if v := of(c); strings.HasPrefix(key, prefix) && !(v >= least) {
			least = v
		}
	}
	return least
}

package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// head describes what runs and where.
func (m *measurements) head(p *plan, systems []*system) {
	fmt.Fprintf(m.w, "Skerry, redis-server and etcd as durable key-value servers, %s\n", time.Now().Format("2006-01-02 15:04 MST"))
	fmt.Fprintf(m.w, "%s\nload average before: %s\n", rig.Machine(), rig.LoadAverage())
	for _, s := range systems {
		fmt.Fprintf(m.w, "%-8s%s\n", s.name, s.version)
	}
	fmt.Fprintf(m.w, "%d keys of %d bytes with values of %d bytes; %d rounds of %v windows; uniformly random keys\n\n",
		p.keys, rig.KeyBytes, rig.ValBytes, p.Rounds, p.Window)
}

// clientBound is the share of a core above which the single-threaded load generator may limit a result.
const clientBound = 0.95

// report prints the medians of all rounds, the differences in setup, and the targets.
func (m *measurements) report(p *plan, systems []*system) {
	m.table(systems)
	m.memory(p, systems)
	fmt.Fprintf(m.w, "\nBare write + fdatasync of 160 bytes on the same file system, p50 over this run: %.0f µs appending, %.0f µs into an allocated file\n",
		rig.Median(m.appending), rig.Median(m.allocated))
	fmt.Fprintf(m.w, "Load average after: %s (this run itself makes about 2)\n", rig.LoadAverage())
	m.unequal()
	m.targets(p)
}

func (m *measurements) table(systems []*system) {
	fmt.Fprintf(m.w, "\nMedians of the rounds (max: of all). * the load generator used ≥ %.0f %% of its core: the server may be able to do more.\n", clientBound*100)
	fmt.Fprintf(m.w, "%-8s%-6s%-7s%-8s%12s%10s%10s%11s%14s%14s%12s\n",
		"system", "face", "op", "shape", "ops/s", "p50 µs", "p99 µs", "max µs", "server µs/op", "client µs/op", "fsyncs/op")
	for _, s := range systems {
		for _, l := range s.lanes {
			for _, op := range []string{"read", "write"} {
				for _, sh := range l.shapes {
					if c := m.cells[cellKey(s.name, l.name, op, sh)]; c != nil {
						m.line(c)
					}
				}
			}
		}
	}
}

func (m *measurements) line(c *cell) {
	mark := " "
	if rig.Median(c.busy) >= clientBound {
		mark = "*"
	}
	fmt.Fprintf(m.w, "%-8s%-6s%-7s%-8s%11.0f%s%10.0f%10.0f%11.0f%14.2f%14.2f%12s\n", c.system, c.lane, c.op, c.shape,
		rig.Median(c.rate), mark, rig.Median(c.p50), rig.Median(c.p99), slices.Max(c.max), rig.Median(c.server), rig.Median(c.client), rig.Known(rig.Median(c.fsyncs), "%.4f"))
}

func (m *measurements) memory(p *plan, systems []*system) {
	fmt.Fprintf(m.w, "\nLoaded with %d keys; bytes a key are above the empty server and hold key and value (%d bytes).\n", p.keys, rig.KeyBytes+rig.ValBytes)
	fmt.Fprintf(m.w, "%-8s%12s%14s%14s%22s%14s%20s\n", "system", "load s", "heap B/key", "RSS B/key", "RSS after recovery", "disk B/key", "recovery s")
	n := float64(p.keys)
	for _, s := range systems {
		l := m.loads[s.name]
		fmt.Fprintf(m.w, "%-8s%12.2f%14s%14.0f%22.0f%14.0f%20.2f\n", s.name, l.took.Seconds(),
			rig.Known(l.heap/n, "%.0f"), l.resident/n, l.residentAfter/n, l.disk/n, rig.Median(l.recovery))
	}
}

func (m *measurements) unequal() {
	fmt.Fprint(m.w, `
What is unequal:
- RESP and HTTP are driven by one single-threaded epoll generator for all servers. etcd's gRPC is driven twice: by its own
  Go client (clientv3: one client a connection, one goroutine a request), which takes CPU from the server on the same
  cores (client µs/op), and by a lean HTTP/2 client made for this ("lean"), which does not. etcd's HTTP is its JSON
  gateway: base64 in JSON, always POST.
- redis-server answers on one thread and leaves a second core to the generator; Skerry and etcd use every core and
  share them with it. "Per core used" is 1 / (server CPU a request).
- etcd keeps old revisions (no compaction in this run), and its reads and Skerry's are linearizable by contract;
  Redis's are by being one thread of one node.
- fsyncs: Skerry's and etcd's (WAL and backend) by their /metrics; Redis 7.0 does not count its own. The counters
  are read over HTTP from Skerry and etcd at both borders of a window, over RESP from Redis.
- heap: of the Go servers what lived at their last collection, forced by overwriting for a moment after recovery; of Redis
  used_memory. Once it ran for a while, Skerry's holds the kept history of changes too (up to 64 MiB by default).
  RSS: what the system gave the process, garbage included.
- etcd is Debian's, an older version built with an older Go; newer ones are faster.
- HTTP runs without pipelining, so 8×64 is RESP and gRPC only.
- Each server was alone: the others were stopped. Same machine, same disk, same folder; the load averages tell of other work on it.
`)
}

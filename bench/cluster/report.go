package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
	"github.com/skerrydb/skerry/bench/rig/trio"
)

// head describes what runs and where.
func (m *measurements) head(p *plan, kinds []*trio.Kind) {
	fmt.Fprintf(m.w, "Three nodes of Skerry and of etcd, %s\n", time.Now().Format("2006-01-02 15:04 MST"))
	fmt.Fprintf(m.w, "%s\nload average before: %s\n", rig.Machine(), rig.LoadAverage())
	for _, k := range kinds {
		fmt.Fprintf(m.w, "%-8s%s\n", k.Name, k.Version)
	}
	fmt.Fprintf(m.w, "%d keys of %d bytes with values of %d bytes; %d rounds of %v windows; uniformly random keys\n\n",
		p.keys, rig.KeyBytes, rig.ValBytes, p.rounds, p.window)
}

// Values of a sample.
func rate(s sample) float64   { return s.rate }
func p50(s sample) float64    { return s.p50 }
func p99(s sample) float64    { return s.p99 }
func server(s sample) float64 { return s.server }

// report prints the medians of all rounds, the differences in setup, and the targets.
func (m *measurements) report(p *plan, kinds []*trio.Kind) {
	if len(m.cells) > 0 {
		m.table(kinds)
	}
	for _, k := range kinds {
		if d, ok := m.disk[k.Name]; ok {
			fmt.Fprintf(m.w, "%-8s%.0f bytes a key on the three disks after the load\n", k.Name, d/float64(p.keys))
		}
	}
	if len(m.syncs) > 0 {
		fmt.Fprintf(m.w, "Bare write + fdatasync of 160 bytes on the same file system, p50: %.0f µs\n", rig.Median(m.syncs))
	}
	m.faultTable(kinds)
	m.growthTable(kinds)
	fmt.Fprintf(m.w, "\nLoad average after: %s (this run itself makes 2 to 4)\n", rig.LoadAverage())
	m.unequal()
	m.targets()
	m.losses(p)
	if p.short {
		fmt.Fprintln(m.w, "\nThis was a short run: its figures show that the comparison works, nothing else.")
	}
}

// clientBound is the share of a core above which the single-threaded load generator may limit a result.
const clientBound = 0.95

func (m *measurements) table(kinds []*trio.Kind) {
	fmt.Fprintf(m.w, "\nMedians of the rounds (max: of all); server: CPU of all three nodes. * the load generator used ≥ %.0f %% of its core.\n", clientBound*100)
	fmt.Fprintf(m.w, "%-8s%-6s%-11s%-7s%-8s%11s %10s%10s%11s%14s%14s%12s\n",
		"system", "face", "asked", "op", "shape", "ops/s", "p50 µs", "p99 µs", "max µs", "server µs/op", "client µs/op", "fsyncs/op")
	for _, k := range kinds {
		for _, f := range k.Faces {
			for _, s := range spots {
				if c := m.cells[cellKey(k.Name, f.Name, s)]; c != nil && c.spot == s {
					m.line(c)
				}
			}
		}
	}
}

func (m *measurements) line(c *cell) {
	med := func(get func(sample) float64) float64 { return rig.Median(c.of(get)) }
	mark := " "
	if med(func(s sample) float64 { return s.busy }) >= clientBound {
		mark = "*"
	}
	fmt.Fprintf(m.w, "%-8s%-6s%-11s%-7s%-8s%11.0f%s%10.0f%10.0f%11.0f%14.2f%14.2f%12.4f\n", c.system, c.face, c.spot.to, c.spot.op, c.spot.shape,
		med(rate), mark, med(p50), med(p99), slices.Max(c.of(func(s sample) float64 { return s.max })), med(server),
		med(func(s sample) float64 { return s.client }), med(func(s sample) float64 { return s.fsyncs }))
}

func (b behind) String() string {
	how := "killed and started"
	if b.frozen {
		how = "frozen and thawed"
	}
	return fmt.Sprintf("%s: missed what took %.1f s to write, had it after %.1f s; writes before → then: %.0f → %.0f /s, p50 %.1f → %.1f, p99 %.1f → %.1f, longest gap %.0f → %.0f ms",
		how, b.bulk.Seconds(), b.took.Seconds(), b.before.rate, b.then.rate, b.before.p50, b.then.p50, b.before.p99, b.then.p99, b.before.gap, b.then.gap)
}

func (m *measurements) faultTable(kinds []*trio.Kind) {
	for _, k := range kinds {
		f := m.faults[k.Name]
		if f == nil {
			continue
		}
		fmt.Fprintf(m.w, "\n%s, %d writers with one write in flight each, spread over all trio.Size, %v patience:\n", k.Name, writerCount, patience)
		for _, way := range []struct {
			name string
			gaps []float64
		}{{"kill -9 of the leader", f.kill}, {"SIGTERM of the leader", f.handOver}} {
			if len(way.gaps) > 0 {
				fmt.Fprintf(m.w, "  %s, longest time without an acknowledged write: median %.2f s, worst %.2f s of %d\n",
					way.name, rig.Median(way.gaps), slices.Max(way.gaps), len(way.gaps))
			}
		}
		if len(f.kill) > 0 {
			fmt.Fprintf(m.w, "  acknowledged writes that were lost, of the last %d a fault: %d\n", readBack*writerCount, f.lost)
		}
		for _, b := range f.catchUp {
			fmt.Fprintf(m.w, "  a follower %s\n", b)
		}
	}
}

func (m *measurements) growthTable(kinds []*trio.Kind) {
	if len(m.grown) == 0 {
		return
	}
	fmt.Fprintf(m.w, "\nGrowth, writes to the leader: 8×64, and alone 1×1 (etcd: lean client). Memory and disk of all three nodes.\n")
	fmt.Fprintf(m.w, "%-8s%10s%12s%10s%10s%14s%14s%14s%12s%10s\n", "system", "keys", "writes/s", "p50 µs", "p99 µs", "server µs/op", "alone p50 µs", "resident MiB", "disk MiB", "load s")
	for _, k := range kinds {
		for _, g := range m.grown[k.Name] {
			fmt.Fprintf(m.w, "%-8s%10d%12.0f%10.0f%10.0f%14.2f%14.0f%14.0f%12.0f%10.1f\n", k.Name, g.keys, g.rate, g.p50, g.p99, g.server, g.alone,
				g.resident/(1<<20), g.onDisk/(1<<20), g.loading.Seconds())
		}
	}
}

func (m *measurements) unequal() {
	fmt.Fprint(m.w, `
What is unequal:
- Skerry's nodes speak mutual TLS with each other; etcd's speak plain HTTP, its default. That favours etcd.
- RESP and HTTP are driven by one single-threaded epoll generator. etcd's gRPC is driven twice: by its own Go client
  (clientv3: one client a connection, one goroutine a request), which takes CPU from the servers on the same cores
  (client µs/op), and by a lean HTTP/2 client made for this ("lean"), which does not. etcd's HTTP is its JSON gateway:
  base64 in JSON, always POST. HTTP runs without pipelining.
- Three nodes and the client share this machine's cores and one disk: what each node would do on a machine of its own, CPU
  µs/op tells better than ops/s.
- "follower": all connections go to one node that does not lead; "followers": to both, in turn. All reads are linearizable.
- While nodes are lost, Skerry is driven by a plain RESP client that goes to the next node after any error, etcd by its
  own client, which chooses nodes itself. Both have the same patience for one answer. The time counts from the last
  acknowledgement before to the first after, of all writers together.
- etcd keeps old revisions (no compaction in this run). It is Debian's, an older version built with an older Go.
- fsyncs: by both systems' /metrics, of all three nodes; etcd's are those of its WAL and its backend.
- Only one cluster ran at a time. The load averages tell of other work on the machine.
`)
}

// one returns the median of a cell, NaN if it was not measured.
func (m *measurements) one(get func(sample) float64, key string) float64 {
	c := m.cells[key]
	if c == nil {
		return math.NaN()
	}
	return rig.Median(c.of(get))
}

func (m *measurements) targets() {
	fmt.Fprintf(m.w, "\nTargets:\n")
	var all []rig.Target
	against := func(what, client, ours, theirs string, aim float64) {
		ratio := m.one(rate, "skerry RESP "+ours) / m.one(rate, "etcd "+client+" "+theirs)
		all = append(all, rig.AtLeast(fmt.Sprintf("%s: Skerry / etcd, %s", what, map[string]string{"gRPC": "its own client", "lean": "lean client"}[client]), ratio, aim, "×"))
	}
	for _, client := range []string{"gRPC", "lean"} {
		against("RESP writes 8×64", client, "leader write 8×64", "leader write 8×64", 18)
		against("linearizable reads 8×64 at the leader", client, "leader read 8×64", "leader read 8×64", 40)
		against("linearizable reads 8×64 over the followers", client, "followers read 8×64", "followers read 8×64", 40)
	}
	single := min(m.one(p50, "etcd gRPC leader write 1×1"), m.one(p50, "etcd lean leader write 1×1"))
	all = append(all,
		rig.AtMost("one write alone, p50: Skerry / the better of etcd's clients", m.one(p50, "skerry RESP leader write 1×1")/single, 1, "×"),
		rig.AtLeast("HTTP writes 512×1: Skerry / etcd's gateway", m.one(rate, "skerry HTTP leader write 512×1")/m.one(rate, "etcd HTTP leader write 512×1"), 4, "×"))
	worst, lost, stall := math.NaN(), math.NaN(), math.NaN()
	if f := m.faults["skerry"]; f != nil {
		if len(f.kill) > 0 {
			worst, lost = slices.Max(f.kill), float64(f.lost)
		}
		for _, b := range f.catchUp {
			stall = max(b.then.gap/1000, zeroNaN(stall))
		}
	}
	all = append(all,
		rig.AtMost("kill -9 of the leader under load, worst time without an acknowledged write", worst, 2, " s"),
		rig.AtMost("acknowledged writes lost", lost, 0, ""),
		rig.AtMost("writes go on while a follower catches up: their longest gap", stall, 0.5, " s"))
	for _, t := range all {
		fmt.Fprintln(m.w, t)
	}
}

func zeroNaN(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

// losses prints where etcd is better, with either of its clients.
func (m *measurements) losses(p *plan) {
	if len(p.systems) < 2 {
		return
	}
	var found []string
	compare := func(what, unit string, ours, theirs float64, more bool) {
		if more && ours < theirs || !more && ours > theirs {
			found = append(found, fmt.Sprintf("%s: %.1f against %.1f%s", what, ours, theirs, unit))
		}
	}
	for _, s := range spots {
		ours, rivals := "RESP", []string{"gRPC", "lean"}
		if s.http {
			ours, rivals = "HTTP", []string{"HTTP"}
		}
		for _, f := range []struct {
			name, unit string
			get        func(sample) float64
			more       bool
		}{{"rate", " /s", rate, true}, {"p50", " µs", p50, false}, {"p99", " µs", p99, false}, {"server CPU", " µs/op", server, false}} {
			for _, rival := range rivals {
				compare(fmt.Sprintf("%s %s %s %s, %s (etcd %s)", ours, s.to, s.op, s.shape, f.name, rival), f.unit,
					m.one(f.get, cellKey("skerry", ours, s)), m.one(f.get, cellKey("etcd", rival, s)), f.more)
			}
		}
	}
	if a, b := m.faults["skerry"], m.faults["etcd"]; a != nil && b != nil {
		compare("kill -9 of the leader, median", " ms", 1000*rig.Median(a.kill), 1000*rig.Median(b.kill), false)
		compare("SIGTERM of the leader, median", " ms", 1000*rig.Median(a.handOver), 1000*rig.Median(b.handOver), false)
		for i := range min(len(a.catchUp), len(b.catchUp)) {
			x, y := a.catchUp[i], b.catchUp[i]
			how := map[bool]string{false: ", killed and started", true: ", frozen and thawed"}[x.frozen]
			compare("time to catch up"+how, " s", x.took.Seconds(), y.took.Seconds(), false)
			compare("p99 of writes during that"+how, " ms", x.then.p99, y.then.p99, false)
			compare("p99 during that / before"+how, " ×", x.then.p99/x.before.p99, y.then.p99/y.before.p99, false)
		}
	}
	compare("bytes on disk after the load", " MiB", m.disk["skerry"]/(1<<20), m.disk["etcd"]/(1<<20), false)
	a, b := m.grown["skerry"], m.grown["etcd"]
	for i := range min(len(a), len(b)) {
		compare(fmt.Sprintf("resident with %d keys", a[i].keys), " MiB", a[i].resident/(1<<20), b[i].resident/(1<<20), false)
		compare(fmt.Sprintf("p99 of writes 8×64 with %d keys", a[i].keys), " µs", a[i].p99, b[i].p99, false)
	}
	fmt.Fprintf(m.w, "\nWhere Skerry loses to etcd:\n")
	if found == nil {
		found = []string{"nowhere in what was measured"}
	}
	fmt.Fprintln(m.w, "- "+strings.Join(found, "\n- "))
}

package main

import (
	"fmt"
	"math"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// head describes what runs and where.
func (m *measurements) head(p *plan, dir string) (err error) {
	if m.path, err = rig.Skerry(p.skerry, dir); err != nil {
		return err
	}
	fmt.Fprintf(m.w, "How Skerry grows, beside redis-server and etcd, %s\n", time.Now().Format("2006-01-02 15:04 MST"))
	fmt.Fprintf(m.w, "%s, %d MiB of available memory\nload average before: %s\n", rig.Machine(), rig.MemAvailable()>>20, rig.LoadAverage())
	servers, err := m.servers(p, dir)
	if err != nil {
		return err
	}
	for _, s := range servers {
		fmt.Fprintf(m.w, "%-8s%s\n", s.name, s.version)
	}
	fmt.Fprintf(m.w, "Keys of %d bytes with values of %d bytes, uniformly random overwrites %s over RESP; %d rounds of %v windows\n\n",
		rig.KeyBytes, rig.ValBytes, shape, p.rounds, p.window)
	return nil
}

// median returns the median of one value of all windows; unknown ones (NaN) do not count.
func (g *grown) median(of func(*window) float64) float64 {
	var all []float64
	for i := range g.windows {
		if v := of(&g.windows[i]); !math.IsNaN(v) {
			all = append(all, v)
		}
	}
	return rig.Median(all)
}

// least and most are of one value of all windows.
func (g *grown) least(of func(*window) float64) float64 {
	return -g.most(func(w *window) float64 { return -of(w) })
}

func (g *grown) most(of func(*window) float64) float64 {
	worst := math.NaN()
	for i := range g.windows {
		if v := of(&g.windows[i]); !math.IsNaN(v) {
			worst = worse(worst, v)
		}
	}
	return worst
}

// merged merges one histogram of all windows.
func (g *grown) merged(of func(*window) *rig.Hist) *rig.Hist {
	var h rig.Hist
	for i := range g.windows {
		h.Merge(of(&g.windows[i]))
	}
	return &h
}

// quantile returns a quantile in µs, NaN if there is nothing.
func quantile(h *rig.Hist, q float64) float64 {
	if h.Count == 0 {
		return math.NaN()
	}
	return rig.Micros(h.Quantile(q))
}

func (g *grown) rate() float64 { return g.median(func(w *window) float64 { return w.rate }) }

// p99 is the median of the rounds.
func (g *grown) p99() float64 {
	return g.median(func(w *window) float64 { return quantile(&w.all, 0.99) })
}

func (g *grown) server() float64    { return g.median(func(w *window) float64 { return w.server }) }
func (g *grown) live() float64      { return g.median(func(w *window) float64 { return w.live }) }
func (g *grown) resident() float64  { return g.median(func(w *window) float64 { return w.resident }) }
func (g *grown) collector() float64 { return g.median(func(w *window) float64 { return w.collector }) }

// liveKey and residentKey are bytes a key above the empty server.
func (g *grown) liveKey() float64     { return (g.live() - g.empty) / float64(g.keys) }
func (g *grown) residentKey() float64 { return (g.resident() - g.emptyRSS) / float64(g.keys) }

// besideRatio is the p99 beside a snapshot as a multiple of that without.
func (g *grown) besideRatio() float64 {
	return g.median(func(w *window) float64 { return quantile(&w.beside, 0.99) / quantile(&w.calm, 0.99) })
}

func (g *grown) snapshotSeconds() float64 {
	var all []float64
	for _, w := range g.windows {
		for _, d := range w.took {
			all = append(all, d.Seconds())
		}
	}
	return rig.Median(all)
}

// drop returns the worst loss of throughput during one mark, and that in calm times beside it, in percent.
func (g *grown) drop() (inMark, inCalm float64) {
	inMark, inCalm = math.NaN(), math.NaN()
	for i := range g.windows {
		a, b := g.windows[i].drops()
		if !math.IsNaN(a) {
			inMark = worse(inMark, 100*a)
		}
		if !math.IsNaN(b) {
			inCalm = worse(inCalm, 100*b)
		}
	}
	return inMark, inCalm
}

// report prints the medians of all rounds, what is unequal, the targets, and where Skerry loses.
func (m *measurements) report(p *plan) {
	if len(m.one) > 0 {
		m.writesTable()
		m.memoryTable()
		m.snapshotTable()
	}
	m.trioTable()
	if len(m.engine) > 0 {
		fmt.Fprintf(m.w, "\nVoter over %s phones, the engine alone on one core: %.0f votes/s\n", sizeName(p.phones()), rig.Median(m.engine))
	}
	fmt.Fprintf(m.w, "\nLoad average after: %s (this run itself makes 2 to 4)\n", rig.LoadAverage())
	m.unequal()
	m.targets(p)
	m.losses()
	m.model()
	if p.window < 5*time.Second {
		fmt.Fprintln(m.w, "\nThe windows were short: these figures show that the comparison works, nothing else.")
	}
}

// clientBound is the share of a core above which the single-threaded load generator may limit a result.
const clientBound = 0.95

func (m *measurements) writesTable() {
	fmt.Fprintf(m.w, "\nOne node, writes: medians of the rounds; worst: the slowest half second; max: of all. * the load generator used ≥ %.0f %% of its core.\n", clientBound*100)
	fmt.Fprintf(m.w, "%-8s%8s%11s%11s%10s%9s%9s%10s%9s%9s%8s%8s%12s%12s%10s\n", "system", "keys", "writes/s", "worst/s", "server µs", "p50 µs", "p99 µs", "p99.9 µs", "max ms",
		"gc CPU %", "mark −%", "calm −%", "mix write/s", "mix read/s", "mix p99")
	for _, g := range m.one {
		if len(g.windows) == 0 {
			continue
		}
		h := g.merged(func(w *window) *rig.Hist { return &w.all })
		mark := " "
		if g.median(func(w *window) float64 { return w.busy }) >= clientBound {
			mark = "*"
		}
		drop, calm := g.drop()
		gc := "–"
		if g.system == partSkerry {
			gc = fmt.Sprintf("%.1f", 100*g.collector())
		}
		fmt.Fprintf(m.w, "%-8s%8s%10.0f%s%11s%10.2f%9.0f%9.0f%10.0f%9.1f%9s%8s%8s%12.0f%12.0f%10.0f\n", g.system, sizeName(g.keys), g.rate(), mark,
			rig.Known(g.least(func(w *window) float64 { return w.worst }), "%.0f"), g.server(), quantile(h, 0.5), g.p99(), quantile(h, 0.999), rig.Micros(h.Max)/1000, gc,
			rig.Known(drop, "%.0f"), rig.Known(calm, "%.0f"),
			g.median(func(w *window) float64 { return w.mixWrites }), g.median(func(w *window) float64 { return w.mixRead }), g.median(func(w *window) float64 { return w.mixP99 }))
	}
}

func (m *measurements) memoryTable() {
	fmt.Fprintf(m.w, "\nOne node, memory above the empty server while keys are overwritten, with key and value (%d bytes); recovery after kill -9.\n", rig.KeyBytes+rig.ValBytes)
	fmt.Fprintf(m.w, "%-8s%8s%9s%12s%16s%14s%14s%14s%13s%14s\n", "system", "keys", "load s", "live B/key", "resident B/key", "resident/live", "resident MiB", "greatest MiB", "disk B/key", "recovery s")
	for _, g := range m.one {
		if len(g.windows) == 0 {
			continue
		}
		fmt.Fprintf(m.w, "%-8s%8s%9.1f%12.0f%16.0f%14.2f%14.0f%14.0f%13.0f%14.2f\n", g.system, sizeName(g.keys), g.loading.Seconds(), g.liveKey(), g.residentKey(),
			g.resident()/g.live(), g.resident()/(1<<20), g.most(func(w *window) float64 { return w.peak })/(1<<20), g.disk/float64(g.keys), rig.Median(g.recovery))
	}
}

func (m *measurements) snapshotTable() {
	fmt.Fprintf(m.w, "\nOne node, beside a snapshot (Redis: a rewrite of its append-only file).\n")
	fmt.Fprintf(m.w, "%-8s%8s%14s%14s%14s%14s%16s\n", "system", "keys", "snapshot s", "writes/s", "p99 µs beside", "p99 µs calm", "beside/calm")
	for _, g := range m.one {
		beside := g.merged(func(w *window) *rig.Hist { return &w.beside })
		if beside.Count == 0 && math.IsNaN(g.snapshotSeconds()) {
			continue
		}
		fmt.Fprintf(m.w, "%-8s%8s%14s%14s%14s%14s%16s\n", g.system, sizeName(g.keys), rig.Known(g.snapshotSeconds(), "%.1f"),
			rig.Known(g.median(func(w *window) float64 { return w.besideRate }), "%.0f"), rig.Known(quantile(beside, 0.99), "%.0f"),
			rig.Known(quantile(g.merged(func(w *window) *rig.Hist { return &w.calm }), 0.99), "%.0f"), rig.Known(g.besideRatio(), "%.2f"))
	}
}

func (m *measurements) trioTable() {
	if len(m.three) == 0 {
		return
	}
	fmt.Fprintf(m.w, "\nThree nodes on this machine, writes to the leader: medians of the rounds. etcd by its own Go client. CPU, memory and disk of all nodes.\n")
	fmt.Fprintf(m.w, "%-8s%8s%9s%12s%10s%10s%11s%11s%15s%13s\n", "system", "keys", "load s", "writes/s", "p50 µs", "p99 µs", "max ms", "server µs", "resident MiB", "disk B/key")
	for _, g := range m.three {
		fmt.Fprintf(m.w, "%-8s%8s%9.1f%12.0f%10.0f%10.0f%11.1f%11.2f%15.0f%13.0f\n", g.system, sizeName(g.keys), g.loading.Seconds(), rig.Median(g.rate), quantile(&g.lat, 0.5),
			quantile(&g.lat, 0.99), rig.Micros(g.lat.Max)/1000, rig.Median(g.server), rig.Median(g.resident)/(1<<20), g.disk/float64(g.keys))
	}
}

func (m *measurements) unequal() {
	fmt.Fprint(m.w, `
What is unequal:
- One single-threaded epoll generator drives Skerry and Redis. Redis executes commands on one thread and leaves a second core to the
  generator; Skerry uses every core and shares them with it. etcd is driven by its own Go client, which takes CPU from its nodes.
- live: of Skerry, what the garbage collector marked last, by GODEBUG=gctrace=1, in whole MiB, with the kept history of changes (up to
  64 MiB by default); of Redis used_memory. resident: VmRSS of the process, the median of the window. Redis' fork for a rewrite is not in it.
- gc CPU: the collector's share of the server's CPU time, by gctrace. "mark −%": throughput during the worst mark of at least 0.3 s below the
  median of the times without marks and snapshots; "calm −%": the same for the worst piece of such a time that is as long as a mark.
  A mark costs what the first has above the second. gctrace counts by the clock, so other work on the machine makes the share larger.
- Skerry snapshots when its log has grown, Redis rewrites when its file has doubled; if none falls into a window of a size from 1 M keys, or one fills
  it, up to two more windows follow, in which Redis is asked for a rewrite. Those count only for what is measured beside a snapshot.
- Recovery is from a warm page cache: from kill -9 after the load or a window to the first key served. Redis reads a file that its rewrite may have left short or long.
- Three nodes and the generator share this machine's cores and one disk. Skerry's nodes speak mutual TLS with each other, etcd's plain HTTP.
- The server's metrics are read four times a second in each window.
`)
}

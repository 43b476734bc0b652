package main

import (
	"fmt"
	"math"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// head describes what runs and where.
func (m *measurements) head(p *plan, systems []*system) {
	fmt.Fprintf(m.w, "Records over REST: Skerry, PocketBase, and a plain Go program on PostgreSQL, %s\n", time.Now().Format("2006-01-02 15:04 MST"))
	fmt.Fprintf(m.w, "%s\nload average before: %s\n", rig.Machine(), rig.LoadAverage())
	for _, s := range systems {
		fmt.Fprintf(m.w, "%-20s%s\n", s.name, s.about)
	}
	fmt.Fprintf(m.w, "%d records of about 290 bytes of JSON, uniformly at random; %d rounds of %v windows\n\n", p.records, p.Rounds, p.Window)
}

const unequal = `
What is unequal:
- Servers and load generator share the machine's cores. The load generator is one thread with epoll, the same for all. It
  checks every response: status, id, the numbers that it asked for, order and length of lists; one wrong response ends the run.
- After every turn a server's records and history are counted and compared with what it acknowledged. PocketBase without
  the hook keeps no history, so only its records are.
- server µs is the CPU time of all of a system's processes a request.
- Every write is on disk before its response, except for the system named pocketbase: SQLite's WAL with synchronous=NORMAL is
  synced at checkpoints only. PocketBase's rate limits are off, as they are by default. Its log of requests is on by
  default; it is off for pocketbase-full and pocketbase-history, which makes them faster.
- Anyone may read and write. Skerry evaluates a rule for it ("true"), PocketBase checks that its rule is empty, the plain
  program has no rules.
- Lists are the newest 20 records with one of 100 statuses, by an index on (status, number descending) on all sides. PocketBase
  also counts all matches by default; here it is asked not to (skipTotal). The plain program's query is fixed in its code.
- Updates are merge patches of two fields; burst is all clients updating one record. Nobody sends a revision to compare.
- PostgreSQL has shared_buffers of 1 GB and no checkpoint in a window; all else that matters is Debian's default.
- The data of a system stays for all rounds, so faster systems have more records in later rounds. Skerry keeps all of them
  in memory; SQLite and PostgreSQL keep them on disk and in caches.
- bytes a record: of its row and its share of the indexes (Skerry: lengths of all keys and values; SQLite: pages; PostgreSQL:
  rows and pages of indexes). A change: the same of the history. folder: the size of all files after the load, logs written ahead included.
- Recovery is the time from the start after a crash (SIGKILL; PostgreSQL: SIGQUIT) until the last record is read. The index is
  on price, which is in no other one.
`

// row is a load with a number of clients.
type row struct {
	load    string
	clients int
}

func (m *measurements) rows() (all []row) {
	for _, l := range m.loads {
		for _, n := range m.shapes(l) {
			all = append(all, row{l.name, n})
		}
	}
	return all
}

// report prints the medians of all rounds, the differences in setup, and the targets.
func (m *measurements) report(p *plan, systems []*system) {
	fmt.Fprintf(m.w, "\nMedians of the rounds; max is the longest of all rounds.\n%-12s%8s  %-20s%12s%12s%12s%12s%12s\n",
		"request", "clients", "system", "requests/s", "p50 µs", "p99 µs", "max µs", "server µs")
	for _, r := range m.rows() {
		for _, s := range systems {
			c := m.cell(s.name, r.load, r.clients)
			fmt.Fprintf(m.w, "%-12s%8d  %-20s%12.0f%12.0f%12.0f%12.0f%12.1f\n", r.load, r.clients, s.name,
				rig.Median(c.rate), rig.Median(c.p50), rig.Median(c.p99), c.worst(), rig.Median(c.cpu))
		}
	}
	if len(m.bigs) > 0 {
		fmt.Fprintf(m.w, "\nWith %d records.\n%-20s%12s%12s%12s%12s%12s%12s%12s\n", p.big,
			"system", "B a record", "folder", "live heap", "resident", "B a change", "recovery s", "index s")
		for _, s := range systems {
			b := m.bigs[s.name]
			fmt.Fprintf(m.w, "%-20s%12.0f%12.0f%12.0f%12.0f%12s%12.2f%12.2f\n", s.name, b.record, b.folder, b.live, b.rss,
				rig.Known(b.change, "%.0f"), b.recovery, b.index)
		}
	}
	m.crudReport(p)
	fmt.Fprintf(m.w, "Load average after: %s (this run itself makes about 2)\n", rig.LoadAverage())
	fmt.Fprint(m.w, unequal)
	m.losses(systems)
	m.targets()
	if p.Quick {
		fmt.Fprintln(m.w, "This was a quick run: its figures show that the comparison works, nothing else.")
	}
}

// lead is the margin by which another system must be better to count as a loss.
const lead = 0.03

// losses prints every cell in which Skerry is behind another system.
func (m *measurements) losses(systems []*system) {
	fmt.Fprintf(m.w, "\nWhere Skerry loses:\n")
	lost := 0
	compare := func(what, rival string, a, b float64, more bool) {
		if more && b > a*(1+lead) || !more && b < a*(1-lead) {
			lost++
			fmt.Fprintf(m.w, "- %-36s %12.1f, %s %.1f\n", what, a, rival, b)
		}
	}
	for _, s := range systems {
		if s.name == "skerry" {
			continue
		}
		for _, r := range m.rows() {
			a, b := m.cell("skerry", r.load, r.clients), m.cell(s.name, r.load, r.clients)
			what := fmt.Sprintf("%s, %d clients, ", r.load, r.clients)
			compare(what+"requests/s", s.name, rig.Median(a.rate), rig.Median(b.rate), true)
			compare(what+"p50 µs", s.name, rig.Median(a.p50), rig.Median(b.p50), false)
			compare(what+"p99 µs", s.name, rig.Median(a.p99), rig.Median(b.p99), false)
			compare(what+"max µs", s.name, a.worst(), b.worst(), false)
			compare(what+"server µs", s.name, rig.Median(a.cpu), rig.Median(b.cpu), false)
		}
		if a, b := m.bigs["skerry"], m.bigs[s.name]; a != nil && b != nil {
			compare("bytes a record", s.name, a.record, b.record, false)
			compare("folder, bytes a record", s.name, a.folder, b.folder, false)
			compare("live heap, bytes a record", s.name, a.live, b.live, false)
			compare("resident, bytes a record", s.name, a.rss, b.rss, false)
			compare("bytes a change", s.name, a.change, b.change, false)
			compare("recovery, s", s.name, a.recovery, b.recovery, false)
			compare("index build, s", s.name, a.index, b.index, false)
		}
	}
	if lost == 0 {
		fmt.Fprintln(m.w, "nowhere in this run")
	}
}

// targets prints the goals of the project that this run checks.
func (m *measurements) targets() {
	fmt.Fprintf(m.w, "\nTargets:\n")
	n := m.most()
	ratio := func(load, rival string) float64 {
		return rig.Median(m.cell("skerry", load, n).rate) / rig.Median(m.cell(rival, load, n).rate)
	}
	all := []rig.Target{}
	for _, rival := range []string{"pocketbase-full", "pocketbase-history", "pocketbase"} {
		if math.IsNaN(ratio("create", rival)) {
			continue
		}
		worst := m.cell("skerry", "create", n).worst() / m.cell(rival, "create", n).worst()
		of := fmt.Sprintf(", Skerry / %s", rival)
		all = append(all,
			rig.AtLeast(fmt.Sprintf("create with history, %d clients", n)+of, ratio("create", rival), 12, "×"),
			rig.AtLeast(fmt.Sprintf("get, %d clients", n)+of, ratio("get", rival), 6, "×"),
			rig.AtLeast(fmt.Sprintf("list of 20 with a filter, %d clients", n)+of, ratio("list of 20", rival), 6, "×"),
			rig.AtMost(fmt.Sprintf("worst latency of a create, %d clients", n)+of, worst, 0.1, "×"),
		)
	}
	for _, t := range all {
		fmt.Fprintln(m.w, t)
	}
}

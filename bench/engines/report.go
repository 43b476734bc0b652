package main

import (
	"fmt"
	"io"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// cell is one row of the table: the samples of all rounds.
type cell struct{ rate, p50, p99, cpu []float64 }

// measurements are all results for the report.
type measurements struct {
	w       io.Writer
	cells   map[string]*cell
	callers []int
}

func (m *measurements) cell(system, lane string, callers int) *cell {
	key := fmt.Sprint(system, " ", lane, " ", callers)
	if m.cells[key] == nil {
		m.cells[key] = new(cell)
	}
	return m.cells[key]
}

func (m *measurements) add(system, lane string, callers, round int, o outcome) {
	c := m.cell(system, lane, callers)
	rate, used := float64(o.lat.Count)/o.took.Seconds(), rig.PerOp(o.own+o.base, o.lat.Count)
	p50, p99 := rig.Micros(o.lat.Quantile(0.5)), rig.Micros(o.lat.Quantile(0.99))
	c.rate, c.p50, c.p99, c.cpu = append(c.rate, rate), append(c.p50, p50), append(c.p99, p99), append(c.cpu, used)
	fmt.Fprintf(m.w, "round %d  %-10s%-15s%3d %9.0f /s   p50 %7.0f µs   p99 %7.0f µs   CPU %7.1f µs, %4.1f of them the database's\n",
		round+1, system, lane, callers, rate, p50, p99, used, rig.PerOp(o.base, o.lat.Count))
}

// head describes what runs and where.
func (m *measurements) head(p *plan, systems []*system, dir string) error {
	appending, allocated, err := rig.BareSync(dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(m.w, "Skerry on its engines and the same by hand, %s\n", time.Now().Format("2006-01-02 15:04 MST"))
	fmt.Fprintf(m.w, "%s\nload average before: %s; a write of 160 bytes and fdatasync: %v appended, %v in place\n", rig.Machine(), rig.LoadAverage(), appending, allocated)
	for _, s := range systems {
		fmt.Fprintf(m.w, "%-10s%s\n", s.name, s.about)
	}
	fmt.Fprintf(m.w, "%d keys, sessions and phones, %d records, uniformly at random; %d rounds of %v windows\n\n", p.keys, p.records, p.Rounds, p.Window)
	return nil
}

const unequal = `
What is unequal:
- CPU µs is the CPU time of this process and of the database's processes a call. The embedded engine runs in this process.
- Every write is on disk before the call returns: fsync on in PostgreSQL, appendfsync always in Redis.
- set: Skerry keeps a revision, an expiry and the change feed, and is serialisable. pgx and go-redis only write the value.
- set+log: pgx reads the row, writes it and a row of a log, SERIALIZABLE, tried again after a conflict.
- vote: pgx calls a plpgsql function, go-redis a Lua script; Skerry a Go procedure with the feed.
- session: Skerry checks expiry, rotation and the hash of the token, and writes the user's list; the others read and write a value.
- record: Skerry validates, checks rules, and has a hash chain over its history; pgx writes a row of history in the same statement.
`

// report prints the medians of all rounds, what is unequal, the targets and the losses.
func (m *measurements) report(p *plan, systems []*system) {
	fmt.Fprintf(m.w, "\nMedians of the rounds.\n%-16s%8s  %-10s%12s%12s%12s%12s\n", "operation", "callers", "system", "calls/s", "p50 µs", "p99 µs", "CPU µs")
	for _, lane := range lanes {
		for _, callers := range m.callers {
			for _, s := range systems {
				if c := m.cell(s.name, lane, callers); len(c.rate) > 0 {
					fmt.Fprintf(m.w, "%-16s%8d  %-10s%12.0f%12.0f%12.0f%12.1f\n", lane, callers, s.name,
						rig.Median(c.rate), rig.Median(c.p50), rig.Median(c.p99), rig.Median(c.cpu))
				}
			}
		}
	}
	fmt.Fprint(m.w, unequal, "\nTargets:\n")
	for _, t := range m.targets() {
		fmt.Fprintln(m.w, t)
	}
	fmt.Fprintf(m.w, "\nWhere Skerry is behind the same by hand:\n")
	for _, pair := range [][2]string{{"postgres", "pgx"}, {"redis", "go-redis"}} {
		m.losses(pair[0], pair[1])
	}
	if p.Quick {
		fmt.Fprintln(m.w, "\nThis was a quick run: its figures show that the comparison works, nothing else.")
	}
}

// ratio divides the medians of two cells. It is NaN if one was not measured.
func (m *measurements) ratio(a, laneA, b, laneB string, callers int, of func(*cell) []float64) float64 {
	return rig.Median(of(m.cell(a, laneA, callers))) / rig.Median(of(m.cell(b, laneB, callers)))
}

func rateOf(c *cell) []float64 { return c.rate }
func cpuOf(c *cell) []float64  { return c.cpu }

const many = 64 // callers of the targets

func (m *measurements) targets() []rig.Target {
	return []rig.Target{
		rig.AtLeast("set on PostgreSQL / set+log of pgx, 64 callers, calls/s", m.ratio("postgres", "set", "pgx", "set+log", many, rateOf), 2, "×"),
		rig.AtMost("set on PostgreSQL / set+log of pgx, 64 callers, CPU", m.ratio("postgres", "set", "pgx", "set+log", many, cpuOf), 0.5, "×"),
		rig.AtMost("get on PostgreSQL / SELECT of pgx, 64 callers, CPU", m.ratio("postgres", "get", "pgx", "get", many, cpuOf), 1.5, "×"),
		rig.AtMost("record list on PostgreSQL / SQL of pgx, 1 caller, CPU", m.ratio("postgres", "record list", "pgx", "record list", 1, cpuOf), 1.3, "×"),
		rig.AtLeast("set on Redis / SET of go-redis, 64 callers, calls/s", m.ratio("redis", "set", "go-redis", "set", many, rateOf), 0.5, "×"),
	}
}

// losses prints every cell in which Skerry does fewer calls a second than the same by hand.
func (m *measurements) losses(skerry, hand string) {
	for _, lane := range lanes {
		for _, callers := range m.callers {
			if r := m.ratio(skerry, lane, hand, lane, callers, rateOf); r < 1 {
				fmt.Fprintf(m.w, "- %s, %d callers: %.2f × the calls of %s, %.2f × its CPU\n", lane, callers, r, hand, m.ratio(skerry, lane, hand, lane, callers, cpuOf))
			}
		}
	}
}

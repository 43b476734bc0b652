package main

import (
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// measurements are all results for the report.
type measurements struct {
	w    io.Writer
	plan *plan

	pages               []page
	firstLoad, gridLoad float64     // kB
	scrolls             [2]scrolled // with and without the browser's back/forward cache
	idle, open          float64     // % of a core
}

// head describes what runs and where.
func (m *measurements) head(dir string) error {
	appending, allocated, err := rig.BareSync(dir)
	if err != nil {
		return err
	}
	p := m.plan
	fmt.Fprintf(m.w, "The admin page, %s\n", time.Now().Format("2006-01-02 15:04 MST"))
	fmt.Fprintf(m.w, "%s\nload average before: %s\n", rig.Machine(), rig.LoadAverage())
	fmt.Fprintf(m.w, "bare fdatasync in %s: %.0f µs appending, %.0f µs allocated\n", dir, rig.Micros(appending), rig.Micros(allocated))
	fmt.Fprintf(m.w, "one server on the embedded engine with its defaults, in a process of its own; %d records of 8 fields and an index, created %d at a time\n", p.records, loadRows)
	return nil
}

// loaded reports how long the records took. The time includes the start of the server.
func (m *measurements) loaded(took time.Duration, s *site) {
	resident, _ := rig.RSS(s.PID()) // 0 if it has just ended, which the next request reports
	fmt.Fprintf(m.w, "loaded in %.0f s, %.0f records/s, each transaction synced; then the server has %.0f MB resident and %.0f MB on disk\n",
		took.Seconds(), float64(m.plan.records)/took.Seconds(), float64(resident)/1e6, float64(rig.DiskBytes(filepath.Dir(s.link)))/1e6)
}

// gridTable prints what the pages over HTTP took.
func (m *measurements) gridTable() {
	fmt.Fprintf(m.w, "\nThe grid over HTTP on loopback: %d requests of each page of %d records, one after the other, ms with the Go client's part\n%-36s%10s%10s%10s%14s\n",
		m.plan.requests, gridRows, "page", "p50", "p99", "most", "kB of body")
	for _, p := range m.pages {
		fmt.Fprintf(m.w, "%-36s%10.2f%10.2f%10.2f%14.1f\n", p.name, millis(p.p50), millis(p.p99), millis(p.most), float64(p.bytes)/1000)
	}
	fmt.Fprintln(m.w)
}

const measured = `
What is measured:
- The times of pages include the client and the loopback. The client and the server share the machine's cores. Pages are not
  compressed: they have Cache-Control: no-store, which web.Compress leaves alone (BREACH). Modules and styles are.
- First load: bytes on the wire with headers, of everything that ended before the page was complete.
- V8 heap and DOM heap: Runtime.getHeapUsage of the tab, as it is, so with garbage that Chromium has not collected yet. PSS:
  /proc/PID/smaps_rollup; the tab's process is the largest renderer, with Chromium's own code and caches; renderers are that
  and those that Chromium holds ready. The back/forward cache keeps the last pages alive until memory is short.
- Pages are turned as fast as they come, which leaves a browser less idle time for collections than a person does.
- The overview: user and system time of the whole server process with it open, less that with no page open.
- MB are 10⁶ bytes, kB are 10³.
`

// report prints what was measured how, and the targets.
func (m *measurements) report() {
	fmt.Fprint(m.w, measured)
	fmt.Fprintf(m.w, "\nTargets:\n")
	for _, p := range m.pages {
		fmt.Fprintln(m.w, rig.AtMost("grid of "+thousands(m.plan.records)+" records, "+p.name+", p99", millis(p.p99), 100, " ms"))
	}
	for i, with := range []string{"with the back cache", "no back cache"} {
		pages, got := fmt.Sprintf("%d pages in Chromium, %s, ", m.plan.pages, with), m.scrolls[i]
		fmt.Fprintln(m.w, rig.AtMost(pages+"V8 heap, the most", got.most.script, 150, " MB"))
		fmt.Fprintln(m.w, rig.AtMost(pages+"V8 and DOM heap, the most", got.most.heaps, 150, " MB"))
		fmt.Fprintln(m.w, rig.AtMost(pages+"V8 and DOM heap, collected", got.collected.heaps, 150, " MB"))
		fmt.Fprintln(m.w, rig.AtMost(pages+"PSS of the tab, the most", got.most.tab, 150, " MB"))
	}
	fmt.Fprintln(m.w, rig.AtMost("what the open overview adds to the CPU time of the server, of one core", m.open-m.idle, 1, " %"))
	fmt.Fprintln(m.w, rig.AtMost("first load of the overview, on the wire", m.firstLoad, 90, " kB"))
	fmt.Fprintln(m.w, rig.AtMost("first load of the grid, on the wire", m.gridLoad, 90, " kB"))
	if m.plan.quick {
		fmt.Fprintln(m.w, "This was a quick run: it shows that everything works, nothing else.")
	}
}

// thousands returns n as text for people.
func thousands(n int) string {
	switch {
	case n%1_000_000 == 0:
		return fmt.Sprintf("%d M", n/1_000_000)
	case n%1000 == 0:
		return fmt.Sprintf("%d k", n/1000)
	}
	return fmt.Sprint(n)
}

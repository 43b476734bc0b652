// Command admin measures the targets of the admin page: the grid of a large collection over HTTP, the memory of a browser that
// goes through its pages, the weight of the first load, and what the overview costs the server. There is no rival.
//
// It knows the requests of an administrator and how to measure a browser; it must not know how the page works. The server is this
// program too, in a process of its own. Linux only (/proc).
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// plan is the measurements of one run.
type plan struct {
	dir, out string
	records  int
	requests int // of each page over HTTP
	pages    int // that the browser goes through
	overview time.Duration
	quick    bool
}

func main() {
	if len(os.Args) == 5 && os.Args[1] == "site" {
		if err := serve(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, "site:", err)
			os.Exit(1)
		}
		return
	}
	var p plan
	flag.StringVar(&p.dir, "dir", ".", "`folder` on a disk; the server keeps its data below it during the run")
	flag.StringVar(&p.out, "out", "", "`file` for the output (default results/admin-DATE.txt, none with -quick)")
	flag.IntVar(&p.records, "records", 1_000_000, "records of the collection")
	flag.IntVar(&p.requests, "requests", 500, "requests of each page, one after the other")
	flag.IntVar(&p.pages, "pages", 100, "pages that the browser goes through; the last one is also measured over HTTP")
	flag.DurationVar(&p.overview, "overview", time.Minute, "how long the CPU time is counted, without and with the overview open")
	flag.BoolVar(&p.quick, "quick", false, "a short run to check that everything works: 20,000 records, 50 requests, 10 pages, 5 s of the overview")
	flag.Parse()
	if p.quick {
		p.records, p.requests, p.pages, p.overview = 20_000, 50, 10, 5*time.Second
	}
	if err := p.run(); err != nil {
		fmt.Fprintln(os.Stderr, "admin:", err)
		os.Exit(1)
	}
}

// run measures with a new folder on the disk, and leaves it if that fails.
func (p *plan) run() error {
	if p.requests < 1 || p.pages < 2 || p.records < (p.pages+1)*gridRows {
		return fmt.Errorf("%d pages of %d records need more than %d records, and at least 2 pages and 1 request", p.pages, gridRows, p.records)
	}
	dir, err := os.MkdirTemp(p.dir, "admin-*.tmp")
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if err := rig.OnDisk(dir); err != nil {
		return err
	}
	w, done, err := rig.Report(p.out, "admin", p.quick)
	if err != nil {
		return err
	}
	defer done()
	if err := p.measure(dir, w); err != nil {
		return fmt.Errorf("%w (logs and data stay in %s)", err, dir)
	}
	return os.RemoveAll(dir)
}

// measure runs the whole plan and prints the report.
func (p *plan) measure(dir string, w io.Writer) error {
	fleet := rig.NewFleet()
	defer fleet.End()
	m := &measurements{w: w, plan: p}
	if err := m.head(dir); err != nil {
		return err
	}
	s, err := p.start(fleet, dir)
	if err != nil {
		return err
	}
	from := time.Now()
	fmt.Fprintf(os.Stderr, "admin: loading %d records\n", p.records)
	link, err := s.ready()
	if err != nil {
		return err
	}
	m.loaded(time.Since(from), s)
	if err := s.calm(); err != nil { // snapshots go on after the last record
		return err
	}
	c, err := logIn(link)
	if err != nil {
		return err
	}
	if err := m.grid(c); err != nil {
		return err
	}
	for i, off := range []string{featuresOff, backCacheToo} {
		if err := m.inBrowser(c, off, &m.scrolls[i]); err != nil {
			return err
		}
	}
	b, err := openBrowser(c, featuresOff)
	if err != nil {
		return err
	}
	defer b.close()
	if err := m.weight(c, b); err != nil {
		return err
	}
	if err := m.overview(c, b, s); err != nil {
		return err
	}
	m.report()
	return fleet.Stop(s.Process, syscall.SIGTERM)
}

// site is the running server.
type site struct {
	*rig.Process
	ended string // its log
	link  string // a file with the set-up link of the first administrator, when the server serves the records
}

// start starts this program as the server.
func (p *plan) start(fleet *rig.Fleet, dir string) (*site, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &site{ended: filepath.Join(dir, "site.log"), link: filepath.Join(dir, "link")}
	cmd := exec.CommandContext(context.Background(), self, "site", filepath.Join(dir, "data"), strconv.Itoa(p.records), s.link)
	s.Process, err = fleet.Start(cmd, s.ended)
	return s, err
}

// loadLimit is how long the server may take to load the records.
const loadLimit = 2 * time.Hour

// ready waits until the server serves the records, and returns the set-up link.
func (s *site) ready() (string, error) {
	for from := time.Now(); time.Since(from) < loadLimit; {
		link, err := os.ReadFile(s.link)
		if err == nil {
			return string(link), nil
		}
		select {
		case <-s.Done():
			text, _ := os.ReadFile(s.ended)
			return "", fmt.Errorf("the server ended before it served: %s", text)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return "", fmt.Errorf("the server does not serve after %v", loadLimit)
}

// calm waits until the server does next to nothing, and says so if it does not.
func (s *site) calm() error {
	quiet, err := rig.Quiet([]int{s.PID()}, time.Minute)
	if err == nil && !quiet {
		fmt.Fprintln(os.Stderr, "admin: the server is still busy after a minute without a request")
	}
	return err
}

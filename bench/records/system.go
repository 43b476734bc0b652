package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/skerrydb/skerry/bench/records/item"
	"github.com/skerrydb/skerry/bench/rig"
)

// loadLimit is how long a server may take to load its first records and then to serve.
const loadLimit = 20 * time.Minute

// system is one of the compared stacks.
type system struct {
	name, about string
	site        string // the program
	postgres    string // folder of PostgreSQL's programs, "" if it is not used
	dir         string
	dialect     dialect

	addr, control string
	procs         []*rig.Process // the site is the last
	seq           atomic.Int64   // requests ever sent
	loaded        int64
	created       int64 // acknowledged
	changed       int64 // acknowledged updates
}

func (s *system) String() string { return s.name }

// start runs the servers on the folder sub, loads records if it is empty, and waits until they serve.
func (s *system) start(sub string, load int64) error {
	dir := filepath.Join(s.dir, sub)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	ports, err := rig.FreePorts(3)
	if err != nil {
		return err
	}
	s.addr, s.control, s.loaded = ports[0], ports[1], load
	args := []string{"-system", s.name, "-addr", s.addr, "-control", s.control, "-data", dir, "-load", strconv.FormatInt(load, 10)}
	if s.postgres != "" {
		p, err := rig.StartPostgres(s.postgres, dir, ports[2], filepath.Join(s.dir, "log"))
		if err != nil {
			return err
		}
		s.procs = append(s.procs, p)
		args = append(args, "-postgres", ports[2])
	}
	p, err := rig.Start(exec.Command(s.site, args...), filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	s.procs = append(s.procs, p)
	for _, addr := range []string{s.control, s.addr} {
		if err := p.Await(addr, loadLimit); err != nil {
			return err
		}
	}
	return nil
}

// cpu returns the CPU time of all processes of the system.
func (s *system) cpu() (sum time.Duration) {
	for _, p := range s.procs {
		if t, err := rig.CPUTree(p.PID()); err == nil {
			sum += t
		}
	}
	return sum
}

// rss returns the resident memory of the site.
func (s *system) rss() (int64, error) { return rig.RSS(s.procs[len(s.procs)-1].PID()) }

// stop stops the processes by their ids, the site first.
func (s *system) stop() error { return s.end(syscall.SIGTERM, syscall.SIGINT) }

// crash ends them without warning. PostgreSQL's processes end at SIGQUIT as in a crash, without leaving some behind.
func (s *system) crash() error { return s.end(syscall.SIGKILL, syscall.SIGQUIT) }

func (s *system) end(site, postgres syscall.Signal) (err error) {
	for i := len(s.procs) - 1; i >= 0; i-- {
		sig := site
		if s.postgres != "" && i == 0 {
			sig = postgres
		}
		err = errors.Join(err, s.procs[i].Stop(sig))
	}
	s.procs = nil
	return err
}

// ask sends a request to the site's second listener.
func (s *system) ask(method, path string, v any) error {
	r, err := http.NewRequest(method, "http://"+s.control+path, nil)
	if err != nil {
		return err
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s; see the log in %s", method, path, a.Status, s.dir)
	}
	return json.NewDecoder(a.Body).Decode(v)
}

// reported returns the server's report after a comparison with what it has acknowledged.
func (s *system) reported() (r item.Report, err error) {
	if err := s.ask("GET", "/report", &r); err != nil {
		return r, err
	}
	if want := s.loaded + s.created; r.Records != want {
		return r, fmt.Errorf("it has %d records but acknowledged %d", r.Records, want)
	}
	if want := s.loaded + s.created + s.changed; r.Changes >= 0 && r.Changes != want {
		return r, fmt.Errorf("its history has %d changes but it acknowledged %d", r.Changes, want)
	}
	return r, nil
}

// first asks for the last loaded record until the answer is right.
func (s *system) first() error {
	get := loadNamed("get")
	for from := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		c, err := dial(s.addr)
		if err == nil {
			get.ask(c, &s.dialect, s.loaded-1, 0)
			status, body, sendErr := c.send(time.Now())
			if err = sendErr; err == nil {
				err = get.check(&s.dialect, s.loaded-1, 0, status, body)
			}
			c.conn.Close()
		}
		if err == nil || time.Since(from) > rig.StartLimit {
			return err
		}
	}
}

package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// system is one of the compared servers.
type system struct {
	name    string
	version string // as it prints it
	command func(s *system) *exec.Cmd
	lanes   []*lane
	fill    func(s *system, keys uint64) error // loads all keys
	ready   func(s *system) error              // reads one key: nil once it is served
	figures func(s *system) (figures, error)
	dir     string // of its data
	ports   []string
	proc    *exec.Cmd
	log     *os.File
}

// figures are what a server says about itself. Negative: it does not say.
type figures struct {
	heap        float64 // bytes of live data structures; of a Go server at its last collection
	fsyncs      float64 // since its start
	collections float64 // of garbage, since its start
}

// lane is one protocol of a system.
type lane struct {
	name   string
	shapes []shape
	run    func(s *system, j job) (outcome, error)
}

// ownLane drives a protocol with the epoll load generator.
func ownLane(name string, port int, c codec, shapes []shape) *lane {
	return &lane{name, shapes, func(s *system, j job) (outcome, error) {
		j.addr, j.codec = s.ports[port], c
		return run(j)
	}}
}

// freePorts returns n loopback addresses that nobody listened on a moment ago.
func freePorts(n int) ([]string, error) {
	var addrs []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

// startLimit is how long a server may take until it serves.
const startLimit = 3 * time.Minute

// start runs the server and returns how long it took until ready says that it
// serves; a nil ready only waits for its port.
func (s *system) start(ready func(*system) error) (time.Duration, error) {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return 0, err
	}
	var err error
	if s.ports, err = freePorts(3); err != nil {
		return 0, err
	}
	if s.log, err = os.OpenFile(s.dir+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
		return 0, err
	}
	s.proc = s.command(s)
	s.proc.Stdout, s.proc.Stderr = s.log, s.log
	s.proc.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	from := time.Now()
	if err := s.proc.Start(); err != nil {
		return 0, err
	}
	for {
		c, err := net.Dial("tcp", s.ports[0])
		if err == nil {
			c.Close()
			if ready == nil {
				return time.Since(from), nil
			}
			if err = ready(s); err == nil {
				return time.Since(from), nil
			}
		}
		if time.Since(from) > startLimit {
			return 0, fmt.Errorf("%s does not serve after %v: %w; see %s", s.name, startLimit, err, s.log.Name())
		}
		time.Sleep(time.Millisecond)
	}
}

// stop ends the server by its process id.
func (s *system) stop(sig syscall.Signal) error {
	if s.proc == nil {
		return nil
	}
	err := s.proc.Process.Signal(sig)
	done := make(chan struct{})
	go func() { s.proc.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(startLimit):
		s.proc.Process.Kill()
		<-done
		err = fmt.Errorf("%s did not stop within %v", s.name, startLimit)
	}
	s.log.Close()
	s.proc = nil
	return err
}

// diskBytes returns the size of the server's folder.
func (s *system) diskBytes() int64 {
	var sum int64
	filepath.Walk(s.dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			sum += info.Size()
		}
		return nil
	})
	return sum
}

// ask sends one request on a connection of its own and returns what came until
// enough says that it is whole.
func ask(addr string, request []byte, enough func([]byte) (bool, error)) ([]byte, error) {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(startLimit))
	if _, err := c.Write(request); err != nil {
		return nil, err
	}
	var got []byte
	b := make([]byte, 64<<10)
	for {
		n, err := c.Read(b)
		got = append(got, b[:n]...)
		if done, bad := enough(got); done || bad != nil {
			return got, bad
		}
		if err != nil {
			return got, err
		}
	}
}

// askKey reads key 0 through a codec.
func askKey(addr string, c codec) error {
	_, err := ask(addr, c.appendGet(nil, 0), func(b []byte) (bool, error) {
		n, err := c.reply(b, false)
		return n > 0, err
	})
	return err
}

// metricsPage reads a page of Prometheus metrics and adds up each name over its labels.
func metricsPage(addr string) (map[string]float64, error) {
	r, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if r.StatusCode != http.StatusOK {
		return nil, errors.New("/metrics: " + r.Status)
	}
	m := map[string]float64{}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || line[0] == '#' {
			continue
		}
		name, _, _ := strings.Cut(line[:at], "{")
		if v, err := strconv.ParseFloat(line[at+1:], 64); err == nil {
			m[name] += v
		}
	}
	return m, nil
}

// liveGo returns the live heap of a Go server: the heap at which it collects
// next is that much larger as GOGC says (https://go.dev/doc/gc-guide#GOGC; 100
// where it is not told). Roots, which count too, are small here.
func liveGo(m map[string]float64) float64 {
	gogc := figure(m, "go_gc_gogc_percent")
	if gogc < 0 {
		gogc = 100
	}
	return figure(m, "go_memstats_next_gc_bytes") / (1 + gogc/100)
}

// figure returns the metric of that name, or -1.
func figure(m map[string]float64, name string) float64 {
	if v, ok := m[name]; ok {
		return v
	}
	return -1
}

// outputLine runs a program that prints its version.
func outputLine(path string, args ...string) string {
	b, err := exec.Command(path, args...).CombinedOutput()
	if err != nil {
		return err.Error()
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(line)
}

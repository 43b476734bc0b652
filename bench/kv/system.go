package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// system is one of the compared servers.
type system struct {
	name    string
	version string // as printed by the program
	command func(s *system) *exec.Cmd
	lanes   []*lane
	fill    func(s *system, keys uint64) error // loads all keys
	ready   func(s *system) error              // reads one key: nil once the server responds
	figures func(s *system) (figures, error)
	dir     string // of its data
	ports   []string
	proc    *rig.Process
}

func (s *system) String() string { return s.name }

// figures are values that a server reports. Negative: not reported.
type figures struct {
	heap        float64 // bytes of live data structures; for a Go server at its last collection
	fsyncs      float64 // since its start
	collections float64 // garbage collections since its start
}

// lane is one protocol of a system.
type lane struct {
	name   string
	shapes []rig.Shape
	run    func(s *system, j rig.Job) (rig.Outcome, error)
}

// ownLane runs a protocol with the epoll load generator.
func ownLane(name string, port int, c rig.Codec, shapes []rig.Shape) *lane {
	return &lane{name, shapes, func(s *system, j rig.Job) (rig.Outcome, error) {
		j.Addrs, j.Codec = s.ports[port:port+1], c
		return rig.Run(j)
	}}
}

// start runs the server and returns how long it took until ready succeeded; a nil ready only waits for its
// port.
func (s *system) start(ready func(*system) error) (time.Duration, error) {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return 0, err
	}
	var err error
	if s.ports, err = rig.FreePorts(3); err != nil {
		return 0, err
	}
	from := time.Now()
	if s.proc, err = rig.Start(s.command(s), s.dir+".log"); err != nil {
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
		if time.Since(from) > rig.StartLimit {
			return 0, fmt.Errorf("%s does not serve after %v: %w; see %s.log", s.name, rig.StartLimit, err, s.dir)
		}
		time.Sleep(time.Millisecond)
	}
}

// stop stops the server by its process id.
func (s *system) stop(sig syscall.Signal) error {
	if s.proc == nil {
		return nil
	}
	err := s.proc.Stop(sig)
	s.proc = nil
	return err
}

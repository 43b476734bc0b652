package main

import (
	"bufio"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// system is one of the compared stacks.
type system struct {
	name, about string
	site        string // the program
	redis       string // redis-server, "" if there is none
	dir         string
	sessions    int
	turn        int

	addr    string
	cookies []string
	procs   []*rig.Process // the site is the last
}

func (s *system) String() string { return s.name }

// start runs the servers with new data and waits until the sessions are created.
func (s *system) start() error {
	s.turn++
	dir := filepath.Join(s.dir, strconv.Itoa(s.turn))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	ports, err := rig.FreePorts(2)
	if err != nil {
		return err
	}
	s.addr = ports[0]
	tokens := filepath.Join(dir, "tokens")
	args := []string{"-system", s.name, "-addr", s.addr, "-data", dir, "-sessions", strconv.Itoa(s.sessions), "-tokens", tokens}
	if s.redis != "" {
		_, port, _ := net.SplitHostPort(ports[1])
		// Every write is on disk before its reply, as on Skerry.
		if err := s.launch(exec.Command(s.redis, "--port", port, "--bind", "127.0.0.1", "--dir", dir,
			"--appendonly", "yes", "--appendfsync", "always", "--save", ""), ports[1]); err != nil {
			return err
		}
		args = append(args, "-redis", ports[1])
	}
	if err := s.launch(exec.Command(s.site, args...), s.addr); err != nil {
		return err
	}
	s.cookies, err = lines(tokens)
	if s.name == "fasthttp" {
		s.cookies, err = []string{"session=none"}, nil
	}
	return err
}

// launch starts a server and waits until it accepts connections.
func (s *system) launch(cmd *exec.Cmd, addr string) error {
	p, err := rig.Start(cmd, filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	s.procs = append(s.procs, p)
	return p.Await(addr, rig.StartLimit)
}

// cpu returns the CPU time of all processes of the system.
func (s *system) cpu() (sum time.Duration) {
	for _, p := range s.procs {
		if t, err := rig.CPUTime(p.PID()); err == nil {
			sum += t
		}
	}
	return sum
}

// stop stops the processes by their ids, the site first.
func (s *system) stop() (err error) {
	for i := len(s.procs) - 1; i >= 0; i-- {
		err = errors.Join(err, s.procs[i].Stop(syscall.SIGTERM))
	}
	s.procs = nil
	return err
}

func lines(file string) (all []string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	for in.Scan() {
		all = append(all, in.Text())
	}
	return all, in.Err()
}

// lane is one kind of request of the load generator.
type lane struct {
	name  string
	path  string
	write bool
	bytes int  // minimum length of a response
	plain bool // without a session
}

var lanes = []lane{
	{"JSON", "/json", false, 50, true},
	{"page with session", "/shop", false, 9000, false},
	{"session write", "/seen", true, 0, false},
}

// requests is a lane with the sessions of its requests.
type requests struct {
	lane
	cookies []string
}

// AppendGet implements rig.Codec.
func (q requests) AppendGet(b []byte, key uint64) []byte {
	b = append(append(b, "GET "...), q.path...)
	b = append(b, " HTTP/1.1\r\nHost: bench\r\nAccept: text/html"...)
	if !q.plain {
		b = append(append(b, "\r\nCookie: "...), q.cookies[key]...)
	}
	return append(b, "\r\n\r\n"...)
}

// AppendSet implements rig.Codec.
func (q requests) AppendSet(b []byte, key, _ uint64) []byte {
	b = append(append(b, "POST "...), q.path...)
	b = append(append(b, " HTTP/1.1\r\nHost: bench\r\nContent-Length: 0\r\nCookie: "...), q.cookies[key]...)
	return append(b, "\r\n\r\n"...)
}

// Reply implements rig.Codec.
func (q requests) Reply(b []byte, set bool) (int, error) { return rig.HTTPReply(b, set, q.bytes) }

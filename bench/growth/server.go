package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// server is one node with a number of keys.
type server struct {
	name    string
	version string
	program string
	command func(s *server) *exec.Cmd
	figures func(s *server) (figures, error)
	cpu     func(pid int) (time.Duration, error)
	save    func(s *server) error // begins a snapshot; nil: only the server itself does

	fleet *rig.Fleet
	dir   string // of its data
	ports []string
	proc  *rig.Process // nil: not running
	log   string       // of the running process
	began time.Time    // when that was started
	runs  int
}

// figures are values that a server reports.
type figures struct {
	live      float64       // bytes of live data
	snapshots float64       // ended since its start
	running   time.Duration // of the current snapshot; 0: none
	last      time.Duration // of the last one
	logged    float64       // bytes of log since its start
	written   float64       // transactions since its start
}

// start runs the server and returns how long it took until it served key 0, or if it has none yet, until it listened.
func (s *server) start(empty bool) (time.Duration, error) {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return 0, err
	}
	var err error
	if s.ports, err = rig.FreePorts(2); err != nil {
		return 0, err
	}
	s.runs++
	s.log, s.began = fmt.Sprintf("%s.%d.log", s.dir, s.runs), time.Now()
	if s.proc, err = s.fleet.Start(s.command(s), s.log); err != nil {
		return 0, err
	}
	for {
		if empty {
			_, err = s.figures(s)
		} else {
			err = rig.AskKey(s.ports[0], rig.RESP{})
		}
		took := time.Since(s.began)
		if err == nil {
			return took, nil
		}
		if took > rig.StartLimit {
			return 0, fmt.Errorf("%s does not serve after %v: %w; see %s", s.name, rig.StartLimit, err, s.log)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (s *server) stop(sig syscall.Signal) error {
	if s.proc == nil {
		return nil
	}
	err := s.fleet.Stop(s.proc, sig)
	s.proc = nil
	return err
}

func (s *server) drop() error {
	if err := s.stop(syscall.SIGKILL); err != nil {
		return err
	}
	return os.RemoveAll(s.dir)
}

// newSkerry is `skerry serve` with its defaults. The Go runtime reports each collection in the log.
func newSkerry(program string, f *rig.Fleet) *server {
	return &server{
		name: partSkerry, program: program, version: rig.OutputLine(program, "version"), fleet: f, cpu: rig.CPUTime,
		command: func(s *server) *exec.Cmd {
			cmd := exec.Command(program, "serve", "--data", s.dir, "--resp", s.ports[0], "--http", s.ports[1], "--log-level", "warn")
			cmd.Env = append(os.Environ(), "GODEBUG=gctrace=1")
			return cmd
		},
		figures: func(s *server) (figures, error) {
			m, err := rig.MetricsPage(s.ports[1])
			seconds := func(name string) time.Duration {
				return time.Duration(max(0, rig.Figure(m, name)) * float64(time.Second))
			}
			return figures{
				live: rig.LiveGo(m), snapshots: rig.Figure(m, "skerry_engine_snapshots_total"),
				running: seconds("skerry_engine_snapshot_running_seconds"), last: seconds("skerry_engine_snapshot_last_seconds"),
				logged: rig.Figure(m, "skerry_engine_log_bytes_total"), written: rig.Figure(m, "skerry_engine_transactions_total"),
			}, err
		},
	}
}

// newRedis is Debian's redis-server with an append-only file that is synced before every reply. Everything else is its
// default, except that RDB snapshots are off, which the append-only file makes unnecessary: it rewrites the file by itself
// whenever that has doubled.
func newRedis(program string, f *rig.Fleet) *server {
	return &server{
		name: partRedis, program: program, version: rig.OutputLine(program, "--version"), fleet: f, cpu: rig.CPUTree,
		command: func(s *server) *exec.Cmd {
			_, port, _ := net.SplitHostPort(s.ports[0])
			return exec.Command(program, "--port", port, "--bind", "127.0.0.1", "--dir", s.dir,
				"--appendonly", "yes", "--appendfsync", "always", "--save", "")
		},
		figures: redisFigures,
		save: func(s *server) error {
			_, err := rig.Ask(s.ports[0], []byte("*1\r\n$12\r\nBGREWRITEAOF\r\n"), func(b []byte) (bool, error) {
				return bytes.HasSuffix(b, []byte("\r\n")), nil
			})
			return err
		},
	}
}

func redisFigures(s *server) (figures, error) {
	m := map[string]float64{}
	for _, section := range []string{"memory", "persistence"} {
		request := fmt.Sprintf("*2\r\n$4\r\nINFO\r\n$%d\r\n%s\r\n", len(section), section)
		info, err := rig.Ask(s.ports[0], []byte(request), bulk)
		if err != nil {
			return figures{}, fmt.Errorf("INFO of redis: %w", err)
		}
		for line := range strings.Lines(string(info)) {
			if name, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
				if n, err := strconv.ParseFloat(v, 64); err == nil {
					m[name] = n
				}
			}
		}
	}
	seconds := func(name string) time.Duration { return time.Duration(max(0, m[name]) * float64(time.Second)) }
	f := figures{live: m["used_memory"], snapshots: m["aof_rewrites"], last: seconds("aof_last_rewrite_time_sec")}
	if m["aof_rewrite_in_progress"] > 0 {
		f.running = max(seconds("aof_current_rewrite_time_sec"), time.Millisecond)
	}
	return f, nil
}

// bulk reports whether b is a whole bulk string of RESP.
func bulk(b []byte) (bool, error) {
	head, rest, ok := bytes.Cut(b, []byte("\r\n"))
	if !ok {
		return false, nil
	}
	n, err := strconv.Atoi(strings.TrimPrefix(string(head), "$"))
	if err != nil {
		return false, fmt.Errorf("unexpected reply %q", head)
	}
	return len(rest) >= n+2, nil
}

package main

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/skerrydb/skerry/bench/rig"
)

// system is the application on one engine.
type system struct {
	name, about string
	dir         string
	turn        int
	// database starts the engine's server and returns its URL. ports are free addresses.
	database func(dir string, ports []string) (p *rig.Process, url string, err error)

	addr  string
	procs []*rig.Process // the application is the last
}

func (s *system) String() string { return s.name }

// start runs the servers with new data.
func (s *system) start() (err error) {
	s.turn++
	dir := filepath.Join(s.dir, strconv.Itoa(s.turn))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	ports, err := rig.FreePorts(3)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	database, url, err := s.database(dir, ports[1:])
	if database != nil {
		s.procs = append(s.procs, database)
	}
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	s.addr = ports[0]
	site, err := rig.Start(exec.Command(self, "site", s.addr, url), filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	s.procs = append(s.procs, site)
	return site.Await(s.addr, rig.StartLimit)
}

// stop stops the processes by their ids, the application first. SIGINT is the signal on which PostgreSQL does not wait
// for clients.
func (s *system) stop() (err error) {
	for i := len(s.procs) - 1; i >= 0; i-- {
		err = errors.Join(err, s.procs[i].Stop(syscall.SIGINT))
	}
	s.procs = nil
	return err
}

// open finds the requested systems, without starting them.
func (p *plan) open(dir string) ([]*system, error) {
	on := func(name, about string, database func(string, []string) (*rig.Process, string, error)) *system {
		return &system{name: name, about: about, dir: filepath.Join(dir, name), database: database}
	}
	return rig.Open(&p.Plan, map[string]func() (*system, error){
		"embedded": func() (*system, error) {
			return on("embedded", "Skerry on the embedded engine, in the application's process; fdatasync before each reply, its default",
				func(dir string, _ []string) (*rig.Process, string, error) { return nil, "embedded://" + dir, nil }), nil
		},
		"postgres": func() (*system, error) {
			bin, err := rig.PostgresPrograms()
			return on("postgres", "Skerry on PostgreSQL; fsync and synchronous_commit on", func(dir string, ports []string) (*rig.Process, string, error) {
				server, err := rig.StartPostgres(bin, dir, ports[0], filepath.Join(filepath.Dir(dir), "log"))
				return server, rig.PostgresURL(ports[0]), err
			}), err
		},
		"redis": func() (*system, error) {
			path, err := rig.Need("redis-server", "redis-server")
			return on("redis", "Skerry on Redis; appendfsync always", startRedis(path, "redis://")), err
		},
		"rueidis": func() (*system, error) {
			path, err := rig.Need("redis-server", "redis-server")
			return on("rueidis", "net/http and one SETEX by hand through rueidis, without Skerry; appendfsync always", startRedis(path, "rueidis://")), err
		},
		"cassandra": func() (*system, error) {
			java, err := rig.Need("java", "openjdk-17-jre-headless")
			if err != nil {
				return nil, err
			}
			jars, err := rig.CassandraJars()
			return on("cassandra", "Skerry on one node of Cassandra; commitlog_sync batch", func(dir string, ports []string) (*rig.Process, string, error) {
				server, err := rig.StartCassandra(java, jars, dir, ports[0], ports[1], filepath.Join(filepath.Dir(dir), "log"))
				return server, "cassandra://" + ports[0] + "/bench", err
			}), err
		},
	})
}

// startRedis returns a function that starts Redis and returns its URL with the given scheme.
func startRedis(path, scheme string) func(string, []string) (*rig.Process, string, error) {
	return func(dir string, ports []string) (*rig.Process, string, error) {
		_, port, _ := net.SplitHostPort(ports[0])
		server, err := rig.Start(exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--dir", dir,
			"--appendonly", "yes", "--appendfsync", "always", "--save", "", "--maxmemory-policy", "noeviction"), filepath.Join(filepath.Dir(dir), "log"))
		if err != nil {
			return nil, "", err
		}
		return server, scheme + ports[0], server.Await(ports[0], rig.StartLimit)
	}
}

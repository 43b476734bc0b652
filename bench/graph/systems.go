package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	gremlin "github.com/apache/tinkerpop/gremlin-go/v3/driver"

	"github.com/skerrydb/skerry/bench/rig"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/value"
)

// inFlight is the requests that are in flight at once, each on a connection of its own.
const inFlight = 16

// system is one server and what was measured of it.
type system struct {
	name, about string
	start       func(dir, addr string) (*rig.Process, error)

	process *rig.Process
	conn    *gremlin.DriverRemoteConnection
	g       *gremlin.GraphTraversalSource
	ids     []int64 // of people

	load      series
	retries   int // requests that the server asked to do again
	disturbed int // turns during which another server was busy
	ranks     []float64
	cells     map[cell]*series
}

func (s *system) String() string { return s.name }

// makers returns the systems by name.
func (p *plan) makers() map[string]func() (*system, error) {
	java := func(name, about string, server func(dir string) (*rig.GremlinServer, error)) func() (*system, error) {
		return func() (*system, error) {
			path, err := rig.Need("java", "openjdk-17-jre-headless")
			if err != nil {
				return nil, err
			}
			if _, err := server(""); err != nil { // whose jars are missing, before anything is measured
				return nil, err
			}
			return &system{name: name, about: about, start: func(dir, addr string) (*rig.Process, error) {
				s, err := server(dir)
				if err != nil {
					return nil, err
				}
				return s.Start(p.fleet, path, dir, addr)
			}}, nil
		}
	}
	return map[string]func() (*system, error){
		"skerry": func() (*system, error) {
			return &system{name: "skerry", about: "syncs each transaction before it is acknowledged", start: p.startSkerry}, nil
		},
		"tinkergraph": java("tinkergraph", "TinkerGraph in Gremlin Server 3.8.1: memory only, writes nothing to disk, has no transactions", func(string) (*rig.GremlinServer, error) { return rig.TinkerGraph() }),
		"janusgraph": java("janusgraph", "JanusGraph 1.1.0 on BerkeleyDB, which syncs each transaction before it is acknowledged", func(dir string) (*rig.GremlinServer, error) {
			return rig.JanusGraph("berkeleyje", dir)
		}),
		"janusgraph-memory": java("janusgraph-memory", "JanusGraph 1.1.0 in memory only, writes nothing to disk", func(dir string) (*rig.GremlinServer, error) {
			return rig.JanusGraph("inmemory", dir)
		}),
	}
}

// startSkerry adds the index, which Gremlin has no step for, and starts the server.
func (p *plan) startSkerry(dir, addr string) (*rig.Process, error) {
	path, err := rig.Skerry(p.skerry, dir)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if err := prepare(data); err != nil {
		return nil, err
	}
	cmd := exec.Command(path, "serve", "--data", data, "--http", "127.0.0.1:0", "--resp", "off", "--gremlin", addr, "--log-level", "warn")
	process, err := p.fleet.Start(cmd, filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	return process, process.Await(addr, rig.StartLimit)
}

func prepare(data string) error {
	eng, err := embedded.Open(data, embedded.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer eng.Close()
	db, err := graph.New(eng)
	if err != nil {
		return err
	}
	return db.AddIndex(context.Background(), graph.Default, byName)
}

var byName = graph.Index{On: value.KindVertex, Label: "person", Keys: []string{"name"}}

// open starts the server with its files in dir and connects to it.
func (s *system) open(dir string) error {
	dir = filepath.Join(dir, s.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	ports, err := rig.FreePorts(1)
	if err != nil {
		return err
	}
	if s.process, err = s.start(dir, ports[0]); err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	s.conn, err = gremlin.NewDriverRemoteConnection("ws://"+ports[0]+"/gremlin", func(o *gremlin.DriverRemoteConnectionSettings) {
		o.LogVerbosity = gremlin.Off
		o.InitialConcurrentConnections, o.MaximumConcurrentConnections = inFlight, inFlight
	})
	if err != nil {
		return err
	}
	s.g, s.cells = gremlin.Traversal_().With(s.conn), map[cell]*series{}
	return nil
}

func (s *system) close(f *rig.Fleet) error {
	if s.conn != nil {
		s.conn.Close()
	}
	if s.process == nil {
		return nil
	}
	return f.Stop(s.process, syscall.SIGTERM)
}

// series is one measurement, a value for each round.
type series struct {
	rate          []float64 // per second
	p50, p99, cpu []float64 // µs; cpu is the server's, for each request or edge
	own           []float64 // µs of this process, with the driver
}

package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
	"github.com/skerrydb/skerry/bench/rig/trio"
)

// system is one server, or three that are a cluster, with the lane on or off.
type system struct {
	lane   string
	three  bool
	places []place
	pids   []int
}

// place is a set of nodes that are asked.
type place struct {
	name  string
	addrs []string
}

func (s *system) String() string { return fmt.Sprintf("lane %s, three nodes %v", s.lane, s.three) }

// alone starts a server and loads its keys.
func (p *plan) alone(path, dir, lane string) (*system, error) {
	ports, err := rig.FreePorts(2)
	if err != nil {
		return nil, err
	}
	http, resp := ports[0], ports[1]
	cmd := exec.Command(path, "serve", "--data", filepath.Join(dir, "data-"+lane), "--http", http, "--resp", resp, "--lane", lane, "--log-level", "warn")
	process, err := p.fleet.Start(cmd, filepath.Join(dir, lane+".log"))
	if err != nil {
		return nil, err
	}
	for from := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if _, err = rig.MetricsPage(http); err == nil {
			break
		}
		if time.Since(from) > rig.StartLimit {
			return nil, fmt.Errorf("the server with the lane %s does not serve: %w", lane, err)
		}
	}
	_, err = rig.Run(rig.Job{Addrs: []string{resp}, Codec: rig.RESP{}, Set: true, Shape: rig.Shape{Conns: 8, Flight: 512}, Keys: p.keys, Load: true, Seed: 1})
	return &system{lane: lane, places: []place{{"alone", []string{http}}}, pids: []int{process.PID()}}, err
}

// three starts a cluster and loads its keys.
func (p *plan) three(path, dir, lane string) (*system, error) {
	c, err := trio.New(trio.NewSkerry(path, "--lane", lane), p.fleet, filepath.Join(dir, "three-"+lane))
	if err != nil {
		return nil, err
	}
	lead, err := c.Leader(c)
	if err != nil {
		return nil, err
	}
	if err := c.Fill(c, lead, 0, p.keys); err != nil {
		return nil, err
	}
	s := &system{lane: lane, three: true, places: []place{{"leader", c.Addrs(trio.PortHTTP, lead)}, {"all three", c.Addrs(trio.PortHTTP, 0, 1, 2)}}}
	for _, n := range c.Nodes {
		s.pids = append(s.pids, n.Proc.PID())
	}
	return s, nil
}

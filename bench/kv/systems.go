package main

import (
	"bytes"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/skerrydb/skerry/bench/rig"
)

// fillShape is the shape for loading the keys of a RESP server.
var fillShape = rig.Shape{Conns: 8, Flight: 512}

func fillRESP(s *system, keys uint64) error {
	_, err := rig.Run(rig.Job{Addrs: s.ports[:1], Codec: rig.RESP{}, Set: true, Shape: fillShape, Keys: keys, Load: true, Seed: 1})
	return err
}

// newRedis is Debian's redis-server with an append-only file that is synced before every reply. Everything
// else is its default, except that RDB snapshots are off, which the append-only file makes unnecessary.
func newRedis(path string, shapes []rig.Shape) *system {
	return &system{
		name: "redis", version: rig.OutputLine(path, "--version"),
		command: func(s *system) *exec.Cmd {
			_, port, _ := net.SplitHostPort(s.ports[0])
			return exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--dir", s.dir,
				"--appendonly", "yes", "--appendfsync", "always", "--save", "")
		},
		lanes: []*lane{ownLane("RESP", 0, rig.RESP{}, shapes)},
		fill:  fillRESP,
		ready: func(s *system) error { return rig.AskKey(s.ports[0], rig.RESP{}) },
		figures: func(s *system) (figures, error) {
			info, err := rig.Ask(s.ports[0], []byte("*2\r\n$4\r\nINFO\r\n$6\r\nmemory\r\n"), func(b []byte) (bool, error) {
				return bytes.Contains(b, []byte("lazyfreed_objects")), nil
			})
			_, rest, ok := strings.Cut(string(info), "\r\nused_memory:")
			if err != nil || !ok {
				return figures{}, fmt.Errorf("INFO memory of redis: %v", err)
			}
			used, _, _ := strings.Cut(rest, "\r\n")
			heap, err := strconv.ParseFloat(used, 64)
			return figures{heap, -1, -1}, err // Redis 7.0 does not count its fsyncs
		},
	}
}

// newSkerry is `skerry serve` with its defaults.
func newSkerry(path string, shapes, httpShapes []rig.Shape) *system {
	return &system{
		name: "skerry", version: rig.OutputLine(path, "version"),
		command: func(s *system) *exec.Cmd {
			return exec.Command(path, "serve", "--data", s.dir, "--resp", s.ports[0], "--http", s.ports[1], "--log-level", "warn")
		},
		lanes: []*lane{ownLane("RESP", 0, rig.RESP{}, shapes), ownLane("HTTP", 1, rig.PlainHTTP{}, httpShapes)},
		fill:  fillRESP,
		ready: func(s *system) error { return rig.AskKey(s.ports[0], rig.RESP{}) },
		figures: func(s *system) (figures, error) {
			m, err := rig.MetricsPage(s.ports[1])
			return figures{rig.LiveGo(m), rig.Figure(m, "skerry_engine_fsyncs_total"), rig.Figure(m, "go_gc_duration_seconds_count")}, err
		},
	}
}

// onEtcd runs jobs on a node of etcd.
func onEtcd(run func(rig.Job) (rig.Outcome, error)) func(*system, rig.Job) (rig.Outcome, error) {
	return func(s *system, j rig.Job) (rig.Outcome, error) {
		j.Addrs = s.ports[:1]
		return run(j)
	}
}

// newEtcd is Debian's etcd, one node; only the quota of its file is raised, which a comparison of a few
// minutes would otherwise reach.
func newEtcd(path string, shapes, httpShapes []rig.Shape) *system {
	return &system{
		name: "etcd", version: rig.OutputLine(path, "--version"),
		command: func(s *system) *exec.Cmd {
			client, peer := "http://"+s.ports[0], "http://"+s.ports[1]
			return exec.Command(path, "--name", "bench", "--data-dir", filepath.Join(s.dir, "etcd"),
				"--listen-client-urls", client, "--advertise-client-urls", client,
				"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "bench="+peer,
				"--quota-backend-bytes", strconv.Itoa(8<<30), "--logger", "zap", "--log-level", "warn")
		},
		lanes: []*lane{
			{"gRPC", shapes, onEtcd(rig.RunEtcd)},
			{"lean", shapes, onEtcd(rig.RunLean)},
			ownLane("HTTP", 0, rig.GatewayHTTP{}, httpShapes),
		},
		fill:  func(s *system, keys uint64) error { return rig.FillEtcd(s.ports[0], 0, keys) },
		ready: func(s *system) error { return rig.AskKey(s.ports[0], rig.GatewayHTTP{}) },
		figures: func(s *system) (figures, error) {
			m, err := rig.MetricsPage(s.ports[0])
			syncs := rig.Figure(m, "etcd_disk_wal_fsync_duration_seconds_count") + rig.Figure(m, "etcd_disk_backend_commit_duration_seconds_count")
			return figures{rig.LiveGo(m), syncs, rig.Figure(m, "go_gc_duration_seconds_count")}, err
		},
	}
}

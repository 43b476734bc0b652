package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// fillShape loads the keys of a RESP server.
var fillShape = shape{8, 512}

func fillRESP(s *system, keys uint64) error {
	_, err := run(job{addr: s.ports[0], codec: resp{}, set: true, shape: fillShape, keys: keys, load: true, seed: 1})
	return err
}

// newRedis is Debian's redis-server with an append-only file that is synced
// before every reply; all else is its default, but for the RDB snapshots that
// the append-only file makes needless.
func newRedis(path string, shapes []shape) *system {
	return &system{
		name: "redis", version: outputLine(path, "--version"),
		command: func(s *system) *exec.Cmd {
			_, port, _ := net.SplitHostPort(s.ports[0])
			return exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--dir", s.dir,
				"--appendonly", "yes", "--appendfsync", "always", "--save", "")
		},
		lanes: []*lane{ownLane("RESP", 0, resp{}, shapes)},
		fill:  fillRESP,
		ready: func(s *system) error { return askKey(s.ports[0], resp{}) },
		figures: func(s *system) (figures, error) {
			info, err := ask(s.ports[0], []byte("*2\r\n$4\r\nINFO\r\n$6\r\nmemory\r\n"), func(b []byte) (bool, error) {
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
func newSkerry(path string, shapes, httpShapes []shape) *system {
	return &system{
		name: "skerry", version: outputLine(path, "version"),
		command: func(s *system) *exec.Cmd {
			return exec.Command(path, "serve", "--data", s.dir, "--resp", s.ports[0], "--http", s.ports[1], "--log-level", "warn")
		},
		lanes: []*lane{ownLane("RESP", 0, resp{}, shapes), ownLane("HTTP", 1, plainHTTP{}, httpShapes)},
		fill:  fillRESP,
		ready: func(s *system) error { return askKey(s.ports[0], resp{}) },
		figures: func(s *system) (figures, error) {
			m, err := metricsPage(s.ports[1])
			return figures{liveGo(m), figure(m, "skerry_engine_fsyncs_total"), figure(m, "go_gc_duration_seconds_count")}, err
		},
	}
}

// newEtcd is Debian's etcd, one node; only the quota of its file is raised,
// which a comparison of some minutes would otherwise reach.
func newEtcd(path string, shapes, httpShapes []shape) *system {
	return &system{
		name: "etcd", version: outputLine(path, "--version"),
		command: func(s *system) *exec.Cmd {
			client, peer := "http://"+s.ports[0], "http://"+s.ports[1]
			return exec.Command(path, "--name", "bench", "--data-dir", filepath.Join(s.dir, "etcd"),
				"--listen-client-urls", client, "--advertise-client-urls", client,
				"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "bench="+peer,
				"--quota-backend-bytes", strconv.Itoa(8<<30), "--logger", "zap", "--log-level", "warn")
		},
		lanes: []*lane{
			{"gRPC", shapes, runEtcd},
			{"lean", shapes, runLean},
			ownLane("HTTP", 0, gatewayHTTP{}, httpShapes),
		},
		fill:  fillEtcd,
		ready: func(s *system) error { return askKey(s.ports[0], gatewayHTTP{}) },
		figures: func(s *system) (figures, error) {
			m, err := metricsPage(s.ports[0])
			syncs := figure(m, "etcd_disk_wal_fsync_duration_seconds_count") + figure(m, "etcd_disk_backend_commit_duration_seconds_count")
			return figures{liveGo(m), syncs, figure(m, "go_gc_duration_seconds_count")}, err
		},
	}
}

func dialEtcd(s *system) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{s.ports[0]}, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
}

// maxTxnOps is etcd's default limit of operations in one transaction.
const maxTxnOps = 128

func fillEtcd(s *system, keys uint64) error {
	c, err := dialEtcd(s)
	if err != nil {
		return err
	}
	defer c.Close()
	const workers = 8
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range uint64(workers) {
		wg.Go(func() {
			for from := w * maxTxnOps; from < keys && errs[w] == nil; from += workers * maxTxnOps {
				var ops []clientv3.Op
				for k := from; k < min(from+maxTxnOps, keys); k++ {
					ops = append(ops, clientv3.OpPut(string(appendKey(nil, k)), string(appendVal(nil, k))))
				}
				_, errs[w] = c.Txn(context.Background()).Then(ops...).Commit()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// runEtcd drives etcd through its own client: one client a connection, one
// goroutine a request in flight. That client takes CPU from the server, which
// the report says.
func runEtcd(s *system, j job) (outcome, error) {
	clients := make([]*clientv3.Client, j.shape.conns)
	for i := range clients {
		c, err := dialEtcd(s)
		if err != nil {
			return outcome{}, err
		}
		defer c.Close()
		clients[i] = c
	}
	n := j.shape.conns * j.shape.flight
	hists, errs := make([]hist, n), make([]error, n)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	start := time.Now()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			errs[i] = callEtcd(ctx, clients[i%len(clients)], j, uint64(i), start, &hists[i])
		})
	}
	time.Sleep(time.Until(start.Add(j.warm)))
	j.begin()
	from := time.Now()
	time.Sleep(j.window)
	j.end()
	out := outcome{took: time.Since(from)}
	wg.Wait()
	for i := range hists {
		out.lat.merge(&hists[i])
	}
	out.ops = out.lat.count
	return out, errors.Join(errs...)
}

// callEtcd makes one call after another until the window is over.
func callEtcd(ctx context.Context, c *clientv3.Client, j job, id uint64, start time.Time, h *hist) error {
	x := (j.seed+id)*0x9E3779B97F4A7C15 + 1
	for {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		key := string(appendKey(nil, x%j.keys))
		from := time.Now()
		if from.Sub(start) > j.warm+j.window {
			return nil
		}
		if j.set {
			if _, err := c.Put(ctx, key, string(appendVal(nil, x))); err != nil {
				return err
			}
		} else if r, err := c.Get(ctx, key); err != nil {
			return err
		} else if len(r.Kvs) != 1 || len(r.Kvs[0].Value) != valBytes {
			return fmt.Errorf("get of %s: %d values", key, len(r.Kvs))
		}
		if now := time.Now(); now.Sub(start) > j.warm && now.Sub(start) <= j.warm+j.window {
			h.add(now.Sub(from))
		}
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// kind is one of the compared systems.
type kind struct {
	name, version string
	create        func(c *cluster) error                               // creates and starts a new cluster
	command       func(c *cluster, i int, args []string) *exec.Cmd     // starts a node
	leader        func(c *cluster) (int, error)                        // index of the leader
	applied       func(n *node) (uint64, error)                        // grows with every write that the node has applied
	fsyncs        func(n *node) (float64, error)                       // since its start
	fill          func(c *cluster, lead int, first, keys uint64) error // writes keys
	client        func(addrs []string) (client, error)                 // uses another node when one is lost
	faces         []*face
}

// face is one protocol of a kind, or one way to use it.
type face struct {
	name  string
	port  int
	piped bool // allows many requests in flight on a connection
	run   func(j rig.Job) (rig.Outcome, error)
}

// own runs a protocol with the epoll load generator.
func own(c rig.Codec) func(j rig.Job) (rig.Outcome, error) {
	return func(j rig.Job) (rig.Outcome, error) {
		j.Codec = c
		return rig.Run(j)
	}
}

var fillShape = rig.Shape{Conns: 8, Flight: 512}

// newSkerry is `skerry serve` with its defaults.
func newSkerry(path string) *kind {
	return &kind{
		name: "skerry", version: rig.OutputLine(path, "version"),
		create: func(c *cluster) error { return createSkerry(c, path) },
		command: func(c *cluster, i int, args []string) *exec.Cmd {
			n := c.nodes[i]
			return exec.Command(path, append([]string{"serve", "--data", n.dir, "--resp", n.addr[portData],
				"--http", n.addr[portHTTP], "--node", n.addr[portPeer], "--log-level", "warn"}, args...)...)
		},
		leader: func(c *cluster) (int, error) {
			for i, n := range c.nodes {
				if v, err := viewOf(n); err == nil && v.Self == v.Leader {
					return i, nil
				}
			}
			return 0, errors.New("no node says that it leads")
		},
		applied: func(n *node) (uint64, error) {
			m, err := rig.MetricsPage(n.addr[portHTTP])
			return uint64(max(rig.Figure(m, "skerry_engine_position"), 0)), err
		},
		fsyncs: func(n *node) (float64, error) {
			m, err := rig.MetricsPage(n.addr[portHTTP])
			return rig.Figure(m, "skerry_engine_fsyncs_total"), err
		},
		fill: func(c *cluster, lead int, first, keys uint64) error {
			_, err := rig.Run(rig.Job{Addrs: c.addrs(portData, lead), Codec: rig.RESP{}, Set: true, Shape: fillShape,
				First: first, Keys: keys, Load: true, Seed: 1})
			return err
		},
		client: func(addrs []string) (client, error) { return &respClient{addrs: addrs}, nil },
		faces:  []*face{{"RESP", portData, true, own(rig.RESP{})}, {"HTTP", portHTTP, false, own(rig.PlainHTTP{})}},
	}
}

// createSkerry sets up a cluster as operators do: one node begins, two are invited.
func createSkerry(c *cluster, path string) error {
	first := c.nodes[0]
	out, err := exec.Command(path, "cluster", "init", "--data", first.dir, "--node", first.addr[portPeer]).CombinedOutput()
	if err != nil {
		return fmt.Errorf("skerry cluster init: %w\n%s", err, out)
	}
	if err := c.start(0); err != nil {
		return err
	}
	if err := c.await(1); err != nil {
		return err
	}
	for i := 1; i < nodes; i++ {
		invite := filepath.Join(c.dir, strconv.Itoa(i+1)+".invite")
		cmd := exec.Command(path, "cluster", "invite", "--data", first.dir)
		var complaint bytes.Buffer
		cmd.Stderr = &complaint
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("skerry cluster invite: %w\n%s", err, complaint.Bytes())
		}
		if err := os.WriteFile(invite, out, 0o600); err != nil {
			return err
		}
		if err := c.start(i, "--invite", invite, "--join", first.addr[portPeer]); err != nil {
			return err
		}
	}
	return poll(time.Minute, func() error {
		v, err := viewOf(first)
		if err != nil {
			return err
		}
		voters := 0
		for _, n := range v.Nodes {
			if n.Voter {
				voters++
			}
		}
		if voters != nodes {
			return fmt.Errorf("%d of %d nodes have a vote", voters, nodes)
		}
		return nil
	})
}

// skerryView has the relevant parts of GET /cluster.
type skerryView struct {
	Self, Leader uint64
	Nodes        []struct{ Voter bool }
}

// asking bounds requests to nodes that are not part of a measurement.
var asking = http.Client{Timeout: 2 * time.Second}

func viewOf(n *node) (v skerryView, err error) {
	if n.proc == nil {
		return v, errors.New("the node does not run")
	}
	r, err := asking.Get("http://" + n.addr[portHTTP] + "/cluster")
	if err != nil {
		return v, err
	}
	return v, decode(r, &v)
}

func decode(r *http.Response, into any) error {
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", r.Status, b)
	}
	return json.Unmarshal(b, into)
}

// newEtcd is Debian's etcd with its defaults, and so without TLS between its nodes; only the quota of its file
// is raised, which this comparison would reach.
func newEtcd(path string) *kind {
	return &kind{
		name: "etcd", version: rig.OutputLine(path, "--version"),
		create: func(c *cluster) error {
			for i := range c.nodes {
				if err := c.start(i); err != nil {
					return err
				}
			}
			return nil
		},
		command: func(c *cluster, i int, args []string) *exec.Cmd {
			var initial []string
			for i, n := range c.nodes {
				initial = append(initial, fmt.Sprintf("n%d=http://%s", i+1, n.addr[portPeer]))
			}
			n := c.nodes[i]
			client, peer := "http://"+n.addr[portData], "http://"+n.addr[portPeer]
			return exec.Command(path, append([]string{"--name", "n" + strconv.Itoa(i+1), "--data-dir", filepath.Join(n.dir, "etcd"),
				"--listen-client-urls", client, "--advertise-client-urls", client,
				"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", strings.Join(initial, ","),
				"--quota-backend-bytes", strconv.Itoa(16 << 30), "--logger", "zap", "--log-level", "warn"}, args...)...)
		},
		leader: func(c *cluster) (int, error) {
			for i, n := range c.nodes {
				if s, err := statusOf(n); err == nil && s.Leader != "" && s.Leader == s.Header.Member {
					return i, nil
				}
			}
			return 0, errors.New("no node says that it leads")
		},
		applied: func(n *node) (uint64, error) {
			s, err := statusOf(n)
			return s.Applied, err
		},
		fsyncs: func(n *node) (float64, error) {
			m, err := rig.MetricsPage(n.addr[portData])
			return rig.Figure(m, "etcd_disk_wal_fsync_duration_seconds_count") + rig.Figure(m, "etcd_disk_backend_commit_duration_seconds_count"), err
		},
		fill: func(c *cluster, lead int, first, keys uint64) error {
			return rig.FillEtcd(c.nodes[lead].addr[portData], first, keys)
		},
		client: func(addrs []string) (client, error) {
			c, err := rig.DialEtcd(addrs...)
			return &etcdClient{c}, err
		},
		faces: []*face{{"gRPC", portData, true, rig.RunEtcd}, {"lean", portData, true, rig.RunLean}, {"HTTP", portData, false, own(rig.GatewayHTTP{})}},
	}
}

// etcdStatus has the relevant parts of the gateway's response.
type etcdStatus struct {
	Header struct {
		Member string `json:"member_id"`
	} `json:"header"`
	Leader  string `json:"leader"`
	Applied uint64 `json:"raftAppliedIndex,string"`
}

func statusOf(n *node) (s etcdStatus, err error) {
	if n.proc == nil {
		return s, errors.New("the node does not run")
	}
	r, err := asking.Post("http://"+n.addr[portData]+"/v3/maintenance/status", "application/json", strings.NewReader("{}"))
	if err != nil {
		return s, err
	}
	return s, decode(r, &s)
}

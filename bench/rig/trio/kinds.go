package trio

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
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// Kind is one of the compared systems.
type Kind struct {
	Name, Version string
	create        func(c *Cluster) error                               // creates and starts a new cluster
	command       func(c *Cluster, i int, args []string) *exec.Cmd     // starts a node
	Leader        func(c *Cluster) (int, error)                        // index of the leader
	Applied       func(n *Node) (uint64, error)                        // grows with every write that the node has applied
	fsyncs        func(n *Node) (float64, error)                       // since its start
	Fill          func(c *Cluster, lead int, first, keys uint64) error // writes keys
	Client        func(addrs []string) (Client, error)                 // uses another node when one is lost
	Faces         []*Face
}

// Face is one protocol of a kind, or one way to use it.
type Face struct {
	Name  string
	Port  int
	Piped bool // allows many requests in flight on a connection
	Run   func(j rig.Job) (rig.Outcome, error)
}

// own runs a protocol with the epoll load generator.
func own(c rig.Codec) func(j rig.Job) (rig.Outcome, error) {
	return func(j rig.Job) (rig.Outcome, error) {
		j.Codec = c
		return rig.Run(j)
	}
}

var fillShape = rig.Shape{Conns: 8, Flight: 512}

// NewSkerry is `skerry serve` with its defaults, but for what more flags say.
func NewSkerry(path string, more ...string) *Kind {
	return &Kind{
		Name: "skerry", Version: rig.OutputLine(path, "version"),
		create: func(c *Cluster) error { return createSkerry(c, path) },
		command: func(c *Cluster, i int, args []string) *exec.Cmd {
			n := c.Nodes[i]
			return exec.Command(path, append([]string{"serve", "--data", n.Dir, "--resp", n.Addr[PortData],
				"--http", n.Addr[PortHTTP], "--node", n.Addr[portPeer], "--log-level", "warn"}, slices.Concat(more, args)...)...)
		},
		Leader: func(c *Cluster) (int, error) {
			for i, n := range c.Nodes {
				if v, err := viewOf(n); err == nil && v.Self == v.Leader {
					return i, nil
				}
			}
			return 0, errors.New("no node says that it leads")
		},
		Applied: func(n *Node) (uint64, error) {
			m, err := rig.MetricsPage(n.Addr[PortHTTP])
			return uint64(max(rig.Figure(m, "skerry_engine_position"), 0)), err
		},
		fsyncs: func(n *Node) (float64, error) {
			m, err := rig.MetricsPage(n.Addr[PortHTTP])
			return rig.Figure(m, "skerry_engine_fsyncs_total"), err
		},
		Fill: func(c *Cluster, lead int, first, keys uint64) error {
			_, err := rig.Run(rig.Job{Addrs: c.Addrs(PortData, lead), Codec: rig.RESP{}, Set: true, Shape: fillShape,
				First: first, Keys: keys, Load: true, Seed: 1})
			return err
		},
		Client: func(addrs []string) (Client, error) { return &respClient{addrs: addrs}, nil },
		Faces:  []*Face{{"RESP", PortData, true, own(rig.RESP{})}, {"HTTP", PortHTTP, false, own(rig.PlainHTTP{})}},
	}
}

// createSkerry sets up a cluster as operators do: one node begins, two are invited.
func createSkerry(c *Cluster, path string) error {
	first := c.Nodes[0]
	out, err := exec.Command(path, "cluster", "init", "--data", first.Dir, "--node", first.Addr[portPeer]).CombinedOutput()
	if err != nil {
		return fmt.Errorf("skerry cluster init: %w\n%s", err, out)
	}
	if err := c.Start(0); err != nil {
		return err
	}
	if err := c.Await(1); err != nil {
		return err
	}
	for i := 1; i < Size; i++ {
		invite := filepath.Join(c.Dir, strconv.Itoa(i+1)+".invite")
		cmd := exec.Command(path, "cluster", "invite", "--data", first.Dir)
		var complaint bytes.Buffer
		cmd.Stderr = &complaint
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("skerry cluster invite: %w\n%s", err, complaint.Bytes())
		}
		if err := os.WriteFile(invite, out, 0o600); err != nil {
			return err
		}
		if err := c.Start(i, "--invite", invite, "--join", first.Addr[portPeer]); err != nil {
			return err
		}
	}
	return Poll(time.Minute, func() error {
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
		if voters != Size {
			return fmt.Errorf("%d of %d nodes have a vote", voters, Size)
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

func viewOf(n *Node) (v skerryView, err error) {
	if n.Proc == nil {
		return v, errors.New("the node does not run")
	}
	r, err := asking.Get("http://" + n.Addr[PortHTTP] + "/cluster")
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

// NewEtcd is Debian's etcd with its defaults, and so without TLS between its nodes; only the quota of its file
// is raised, which this comparison would reach.
func NewEtcd(path string) *Kind {
	return &Kind{
		Name: "etcd", Version: rig.OutputLine(path, "--version"),
		create: func(c *Cluster) error {
			for i := range c.Nodes {
				if err := c.Start(i); err != nil {
					return err
				}
			}
			return nil
		},
		command: func(c *Cluster, i int, args []string) *exec.Cmd {
			var initial []string
			for i, n := range c.Nodes {
				initial = append(initial, fmt.Sprintf("n%d=http://%s", i+1, n.Addr[portPeer]))
			}
			n := c.Nodes[i]
			client, peer := "http://"+n.Addr[PortData], "http://"+n.Addr[portPeer]
			return exec.Command(path, append([]string{"--name", "n" + strconv.Itoa(i+1), "--data-dir", filepath.Join(n.Dir, "etcd"),
				"--listen-client-urls", client, "--advertise-client-urls", client,
				"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", strings.Join(initial, ","),
				"--quota-backend-bytes", strconv.Itoa(16 << 30), "--logger", "zap", "--log-level", "warn"}, args...)...)
		},
		Leader: func(c *Cluster) (int, error) {
			for i, n := range c.Nodes {
				if s, err := statusOf(n); err == nil && s.Leader != "" && s.Leader == s.Header.Member {
					return i, nil
				}
			}
			return 0, errors.New("no node says that it leads")
		},
		Applied: func(n *Node) (uint64, error) {
			s, err := statusOf(n)
			return s.Applied, err
		},
		fsyncs: func(n *Node) (float64, error) {
			m, err := rig.MetricsPage(n.Addr[PortData])
			return rig.Figure(m, "etcd_disk_wal_fsync_duration_seconds_count") + rig.Figure(m, "etcd_disk_backend_commit_duration_seconds_count"), err
		},
		Fill: func(c *Cluster, lead int, first, keys uint64) error {
			return rig.FillEtcd(c.Nodes[lead].Addr[PortData], first, keys)
		},
		Client: func(addrs []string) (Client, error) {
			c, err := rig.DialEtcd(addrs...)
			return &etcdClient{c}, err
		},
		Faces: []*Face{{"gRPC", PortData, true, rig.RunEtcd}, {"lean", PortData, true, rig.RunLean}, {"HTTP", PortData, false, own(rig.GatewayHTTP{})}},
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

func statusOf(n *Node) (s etcdStatus, err error) {
	if n.Proc == nil {
		return s, errors.New("the node does not run")
	}
	r, err := asking.Post("http://"+n.Addr[PortData]+"/v3/maintenance/status", "application/json", strings.NewReader("{}"))
	if err != nil {
		return s, err
	}
	return s, decode(r, &s)
}

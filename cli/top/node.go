package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ErrRefused is what the error of a Source's Fetch wraps if the password is wrong.
var ErrRefused = errors.New("the server refuses the password")

// Source is a server to watch.
type Source struct {
	Name string // its URL, without a password

	// Fetch returns the body of the response to a GET of a path.
	Fetch func(ctx context.Context, path string) ([]byte, error)
}

// Sample is a server at one moment. Rates are of the time since the sample before; they are 0 in the first one.
type Sample struct {
	At       time.Time `json:"at"`
	Requests float64   `json:"requests_per_second"` // over HTTP
	Errors   float64   `json:"errors_per_second"`   // those with status 5xx
	Writes   float64   `json:"writes_per_second"`   // transactions
	Calls    float64   `json:"calls_per_second"`    // of procedures
	P50      float64   `json:"p50_ms"`
	P99      float64   `json:"p99_ms"`
	CPU      float64   `json:"cpu_cores"`
	Keys     float64   `json:"keys"`
	Clients  float64   `json:"redis_clients"`
	Data     float64   `json:"data_bytes"`
	Limit    float64   `json:"memory_limit_bytes"`
	Resident float64   `json:"resident_bytes"`
	Disk     float64   `json:"disk_bytes"` // log since the last snapshot, and files of long values
	Position float64   `json:"position"`
}

// Node is what is known of a server.
type Node struct {
	Name    string     `json:"url"`
	ID      uint64     `json:"node,omitempty"` // in its cluster; 0: it runs alone
	Role    string     `json:"role"`
	Lag     float64    `json:"lag"`                   // transactions behind the leader, if that is watched too
	Down    *time.Time `json:"unreachable,omitempty"` // since when it does not answer
	Error   string     `json:"error,omitempty"`       // why
	Watched bool       `json:"watched"`               // false: only another node has named it
	Now     *Sample    `json:"now,omitempty"`         // the last known; nil: none
	Wrong   []string   `json:"wrong"`

	last     totals
	at       time.Time // of last; zero: there is none
	cluster  cluster
	facts    []facts // of all nodes, as this one knows them
	history  []Sample
	refused  error // wraps ErrRefused
	measured bool  // Now has rates
}

// maxHistory is how many samples of a node are kept, more than a terminal has columns.
const maxHistory = 600

// cluster is what of the response of /cluster is used.
type cluster struct {
	Self   uint64 `json:"self"`
	Leader uint64 `json:"leader"`
	Nodes  []struct {
		ID      uint64 `json:"id"`
		Addr    string `json:"addr"`
		HTTP    string `json:"http"`
		Voter   bool   `json:"voter"`
		Replica bool   `json:"replica"`
		Site    string `json:"site"`
	} `json:"nodes"`
}

// answer is what a server said, or why it did not.
type answer struct {
	node    int
	at      time.Time
	metrics totals
	cluster cluster
	facts   []facts
	err     error
}

// ask reads a server once.
func (s Source) ask(ctx context.Context, node int, now func() time.Time) answer {
	a := answer{node: node}
	text, err := s.Fetch(ctx, "/metrics")
	a.at = now()
	if err != nil {
		a.err = err
		return a
	}
	a.metrics = parse(string(text))
	if len(a.metrics.values) == 0 {
		a.err = errors.New("its /metrics has no metrics; is this a Skerry server's operator address?")
		return a
	}
	if a.metrics.values["cluster_nodes"] == 0 { // it runs alone, and to ask would be one of its errors
		return a
	}
	state, err := s.Fetch(ctx, "/cluster")
	switch {
	case err != nil:
		a.err = err
	default:
		if err := json.Unmarshal(state, &a.cluster); err != nil {
			a.err = fmt.Errorf("its /cluster is not that of a Skerry server: %w", err)
			return a
		}
		a.facts = s.facts(ctx)
	}
	return a
}

// take adds what a server said.
func (n *Node) take(a answer) {
	if a.err != nil {
		if n.Down == nil {
			n.Down = &a.at
		}
		n.Error = Clean(a.err.Error())
		if errors.Is(a.err, ErrRefused) {
			n.refused = a.err
		}
		n.Wrong = n.wrong(totals{}, 0)
		return
	}
	gap := a.at.Sub(n.at).Seconds()
	known := !n.at.IsZero() && gap > 0
	n.Down, n.Error, n.refused = nil, "", nil
	v := a.metrics.values
	s := Sample{At: a.at, Keys: v["engine_keys"], Clients: v["resp_clients"], Data: v["engine_data_bytes"], Limit: v["engine_memory_limit_bytes"],
		Resident: v["process_resident_memory_bytes"], Disk: v["engine_log_since_snapshot_bytes"] + v["engine_spill_file_bytes"], Position: v["engine_position"]}
	before := n.last
	if known {
		rate := func(now, before float64) float64 {
			if now < before { // the server has restarted
				before = 0
			}
			return (now - before) / gap
		}
		of := func(name string) float64 { return rate(v[name], before.values[name]) }
		s.Requests, s.Errors = of("http_requests_total")+of("web_requests_total"), rate(a.metrics.errors, before.errors)
		s.Writes, s.Calls, s.CPU = of("engine_transactions_total"), of("proc_calls_total"), of("process_cpu_seconds_total")
		if v["http_requests_total"] < before.values["http_requests_total"] {
			before.buckets = nil
		}
		const ms = 1000
		s.P50, s.P99 = ms*quantile(a.metrics, before, 0.5), ms*quantile(a.metrics, before, 0.99)
		n.history = append(n.history, s)
		if len(n.history) > maxHistory {
			n.history = n.history[len(n.history)-maxHistory:]
		}
	}
	n.Now, n.cluster, n.facts, n.ID, n.measured = &s, a.cluster, a.facts, a.cluster.Self, known
	if !known {
		gap = 0
	}
	n.Wrong = n.wrong(a.metrics, gap)
	n.last, n.at = a.metrics, a.at
}

// grown are counters that should not grow.
var grown = []struct{ name, text string }{
	{"http_refused_connections_total", "HTTP connections refused"},
	{"resp_refused_connections_total", "Redis connections refused"},
	{"wrong_passwords_total", "wrong passwords"},
	{"engine_commits_over_1s_total", "commits took over 1 s"},
	{"proc_panics_total", "procedures panicked"},
	{"cluster_leader_changes_total", "changes of the leader"},
}

// wrong returns what is wrong with a node; gap is the seconds since the metrics before, 0 if there are none.
func (n *Node) wrong(t totals, gap float64) []string {
	all := []string{}
	if n.Down != nil {
		return append(all, fmt.Sprintf("does not answer since %s: %s", n.Down.UTC().Format(time.TimeOnly), n.Error))
	}
	v := t.values
	const share, leaderless, skew = 0.8, 5, 2 // as docs/operating.md and docs/cluster.md say to alert
	if limit := v["engine_memory_limit_bytes"]; limit > 0 && v["engine_data_bytes"] > share*limit {
		all = append(all, fmt.Sprintf("the data takes %.0f %% of the memory limit", 100*v["engine_data_bytes"]/limit))
	}
	for _, is := range []struct {
		bad  bool
		text string
	}{
		{v["engine_held_refusing"] > 0, "writes are refused: reads in progress hold too much memory"},
		{v["engine_snapshot_failing"] > 0, "the last snapshot could not be written"},
		{v["engine_spill_failing"] > 0, "long values cannot be moved to disk"},
		{v["cluster_without_leader_seconds"] > leaderless, fmt.Sprintf("no leader for %.0f s", v["cluster_without_leader_seconds"])},
		{v["cluster_nodes"] > 0 && v["cluster_connected_nodes"] < v["cluster_nodes"]-1, fmt.Sprintf("connected to %.0f of %.0f other nodes", v["cluster_connected_nodes"], v["cluster_nodes"]-1)},
		{v["cluster_clock_skew_seconds"] > skew, fmt.Sprintf("clocks differ by %.1f s", v["cluster_clock_skew_seconds"])},
	} {
		if is.bad {
			all = append(all, is.text)
		}
	}
	if gap <= 0 {
		return all
	}
	if more := t.errors - n.last.errors; more > 0 {
		all = append(all, fmt.Sprintf("%.0f responses with status 5xx", more))
	}
	for _, c := range grown {
		if more := v[c.name] - n.last.values[c.name]; more > 0 {
			all = append(all, fmt.Sprintf("%.0f %s", more, c.text))
		}
	}
	return all
}

// all returns the watched nodes, each with its role and how far it is behind the leader, and those that only they name.
func all(watched []*Node) []*Node {
	var leader uint64
	var newest float64
	for _, n := range watched {
		if n.Down == nil && n.cluster.Leader != 0 {
			leader = n.cluster.Leader
		}
	}
	for _, n := range watched {
		if n.Now != nil && n.ID != 0 && n.ID == leader && n.Down == nil {
			newest = n.Now.Position
		}
	}
	seen := map[uint64]bool{}
	for _, n := range watched {
		n.Watched, n.Lag = true, 0
		n.Role = n.role()
		if n.ID != 0 {
			seen[n.ID] = true
			if n.Now != nil && n.ID != leader {
				n.Lag = max(0, newest-n.Now.Position)
			}
		}
	}
	list := append([]*Node(nil), watched...)
	for _, n := range watched {
		if n.Down != nil {
			continue
		}
		for _, o := range n.cluster.Nodes {
			if !seen[o.ID] && o.ID != 0 {
				seen[o.ID] = true
				down := func(w *Node) bool { _, host, _ := strings.Cut(w.Name, "://"); return w.ID == 0 && host == o.HTTP }
				if slices.ContainsFunc(watched, down) { // it has not answered yet
					continue
				}
				other := &Node{Name: Clean(o.Addr), ID: o.ID, Wrong: []string{}, cluster: cluster{Self: o.ID, Leader: leader, Nodes: n.cluster.Nodes}}
				for _, f := range n.facts {
					if f.ID == o.ID {
						other.report(f)
					}
				}
				other.Role = other.role()
				list = append(list, other)
			}
		}
	}
	return list
}

// role returns what a node is in its cluster.
func (n *Node) role() string {
	switch {
	case n.Down != nil:
		return "down"
	case n.ID == 0 && n.Now == nil:
		return "…"
	case n.ID == 0:
		return "alone"
	case n.ID == n.cluster.Leader:
		return "leader"
	case n.cluster.Leader == 0:
		return "no leader"
	}
	for _, o := range n.cluster.Nodes {
		if o.ID == n.ID && o.Replica {
			return "replica"
		}
		if o.ID == n.ID && !o.Voter {
			return "learner"
		}
	}
	return "follower"
}

package embedded

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/peer"
	"github.com/skerrydb/skerry/raft"
)

// MaxNodes is how many nodes a cluster has at most.
const MaxNodes = raft.MaxVoters

// ErrNoNodeAddr is returned for a node that starts without an address for the
// others and has had none before.
var ErrNoNodeAddr = errors.New("the address on which the other nodes of the cluster reach it is not known")

// nodesName is the file beside a node's certificate that says where the nodes
// are: for `skerry cluster`, and for a start before the log has told.
const nodesName = "nodes.json"

// remember writes down where the nodes are.
func (g *group) remember(r *roster) {
	if len(r.Nodes) == 0 {
		return // what is there is more
	}
	if err := writeNodes(g.db.dir, r.Nodes); err != nil {
		g.db.opts.Logger.Warn("could not write down where the nodes are", "err", err)
	}
}

func writeNodes(dir string, nodes []nodeInfo) error {
	j, err := json.Marshal(nodes)
	if err != nil {
		panic("BUG: encode the nodes: " + err.Error())
	}
	name := filepath.Join(dir, clusterDir, nodesName)
	if err := os.WriteFile(name+".tmp", j, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".tmp", name)
}

// readNodes returns what was written down last; nothing if that is missing.
func readNodes(dir string) (nodes []nodeInfo, err error) {
	j, err := os.ReadFile(filepath.Join(dir, clusterDir, nodesName))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(j, &nodes)
	}
	return nodes, err
}

// recall fills in what is not said about this node's addresses with what the
// cluster was told last, and makes the other nodes ones to ask for admission.
func (o ClusterOptions) recall(dir string, self uint64, me nodeInfo) (ClusterOptions, error) {
	nodes, err := readNodes(dir)
	if err != nil {
		return o, fmt.Errorf("read where the nodes are: %w", err)
	}
	for _, n := range nodes {
		if n.ID == self {
			me = n
		} else if n.Addr != "" && !slices.Contains(o.Join, n.Addr) {
			o.Join = append(slices.Clone(o.Join), n.Addr)
		}
	}
	if o.Listener == nil && o.Addr == "" {
		o.Addr = me.Addr
		o.Advertise = cmp.Or(o.Advertise, me.Addr)
	}
	host, port, err := net.SplitHostPort(o.Addr)
	switch ip := net.ParseIP(host); {
	case o.Listener != nil || o.Advertise != "" || err != nil:
	case host == "" || ip != nil && ip.IsUnspecified():
		o.Advertise = me.Addr
	case port != "0":
		o.Advertise = o.Addr
	}
	return o, nil //nolint:nilerr // whoever listens on the address says what is wrong with it
}

// Admin talks to running nodes as the node whose data folder it was opened on.
// The folder may be in use.
type Admin struct {
	id     *peer.Identity
	client *peer.Client
	nodes  []nodeInfo // its own node first
}

// OpenAdmin takes the credentials of a node's data folder. Version is that of the
// program.
func OpenAdmin(dir, version string) (*Admin, error) {
	id, err := loadNode(dir)
	if err != nil {
		return nil, err
	}
	a := &Admin{id: id, client: peer.NewClient(id, version)}
	if a.nodes, err = readNodes(dir); err != nil {
		return nil, fmt.Errorf("read where the nodes are: %w", err)
	}
	slices.SortStableFunc(a.nodes, func(x, y nodeInfo) int { // its own node is asked first
		switch {
		case x.ID == id.Node:
			return -1
		case y.ID == id.Node:
			return 1
		}
		return 0
	})
	return a, nil
}

func loadNode(dir string) (*peer.Identity, error) {
	id, err := peer.Load(filepath.Join(dir, clusterDir))
	if errors.Is(err, os.ErrNotExist) {
		return nil, engine.Errorf(engine.CodeInvalid, "%s is no node of a cluster; `skerry cluster init` makes it the first one of a new cluster, `skerry serve --invite FILE` one more of a cluster that is there", dir)
	}
	return id, err
}

// Expires is when the node's certificate ends: no other node lets it in then.
func (a *Admin) Expires() time.Time { return a.id.Expires() }

// Self is the id of the folder's node.
func (a *Admin) Self() uint64 { return a.id.Node }

// Cluster is the id of the folder's cluster.
func (a *Admin) Cluster() string { return a.id.Cluster }

// NodeAnswer is what one node said when it was asked for its status.
type NodeAnswer struct {
	ID     uint64         `json:"id"`
	Addr   string         `json:"addr"`
	Status *ClusterStatus `json:"status,omitempty"`
	Error  string         `json:"error,omitempty"` // why it did not answer
}

// Ask asks every node for its status, all at once: those that this folder knows
// of, and those that they know of. It returns them ascending by id.
func (a *Admin) Ask(ctx context.Context) []NodeAnswer {
	asked := map[uint64]NodeAnswer{}
	for next := a.nodes; len(next) > 0; {
		for _, answer := range a.askAll(ctx, next) {
			asked[answer.ID] = answer
		}
		next = nil
		for _, answer := range asked {
			if answer.Status == nil {
				continue
			}
			for _, n := range answer.Status.Nodes {
				if _, done := asked[n.ID]; !done && !slices.ContainsFunc(next, func(o nodeInfo) bool { return o.ID == n.ID }) {
					next = append(next, nodeInfo{ID: n.ID, Addr: n.Addr})
				}
			}
		}
	}
	out := make([]NodeAnswer, 0, len(asked))
	for _, answer := range asked {
		out = append(out, answer)
	}
	slices.SortFunc(out, func(x, y NodeAnswer) int { return cmp.Compare(x.ID, y.ID) })
	return out
}

func (a *Admin) askAll(ctx context.Context, nodes []nodeInfo) []NodeAnswer {
	out := make([]NodeAnswer, len(nodes))
	var asking sync.WaitGroup
	for i, n := range nodes {
		asking.Go(func() {
			out[i] = NodeAnswer{ID: n.ID, Addr: n.Addr}
			var s ClusterStatus
			if err := remote(a.client.Call(ctx, n.Addr, n.ID, methodStatus, nil, &s)); err != nil {
				out[i].Error = err.Error()
				return
			}
			out[i].Status = &s
		})
	}
	asking.Wait()
	return out
}

// Remove makes a node a stranger, for ever. A node that was removed before is none
// already.
func (a *Admin) Remove(ctx context.Context, node uint64) error {
	err := a.call(ctx, methodRemove, nodeRef{node}, nil)
	if node == a.id.Node && saysRemoved(err) { // then nobody talks to it any more, also not to answer
		return nil
	}
	return err
}

// Transfer hands the leadership to a node; 0: to the one most up to date.
func (a *Admin) Transfer(ctx context.Context, node uint64) error {
	return a.call(ctx, methodTransfer, nodeRef{node}, nil)
}

// call has some node do something. The next one is asked only if the one before
// has certainly done nothing.
func (a *Admin) call(ctx context.Context, method string, in, out any) error {
	if len(a.nodes) == 0 {
		return engine.Errorf(engine.CodeNotLeader, "node %d does not know yet where the other nodes are: start it first", a.id.Node)
	}
	var errs []error
	for _, n := range a.nodes {
		err := remote(a.client.Call(ctx, n.Addr, n.ID, method, in, out))
		var e *engine.Error
		if err == nil || errors.As(err, &e) && e.Code != engine.CodeNotLeader || saysRemoved(err) {
			return err // done, or an answer
		}
		errs = append(errs, fmt.Errorf("node %d at %s: %w", n.ID, n.Addr, err))
	}
	return engine.Errorf(engine.CodeNotLeader, "no node could do it: %w", errors.Join(errs...))
}

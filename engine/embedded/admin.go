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
	"github.com/skerrydb/skerry/journal"
	"github.com/skerrydb/skerry/peer"
	"github.com/skerrydb/skerry/raft"
)

// MaxNodes is the maximum number of nodes in a cluster that are no replicas.
const MaxNodes = raft.MaxVoters

// MaxReplicas is the maximum number of replicas in a cluster, beside MaxNodes others.
const MaxReplicas = 32

// MinCatchUpRate is the least ClusterOptions.CatchUpRate that limits anything, in bytes
// per second.
const MinCatchUpRate = 64 << 10

// MaxSiteBytes is the maximum length of the name of a site.
const MaxSiteBytes = 32

// CheckSite returns an error if a site cannot have that name. "" means no site.
func CheckSite(name string) error {
	if len(name) > MaxSiteBytes {
		return engine.Errorf(engine.CodeInvalid, "the name of a site has at most %d bytes", MaxSiteBytes)
	}
	for i, c := range []byte(name) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || i > 0 && (c == '-' || c == '_' || c == '.')) {
			return engine.Errorf(engine.CodeInvalid, "%q cannot be the name of a site: use letters, digits, and after the first of them also hyphens, underscores and dots", name)
		}
	}
	return nil
}

// ErrNoNodeAddr is returned if a node starts without an address for the other nodes
// and never had one before.
var ErrNoNodeAddr = errors.New("the address at which the other nodes reach it is unknown")

// nodesName is the file beside a node's certificate with the addresses of the nodes.
// It is for `skerry cluster`, and for a start before the log is known to be committed.
// All of it can be recovered from the cluster.
const nodesName = "nodes.json"

// remember saves the addresses of the nodes.
func (g *group) remember(r *roster) {
	if len(r.Nodes) == 0 {
		return // the file has more
	}
	if err := writeNodes(g.db.opts.FS, g.db.dir, r.Nodes); err != nil {
		g.db.opts.Logger.Warn("could not save the addresses of the nodes", "err", err)
	}
}

func writeNodes(fs journal.FS, dir string, nodes []nodeInfo) error {
	j, err := json.Marshal(nodes)
	if err != nil {
		panic("BUG: encode the nodes: " + err.Error())
	}
	return journal.Files{FS: fs}.Write(filepath.Join(dir, clusterDir, nodesName), j)
}

// errNodes reports that the file with the nodes' addresses is damaged.
var errNodes = errors.New("damaged: it has the addresses of the nodes; the node rewrites it at its next start, from the log and the other nodes")

// readNodes returns the nodes that were last saved, or none if the file is missing.
// An error that wraps errNodes need only stop callers that require the file.
func readNodes(fs journal.FS, dir string) (nodes []nodeInfo, err error) {
	name := filepath.Join(dir, clusterDir, nodesName)
	j, err := journal.Files{FS: fs}.Read(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the addresses of the nodes: %w", err)
	}
	if err = json.Unmarshal(j, &nodes); err == nil && slices.ContainsFunc(nodes, func(n nodeInfo) bool { return n.ID == 0 }) {
		err = errors.New("a node without an id")
	}
	if err != nil {
		return nil, engine.Errorf(engine.CodeCorrupt, "%s: %w (%v)", name, errNodes, err)
	}
	return nodes, nil
}

// knownNodes is readNodes for a start. If the file is damaged or missing, it returns
// the nodes that announced their addresses in the log, committed or not: these are
// only places to look for them.
func (db *DB) knownNodes() ([]nodeInfo, error) {
	nodes, err := readNodes(db.opts.FS, db.dir)
	if errors.Is(err, errNodes) {
		db.opts.Logger.Warn("the file with the addresses of the nodes is damaged; rewriting it", "err", err)
		err = nil
	}
	if err != nil || nodes != nil {
		return nodes, err
	}
	said := &roster{}
	for rec, err := range db.log.Read(db.log.First()) {
		if err != nil {
			return nil, fileError("read the log", err)
		}
		e, err := parseRecord(rec)
		if err != nil {
			return nil, fileError("read the log", err)
		}
		if n, err := parseNote(e.Data); err == nil && e.Kind == raft.Data {
			said = said.with(n)
		}
	}
	return said.Nodes, nil
}

// recall fills in missing addresses of this node with those last announced to the
// cluster, and adds the other nodes to those to ask for admission.
func (o ClusterOptions) recall(nodes []nodeInfo, self uint64, me nodeInfo) ClusterOptions {
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
	if o.Site == "" {
		o.Site = me.Site
	}
	if o.CatchUpRate == 0 {
		o.CatchUpRate = me.CatchUp
	}
	return o // listening on the address will report what is wrong with it
}

// Admin calls running nodes with the credentials of a data folder's node. The folder
// may be in use.
type Admin struct {
	id     *peer.Identity
	client *peer.Client
	nodes  []nodeInfo // its own node first
}

// OpenAdmin returns an Admin with the credentials in dir, the data folder of a node.
// version is that of the program.
func OpenAdmin(dir, version string) (*Admin, error) {
	id, err := loadNode(dir)
	if err != nil {
		return nil, err
	}
	a := &Admin{id: id, client: peer.NewClient(id, version)}
	if a.nodes, err = readNodes(journal.OS(), dir); err != nil && !errors.Is(err, errNodes) {
		return nil, err
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
	id, err := peer.Load(journal.Files{FS: journal.OS()}, filepath.Join(dir, clusterDir))
	if errors.Is(err, os.ErrNotExist) {
		return nil, engine.Errorf(engine.CodeInvalid, "%s is not a node of a cluster; `skerry cluster init` makes it the first node of a new cluster, `skerry serve --invite FILE` adds it to an existing one", dir)
	}
	return id, err
}

// Expires returns when the node's certificate expires. From then on other nodes refuse
// it.
func (a *Admin) Expires() time.Time { return a.id.Expires() }

// Self returns the id of the folder's node.
func (a *Admin) Self() uint64 { return a.id.Node }

// Cluster returns the id of the folder's cluster.
func (a *Admin) Cluster() string { return a.id.Cluster }

// NodeAnswer is one node's reply to a request for its status.
type NodeAnswer struct {
	ID     uint64         `json:"id"`
	Addr   string         `json:"addr"`
	Status *ClusterStatus `json:"status,omitempty"`
	Error  string         `json:"error,omitempty"` // why it did not answer
}

// Ask requests the status of all nodes concurrently: those that this folder knows, and
// those that they know. It returns them in ascending order of id.
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

// Remove permanently removes a node from the cluster. Removing it again does nothing.
func (a *Admin) Remove(ctx context.Context, node uint64) error {
	err := a.call(ctx, methodRemove, nodeRef{node}, nil)
	if node == a.id.Node && saysRemoved(err) { // other nodes no longer communicate with it, so there is no response
		return nil
	}
	return err
}

// Promote gives a replica a vote. The node gets it once it has caught up, which may be
// after Promote returns.
func (a *Admin) Promote(ctx context.Context, node uint64) error {
	return a.call(ctx, methodPromote, nodeRef{node}, nil)
}

// Demote makes a node a replica.
func (a *Admin) Demote(ctx context.Context, node uint64) error {
	return a.call(ctx, methodDemote, nodeRef{node}, nil)
}

// PreferSite sets the site where the leader should be; "" means anywhere.
func (a *Admin) PreferSite(ctx context.Context, site string) error {
	return a.call(ctx, methodPrefer, preference{site}, nil)
}

// Transfer transfers the leadership to a node; 0 means the most up-to-date one.
func (a *Admin) Transfer(ctx context.Context, node uint64) error {
	return a.call(ctx, methodTransfer, nodeRef{node}, nil)
}

// call calls a method on any node. It tries the next node only if the one before has
// certainly done nothing.
func (a *Admin) call(ctx context.Context, method string, in, out any) error {
	if len(a.nodes) == 0 {
		return engine.Errorf(engine.CodeNotLeader, "node %d does not know the addresses of the other nodes yet: start it first", a.id.Node)
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

package embedded

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
	"github.com/skerrydb/skerry/peer"
	"github.com/skerrydb/skerry/raft"
)

// Defaults of a cluster's clock. A node campaigns when it has not heard from a leader
// for one to two times ElectionTicks.
const (
	DefaultTick   = 50 * time.Millisecond
	electionTicks = 12
)

// ClusterOptions configures the connections between a node and the rest of its cluster.
type ClusterOptions struct {
	Addr      string       // HOST:PORT to listen on for other nodes; "": the last known one
	Listener  net.Listener // instead of Addr
	Advertise string       // HOST:PORT as other nodes reach it; "": Addr
	Join      []string     // nodes to ask for admission until this one is a member
	Version   string       // of the program
	Tick      time.Duration

	// Site is where this node is, such as a data centre; "": as before. NoSite removes it.
	Site string
	// CatchUpRate is the number of bytes per second with which other nodes bring this one
	// up to date while it is behind. 0: as before; less than 0: without a limit.
	CatchUpRate int64

	// Conns bounds the connections of other nodes, Guests those that have not
	// authenticated yet. 0: peer.MaxConns, peer.MaxGuests.
	Conns, Guests int

	// Lease lets this node, while it is the leader, serve linearizable reads without
	// contacting a majority for each batch of them. It relies on clocks, whose speeds
	// must not differ by more than raft.LeaseDrift percent. The setting must be the
	// same on all nodes.
	Lease bool
}

// NoSite is the ClusterOptions.Site of a node that is no longer at a site.
const NoSite = "-"

// clusterDir is the folder inside the data folder that makes it a node.
const clusterDir = "cluster"

// identity returns the identity of this node, or nil if it is not in a cluster.
func identity(dir string, o Options) (*peer.Identity, error) {
	id, err := peer.Load(journal.Files{FS: o.FS}, filepath.Join(dir, clusterDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if errors.Is(err, peer.ErrNewer) {
		return nil, engine.Errorf(engine.CodeFormatNewer, "%w", err)
	}
	if err != nil {
		return nil, engine.Errorf(engine.CodeInvalid, "%w", err)
	}
	return id, nil
}

// catchUp applies the log to the state of the newest snapshot. In a cluster it leaves
// that until it is known how much of the log is committed.
func (db *DB) catchUp(state *snapshot, progress *progress) (fromLog int, err error) {
	if db.offline && (db.id != nil || state.roster != nil) {
		return 0, nil // the caller applies the log
	}
	if db.id == nil && db.opts.sim == nil {
		if state.roster != nil {
			return 0, engine.Errorf(engine.CodeInvalid, "%s is the data of a node of a cluster, but its folder %q is missing", db.dir, clusterDir)
		}
		return db.replay(state, progress)
	}
	g := &group{db: db, self: 1}
	g.log = newRaftCommitter(g.setRoster)
	if db.id != nil {
		g.self = db.id.Node
		if state.roster != nil && state.roster.Left == db.id.Cluster {
			return 0, engine.Errorf(engine.CodeInvalid, "the recovery of %s was interrupted; run `skerry cluster recover` again", db.dir)
		}
	}
	if g.vote, err = openVote(db.opts.FS, db.dir); err != nil {
		return 0, err
	}
	db.group = g
	if _, err := db.joinLog(state); err != nil {
		return 0, err
	}
	if err := db.joinTerm(state); err != nil {
		return 0, err
	}
	if err := db.voteThere(g.vote); err != nil {
		return 0, errors.Join(err, g.vote.f.Close())
	}
	if state.settled > 0 {
		g.fuzzy = state.index
	}
	if err := db.settle(state); err != nil {
		return 0, errors.Join(err, g.vote.f.Close())
	}
	if state.roster == nil {
		if state.pos != 0 {
			return 0, engine.Errorf(engine.CodeInvalid, "%s is not completely set up as a node of a cluster; run `skerry cluster init` again", db.dir)
		}
		state.roster = &roster{}
	}
	g.store, err = raft.NewStore(newRaftLog(db.log, g.vote), g.vote.last, state.base())
	if err != nil {
		return 0, engine.Errorf(engine.CodeCorrupt, "%w", err)
	}
	db.history.reset(state.pos)
	g.view.Store(&view{roster: state.roster, nodes: state.roster.public()})
	return 0, nil
}

// voteThere returns an error for a log without a vote: a node makes its term durable
// before any entry of it, so the vote existed and is lost.
func (db *DB) voteThere(v *voteFile) error {
	if v.seq != 0 || db.log.Durable() < db.log.First() || failpoint("vote-not-kept") {
		return nil
	}
	return lostVote(db.dir)
}

// joinTerm drops a log that was to be replaced by another node's snapshot, if the power
// failed in between.
func (db *DB) joinTerm(state *snapshot) error {
	if state.index == 0 || db.log.First() > state.index || db.log.Last() < state.index {
		return nil
	}
	for r, err := range db.log.Read(state.index) {
		if err != nil {
			return err
		}
		e, err := parseRecord(r)
		if err != nil || e.Term == state.term {
			return err
		}
		break
	}
	db.opts.Logger.Info("the log is older than the received snapshot; starting a new log", "dir", db.dir)
	return db.log.Reset(state.index + 1)
}

// begin starts as a follower: a leader has to be elected first.
func (g *group) begin() error {
	if g.db.opts.sim != nil {
		g.log.raft = g.db.opts.sim(g.db)
		return nil
	}
	return g.start()
}

// start opens the port to the other nodes and starts raft.
func (g *group) start() error {
	me, _ := g.view.Load().roster.node(g.self)
	nodes, err := g.db.knownNodes()
	if err != nil {
		return err
	}
	o := g.db.opts.Cluster.recall(nodes, g.self, me)
	g.db.opts.Cluster = o
	if o.Site == NoSite {
		o.Site = ""
	}
	if err := CheckSite(o.Site); err != nil {
		return err
	}
	if o.CatchUpRate > 0 && o.CatchUpRate < MinCatchUpRate {
		return engine.Errorf(engine.CodeInvalid, "a catch-up rate of %d bytes per second is too low; at least %d", o.CatchUpRate, MinCatchUpRate)
	}
	if o.Addr == "" && o.Listener == nil {
		return engine.Errorf(engine.CodeInvalid, "node %d: %w", g.self, ErrNoNodeAddr)
	}
	g.started, g.learned = make(chan struct{}), map[uint64]string{}
	g.ctx, g.stop = context.WithCancel(context.Background())
	g.port, err = peer.Listen(g.db.id, peer.Options{
		Addr: o.Addr, Listener: o.Listener, Advertise: o.Advertise, Version: o.Version, Logger: g.db.opts.Logger,
		Hello: func(h *peer.Hello) { h.Last, h.Topology = g.db.log.Durable(), true },
		Check: g.check, Receive: g.message, Written: g.written, Down: g.down, Snapshot: g.snapshot, Handle: g.handle, Explain: explain,
		Conns: o.Conns, Guests: o.Guests,
	})
	if err != nil {
		return engine.Errorf(engine.CodeInvalid, "open the port to other nodes: %w", err)
	}
	g.want.Store(&nodeInfo{
		ID: g.self, Addr: g.port.Addr(), HTTP: me.HTTP, RESP: me.RESP, Folder: g.db.id.Folder,
		Replica: g.db.id.Replica, Site: o.Site, CatchUp: max(0, o.CatchUpRate),
	})
	g.setRoster(g.view.Load().roster)
	tick := cmp.Or(o.Tick, DefaultTick)
	lease := time.Duration(0)
	if o.Lease {
		lease = raft.LeaseOf(electionTicks, tick)
	}
	g.ticker = time.NewTicker(tick)
	node, err := raft.Start(raft.NodeConfig{
		Lease: lease, Short: g.db.log.Short, MayVote: g.mayVote, Rate: g.catchUpRate, Clock: func() time.Duration { return g.db.opts.mono().Sub(g.db.began) },
		Config: raft.Config{
			ID: g.self, ElectionTicks: electionTicks, Start: uint64(time.Now().UnixNano()),
			Applied: g.db.exec.at.index, Leases: o.Lease, Stamps: g, Log: g.store, Logger: g.db.opts.Logger,
		},
		Net: g.port, Machine: g, Tick: g.ticker.C, Lone: slices.Equal(g.view.Load().roster.Members.Voters, []uint64{g.self}),
	})
	if err != nil {
		return engine.Errorf(engine.CodeInternal, "%w", errors.Join(err, g.port.Close()))
	}
	g.node, g.log.raft = node, node
	close(g.started)
	g.running.Go(g.keepAnnounced)
	g.running.Go(g.keepExpiring)
	g.running.Go(g.keepHome)
	return nil
}

// message handles a message from another node.
func (g *group) message(from uint64, msg []byte) {
	<-g.started
	if err := g.node.Receive(from, msg); err != nil {
		g.db.opts.Logger.Warn("malformed message from another node", "node", from, "err", err)
	}
}

func (g *group) written(msg []byte) {
	<-g.started
	g.node.Written(msg)
}

func (g *group) down(id uint64) {
	<-g.started
	g.node.Unreachable(id)
}

// snapshot receives the whole state from another node.
func (g *group) snapshot(ctx context.Context, from uint64, meta []byte, r io.Reader) error {
	<-g.started
	file, err := g.receive(r)
	if err != nil {
		return err
	}
	return g.node.ReceiveSnapshot(from, meta, file)
}

// check refuses nodes that must not participate.
func (g *group) check(h peer.Hello) error {
	r := g.view.Load().roster
	if slices.Contains(r.Removed, h.Node) {
		return engine.Errorf(codeRemoved, "node %d was removed from the cluster and cannot come back under its old id: invite a new node", h.Node)
	}
	if n, ok := r.node(h.Node); ok && n.Folder != "" && n.Folder != h.Folder {
		return engine.Errorf(codeDuplicate, "node %d of the cluster has another data folder: two nodes cannot share an id, and a lost folder needs a new invitation", h.Node)
	}
	if h.Protocol != peer.ProtocolRaft || h.Node == g.self {
		return nil
	}
	<-g.started
	if !h.Topology && r.placed() {
		return errOlder(h.Node)
	}
	g.learn(h.Node, h.Addr)
	return g.tooOld(h.Node, h.Last)
}

// Codes that are only used between nodes.
const (
	codeRemoved   engine.Code = "node_removed"
	codeDuplicate engine.Code = "node_duplicate"
	codeOld       engine.Code = "node_folder_old"
	codeFull      engine.Code = "cluster_full"
	codeOlder     engine.Code = "node_program_old"
)

// explain returns the code and text of an error for another node.
func explain(err error) (code, text string) {
	if e, ok := errors.AsType[*engine.Error](err); ok {
		return string(e.Code), e.Msg
	}
	return string(engine.CodeInternal), err.Error()
}

// close transfers the leadership, if another node can take it, and stops.
func (g *group) close() error {
	if g.node == nil {
		return nil
	}
	g.handOver()
	g.stop()
	g.node.Close()
	g.ticker.Stop()
	err := g.port.Close()
	g.running.Wait()
	g.log.expire(0)
	return errors.Join(err, g.vote.f.Close())
}

// handOver makes another node the leader without waiting for an election timeout.
func (g *group) handOver() {
	if !g.view.Load().serves {
		return
	}
	ctx, cancel := context.WithTimeout(g.ctx, time.Second)
	defer cancel()
	handed := false
	if err := g.node.Do(ctx, func(c *raft.Core) { handed = c.Transfer(0) }); err != nil || !handed {
		return
	}
	for g.view.Load().serves {
		moved := g.moved.next()
		if !g.view.Load().serves {
			break
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return
		}
	}
}

// Cluster implements engine.Clustered.
func (db *DB) Cluster() engine.Cluster {
	if db.group == nil || db.group.port == nil {
		return nil
	}
	return db.group
}

// State implements engine.Cluster.
func (g *group) State() engine.ClusterState {
	v := g.view.Load()
	return engine.ClusterState{ID: g.db.id.Cluster, Self: g.self, Addr: g.want.Load().Addr, Leader: v.leader, Term: v.term, Nodes: v.nodes}
}

// AwaitLeader implements engine.Cluster.
func (g *group) AwaitLeader(ctx context.Context) (engine.Node, error) {
	for {
		moved := g.moved.next()
		if g.db.Err() != nil {
			return engine.Node{}, engine.ErrClosed
		}
		v := g.view.Load()
		if v.leader != 0 && (v.leader != g.self || v.serves) {
			s := engine.ClusterState{Nodes: v.nodes}
			if n, ok := s.Node(v.leader); ok {
				return n, nil
			}
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return engine.Node{}, engine.Errorf(engine.CodeNotLeader, "node %d knows of no leader: there is no majority, or an election is in progress: %w", g.self, ctx.Err())
		case <-g.ctx.Done():
			return engine.Node{}, engine.ErrClosed
		}
	}
}

// Dial implements engine.Cluster.
func (g *group) Dial(ctx context.Context, node uint64, protocol string) (net.Conn, error) {
	c, err := g.port.Dial(ctx, node, protocol)
	if err != nil {
		return nil, engine.Errorf(engine.CodeNotLeader, "connect to node %d: %w", node, err)
	}
	return c, nil
}

// Listen implements engine.Cluster.
func (g *group) Listen(protocol string) net.Listener { return g.port.Protocol(protocol) }

// Advertise publishes the addresses of this node's faces in the cluster. "" means off.
func (db *DB) Advertise(http, resp string) {
	if g := db.group; g != nil && g.port != nil {
		n := *g.want.Load()
		n.HTTP, n.RESP = http, resp
		g.want.Store(&n)
		g.moved.fire()
	}
}

package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
	"github.com/skerrydb/skerry/peer"
	"github.com/skerrydb/skerry/raft"
)

// group connects the executor to raft: it is raft's machine and has the executor's
// committer.
type group struct {
	db    *DB
	self  uint64
	store *raft.Store
	vote  *voteFile
	log   *raftCommitter

	view  atomic.Pointer[view]
	moved signal                    // fires when view moves
	fresh atomic.Pointer[confirmed] // the newest; nil: none since the start

	// Of a real node, not of a simulated one.
	node    *raft.Node
	port    *peer.Port
	ticker  *time.Ticker
	started chan struct{}            // closed when node is set
	want    atomic.Pointer[nodeInfo] // what the others should know about this node
	led     atomic.Int64             // when there last was a leader, by the clock of fresh
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	peersMu sync.Mutex // guards learned, and the order of updates to the port
	learned map[uint64]string

	received atomic.Uint64 // snapshots of other nodes, since the start
	noFiles  atomic.Bool   // raft cannot save for lack of descriptors, not of disk space

	saveMu sync.Mutex // one snapshot, own or received, is put in place at a time; guards fuzzy
	fuzzy  uint64     // log record that the newest snapshot file begins after, if it is a fuzzy one; otherwise 0
}

// view is this node's knowledge of the cluster at one time.
type view struct {
	roster *roster
	nodes  []engine.Node // of the roster, as faces see them
	term   uint64
	leader uint64
	serves bool // this node is the leader and accepts calls
}

// Apply implements raft.Machine.
func (g *group) Apply(entries []raft.Entry) error {
	if err := g.log.applyAll(entries); err != nil {
		return fmt.Errorf("apply the log: %w", err)
	}
	return nil
}

// Lead implements raft.Machine.
func (g *group) Lead(term uint64) {
	g.log.accept(term)
	g.see(func(v *view) { v.term, v.leader, v.serves = term, g.self, true })
	g.db.opts.Logger.Info("this node leads", "node", g.self, "term", term)
}

// Hold implements raft.Machine. Reads continue: this node is still the leader.
func (g *group) Hold() {
	g.log.yield(engine.Errorf(engine.CodeDiskFull, "the disks of a majority of the nodes are full; nothing was written"))
}

// Follow implements raft.Machine.
func (g *group) Follow(term, leader uint64) {
	was := g.view.Load()
	why := engine.Errorf(engine.CodeNotLeader, "node %d does not lead and knows of no leader now; nothing was written", g.self)
	if leader != 0 && leader != g.self {
		why = engine.Errorf(engine.CodeNotLeader, "node %d does not lead, node %d does; nothing was written", g.self, leader)
	}
	g.log.yield(why)
	g.db.exec.flight.settled()
	g.db.exec.wall.stepDown()
	if term == 0 { // the log brings no more outcomes
		g.log.expire(0)
	}
	g.see(func(v *view) { v.term, v.leader, v.serves = term, leader, false })
	if was.leader != leader && term != 0 {
		g.db.opts.Logger.Info("the leader has changed", "node", g.self, "leader", leader, "term", term)
	}
}

// Refused implements raft.Machine.
func (g *group) Refused(p *raft.Proposal, err error) {
	why := engine.Errorf(engine.CodeNotLeader, "node %d no longer leads; nothing was written", g.self)
	switch {
	case errors.Is(err, raft.ErrFull):
		why = engine.Errorf(engine.CodeDiskFull, "the disk of node %d is full; nothing was written", g.self)
		if g.noFiles.Load() {
			why = engine.Errorf(engine.CodeFilesFull, "node %d has too many files open; nothing was written", g.self)
		}
	case errors.Is(err, raft.ErrBusy):
		why = engine.Errorf(engine.CodeQueueFull, "the cluster has accepted more than it can replicate now; nothing was written")
	}
	g.log.notTaken(p, why)
}

// Temporary implements raft.Machine.
func (g *group) Temporary(err error) bool {
	code := engine.CodeOf(err)
	g.noFiles.Store(code == engine.CodeFilesFull)
	return code == engine.CodeDiskFull || code == engine.CodeFilesFull
}

// Fail implements raft.Machine.
func (g *group) Fail(err error) { g.db.fail(err) }

// see changes the view.
func (g *group) see(change func(*view)) {
	v := *g.view.Load()
	change(&v)
	if v.leader != 0 && g.db.counts.leader.Swap(v.leader) != v.leader {
		g.db.counts.leaders.Add(1)
	}
	if v.serves && !g.view.Load().serves {
		g.db.counts.led.Add(1)
	}
	if v.leader != 0 || g.view.Load().leader != 0 {
		g.led.Store(int64(g.db.opts.mono().Sub(g.db.began)))
	}
	g.view.Store(&v)
	g.moved.fire()
}

// setRoster replaces the roster in the view.
func (g *group) setRoster(r *roster) {
	g.see(func(v *view) { v.roster, v.nodes = r, r.public() })
	if g.port == nil {
		return
	}
	g.setPeers()
	g.remember(r)
}

// setPeers sets the port's addresses of the other nodes: those in the roster or, for
// nodes that are not in it yet, those they sent when they connected.
func (g *group) setPeers() {
	g.peersMu.Lock()
	defer g.peersMu.Unlock()
	addrs, r := maps.Clone(g.learned), g.view.Load().roster
	for _, n := range r.Nodes {
		addrs[n.ID] = n.Addr
	}
	for _, id := range r.Removed {
		delete(addrs, id)
	}
	delete(addrs, g.self)
	g.port.SetPeers(addrs)
}

// learn records the address that a node sent.
func (g *group) learn(id uint64, addr string) {
	g.peersMu.Lock()
	known := addr == "" || g.learned[id] == addr
	if !known {
		g.learned[id] = addr
	}
	g.peersMu.Unlock()
	if _, member := g.view.Load().roster.node(id); !known && !member {
		g.setPeers()
	}
}

// sinceLeader returns how long there has been no leader.
func (g *group) sinceLeader() time.Duration {
	if g.view.Load().leader != 0 {
		return 0
	}
	return g.db.opts.mono().Sub(g.db.began) - time.Duration(g.led.Load())
}

// base describes a snapshot to raft.
func (s *snapshot) base() raft.Base {
	return raft.Base{Index: s.index, Term: s.term, Members: s.roster.Members}
}

// OpenSnapshot implements raft.Machine. The receiver would refuse a snapshot that does
// not list it as a member.
func (g *group) OpenSnapshot(to uint64) (raft.Base, io.ReadCloser, error) {
	if !g.store.Base().Members.Has(to) {
		if _, err := g.db.saveSnapshot(); err != nil && err != errOvertaken {
			return raft.Base{}, nil, err
		}
	}
	for {
		base, r, err := g.openNewest()
		if err != errFuzzy {
			return base, r, err
		}
		if _, err := g.db.saveSnapshot(); err != nil && err != errOvertaken {
			return raft.Base{}, nil, err
		}
	}
}

// errFuzzy is returned for a snapshot file that is not complete without this node's log.
var errFuzzy = errors.New("the snapshot is a fuzzy one")

// lockSaves locks saveMu. A snapshot that is being written then hurries.
func (g *group) lockSaves() {
	g.db.saver.hurried.Add(1)
	g.saveMu.Lock()
	g.db.saver.hurried.Add(-1)
}

func (g *group) openNewest() (raft.Base, io.ReadCloser, error) {
	g.lockSaves()
	defer g.saveMu.Unlock()
	fs := g.db.opts.FS
	name, err := newestSnapshot(fs, g.db.dir)
	if err == nil && name == "" {
		err = errors.New("there is no snapshot yet")
	}
	if err != nil {
		return raft.Base{}, nil, err
	}
	r, err := journal.ReadSnapshot(fs, name)
	if err != nil {
		return raft.Base{}, nil, err
	}
	h, err := parseHead(r.Meta)
	switch {
	case err != nil:
	case h.roster == nil:
		err = fmt.Errorf("%s is from a node outside a cluster", name)
	case h.settled > 0:
		return raft.Base{}, nil, cmp.Or(r.Close(), errFuzzy)
	}
	if err == nil && h.refs {
		whole, err := newWholeReader(r, h, g.db.spill.values())
		return raft.Base{Index: h.index, Term: h.term, Members: h.roster.Members}, whole, err
	}
	if err = errors.Join(err, r.Close()); err != nil {
		return raft.Base{}, nil, err
	}
	f, err := fs.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return raft.Base{}, nil, err
	}
	size, err := f.Size()
	if err != nil {
		return raft.Base{}, nil, errors.Join(err, f.Close())
	}
	return raft.Base{Index: h.index, Term: h.term, Members: h.roster.Members}, fileReader{io.NewSectionReader(f, 0, size), f, size}, nil
}

// fileReader reads a file from its beginning.
type fileReader struct {
	io.Reader
	io.Closer
	size int64
}

// Size returns the length of the file.
func (r fileReader) Size() int64 { return r.size }

// receivedPrefix begins the name of a snapshot of another node until it is installed.
// Its last index and a number follow: several can arrive at once, and one can arrive
// while another waits to be installed.
const receivedPrefix = "received-"

func (g *group) receivedName(index uint64) string {
	name := fmt.Sprintf("%s%020d-%d.tmp", receivedPrefix, index, g.received.Add(1))
	return filepath.Join(g.db.dir, snapshotDir, name)
}

// removeReceived removes received snapshots that raft will not install any more,
// because the state is newer.
func (g *group) removeReceived() error {
	g.db.exec.mu.Lock()
	at := g.db.exec.at.index
	g.db.exec.mu.Unlock()
	dir := filepath.Join(g.db.dir, snapshotDir)
	names, err := g.db.opts.FS.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, receivedPrefix) && name < fmt.Sprintf("%s%020d", receivedPrefix, at+1) {
			if err := g.db.opts.FS.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			if err := g.db.spill.forget(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// receive writes a snapshot from another node to disk and checks it. The result is for
// Install.
func (g *group) receive(r io.Reader) ([]byte, error) {
	if err := g.removeReceived(); err != nil {
		return nil, fileError("remove old snapshots of other nodes", err)
	}
	sr, err := journal.NewSnapshotReader(r)
	if err != nil {
		return nil, fileError("read a snapshot of another node", err)
	}
	h, err := parseHead(sr.Meta)
	if err != nil {
		return nil, fileError("read a snapshot of another node", err)
	}
	if h.roster == nil {
		return nil, engine.Errorf(engine.CodeCorrupt, "the snapshot of another node has no list of members")
	}
	if h.refs || h.settled > 0 {
		return nil, errNotWholeThere
	}
	name := g.receivedName(h.index)
	if g.db.spill.limit > 0 {
		if err := g.db.spill.receive(sr, h, name); err != nil {
			return nil, fileError("receive a snapshot of another node", err)
		}
		return []byte(name), nil
	}
	err = journal.WriteSnapshot(g.db.opts.FS, name, sr.Meta, func(w io.Writer) error {
		_, err := io.Copy(w, sr)
		return errors.Join(err, sr.Close())
	})
	if err != nil {
		return nil, fileError("receive a snapshot of another node", err)
	}
	return []byte(name), nil
}

// Install implements raft.Machine. After a temporary error it is called again.
func (g *group) Install(b raft.Base, file []byte) error {
	g.lockSaves()
	defer g.saveMu.Unlock()
	db := g.db
	dir, err := db.opts.FS.OpenDir(filepath.Join(db.dir, snapshotDir)) // before the file has its name
	if err != nil {
		return fileError("install a received snapshot", err)
	}
	defer dir.Close() // nothing is written through it
	s, err := readSnapshotFile(db.opts.FS, string(file), nil)
	if err != nil {
		return fileError("read a received snapshot", err)
	}
	if s.index != b.Index || s.roster == nil {
		return engine.Errorf(engine.CodeCorrupt, "a received snapshot ends at log record %d, not at %d as its sender said", s.index, b.Index)
	}
	s.vals = db.spill.values()
	name := snapshotName(db.dir, s.index)
	if err := db.opts.FS.Rename(string(file), name); err != nil {
		return diskError(err)
	}
	if !failpoint("install-not-synced") {
		if err := dir.Sync(); err != nil {
			return diskError(err)
		}
	}
	g.fuzzy = 0
	db.history.reset(s.pos)
	db.durable.Store(uint64(s.pos))
	db.counts.snapshotPos.Store(uint64(s.pos))
	db.saver.plan.holds(s.contents())
	keys := s.tree.Len()
	g.log.install(s)
	db.show(s.emptied())
	db.spill.installed(string(file))
	g.setRoster(s.roster)
	db.opts.Logger.Info("this node was brought up to date by a snapshot", "position", s.pos, "keys", keys)
	if err := db.removeSnapshotsBefore(s.index); err != nil && !journal.NoFiles(err) {
		return err
	}
	return nil // files that could not be listed now are removed after the next snapshot
}

// errNoLeader returns the error of a read that could not be confirmed in time.
func (g *group) errNoLeader(err error) error {
	return engine.Errorf(engine.CodeNotLeader, "node %d could not find out from a majority whether its data is the newest: %w", g.self, err)
}

// read waits until the state has everything that was committed when it was called. The
// stamp is the leader's time then, or 0.
func (g *group) read(ctx context.Context) (stamp int64, err error) {
	began := g.db.opts.mono()
	ctx, cancel := context.WithTimeout(ctx, g.db.opts.PositionWait)
	defer cancel()
	at, err := g.log.raft.ReadIndex(ctx)
	if err != nil {
		if g.db.closed.Load() || g.db.Err() != nil {
			return 0, engine.ErrClosed
		}
		return 0, g.errNoLeader(err)
	}
	g.confirmedAt(began)
	return int64(at), nil
}

// Bound implements raft.Stamps.
func (g *group) Bound() uint64 {
	x := g.db.exec
	x.wall.lead() // raft may know it before the executor does
	if failpoint("flight-unseen") {
		return uint64(x.wall.micros())
	}
	return uint64(x.flight.bound(&x.wall))
}

// Known implements raft.Stamps.
func (g *group) Known() uint64 {
	if c := &g.db.exec.wall; c.known.Load() {
		return uint64(c.estimate())
	}
	return 0
}

// Heard implements raft.Stamps.
func (g *group) Heard(stamp uint64, stands bool) {
	switch c, t := &g.db.exec.wall, int64(stamp); {
	case failpoint("time-unheard"):
	case !stands || t != 0 && !c.known.Load():
		c.follow(t)
	default:
		c.raise(t)
	}
}

// confirmed is a fact confirmed by a majority: the state at pos has everything that was
// committed at a time.
type confirmed struct {
	at  time.Time
	pos engine.Position
}

// confirmedAt records that the durable state has everything that was committed at t.
func (g *group) confirmedAt(t time.Time) {
	now := &confirmed{t, engine.Position(g.db.durable.Load())}
	for {
		last := g.fresh.Load()
		if last != nil && !last.at.Before(t) || g.fresh.CompareAndSwap(last, now) {
			return
		}
	}
}

// freshSince reports whether the durable state is known to have everything that was
// committed at t, and the position that a state needs for that.
func (g *group) freshSince(t time.Time) (engine.Position, bool) {
	c := g.fresh.Load()
	if c == nil || c.at.Before(t) {
		return 0, false
	}
	if failpoint("confirmed-position") {
		return 0, true
	}
	return c.pos, true
}

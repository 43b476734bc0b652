package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
	"github.com/skerrydb/skerry/peer"
	"github.com/skerrydb/skerry/raft"
)

// InitCluster makes a data folder, new or with data, the first node of a new cluster.
// Other nodes reach it at addr. The folder must not be in use. An interrupted
// InitCluster can be repeated.
func InitCluster(ctx context.Context, dir, addr string, o Options) (id *peer.Identity, sum Summary, err error) {
	err = offline(dir, o, func(db *DB) error {
		state := db.snap.Load()
		switch r := state.roster; {
		case r != nil && db.id != nil:
			return engine.Errorf(engine.CodeInvalid, "%s is already node %d of a cluster", dir, db.id.Node)
		case r != nil && !slices.Equal(r.Members.Voters, []uint64{1}):
			return engine.Errorf(engine.CodeInvalid, "%s is the data of a node of a cluster whose folder %q is missing; put that back, or restore a backup into a new folder", dir, clusterDir)
		case r == nil:
			if err := db.become(state, 1, addr, ""); err != nil {
				return err
			}
		}
		if id = db.id; id == nil {
			if id, err = peer.Init(journal.Files{FS: db.opts.FS}, filepath.Join(dir, clusterDir)); err != nil {
				return err
			}
		}
		(&group{db: db}).remember(db.snap.Load().roster)
		sum = db.snap.Load().summary()
		return nil
	})
	return id, sum, err
}

// RecoverCluster makes the data folder of a node whose cluster has lost its majority
// the first node of a new cluster. The new cluster has all data of this node, including
// writes that may never have been acknowledged, but lacks data that never reached it.
// The other nodes do not belong to it. RecoverCluster is a last resort. addr is where
// other nodes will reach this one; "" means its previous address.
func RecoverCluster(ctx context.Context, dir, addr string, o Options) (id *peer.Identity, sum Summary, err error) {
	err = offline(dir, o, func(db *DB) error {
		state, fsys := db.snap.Load(), db.opts.FS
		if db.id == nil {
			return engine.Errorf(engine.CodeInvalid, "%s is not a node of a cluster", dir)
		}
		if addr == "" {
			nodes, err := db.knownNodes()
			me, _ := state.roster.node(db.id.Node)
			if addr = (ClusterOptions{}).recall(nodes, db.id.Node, me).Addr; err == nil && addr == "" {
				err = engine.Errorf(engine.CodeInvalid, "the address of node %d is unknown: set it with --node", db.id.Node)
			}
			if err != nil {
				return err
			}
		}
		term, err := db.applyLog(state)
		if err == nil {
			err = db.become(state, term+1, addr, db.id.Cluster)
		}
		if err != nil {
			return err
		}
		old := filepath.Join(dir, clusterDir)
		err = fsys.Rename(old, old+".before-"+time.Now().UTC().Format("20060102T150405Z"))
		if err = errors.Join(err, fsys.SyncDir(dir)); err != nil {
			return fmt.Errorf("set the old credentials aside: %w", err)
		}
		if id, err = peer.Init(journal.Files{FS: fsys}, old); err == nil {
			(&group{db: db}).remember(db.snap.Load().roster)
		}
		sum = state.summary()
		return err
	})
	return id, sum, err
}

// Invite returns an invitation for the next node. It must be kept secret. Only the
// folder where the cluster was created can invite; it may be in use.
func Invite(dir string) ([]byte, error) { return invite(dir, (*peer.Identity).Invite) }

// InviteReplica is Invite for a node that never gets a vote by itself.
func InviteReplica(dir string) ([]byte, error) { return invite(dir, (*peer.Identity).InviteReplica) }

func invite(dir string, issue func(*peer.Identity, ...uint64) ([]byte, error)) ([]byte, error) {
	id, err := loadNode(dir)
	if err != nil {
		return nil, err
	}
	nodes, err := readNodes(journal.OS(), dir)
	if err != nil {
		return nil, err // an id could be issued twice
	}
	var used []uint64
	for _, n := range nodes {
		used = append(used, n.ID)
	}
	text, err := issue(id, used...)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errCannotInvite(id)
	}
	return text, err
}

// Accept makes a data folder, new or empty, the node that an invitation is for, and
// returns the node's id. If the folder already is that node, Accept changes nothing.
func Accept(dir string, invitation []byte, o Options) (node uint64, err error) {
	if o, err = o.withDefaults(); err != nil {
		return 0, err
	}
	within, files := filepath.Join(dir, clusterDir), journal.Files{FS: o.FS}
	if _, err := peer.Load(files, within); err == nil {
		return accepted(peer.Accept(files, within, invitation))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return 0, engine.Errorf(engine.CodeInvalid, "%w", err)
	}
	err = offline(dir, o, func(db *DB) error {
		if s := db.snap.Load(); s.pos != 0 || s.roster != nil || db.log.Last() != 0 {
			return engine.Errorf(engine.CodeInvalid, "%s already has data, which would be lost: a node must join a cluster with a new folder", dir)
		}
		node, err = accepted(peer.Accept(files, within, invitation))
		return err
	})
	return node, err
}

func accepted(id *peer.Identity, err error) (uint64, error) {
	if err != nil {
		return 0, engine.Errorf(engine.CodeInvalid, "%w", err)
	}
	return id.Node, nil
}

// MayJoin asks a cluster, whose nodes are at the addresses in join, whether it would
// admit the node of a folder, which the others will reach at addr. If so, it saves all
// these addresses in the folder for the first start.
func MayJoin(ctx context.Context, dir, addr string, join []string, version string) error {
	id, err := loadNode(dir)
	if err != nil {
		return err
	}
	client, own := peer.NewClient(id, version), nodeInfo{ID: id.Node, Addr: addr, Folder: id.Folder, Replica: id.Replica}
	var errs []error
	for _, at := range join {
		var s ClusterStatus
		err := remote(client.Call(ctx, at, 0, methodMayJoin, joining{nodeInfo: own, Last: math.MaxUint64, Topology: true}, nil))
		if err == nil {
			err = remote(client.Call(ctx, at, 0, methodStatus, nil, &s))
		}
		if err == nil {
			nodes := []nodeInfo{own}
			for _, n := range s.Nodes {
				if n.ID != own.ID {
					nodes = append(nodes, nodeInfo{ID: n.ID, Addr: n.Addr, HTTP: n.HTTP, RESP: n.RESP})
				}
			}
			return writeNodes(journal.OS(), dir, nodes)
		}
		if permanent(err, false) {
			return err
		}
		errs = append(errs, err)
	}
	return engine.Errorf(engine.CodeNotLeader, "no node of the cluster could say whether it would admit this one: %w", errors.Join(errs...))
}

// offline opens a folder of either kind without starting anything, calls fn and closes
// the folder.
func offline(dir string, o Options, fn func(db *DB) error) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	if err := makeFolders(o.FS, dir); err != nil {
		return err
	}
	unlock, err := journal.LockDir(o.FS, dir)
	if err != nil {
		return lockError(err)
	}
	db := &DB{opts: o, dir: dir, began: o.mono(), unlock: unlock, history: newHistory(o.HistoryBytes), offline: true}
	if db.id, err = identity(dir, o); err == nil {
		err = db.recover()
	}
	if err == nil {
		err = fn(db)
	}
	if db.log != nil {
		err = errors.Join(err, db.log.Close())
	}
	return errors.Join(err, db.closeValues(), db.unlock())
}

// applyLog applies all entries of a node's log to state, and returns the newest
// term there.
func (db *DB) applyLog(state *snapshot) (term uint64, err error) {
	term = state.term
	v, err := openVote(db.opts.FS, db.dir)
	if err != nil {
		return 0, err
	}
	term = max(term, v.last.Term)
	if err := v.f.Close(); err != nil {
		return 0, err
	}
	if err := db.joins(state); err != nil {
		return 0, err
	}
	if err := state.follow(db.log, db.log.Last()); err != nil {
		return 0, fileError("read the log", err)
	}
	return max(term, state.term), nil
}

// become saves state as that of the only node of a cluster. left is the cluster that
// the folder was in; the folder cannot be opened as long as it has credentials of that
// cluster.
func (db *DB) become(state *snapshot, term uint64, addr, left string) error {
	s := *state
	s.index = max(state.index, db.log.Last()) + 1
	s.term = term
	s.roster = &roster{Members: raft.Members{Voters: []uint64{1}}, Nodes: []nodeInfo{{ID: 1, Addr: addr}}, Left: left}
	if _, _, err := s.save(db.opts.FS, snapshotName(db.dir, s.index), unpaced); err != nil {
		return fileError("write the state of the new cluster", err)
	}
	v, err := openVote(db.opts.FS, db.dir)
	if err != nil {
		return err
	}
	if err := errors.Join(v.set(raft.Vote{Term: term}), v.f.Close()); err != nil {
		return err
	}
	if err := db.log.Reset(s.index + 1); err != nil {
		return diskError(err)
	}
	db.snap.Store(&s)
	return db.removeSnapshotsBefore(s.index)
}

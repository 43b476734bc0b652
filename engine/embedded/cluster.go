package embedded

import (
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/raft"
)

// ClusterOptions say how a node of a cluster is reached.
type ClusterOptions struct{}

// catchUp brings the state of the newest snapshot up to what the log has. In a
// cluster that waits until it is known what of the log is committed.
func (db *DB) catchUp(state *snapshot) (fromLog int, err error) {
	if db.opts.sim == nil {
		return db.replay(state)
	}
	g := &group{db: db}
	if g.vote, err = openVote(db.opts.FS, db.dir); err != nil {
		return 0, err
	}
	db.group = g
	if _, err := db.joinLog(state); err != nil {
		return 0, err
	}
	if state.roster == nil {
		state.roster = &roster{}
	}
	if err := db.joinTerm(state); err != nil {
		return 0, err
	}
	g.store, err = raft.NewStore(newRaftLog(db.log, g.vote), g.vote.last, state.base())
	if err != nil {
		return 0, engine.Errorf(engine.CodeCorrupt, "%w", err)
	}
	db.history.reset(state.pos)
	g.view.Store(&view{roster: state.roster})
	return 0, nil
}

// joinTerm drops a log that a snapshot of another node was to replace, when the
// power failed between the two.
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
	db.opts.Logger.Info("the log is older than the snapshot that was received; it begins anew", "dir", db.dir)
	return db.log.Reset(state.index + 1)
}

// committer is what makes batches durable.
func (db *DB) committer() committer {
	if db.group != nil {
		return db.group
	}
	return alone{db.log}
}

// begin starts following: somebody has to be elected first.
func (g *group) begin() {
	g.db.exec.told = g.told
	g.db.exec.refuse = engine.Errorf(engine.CodeNotLeader, "this node has just started and knows of no leader yet; nothing was written")
	g.raft = g.db.opts.sim(g.db)
}

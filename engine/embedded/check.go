package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
	"github.com/skerrydb/skerry/raft"
	"github.com/skerrydb/skerry/spill"
)

// Report is the result of Check.
type Report struct {
	Summary            // of the state that a start would recover
	Snapshots int      `json:"snapshots"`
	Records   int      `json:"log_records"`
	Spilled   int      `json:"spilled_values,omitempty"` // in value files, as the newest snapshot has them
	LogBytes  int64    `json:"log_bytes"`
	TornBytes int64    `json:"torn_bytes"` // an unfinished write at the end of the log, not damage; the next start cuts it
	Problems  []string `json:"problems"`

	// Of a node of a cluster.
	Node    uint64 `json:"node,omitempty"`
	Cluster string `json:"cluster,omitempty"`
	Term    uint64 `json:"term,omitempty"`    // newest in the log, the snapshot and the vote
	Unsure  int    `json:"unsure,omitempty"`  // log records at the end that this node does not know to be committed; included in Summary
	Refused int    `json:"refused,omitempty"` // batches of deposed leaders, which no node applies: not damage
}

// OK reports whether nothing is damaged.
func (r *Report) OK() bool { return len(r.Problems) == 0 }

// Check reads every byte of a data folder that no process has open, and changes
// nothing. It checks checksums, the chain of batches from the snapshot to the log's
// end, the order of keys, and the invariants of the state that a start would recover.
// Report.Problems lists damage, each with its file. Check returns an error if the
// folder is in use or cannot be read at all. progress, if not nil, is called before
// each file is read.
func Check(dir string, o Options, progress func(file string)) (Report, error) {
	rep := Report{Problems: []string{}}
	o, err := o.withDefaults()
	if err != nil {
		return rep, err
	}
	for _, sub := range []string{logDir, snapshotDir} {
		switch _, err := o.FS.List(filepath.Join(dir, sub)); {
		case errors.Is(err, fs.ErrNotExist):
			return rep, engine.Errorf(engine.CodeNotFound, "%s is not a data folder: %w", dir, err)
		case err != nil:
			return rep, fileError("read data folder", err)
		}
	}
	unlock, err := journal.LockDir(o.FS, dir)
	if err != nil {
		return rep, lockError(err)
	}
	c := &checker{fs: o.FS, dir: dir, rep: &rep, progress: progress}
	c.node(o)
	return rep, errors.Join(c.run(), unlock())
}

type checker struct {
	fs       journal.FS
	dir      string
	rep      *Report
	progress func(string)
	state    *snapshot
	broken   bool // the state can no longer be followed

	voted  bool // there is a vote
	member bool // of a cluster: records have format 2
	last   uint64
	commit uint64 // newest index that a record says is committed
	stale  bool   // the log is older than the snapshot: a start replaces it
}

// node reads the identity of the folder's node, and its vote.
func (c *checker) node(o Options) {
	id, err := identity(c.dir, o)
	if err != nil {
		c.problem("%s: %v; put the folder %[1]s back from a copy, or remove the node and let a new one join", filepath.Join(c.dir, clusterDir), err)
		c.member = true // its records are still those of a node
		return
	}
	if c.member = id != nil; !c.member {
		return
	}
	c.rep.Node, c.rep.Cluster = id.Node, id.Cluster
	if err := id.CheckCA(); err != nil {
		c.problem("%v; without it no more nodes can be invited: put it back from a copy", err)
	}
	if _, err := readNodes(c.fs, c.dir); err != nil {
		c.problem("%v", err)
	}
	v, err := readVote(c.fs, c.dir)
	if err != nil {
		c.problem("%v", err)
		return
	}
	c.voted, c.rep.Term = v.Term > 0, v.Term
}

func (c *checker) run() error {
	if err := c.snapshots(); err != nil {
		return err
	}
	c.values()
	rep, err := journal.VerifyRecords(c.fs, filepath.Join(c.dir, logDir), c.verifying(), c.record)
	if err != nil {
		return fileError("check log", err)
	}
	c.rep.Records, c.rep.LogBytes = rep.Records, rep.Bytes
	for _, t := range rep.Torn {
		c.rep.TornBytes += t.Bytes
	}
	for _, p := range rep.Problems {
		c.problem("%s, offset %d: %s", p.File, p.Offset, p.Why)
	}
	if c.state.index < c.state.settled && !c.broken {
		c.problem("the log ends at record %d, but the newest snapshot needs it up to record %d", c.state.index, c.state.settled)
	}
	if err := c.state.tree.Check(); err != nil {
		c.problem("the recovered state: %v", err)
	}
	c.rep.Summary = c.state.summary()
	if c.member && c.rep.Node > 0 && !c.voted && len(c.rep.Problems) == 0 && rep.Records > 0 {
		c.problem("%v", lostVote(c.dir))
	}
	c.rep.Term = max(c.rep.Term, c.state.term)
	if end := max(c.commit, c.state.index); c.member && c.last > end {
		c.rep.Unsure = int(c.last - end)
	}
	return nil
}

func (c *checker) problem(format string, args ...any) {
	c.rep.Problems = append(c.rep.Problems, fmt.Sprintf(format, args...))
}

// verifying adapts progress to the journal.
func (c *checker) verifying() func(journal.Progress) {
	if c.progress == nil {
		return nil
	}
	last := ""
	return func(p journal.Progress) {
		if p.File != last {
			last = p.File
			c.progress(p.File)
		}
	}
}

// snapshots reads all of them and leaves the newest as the state.
func (c *checker) snapshots() error {
	c.state = &snapshot{tree: btree.NewPairs()}
	names, err := snapshots(c.fs, c.dir)
	if err != nil {
		return fileError("list snapshots", err)
	}
	for _, name := range names {
		if c.progress != nil {
			c.progress(name)
		}
		c.rep.Snapshots++
		s, err := readSnapshotFile(c.fs, name, nil)
		if c.broken = err != nil; c.broken {
			c.problem("%s: %v", name, err)
			continue
		}
		c.state = s
	}
	return nil
}

// values reads every value that the newest snapshot refers to.
func (c *checker) values() {
	if len(c.state.uses) == 0 {
		return
	}
	store, err := spill.Open(c.fs, filepath.Join(c.dir, valueDir), 0)
	if err == nil {
		err = store.Attach(c.state.uses)
	}
	if err != nil {
		c.problem("%v", err)
		return
	}
	defer store.Close() // nothing was written
	c.state.vals = &values{set: store.Set()}
	file := uint32(0)
	for key, val := range c.state.tree.Ascend(nil, nil) {
		if !val.Marked {
			continue
		}
		if r, err := spill.ParseRef(val.Bytes); err == nil && r.File != file && c.progress != nil {
			file = r.File
			c.progress(filepath.Join(c.dir, valueDir, fmt.Sprint(file)))
		}
		c.rep.Spilled++
		if _, err := c.state.vals.content(key, val); err != nil {
			c.problem("%v", err)
		}
	}
}

// record follows the log: a batch that is not in the snapshot must be built on the
// position before it.
func (c *checker) record(rec journal.Record) error {
	e, err := parseRecord(rec)
	if err == nil && !c.member && len(rec.Data) > 0 && rec.Data[0] != batchFormat {
		err = errors.New("it is from a node of a cluster, but the folder is not")
	}
	if err != nil {
		c.broken = true
		return fmt.Errorf("record %d: %w", rec.Index, err)
	}
	if c.member {
		if rec.Index == c.state.index && e.Term != c.state.term {
			c.stale = true // a received snapshot replaces it
		}
		c.commit, c.rep.Term = max(c.commit, e.Commit), max(c.rep.Term, e.Term)
	}
	c.last = rec.Index
	if c.follows(rec.Index) && c.member && rec.Index != c.state.index+1 {
		c.broken = true
		return fmt.Errorf("record %d follows, but the records before it end with record %d", rec.Index, c.state.index)
	}
	if e.Kind == raft.Change || len(e.Data) == 0 || isNote(e.Data) {
		return c.skip(e)
	}
	return c.batch(rec.Index, e)
}

// follows reports whether a record leads from the state to the next one.
func (c *checker) follows(index uint64) bool { return index > c.state.index && !c.broken && !c.stale }

// skip follows an entry that changes no data.
func (c *checker) skip(e raft.Entry) error {
	if c.follows(e.Index) {
		c.state.index, c.state.term = e.Index, e.Term
	}
	if e.Kind == raft.Data && isNote(e.Data) {
		if _, err := (&roster{}).noted(e.Data); err != nil {
			return fmt.Errorf("record %d: %w", e.Index, err)
		}
	}
	return nil
}

// batch follows one that changes data.
func (c *checker) batch(index uint64, e raft.Entry) error {
	base, err := batchBase(e.Data)
	if err != nil {
		return fmt.Errorf("record %d: %w", index, err)
	}
	follows := c.follows(index)
	refused := follows && c.member && base != c.state.pos
	if refused {
		c.rep.Refused++
	} else if follows && (base != c.state.pos || index != c.state.index+1) {
		c.broken = true
		return fmt.Errorf("record %d is built on position %d, but the records before it end with record %d at position %d",
			index, base, c.state.index, c.state.pos)
	}
	for change, err := range changes(e.Data) {
		if err != nil {
			c.broken = true
			return fmt.Errorf("record %d: %w", index, err)
		}
		if follows && !refused {
			c.state.apply(change)
		}
	}
	if follows {
		c.state.index, c.state.term = index, e.Term
	}
	return nil
}

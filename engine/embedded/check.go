package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
)

// Report is what Check found.
type Report struct {
	Summary            // of the state that a start would recover
	Snapshots int      `json:"snapshots"`
	Records   int      `json:"log_records"`
	LogBytes  int64    `json:"log_bytes"`
	TornBytes int64    `json:"torn_bytes"` // an unfinished write at the end of the log: not damage, the next start cuts it
	Problems  []string `json:"problems"`
}

// OK reports whether nothing is damaged.
func (r *Report) OK() bool { return len(r.Problems) == 0 }

// Check reads every byte of a data folder that no process has open, and changes
// nothing: checksums, the chain of batches from the snapshot to the log's end,
// the order of keys, the invariants of the state that a start would recover.
// What is damaged is in Report.Problems, each with its file; the error is for a
// folder that cannot be read at all or is in use. progress, if not nil, is told
// each file before it is read.
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
	return rep, errors.Join(c.run(), unlock())
}

type checker struct {
	fs       journal.FS
	dir      string
	rep      *Report
	progress func(string)
	state    *snapshot
	broken   bool // the state can no longer be followed
}

func (c *checker) run() error {
	if err := c.snapshots(); err != nil {
		return err
	}
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
	if err := c.state.tree.Check(); err != nil {
		c.problem("the recovered state: %v", err)
	}
	c.rep.Summary = c.state.summary()
	return nil
}

func (c *checker) problem(format string, args ...any) {
	c.rep.Problems = append(c.rep.Problems, fmt.Sprintf(format, args...))
}

// verifying returns journal's form of progress.
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
	c.state = &snapshot{tree: btree.NewBytes[string]()}
	names, err := snapshots(c.fs, c.dir)
	if err != nil {
		return fileError("list snapshots", err)
	}
	for _, name := range names {
		if c.progress != nil {
			c.progress(name)
		}
		c.rep.Snapshots++
		s, err := readSnapshotFile(c.fs, name)
		if c.broken = err != nil; c.broken {
			c.problem("%s: %v", name, err)
			continue
		}
		c.state = s
	}
	return nil
}

// record follows the log: a batch that the snapshot does not hold must be built
// on the position before it.
func (c *checker) record(rec journal.Record) error {
	base, err := batchBase(rec.Data)
	if err != nil {
		return fmt.Errorf("record %d: %w", rec.Index, err)
	}
	follows := rec.Index > c.state.index && !c.broken
	if follows && (base != c.state.pos || rec.Index != c.state.index+1) {
		c.broken = true
		return fmt.Errorf("record %d is built on position %d, but the records before it end with record %d at position %d",
			rec.Index, base, c.state.index, c.state.pos)
	}
	for change, err := range changes(rec.Data) {
		if err != nil {
			c.broken = true
			return fmt.Errorf("record %d: %w", rec.Index, err)
		}
		if follows {
			c.state.apply(change)
		}
	}
	if follows {
		c.state.index = rec.Index
	}
	return nil
}

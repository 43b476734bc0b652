package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
)

// Backup writes the newest committed state to w while the engine keeps running, and
// returns its position. The format is that of a snapshot file, with checksums.
// VerifyBackup and Restore read it.
func (db *DB) Backup(ctx context.Context, w io.Writer) (engine.Position, error) {
	snap, err := db.snapshotAt(ctx, 0)
	if err != nil {
		return 0, err
	}
	h := &holder{kind: holdBackup, snap: snap}
	db.begin(h)
	defer db.holds.remove(h)
	return snap.pos, snap.backup(ctx, w, h)
}

// BackupFolder is Backup of a data folder that no process has open. It starts nothing.
// The backup of a cluster node has all data of the node, including the end of its log
// that may not have been acknowledged.
func BackupFolder(ctx context.Context, dir string, w io.Writer, o Options) (pos engine.Position, err error) {
	err = offline(dir, o, func(db *DB) error {
		state := db.snap.Load()
		if db.id != nil {
			if _, err := db.applyLog(state); err != nil {
				return err
			}
		}
		pos = state.pos
		return state.backup(ctx, w, nil)
	})
	return pos, err
}

// backup writes the state without its membership in a cluster: a backup is only data.
// h may be nil.
func (s *snapshot) backup(ctx context.Context, w io.Writer, h *holder) error {
	sw, err := journal.NewSnapshotWriter(w, s.alone().head())
	if err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	if err := s.writePairs(&ctxWriter{ctx, sw, h}); err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	if err := sw.Close(); err != nil {
		return fmt.Errorf("write backup: %w", err)
	}
	return nil
}

// alone returns the state as that of a node without a cluster.
func (s *snapshot) alone() *snapshot {
	return &snapshot{tree: s.tree, pos: s.pos, time: s.time, bytes: s.bytes, vals: s.vals, applied: applied{index: s.index}}
}

// ctxWriter stops writing when ctx ends or the hold is over.
type ctxWriter struct {
	ctx  context.Context
	w    io.Writer
	hold *holder // nil: none
}

func (c *ctxWriter) Write(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	if err := c.hold.over(); err != nil {
		return 0, err
	}
	return c.w.Write(p)
}

// Summary describes the contents of a backup or a data folder.
type Summary struct {
	Position engine.Position `json:"position"`
	Time     time.Time       `json:"time"` // of the last transaction
	Keys     int             `json:"keys"`
	Bytes    int64           `json:"bytes"` // of keys and values
}

func (s *snapshot) summary() Summary {
	return Summary{Position: s.pos, Time: time.UnixMicro(s.time).UTC(), Keys: s.tree.Len(), Bytes: s.bytes}
}

// VerifyBackup reads a whole backup, with little memory, and describes its contents. If
// it is damaged or truncated, the error is engine.ErrCorrupt.
func VerifyBackup(r io.Reader) (Summary, error) {
	sum, err := scanBackup(r)
	if err != nil {
		return Summary{}, fileError("read backup", err)
	}
	return sum, nil
}

// scanBackup returns an error for every backup that readBackup would refuse.
func scanBackup(r io.Reader) (sum Summary, err error) {
	sr, err := journal.NewSnapshotReader(r)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, sr.Close()) }()
	h, err := parseHead(sr.Meta)
	if err != nil {
		return sum, err
	}
	sum.Position, sum.Time = h.pos, time.UnixMicro(h.time).UTC()
	var last []byte
	if h.refs || h.settled > 0 {
		return sum, errNotWhole
	}
	for p, err := range readPairs(sr, h) {
		if err != nil {
			return sum, err
		}
		if bytes.Compare(last, p.key) >= 0 {
			return sum, fmt.Errorf("%w: pair %d is not after the one before", errSnapshot, sum.Keys)
		}
		last = append(last[:0], p.key...)
		sum.Keys++
		sum.Bytes += int64(len(p.key) + len(p.val.Bytes))
	}
	return sum, nil
}

// errNotWhole is returned for a snapshot file that is complete only with the value files
// or the log of its data folder.
var errNotWhole = engine.Errorf(engine.CodeInvalid, "this is the snapshot file of a data folder, which is not complete without other files there; make a backup of the folder")

// readBackup builds the state of a backup. v may be nil.
func readBackup(r io.Reader, v *restoredValues) (*snapshot, error) {
	sr, err := journal.NewSnapshotReader(r)
	if err != nil {
		return nil, err
	}
	s, err := loadSnapshot(sr.Meta, sr, v, nil)
	if err = errors.Join(err, sr.Close()); err != nil {
		return nil, err
	}
	if v == nil && len(s.uses) > 0 || s.settled > 0 {
		return nil, errNotWhole
	}
	return s.alone(), nil // if it is a snapshot file of a node
}

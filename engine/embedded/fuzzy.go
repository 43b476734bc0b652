package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
	"github.com/skerrydb/skerry/raft"
)

// A fuzzy snapshot is written in pieces from the runner's tree, between transactions, and
// each piece is of a later state than the one before. Nothing is cloned for it: after a
// clone the first write to each leaf copies the leaf, and the old one stays in memory
// until the snapshot is written, which would double the memory of a large store.
//
// The file names the log record after which the log must be applied to its content, and
// the settled one, up to which at least. Then the state is right, whatever each piece
// already has: records have whole values, and the last one of a key wins.
//
// A piece may have effects of batches that are not durable yet. So a snapshot is complete
// only once they are, and it is given up if one of them is lost.
type fuzzy struct {
	db     *DB
	from   snapshot // what the log is applied to, without a tree
	resets uint64   // of the executor when the first piece was taken
	buf    []byte   // the newest piece
	next   []byte   // the first key that is in no piece yet
	pairs  uint64
	built  engine.Position // of the state that the newest piece is of
	ended  bool            // there are no more pieces
}

const (
	pieceBytes = 1 << 20 // of a piece, after which transactions run

	// settlePoll is how often a snapshot whose pieces are written looks whether their
	// effects are durable, and settleWait how long: without a majority they never are.
	settlePoll = 5 * time.Millisecond
	settleWait = 10 * time.Second
)

// errUnsettled is returned for a fuzzy snapshot that was given up.
var errUnsettled = errors.New("some of what the snapshot has was lost, or is not durable yet")

// isFuzzy reports whether snapshots in the background are fuzzy. Those of a folder with
// values in files are not: files that a piece refers to could be removed before the end.
func (db *DB) isFuzzy() bool { return db.spill.limit == 0 && db.spill.store.Set().Len() == 0 }

func (db *DB) beginFuzzy() *fuzzy {
	x := db.exec
	x.mu.Lock()
	defer x.mu.Unlock()
	return &fuzzy{db: db, resets: x.resets, from: snapshot{pos: x.atPos, time: x.atTime, applied: x.at}}
}

// piece takes the next pairs, encoded. They are valid until the next call.
func (f *fuzzy) piece() []byte {
	f.buf = f.buf[:0]
	f.db.exec.withTree(func(x *speculation) {
		f.built, f.ended = x.open.last, true
		for key, val := range x.tree.Ascend(f.next, nil) {
			if len(f.buf) >= f.db.opts.pieceBytes {
				f.next, f.ended = append(f.next[:0], key...), false
				return
			}
			f.buf = appendPair(f.buf, pair{key, val}, false)
			f.pairs++
		}
	})
	return f.buf
}

// settled returns the log record with which everything in the pieces is durable, or 0 if
// it is not yet.
func (f *fuzzy) settled() (index uint64, err error) {
	x := f.db.exec
	x.mu.Lock()
	lost, pos, index := x.resets != f.resets || x.broken != nil, x.atPos, x.at.index
	lost = lost || x.at.roster != f.from.roster // the head has the roster of the settled state too
	x.mu.Unlock()
	switch {
	case failpoint("snapshot-not-settled"):
		return max(1, index), nil
	case lost:
		return 0, errUnsettled
	case pos < f.built, f.db.log.Durable() < index: // a majority without this node may have it
		return 0, nil
	}
	return index, nil
}

// saveFuzzy writes a fuzzy snapshot and then removes what it replaces. After each piece it
// calls rest, with the time that the piece took. While everything is written but not
// settled it calls rest with 0. It returns an error of rest.
func (db *DB) saveFuzzy(rest func(time.Duration) error) (size int64, err error) {
	if g := db.group; g != nil {
		g.lockSaves()
		defer g.saveMu.Unlock()
	}
	f := db.beginFuzzy()
	if g := db.group; f.from.index == 0 || g != nil && f.from.index <= g.store.Base().Index {
		return 0, nil // nothing was ever written, or nothing new
	}
	meta := f.from.fuzzyHead()
	size, err = writeSnapshotFile(db.opts.FS, snapshotName(db.dir, f.from.index), meta, func(w io.Writer) error {
		index, err := f.write(w, rest)
		completeHead(meta, f.pairs, index)
		return err
	})
	if err != nil {
		return 0, err
	}
	if g := db.group; g != nil {
		g.fuzzy = f.from.index
	}
	return size, db.replaced(&f.from, int64(f.pairs), size)
}

// write writes the pieces and returns when they are settled.
func (f *fuzzy) write(w io.Writer, rest func(time.Duration) error) (index uint64, err error) {
	for !f.ended {
		began := f.db.opts.mono()
		if _, err := w.Write(f.piece()); err != nil {
			return 0, err
		}
		if err := rest(max(1, f.db.opts.mono().Sub(began))); err != nil {
			return 0, err
		}
	}
	for {
		if index, err = f.settled(); index != 0 || err != nil {
			return index, err
		}
		if err := rest(0); err != nil {
			return 0, err
		}
	}
}

// resting returns what saveFuzzy calls in the background of a running node.
func (db *DB) resting() func(time.Duration) error {
	p, settling := db.newPacer(), time.Time{}
	return func(took time.Duration) error {
		switch now := db.opts.mono(); {
		case db.closed.Load():
			return engine.ErrClosed
		case took > 0:
			p.rest(took)
			return nil
		case settling.IsZero():
			settling = now
		case now.Sub(settling) > settleWait, db.saver.hurried.Load() > 0: // a majority may need what waits for this
			return errUnsettled
		}
		select {
		case <-db.saver.closing:
			return engine.ErrClosed
		case <-time.After(settlePoll):
			return nil
		}
	}
}

// settle applies the part of a node's log that a fuzzy snapshot needs: these records are
// committed, and do not change the roster.
func (db *DB) settle(state *snapshot) error { return state.follow(db.log, state.settled) }

// follow applies the records of a node's log after s up to the last one.
func (s *snapshot) follow(log *journal.Log, last uint64) error {
	if s.index >= last || failpoint("snapshot-not-completed") {
		return nil
	}
	g := &gathered{}
	for r, err := range log.Read(s.index + 1) {
		if err == nil && r.Index > last {
			break
		}
		if err == nil {
			err = s.gather(r, g)
		}
		if err != nil {
			return err
		}
		if len(g.data) >= roundBytes {
			g.sort()
			s.applySorted(g)
			g.reset()
		}
	}
	g.sort()
	s.applySorted(g)
	return nil
}

// gather advances over a record of a node's log. Its writes are in g afterwards.
func (s *snapshot) gather(r journal.Record, g *gathered) error {
	e, err := parseRecord(r)
	if err != nil {
		return err
	}
	s.index, s.term = e.Index, e.Term
	if e.Kind != raft.Data || len(e.Data) == 0 || isNote(e.Data) {
		return nil
	}
	base, err := batchBase(e.Data)
	if err == nil && base == s.pos { // if not, every node refuses it
		var n uint64
		var micros int64
		if n, micros, err = g.add(e.Data); n > 0 {
			s.pos, s.time = base+engine.Position(n), micros
		}
	}
	if err != nil {
		return fmt.Errorf("log record %d: %w", r.Index, err)
	}
	return nil
}

// Places in the head of a fuzzy snapshot that are not known before its end.
const (
	headPairs   = snapshotHead - 8
	headSettled = snapshotHead
)

// fuzzyHead is head for a fuzzy snapshot that begins at s.
func (s *snapshot) fuzzyHead() []byte {
	b := s.headOf(0)
	b[0] = snapshotFuzzy
	return slices.Insert(b, headSettled, make([]byte, 8)...)
}

// completeHead sets what is known at the end.
func completeHead(b []byte, pairs, settled uint64) {
	binary.LittleEndian.PutUint64(b[headPairs:], pairs)
	binary.LittleEndian.PutUint64(b[headSettled:], settled)
}

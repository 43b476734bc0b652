package embedded

import (
	"fmt"
	"slices"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
)

// Limits of one round of replay, which is applied sorted by key. One goroutine reads,
// checks and sorts a round while another applies the one before, so there are two at a time.
const (
	roundBytes  = 32 << 20 // of log records
	roundWrites = 1 << 20
)

// replay applies the log's records after state to it, and fills the history with all
// records. It returns how many it applied. After an error the state is not usable.
func (db *DB) replay(state *snapshot, progress *progress) (applied int, err error) {
	first, err := db.joinLog(state)
	if err != nil {
		return 0, err
	}
	r := &replayer{db: db, at: *state, roundBytes: roundBytes, progress: progress}
	return r.run(state, first)
}

// replayer reads the log in its order, checks it, and sorts it round by round. The applier
// changes the state.
type replayer struct {
	db         *DB
	at         snapshot // position, time and index after the records read
	started    bool     // there was a record
	applied    int
	round      *gathered
	roundBytes int
	applier    applier
	progress   *progress // nil: not reported
}

// run applies the records from index first on, except those that state already has.
func (r *replayer) run(state *snapshot, first uint64) (applied int, err error) {
	r.round = &gathered{}
	r.applier.start(state)
	for rec, failed := range r.db.log.Read(first) {
		if err = failed; err == nil {
			err = r.record(rec)
		}
		if r.progress != nil {
			r.progress.at("replaying the log", "records", rec.Index-first, r.db.log.Last()-first, r.db.saver.plan.log.Load())
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		r.flush()
	}
	r.applier.wait()
	state.pos, state.time, state.index = r.at.pos, r.at.time, r.at.index
	if !r.started {
		r.db.history.reset(state.pos)
	}
	return r.applied, err
}

// record reads one record, which is only kept for the history if the state already has it.
func (r *replayer) record(rec journal.Record) error {
	base, err := batchBase(rec.Data)
	if err != nil {
		return fmt.Errorf("log record %d: %w", rec.Index, err)
	}
	if !r.started {
		r.db.history.reset(base)
		r.started = true
	}
	k := kept{index: rec.Index, base: base, borrowed: true}
	if rec.Index <= r.at.index {
		k.data, k.borrowed = append([]byte(nil), rec.Data...), false
		k.last, err = batchLast(rec.Data)
	} else {
		k.data, k.last, err = r.gather(rec, base)
	}
	if err != nil {
		return fmt.Errorf("log record %d: %w", rec.Index, err)
	}
	r.db.history.add(k)
	return nil
}

// gather adds a record to the round. It returns the round's copy of it.
func (r *replayer) gather(rec journal.Record, base engine.Position) (data []byte, last engine.Position, err error) {
	if base != r.at.pos {
		return nil, 0, engine.Errorf(engine.CodeCorrupt, "the batch was built on position %d, but the state is at %d", base, r.at.pos)
	}
	if len(r.round.data) > 0 && len(r.round.data)+len(rec.Data) > r.roundBytes || len(r.round.writes) >= roundWrites {
		r.flush()
	}
	r.applied++
	from, before := len(r.round.data), len(r.round.writes)
	n, micros, err := r.round.add(rec.Data)
	if err != nil {
		return nil, 0, err
	}
	r.db.saver.plan.logged(len(rec.Data), len(r.round.writes)-before)
	if r.at.index = rec.Index; n > 0 {
		r.at.pos, r.at.time = base+engine.Position(n), micros
	}
	return r.round.data[from:], r.at.pos, nil
}

// flush hands the round to the applier.
func (r *replayer) flush() {
	r.db.history.own() // the round's buffer will be used again
	r.round.sort()
	r.round = r.applier.apply(r.round)
}

// applier applies rounds in a goroutine of its own.
type applier struct {
	full chan *gathered
	idle chan *gathered // applied
}

func (a *applier) start(state *snapshot) {
	a.full, a.idle = make(chan *gathered), make(chan *gathered, 2)
	a.idle <- &gathered{}
	go func() {
		defer close(a.idle)
		for g := range a.full {
			state.applySorted(g)
			a.idle <- g
		}
	}()
}

// apply passes on a round and returns an empty one for the next.
func (a *applier) apply(g *gathered) *gathered {
	a.full <- g
	next := <-a.idle
	next.reset()
	return next
}

// wait returns when all rounds are applied.
func (a *applier) wait() {
	close(a.full)
	for range a.idle {
	}
}

// applyMost is how many writes are applied together.
const applyMost = 256

// applySorted applies a sorted round.
func (s *snapshot) applySorted(g *gathered) {
	room := make([]btree.Write, 0, applyMost)
	for part := range slices.Chunk(g.writes, applyMost) {
		writes := g.decode(room, part)
		s.tree.Apply(writes)
		for _, w := range writes {
			if w.Old >= 0 {
				s.bytes -= size(w.Key, w.Old)
			}
			if !w.Delete {
				s.bytes += size(w.Key, len(w.Value.Bytes))
			}
		}
	}
}

// apply applies one change to the state.
func (s *snapshot) apply(c engine.Change) {
	for _, w := range c.Writes {
		s.write(w.Key, w.Val, w.Deleted)
	}
	s.pos, s.time = c.Pos, c.Time.UnixMicro()
}

// write applies one write to the pairs.
func (s *snapshot) write(key, val []byte, deleted bool) {
	old, had := 0, false
	if deleted {
		old, had = s.tree.Delete(key)
	} else {
		old, had = s.tree.Set(key, btree.Value{Bytes: val})
		s.bytes += size(key, len(val))
	}
	if had {
		s.bytes -= size(key, old)
	}
}

// batchLast returns the position of a batch's last transaction.
func batchLast(data []byte) (engine.Position, error) {
	last, err := batchBase(data)
	for c, err := range changes(data) {
		if err != nil {
			return 0, err
		}
		last = c.Pos
	}
	return last, err
}

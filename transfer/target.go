package transfer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// state is what a move keeps in its target, as the value of the fence, which every transaction of the move
// writes. On disk: do not change.
type state struct {
	Move      string          `json:"move"`
	From      string          `json:"from"`
	Process   string          `json:"process"` // which one moves; another one that takes over stops it
	Run       int             `json:"run"`     // how many processes have moved; the Mark in the source has it too
	Abandoned bool            `json:"abandoned,omitempty"`
	Cursor    []byte          `json:"cursor,omitempty"` // pairs before it are copied
	Whole     bool            `json:"whole,omitempty"`  // all pairs are copied
	Again     bool            `json:"again,omitempty"`  // there may be pairs after the cursor too
	Position  engine.Position `json:"position"`         // of the source, up to which those that are copied are up to date
	Region    int             `json:"region,omitempty"` // of a Carry: the one that Cursor is in
	Pairs     int64           `json:"pairs"`
	Bytes     int64           `json:"bytes"`
}

// needs of source and target.
var (
	sourceNeeds = engine.Promises{Atomic: engine.AllKeys, Ordered: true, Feed: true, Snapshot: true, Clock: true, Positions: true, ExactPositions: true, Fence: true}
	targetNeeds = engine.Promises{Atomic: engine.AllKeys, Serializable: true, Ordered: true, Snapshot: true, Clock: true, Fence: true}
)

// check refuses what cannot be moved, before anything is written.
func (m *mover) check(ctx context.Context) (About, error) {
	about, err := m.src.About(ctx)
	if err != nil {
		return about, fmt.Errorf("read the source: %w", err)
	}
	if err := about.Promises.Meets("the source of a move", sourceNeeds); err != nil {
		return about, err
	}
	if err := m.p.Meets("the target of a move", targetNeeds); err != nil {
		return about, err
	}
	for _, who := range slices.Sorted(maps.Keys(m.o.Needs)) {
		need := m.o.Needs[who]
		if about.Promises.Meets(who, need) != nil {
			continue // it cannot have data
		}
		if err := m.p.Meets(who+" on the target", need); err != nil {
			return about, err
		}
	}
	if err := about.allInKeys(); err != nil {
		return about, err
	}
	if about.Foreign != nil {
		return about, foreign(about.Foreign)
	}
	if err := m.checkClock(ctx, about); err != nil {
		return about, err
	}
	if err := m.checkSizes(ctx, about.Promises); err != nil {
		return about, err
	}
	return about, m.ahead(ctx, about.Position)
}

// foreign is the error for a source with a key that moves do not copy.
func foreign(key []byte) error {
	return engine.Errorf(engine.CodeUnsupported, "the source has the key %q; keys that begin with a zero byte belong to moves and are not copied", key)
}

// checkClock refuses a source whose clock is ahead of the target's.
func (m *mover) checkClock(ctx context.Context, about About) error {
	var now time.Time
	if _, err := m.dst.View(ctx, engine.Read{}, func(tx engine.Tx) error { now = tx.Now(); return nil }); err != nil {
		return fmt.Errorf("read the target: %w", err)
	}
	if lead := about.Time.Sub(now); lead > MaxClockLead {
		return engine.Errorf(engine.CodeUnsupported, "the source's time is %v ahead of the target's, and revisions are times: correct the clocks", lead.Round(time.Millisecond))
	}
	return nil
}

// checkSizes refuses pairs that are too long for the target.
func (m *mover) checkSizes(ctx context.Context, has engine.Promises) error {
	key, val := limits(m.p)
	if k, v := limits(has); k <= key && v <= val && k+v <= m.txBytes() {
		return nil
	}
	for lo := begin; lo != nil; {
		s, err := m.src.Sum(ctx, lo, nil, 0)
		if err != nil {
			return fmt.Errorf("read the source: %w", err)
		}
		if err := m.fits(s.Longest.Key, 0); err != nil {
			return err
		}
		if err := m.fits(s.Longest.ValueOf, s.Longest.ValBytes); err != nil {
			return err
		}
		lo = s.Hi
	}
	return nil
}

// limits returns the longest key and value of p.
func limits(p engine.Promises) (key, val int) {
	return cmp.Or(p.MaxKeyBytes, 512), cmp.Or(p.MaxValBytes, 64<<10)
}

// stateBytes is more than the state takes in a transaction.
const stateBytes = 32 << 10

// txBytes is how many bytes of pairs fit into one transaction of the target.
func (m *mover) txBytes() int { return cmp.Or(m.p.MaxTxBytes, 1<<20) - stateBytes }

// fits returns an error if the target cannot hold a pair.
func (m *mover) fits(key []byte, valBytes int) error {
	k, v := limits(m.p)
	const shown = 64
	name := key[:min(len(key), shown)]
	switch {
	case len(key) > k:
		return engine.Errorf(engine.CodeKeyTooLarge, "the key %q… of %d bytes is over the target's limit of %d", name, len(key), k)
	case valBytes > v:
		return engine.Errorf(engine.CodeValueTooLarge, "the value of %d bytes of the key %q is over the target's limit of %d", valBytes, name, v)
	case len(key)+valBytes > m.txBytes():
		return engine.Errorf(engine.CodeTxTooLarge, "the key %q with its value of %d bytes is over the target's limit of one transaction, %d", name, valBytes, m.txBytes())
	}
	return nil
}

// join begins a move or continues one.
func (m *mover) join(ctx context.Context, about About) error {
	process := newID()
	_, err := m.dst.Update(ctx, func(tx engine.Tx) error {
		st, has, err := readState(tx)
		switch {
		case err != nil:
			return err
		case !has || st.Abandoned:
			if about.Mark.Move != "" {
				return otherMove(about.Mark)
			}
			if first, empty, err := firstKey(tx); err != nil {
				return err
			} else if !empty && !st.Abandoned {
				return engine.Errorf(engine.CodeInvalid, "the target is not empty, it has the key %q; a move needs an empty one", first)
			}
			st = state{Move: newID(), From: m.o.From, Cursor: begin, Again: st.Abandoned}
		case about.Mark.Move != st.Move && (about.Mark.Move != "" || st.Position != 0):
			return engine.Errorf(engine.CodeInvalid, "the target holds an unfinished move from %s (%s), which is not from this source; `skerry move --abandon` ends that move", st.From, st.Move)
		}
		st.Process = process
		st.Run++
		m.st = st
		return m.st.put(tx)
	})
	if err != nil {
		return fmt.Errorf("begin in the target: %w", err)
	}
	// If the process before has stopped the writes, they go on: it cannot open the target any more.
	if _, _, err := m.src.Mark(ctx, m.mark()); err != nil {
		return fmt.Errorf("mark the source: %w", err)
	}
	return nil
}

// mark is what the source has while it takes writes.
func (m *mover) mark() Mark { return Mark{Move: m.st.Move, To: m.o.To, Run: m.st.Run} }

// firstKey returns the first key of an engine, other than the fence, and whether there is none.
func firstKey(tx engine.Tx) (key []byte, empty bool, err error) {
	for p, err := range tx.Scan(nil, nil) {
		if err != nil {
			return nil, false, err
		}
		if string(p.Key) != engine.FenceKey {
			return bytes.Clone(p.Key), false, nil
		}
	}
	return nil, true, nil
}

// readState reads the state of a move into tx's engine.
func readState(tx engine.Tx) (st state, ok bool, err error) {
	val, ok, err := tx.Get([]byte(engine.FenceKey))
	if err != nil || !ok {
		return st, false, err
	}
	if err := json.Unmarshal(val, &st); err != nil {
		return st, true, engine.Errorf(engine.CodeCorrupt, "the state of a move is not readable: %w", err)
	}
	if st.Process == "" { // a Mark
		return st, true, engine.Errorf(engine.CodeInvalid, "the target is the source of another move (%s), and takes no writes", st.Move)
	}
	return st, true, nil
}

func (st *state) put(tx engine.Tx) error {
	val, err := json.Marshal(st)
	if err != nil {
		return err
	}
	return tx.Put([]byte(engine.FenceKey), val)
}

// commit writes ops and the state to the target. If they are pairs that were copied, from is the first key of
// their range; if they are changes, it is nil.
func (m *mover) commit(ctx context.Context, ops []engine.Write, from []byte) (err error) {
	for _, w := range ops {
		if err := m.fits(w.Key, len(w.Val)); err != nil {
			return err
		}
	}
	if from != nil && m.st.Again {
		if ops, err = m.clear(ctx, ops, from); err != nil {
			return err
		}
	}
	return m.update(ctx, m.st, func(tx engine.Tx) error { return writeAll(tx, ops) })
}

func writeAll(tx engine.Tx, ops []engine.Write) (err error) {
	for _, w := range ops {
		if w.Deleted {
			err = tx.Delete(w.Key)
		} else {
			err = tx.Put(w.Key, w.Val)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// maxClear bounds the keys that one transaction deletes.
const maxClear = 1024

// clear deletes the keys from a key up to the cursor that are in the target but not in ops, and returns those
// of ops that the target lacks. An earlier copy has left them.
func (m *mover) clear(ctx context.Context, ops []engine.Write, from []byte) (rest []engine.Write, err error) {
	before := m.st
	before.Cursor, before.Whole = from, false
	for {
		var gone [][]byte
		if _, err := m.dst.View(ctx, engine.Read{}, func(tx engine.Tx) (err error) {
			rest, gone, err = diff(tx, ops, from, m.st.Cursor)
			return err
		}); err != nil {
			return nil, fmt.Errorf("read the target: %w", err)
		}
		if len(gone) == 0 {
			return rest, nil
		}
		if err := m.update(ctx, before, func(tx engine.Tx) error {
			for _, key := range gone {
				if err := tx.Delete(key); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
}

// diff compares the pairs of a range with ops, which are pairs in order: rest are those of ops that differ, and
// gone some keys that are not in ops.
func diff(tx engine.Tx, ops []engine.Write, lo, hi []byte) (rest []engine.Write, gone [][]byte, err error) {
	for p, err := range tx.Scan(lo, hi) {
		if err != nil {
			return nil, nil, err
		}
		for len(ops) > 0 && bytes.Compare(ops[0].Key, p.Key) < 0 {
			rest, ops = append(rest, ops[0]), ops[1:]
		}
		switch {
		case len(ops) == 0 || !bytes.Equal(ops[0].Key, p.Key):
			if gone = append(gone, bytes.Clone(p.Key)); len(gone) == maxClear {
				return rest, gone, nil
			}
			continue
		case !bytes.Equal(ops[0].Val, p.Val):
			rest = append(rest, ops[0])
		}
		ops = ops[1:]
	}
	return append(rest, ops...), gone, nil
}

// update runs a transaction of the move, which may be repeated, and stores st. It fails if another process has
// taken over.
func (m *mover) update(ctx context.Context, st state, fn func(tx engine.Tx) error) error {
	_, err := retry(ctx, func() (engine.Position, error) {
		return m.dst.Update(ctx, func(tx engine.Tx) error {
			if err := m.owns(tx); err != nil {
				return err
			}
			if err := st.put(tx); err != nil {
				return err
			}
			return fn(tx)
		})
	})
	if err != nil {
		return fmt.Errorf("write to the target: %w", err)
	}
	return nil
}

// passes reports whether a call that may be repeated failed for a reason that passes soon. A target without room
// for the data does not get any.
func passes(err error) bool {
	full := errors.Is(err, engine.ErrMemoryFull) || errors.Is(err, engine.ErrDiskFull)
	return engine.Passes(err) && !full
}

// owns returns an error if this process does not move into tx's engine anymore.
func (m *mover) owns(tx engine.Tx) error {
	st, has, err := readState(tx)
	if err == nil && (!has || st.Process != m.st.Process) {
		err = engine.Errorf(engine.CodeInvalid, "another process has continued or ended this move")
	}
	return err
}

// again begins the copy anew, over what is there.
func (m *mover) again(ctx context.Context) error {
	m.st.Cursor, m.st.Whole, m.st.Again, m.st.Position, m.st.Pairs, m.st.Bytes = begin, false, true, 0, 0, 0
	return m.update(ctx, m.st, func(engine.Tx) error { return nil })
}

// errEarly means that the target's time is not yet after the source's.
var errEarly = errors.New("the target's time is not after the source's")

// openTarget ends the move in the target, whose times must continue after that of the source. After an error, closed
// says that the target is certainly not open.
func (m *mover) openTarget(ctx context.Context, after time.Time) (pos engine.Position, closed bool, err error) {
	lost := false // the outcome of an earlier attempt
	for {
		pos, err = m.dst.Update(ctx, func(tx engine.Tx) error {
			if _, has, err := readState(tx); err == nil && !has && lost {
				return nil // it was committed
			}
			if err := m.owns(tx); err != nil {
				return err
			}
			if !tx.Now().After(after) {
				return errEarly
			}
			return tx.Delete([]byte(engine.FenceKey))
		})
		switch {
		case err == nil:
			return pos, false, nil
		case errors.Is(err, engine.ErrOutcomeUnknown):
			lost = true
		case !errors.Is(err, errEarly) && !passes(err):
			return 0, !lost, fmt.Errorf("open the target: %w", err)
		}
		select {
		case <-time.After(firstPause):
		case <-ctx.Done():
			return 0, !lost, errors.Join(ctx.Err(), err)
		}
	}
}

// Abandon ends an unfinished move, so that the source takes writes again. The target keeps what it has but
// cannot be used; another move may begin on it. It fails with CodeInvalid if the target holds no unfinished move
// of this source: the target may have taken writes. If to is nil, the target is not asked: it must have been
// lost, or never served.
func Abandon(ctx context.Context, from Source, to engine.Engine) (Mark, error) {
	about, err := from.About(ctx)
	if err != nil {
		return Mark{}, fmt.Errorf("read the source: %w", err)
	}
	if about.Mark.Move == "" {
		return Mark{}, engine.Errorf(engine.CodeInvalid, "the source is not being moved")
	}
	if to != nil {
		if _, err := to.Update(ctx, func(tx engine.Tx) error {
			st, has, err := readState(tx)
			switch {
			case err != nil:
				return err
			case !has || st.Move != about.Mark.Move:
				return engine.Errorf(engine.CodeInvalid, "the target does not hold the unfinished move %s: it may be complete and serve", about.Mark.Move)
			}
			st.Abandoned, st.Process = true, newID()
			return st.put(tx)
		}); err != nil {
			return Mark{}, fmt.Errorf("abandon the target: %w", err)
		}
	}
	if _, _, err := from.Mark(ctx, Mark{Move: about.Mark.Move, Ended: true}); err != nil {
		return Mark{}, fmt.Errorf("release the source: %w", err)
	}
	return about.Mark, nil
}

// State returns the unfinished move that an engine is the target of, or CodeNotFound. Programs that serve use it
// to refuse an engine whose data is not complete.
func State(tx engine.Tx) (from string, unfinished bool, err error) {
	st, has, err := readState(tx)
	if errors.Is(err, engine.ErrInvalid) {
		return "", false, nil // the source of a move, which can be read
	}
	return st.From, has, err
}

// Package transfer moves all data from one engine to another while the source serves.
//
// It knows how to copy, follow, verify and cut over, and how to continue after a crash. It must not know any
// engine, what keys mean, or how a source on another machine is reached. DESIGN.md has the protocol.
package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Sizes of the steps of a move.
const (
	rangeBytes = 1 << 20 // of a range that is copied; it is longer by at most one pair
	rangePairs = 4096
	sumBytes   = 8 << 20 // of a range that is verified
	sumPairs   = 1 << 16
)

// markKey is where a source keeps its Mark. On disk: do not change.
const markKey = "\x00move"

// begin is the first key that is data. The keys before it belong to the move and are not copied.
var begin = []byte{1}

// Source is the engine that data is moved from, which may be in another process. Of makes one of an Engine.
type Source interface {
	// About describes the source.
	About(ctx context.Context) (About, error)

	// Range reads pairs with lo <= key < hi, as many as fit into one step, from a state that includes the
	// position atLeast. A nil hi means no upper bound.
	Range(ctx context.Context, lo, hi []byte, atLeast engine.Position) (Range, error)

	// Sum is Range, but returns only what is needed to compare the pairs.
	Sum(ctx context.Context, lo, hi []byte, atLeast engine.Position) (Sum, error)

	// Changes returns some of the changes after a position, at least one, and none after the position to,
	// which the source has committed. If there is none after the last one up to to, the last has position to.
	Changes(ctx context.Context, after, to engine.Position) ([]engine.Change, error)

	// Mark sets the source's Mark and puts up its fence, or takes it down, in one transaction. It returns
	// the position and the time of the state after it. CodeInvalid means that the source has the Mark of
	// another move or of a later run of this one, or is the target of a move.
	Mark(ctx context.Context, m Mark) (engine.Position, time.Time, error)
}

// About describes a source.
type About struct {
	Promises engine.Promises
	Position engine.Position
	Time     time.Time // not before that of any committed transaction
	Pairs    int       // how many there are; 0: unknown
	Mark     Mark      // zero: the source is not part of a move
	Outside  string    // names data that is in no key; "": there is none
	Foreign  []byte    // a key before the first key that is data, which no move has written; nil: there is none
}

// Mark says which move an engine is the source of.
type Mark struct {
	Move   string `json:"move"`
	To     string `json:"to,omitempty"`
	Run    int    `json:"run,omitempty"`    // of the process that has set it; those before may not any more
	Fenced bool   `json:"fenced,omitempty"` // writes are stopped
	Ended  bool   `json:"-"`                // for Source.Mark: the move is over, and the source has no Mark
}

// Range is a part of a source's pairs, in order, from one state.
type Range struct {
	Pairs []engine.Pair
	Hi    []byte // the Range has all pairs before it; nil: up to the end of what was asked for
	Pos   engine.Position
}

// Sum describes a Range.
type Sum struct {
	Hash    [sha256.Size]byte
	Pairs   int
	Bytes   int64
	Longest Longest
	Hi      []byte // as in Range
	Pos     engine.Position
}

// Longest names the longest key and the key with the longest value.
type Longest struct {
	Key      []byte
	ValueOf  []byte
	ValBytes int
}

// Of returns eng as a Source.
func Of(eng engine.Engine) Source { return source{eng} }

type source struct{ eng engine.Engine }

func (s source) About(ctx context.Context) (About, error) {
	a := About{Promises: s.eng.Promises()}
	if !a.Promises.Ordered {
		return a, nil // Run refuses it
	}
	pos, err := s.eng.View(ctx, engine.Read{}, func(tx engine.Tx) (err error) {
		a.Time, a.Foreign, a.Pairs = tx.Now(), nil, 0
		if a.Mark, err = readMark(tx); err != nil {
			return err
		}
		for p, err := range tx.Scan(nil, begin) {
			if err != nil {
				return err
			}
			if string(p.Key) != markKey && string(p.Key) != engine.FenceKey {
				a.Foreign = bytes.Clone(p.Key)
				break
			}
		}
		if t, ok := tx.(engine.Attacher); ok {
			if o, ok := t.Attached().(engine.Outside); ok {
				if a.Outside, err = o.Outside(tx); err != nil {
					return err
				}
			}
		}
		if r, ok := tx.(engine.Ranker); ok {
			a.Pairs, err = r.Count(begin, nil)
		}
		return err
	})
	a.Position = pos
	return a, err
}

// allInKeys returns an error if the source has data that is in no key.
func (a About) allInKeys() error {
	if a.Outside == "" {
		return nil
	}
	return engine.Errorf(engine.CodeUnsupported, "the source has %s in tables of its own; a move copies keys only", a.Outside)
}

func readMark(tx engine.Tx) (m Mark, err error) {
	val, ok, err := tx.Get([]byte(markKey))
	if err != nil || !ok {
		return m, err
	}
	if err := json.Unmarshal(val, &m); err != nil {
		return m, engine.Errorf(engine.CodeCorrupt, "the mark of a move is not readable: %w", err)
	}
	return m, nil
}

func (s source) Range(ctx context.Context, lo, hi []byte, atLeast engine.Position) (r Range, err error) {
	r.Pos, err = s.eng.View(ctx, engine.Read{Level: engine.Session, AtLeast: atLeast}, func(tx engine.Tx) (err error) {
		r.Pairs = nil
		r.Hi, err = scan(tx, lo, hi, rangePairs, rangeBytes, func(p engine.Pair) {
			r.Pairs = append(r.Pairs, engine.Pair{Key: bytes.Clone(p.Key), Val: bytes.Clone(p.Val)})
		})
		return err
	})
	return r, err
}

// scan calls fn for pairs until it has seen as many pairs or bytes. It returns the key after the last one, or
// nil if it has seen all.
func scan(tx engine.Tx, lo, hi []byte, pairs, size int, fn func(engine.Pair)) (next []byte, err error) {
	for p, err := range tx.Scan(lo, hi) {
		if err != nil {
			return nil, err
		}
		if pairs <= 0 || size <= 0 {
			return bytes.Clone(p.Key), nil
		}
		fn(p)
		pairs, size = pairs-1, size-len(p.Key)-len(p.Val)
	}
	return nil, nil
}

func (s source) Sum(ctx context.Context, lo, hi []byte, atLeast engine.Position) (sum Sum, err error) {
	pos, err := s.eng.View(ctx, engine.Read{Level: engine.Session, AtLeast: atLeast}, func(tx engine.Tx) (err error) {
		sum, err = sumOf(tx, lo, hi, sumPairs, sumBytes)
		return err
	})
	sum.Pos = pos
	return sum, err
}

// sumOf is scan that sums up.
func sumOf(tx engine.Tx, lo, hi []byte, pairs, size int) (s Sum, err error) {
	h := sha256.New()
	var head []byte
	s.Hi, err = scan(tx, lo, hi, pairs, size, func(p engine.Pair) {
		head = binary.AppendUvarint(binary.AppendUvarint(head[:0], uint64(len(p.Key))), uint64(len(p.Val)))
		h.Write(head)
		h.Write(p.Key)
		h.Write(p.Val)
		s.Pairs++
		s.Bytes += int64(len(p.Key) + len(p.Val))
		if len(p.Key) > len(s.Longest.Key) {
			s.Longest.Key = bytes.Clone(p.Key)
		}
		if len(p.Val) > s.Longest.ValBytes {
			s.Longest.ValueOf, s.Longest.ValBytes = bytes.Clone(p.Key), len(p.Val)
		}
	})
	h.Sum(s.Hash[:0])
	return s, err
}

func (s source) Changes(ctx context.Context, after, to engine.Position) (list []engine.Change, err error) {
	size := 0
	for c, err := range s.eng.Changes(ctx, after) {
		if err != nil {
			return nil, err
		}
		if c.Pos > to { // to is no transaction, or a heartbeat covers it
			return append(list, engine.Change{Pos: to}), nil
		}
		list = append(list, c)
		for _, w := range c.Writes {
			size += len(w.Key) + len(w.Val)
		}
		if c.Pos >= to || size >= rangeBytes || len(list) >= rangePairs {
			return list, nil
		}
	}
	return nil, ctx.Err()
}

func (s source) Mark(ctx context.Context, m Mark) (pos engine.Position, at time.Time, err error) {
	if m.Move == "" {
		return 0, at, engine.Errorf(engine.CodeInvalid, "a mark needs the id of a move")
	}
	val, err := json.Marshal(m)
	if err != nil {
		return 0, at, err
	}
	pos, err = s.eng.Update(ctx, func(tx engine.Tx) error {
		at = tx.Now()
		has, err := readMark(tx)
		if err != nil {
			return err
		}
		from, unfinished, err := State(tx)
		switch {
		case err != nil:
			return err
		case unfinished:
			return engine.Errorf(engine.CodeInvalid, "the source is itself the target of an unfinished move from %s", from)
		case has.Move != "" && has.Move != m.Move:
			return otherMove(has)
		case m.Run < has.Run && !m.Ended:
			return engine.Errorf(engine.CodeInvalid, "another process has continued this move")
		case has == m:
			return nil
		}
		if m.Fenced {
			err = tx.Put([]byte(engine.FenceKey), val)
		} else {
			err = tx.Delete([]byte(engine.FenceKey))
		}
		switch {
		case err != nil:
			return err
		case m.Ended:
			return tx.Delete([]byte(markKey))
		}
		return tx.Put([]byte(markKey), val)
	})
	return pos, at, err
}

// otherMove is the error for a source of another move.
func otherMove(m Mark) error {
	what := "is being moved"
	if m.Fenced {
		what = "is being moved, or has moved,"
	}
	return engine.Errorf(engine.CodeInvalid, "the data %s to %s (move %s); `skerry move --abandon` ends that move", what, m.To, m.Move)
}

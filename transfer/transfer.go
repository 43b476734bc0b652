package transfer

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sort"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Bounds of a move. MaxRestarts is how often it copies again because the source no longer keeps the changes
// since the last step; MaxClockLead is how far the source's clock may be ahead of the target's.
const (
	MaxRestarts  = 5
	MaxClockLead = 10 * time.Second
)

// closeEnough is how long the last round of following may take before the source is fenced: about as long as
// its writes are then stopped, without the verification.
const closeEnough = 300 * time.Millisecond

// retreatTime bounds the attempt to let the source take writes again, for which somebody may wait who has interrupted the move.
const retreatTime = 10 * time.Second

// Options of a move.
type Options struct {
	From, To string // URLs without passwords, for messages

	// Needs are what capabilities require. One that the source meets the target must meet too.
	Needs map[string]engine.Promises

	Report func(Progress) // called often, in the move's goroutine; nil: not
}

// Stage is what a move is doing.
type Stage string

// Stages, in order.
const (
	Copying   Stage = "copy"
	Verifying Stage = "verify"
	Following Stage = "follow"
	Cutting   Stage = "cut" // the source takes no writes
	Done      Stage = "done"
)

// Progress is how far a move is.
type Progress struct {
	Stage   Stage
	Pairs   int64 // of this stage
	Bytes   int64
	Total   int64 // pairs of the stage as far as known; 0: unknown
	Changes int64 // of the source that were applied
}

// Result describes a completed move.
type Result struct {
	Move     string          `json:"move"`
	Pairs    int64           `json:"pairs"` // as verified
	Bytes    int64           `json:"bytes"`
	Changes  int64           `json:"changes"`         // of the source that were applied, by this process
	Restarts int             `json:"restarts"`        // how often the copy began again
	From     engine.Position `json:"source_position"` // the source's last
	To       engine.Position `json:"target_position"`
	Paused   time.Duration   `json:"paused_ns"` // from the fence in the source to its end in the target
}

// Run moves all data from a source to a target, which must be empty or hold the state of the same move. When it
// returns, the source refuses writes and the target has all of them. After any error but CodeInvalid and
// CodeUnsupported it can be run again and continues; until then the source takes writes.
func Run(ctx context.Context, from Source, to engine.Engine, o Options) (Result, error) {
	m := &mover{src: patient{from}, dst: to, o: o, p: to.Promises()}
	about, err := m.check(ctx)
	if err != nil {
		return Result{}, err
	}
	if err := m.join(ctx, about); err != nil {
		return Result{}, err
	}
	m.res.Move, m.total = m.st.Move, int64(about.Pairs)
	for {
		err := m.pass(ctx)
		if !errors.Is(err, engine.ErrTruncated) {
			return m.res, err
		}
		if m.res.Restarts++; m.res.Restarts > MaxRestarts {
			return m.res, fmt.Errorf("copied %d times, each time too slowly for the history that the source keeps: %w", m.res.Restarts, err)
		}
		if err := m.again(ctx); err != nil {
			return m.res, err
		}
	}
}

// mover is a move that runs.
type mover struct {
	src   Source
	dst   engine.Engine
	p     engine.Promises // of dst
	o     Options
	st    state
	res   Result
	total int64 // pairs of the source

	spans []span // verified, ascending, without gaps
}

// span is a verified range. dirty means that it has changed since.
type span struct {
	lo, hi []byte // a nil hi is no upper bound
	dirty  bool
}

// pass goes through all stages.
func (m *mover) pass(ctx context.Context) error {
	m.spans = nil
	if err := m.copy(ctx); err != nil {
		return err
	}
	if err := m.verify(ctx); err != nil {
		return err
	}
	if err := m.follow(ctx); err != nil {
		return err
	}
	return m.cut(ctx)
}

// copy copies the pairs from the cursor on. It keeps the invariant: the target has the pairs before the cursor
// as they are at st.Position in the source.
func (m *mover) copy(ctx context.Context) error {
	for !m.st.Whole {
		r, err := m.src.Range(ctx, m.st.Cursor, nil, m.st.Position)
		if err != nil {
			return fmt.Errorf("read the source: %w", err)
		}
		if bytes.Equal(m.st.Cursor, begin) {
			m.st.Position = r.Pos // there is nothing to bring up to date
		}
		if err := m.catchUp(ctx, r.Pos); err != nil {
			return err
		}
		for rest := r.Pairs; ; {
			lo, ops := m.st.Cursor, []engine.Write(nil)
			ops, rest = m.portion(rest)
			if m.st.Cursor = r.Hi; len(rest) > 0 {
				m.st.Cursor = rest[0].Key
			}
			m.st.Whole = m.st.Cursor == nil
			if err := m.commit(ctx, ops, lo); err != nil {
				return err
			}
			if len(rest) == 0 {
				break
			}
		}
		m.report(Copying, m.st.Pairs, m.st.Bytes)
	}
	return nil
}

// portion returns the first of some pairs, as many as fit into one transaction, and the others.
func (m *mover) portion(pairs []engine.Pair) (ops []engine.Write, rest []engine.Pair) {
	size := 0
	for i, p := range pairs {
		n := len(p.Key) + len(p.Val)
		if size += n; size > m.txBytes() && i > 0 {
			return ops, pairs[i:]
		}
		ops = append(ops, engine.Write{Key: p.Key, Val: p.Val})
		m.st.Pairs++
		m.st.Bytes += int64(n)
	}
	return ops, nil
}

func (m *mover) report(s Stage, pairs, size int64) {
	if m.o.Report != nil {
		m.o.Report(Progress{Stage: s, Pairs: pairs, Bytes: size, Total: max(m.total, pairs), Changes: m.res.Changes})
	}
}

// catchUp applies the source's changes up to a position to the pairs that have been copied.
func (m *mover) catchUp(ctx context.Context, to engine.Position) error {
	for m.st.Position < to {
		list, err := m.src.Changes(ctx, m.st.Position, to)
		if err != nil {
			return fmt.Errorf("follow the source after position %d: %w", m.st.Position, err)
		}
		if len(list) == 0 {
			return engine.Errorf(engine.CodeInternal, "the source has no changes after position %d, although it is at %d", m.st.Position, to)
		}
		if err := m.apply(ctx, list); err != nil {
			return err
		}
	}
	return nil
}

// apply applies changes, as many in one transaction as fit. Nobody reads the target yet, so a change may be
// split. Until its last part is written, Position is before it: all of it is applied again after a crash.
func (m *mover) apply(ctx context.Context, list []engine.Change) error {
	var ops []engine.Write
	at, size := map[string]int{}, 0
	flush := func() (err error) {
		if len(ops) > 0 {
			err = m.commit(ctx, ops, nil)
		}
		ops, size = nil, 0
		clear(at)
		return err
	}
	for _, c := range list {
		for _, w := range c.Writes {
			if bytes.Compare(w.Key, begin) < 0 || !m.st.Whole && bytes.Compare(w.Key, m.st.Cursor) >= 0 {
				continue
			}
			if n := len(w.Key) + len(w.Val); len(ops) >= rangePairs || len(ops) > 0 && size+n > m.batchBytes() {
				if err := flush(); err != nil {
					return err
				}
			}
			size += len(w.Key) + len(w.Val)
			m.touch(w.Key)
			if i, ok := at[string(w.Key)]; ok {
				ops[i] = w
				continue
			}
			at[string(w.Key)] = len(ops)
			ops = append(ops, w)
		}
		m.st.Position = c.Pos
		m.res.Changes++
	}
	return flush()
}

// touch marks the span of key as changed, if it has been verified.
func (m *mover) touch(key []byte) {
	i := sort.Search(len(m.spans), func(i int) bool { return m.spans[i].hi == nil || bytes.Compare(m.spans[i].hi, key) > 0 })
	if i < len(m.spans) {
		m.spans[i].dirty = true
	}
}

// verify compares all pairs, range by range, each at one position of the source.
func (m *mover) verify(ctx context.Context) error {
	m.res.Pairs, m.res.Bytes = 0, 0
	for lo := begin; lo != nil; {
		s, err := m.compare(ctx, lo, nil)
		if err != nil {
			return err
		}
		m.res.Pairs += int64(s.Pairs)
		m.res.Bytes += s.Bytes
		m.spans = append(m.spans, span{lo: lo, hi: s.Hi})
		lo = s.Hi
		m.report(Verifying, m.res.Pairs, m.res.Bytes)
	}
	return nil
}

// compare compares a first part of a range.
func (m *mover) compare(ctx context.Context, lo, hi []byte) (Sum, error) {
	s, err := m.src.Sum(ctx, lo, hi, m.st.Position)
	if err != nil {
		return s, fmt.Errorf("sum up the source: %w", err)
	}
	if err := m.catchUp(ctx, s.Pos); err != nil {
		return s, err
	}
	end := hi
	if s.Hi != nil {
		end = s.Hi
	}
	var t Sum
	_, err = m.dst.View(ctx, engine.Read{}, func(tx engine.Tx) (err error) {
		t, err = sumOf(tx, lo, end, s.Pairs+1, 1<<62)
		return err
	})
	if err != nil {
		return s, fmt.Errorf("sum up the target: %w", err)
	}
	if t.Hash != s.Hash {
		return s, &DifferenceError{lo, end, s.Pairs, t.Pairs, s.Pos}
	}
	return s, nil
}

// DifferenceError says that the target does not have what the source has.
type DifferenceError struct {
	Lo, Hi         []byte
	Source, Target int // pairs
	Pos            engine.Position
}

func (d *DifferenceError) Error() string {
	return fmt.Sprintf("source and target differ between the keys %q and %q: %d and at least %d pairs at the source's position %d", d.Lo, d.Hi, d.Source, d.Target, d.Pos)
}

// follow applies changes until the rest takes little time.
func (m *mover) follow(ctx context.Context) error {
	for {
		began := time.Now()
		about, err := m.src.About(ctx)
		if err != nil {
			return fmt.Errorf("read the source: %w", err)
		}
		if err := about.allInKeys(); err != nil { // they were converted meanwhile
			return err
		}
		if err := m.ahead(ctx, about.Position); err != nil {
			return err
		}
		if err := m.catchUp(ctx, about.Position); err != nil {
			return err
		}
		m.report(Following, 0, 0)
		if time.Since(began) < closeEnough {
			return nil
		}
	}
}

// cut stops the writes of the source, completes the target and opens it. If that fails before the target is open,
// the source takes writes again.
func (m *mover) cut(ctx context.Context) error {
	began := time.Now()
	fence := m.mark()
	fence.Fenced = true
	pos, at, err := m.src.Mark(ctx, fence)
	closed := true
	if err != nil {
		err = fmt.Errorf("stop the writes of the source: %w", err)
	} else if err = m.complete(ctx, pos); err == nil {
		m.res.To, closed, err = m.openTarget(ctx, at)
	}
	if err != nil && closed {
		return errors.Join(err, m.retreat(ctx))
	}
	if err != nil {
		return err
	}
	m.res.From, m.res.Paused = pos, time.Since(began)
	m.report(Done, 0, 0)
	return nil
}

// complete brings the target up to the last position of the source, compares what has changed since it was verified, and
// raises the target's positions.
func (m *mover) complete(ctx context.Context, last engine.Position) error {
	if about, err := m.src.About(ctx); err != nil {
		return fmt.Errorf("read the source: %w", err)
	} else if err := about.allInKeys(); err != nil {
		return err
	}
	if err := m.catchUp(ctx, last); err != nil {
		return err
	}
	checked := int64(0)
	for _, s := range m.spans {
		for lo := s.lo; s.dirty && lo != nil; {
			sum, err := m.compare(ctx, lo, s.hi)
			if err != nil {
				return err
			}
			lo = sum.Hi
			checked += int64(sum.Pairs)
			m.report(Cutting, checked, 0)
		}
	}
	return m.raise(ctx, last)
}

// retreat lets the source take writes again. It does nothing if another process has taken over.
func (m *mover) retreat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), retreatTime)
	defer cancel()
	if _, _, err := m.src.Mark(ctx, m.mark()); err != nil && !errors.Is(err, engine.ErrInvalid) {
		return fmt.Errorf("the source may refuse writes until the move continues or is abandoned: %w", err)
	}
	return nil
}

// newID returns a random id.
func newID() string { return rand.Text()[:16] }

// batchBytes is how much one transaction on the target writes, besides one pair that is longer.
func (m *mover) batchBytes() int { return min(rangeBytes, m.txBytes()) }

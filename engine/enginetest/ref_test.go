package enginetest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Limits of the reference engine.
const (
	refMaxKey = 100
	refMaxVal = 4096
	refMaxTx  = 20000
	refMaxPos = 1 << 60
)

// ref is the simplest engine that keeps the contract: one writer at a time on a
// sorted list, a copy of which is the next state. The faulty engines of this
// package wrap it, so it is right by being plain.
type ref struct {
	writer chan struct{} // capacity 1: who writes
	keep   int           // how many changes are kept; 0: all
	ended  chan struct{}
	cut    atomic.Bool            // the next Update finds no connection
	http   atomic.Pointer[string] // advertised
	issued atomic.Uint64          // invitations

	mu     sync.Mutex // guards below
	state  refState
	moved  chan struct{} // closed at the next commit
	closed bool
}

// refState is never changed, only replaced.
type refState struct {
	pairs   []engine.Pair
	pos     engine.Position
	now     time.Time
	changes []engine.Change // the last of them has position pos
}

func newRef(from refState, keep int) *ref {
	return &ref{
		writer: make(chan struct{}, 1), keep: keep, ended: make(chan struct{}),
		state: from, moved: make(chan struct{}),
	}
}

func (r *ref) Promises() engine.Promises {
	return engine.Promises{
		Atomic: engine.AllKeys, Serializable: true, Ordered: true, Feed: true, Durable: true,
		Snapshot: true, Clock: true, Positions: true, ExactPositions: true, DistinctTimes: true, Fence: true,
		MaxKeyBytes: refMaxKey, MaxValBytes: refMaxVal, MaxTxBytes: refMaxTx,
	}
}

// now returns the state, and a channel that is closed when there is a newer.
func (r *ref) current() (refState, <-chan struct{}, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return r.state, nil, engine.ErrClosed
	}
	return r.state, r.moved, nil
}

func (r *ref) View(ctx context.Context, read engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	for {
		st, moved, err := r.current()
		if err != nil {
			return 0, err
		}
		if st.pos >= read.AtLeast {
			now := time.Now().Truncate(time.Microsecond)
			if now.Before(st.now) {
				now = st.now
			}
			tx := &refTx{pairs: st.pairs, now: now, readOnly: true}
			defer func() { tx.ended = true }()
			return st.pos, fn(tx)
		}
		select {
		case <-moved:
		case <-r.ended:
			return 0, engine.ErrClosed
		case <-ctx.Done():
			return 0, engine.Errorf(engine.CodePositionTimeout, "at %d, not at %d: %w", st.pos, read.AtLeast, ctx.Err())
		}
	}
}

func (r *ref) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	select {
	case r.writer <- struct{}{}:
		defer func() { <-r.writer }()
	case <-r.ended:
		return 0, engine.ErrClosed
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if r.cut.Swap(false) {
		return 0, engine.ErrUnavailable
	}
	st, _, err := r.current()
	if err != nil {
		return 0, err
	}
	now := time.Now().Truncate(time.Microsecond)
	if !now.After(st.now) {
		now = st.now.Add(time.Microsecond)
	}
	tx := &refTx{pairs: slices.Clone(st.pairs), now: now, wrote: map[string]bool{}}
	_, tx.fenced, _ = tx.Get([]byte(engine.FenceKey))
	err = fn(tx)
	if tx.ended = true; err == nil {
		err = tx.broken
	}
	if err != nil {
		return 0, err
	}
	if len(tx.wrote) == 0 {
		return st.pos, nil
	}
	return r.commit(st, tx)
}

func (r *ref) UpdateOf(ctx context.Context, _ [][]byte, fn func(engine.Tx) error) (engine.Position, error) {
	return r.Update(ctx, fn)
}

func (r *ref) UpdateEach(ctx context.Context, n int, fn func(engine.Tx, int) error) (engine.Position, error) {
	return engine.UpdateEach(ctx, struct{ engine.Engine }{r}, n, fn)
}

func (r *ref) commit(st refState, tx *refTx) (engine.Position, error) {
	c := engine.Change{Pos: st.pos + 1, Time: tx.now}
	for k := range tx.wrote {
		i, ok := tx.find([]byte(k))
		w := engine.Write{Key: []byte(k), Deleted: !ok}
		if ok {
			w.Val = tx.pairs[i].Val
		}
		c.Writes = append(c.Writes, w)
	}
	changes := append(slices.Clip(st.changes), c)
	if r.keep > 0 && len(changes) > r.keep {
		changes = slices.Clone(changes[len(changes)-r.keep:])
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 0, engine.ErrClosed
	}
	r.state = refState{tx.pairs, c.Pos, c.Time, changes}
	close(r.moved)
	r.moved = make(chan struct{})
	return c.Pos, nil
}

func (r *ref) Changes(ctx context.Context, after engine.Position) iter.Seq2[engine.Change, error] {
	return func(yield func(engine.Change, error) bool) {
		for {
			st, moved, err := r.current()
			if err == nil && after+engine.Position(len(st.changes)) < st.pos {
				err = engine.ErrTruncated
			}
			if err != nil {
				yield(engine.Change{}, err)
				return
			}
			for _, c := range st.changes {
				if c.Pos <= after {
					continue
				}
				if after = c.Pos; !yield(c, nil) {
					return
				}
			}
			select {
			case <-moved:
			case <-r.ended:
			case <-ctx.Done():
				return
			}
		}
	}
}

// Empty implements engine.Emptier.
func (r *ref) Empty(context.Context) (bool, error) {
	st, _, err := r.current()
	for _, p := range st.pairs {
		if string(p.Key) != engine.FenceKey {
			return false, err
		}
	}
	return true, err
}

func (r *ref) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.closed = true
		close(r.ended)
	}
	return nil
}

func (r *ref) Position() engine.Position {
	st, _, _ := r.current()
	return st.pos
}

func (r *ref) Raise(ctx context.Context, p engine.Position) (engine.Position, error) {
	if p > refMaxPos {
		return 0, engine.ErrInvalid
	}
	r.writer <- struct{}{}
	defer func() { <-r.writer }()
	r.mu.Lock()
	defer r.mu.Unlock()
	if p > r.state.pos {
		r.state.pos, r.state.changes = p, nil
		close(r.moved)
		r.moved = make(chan struct{})
	}
	return r.state.pos, ctx.Err()
}

// Backup writes the pairs, each with its lengths before it.
func (r *ref) Backup(ctx context.Context, w io.Writer) (engine.Position, error) {
	st, _, err := r.current()
	for _, p := range st.pairs {
		if err = cmp.Or(err, ctx.Err()); err == nil {
			_, err = fmt.Fprintf(w, "%d %d %s%s", len(p.Key), len(p.Val), p.Key, p.Val)
		}
	}
	return st.pos, err
}

// restoreRef makes an engine of what Backup wrote.
func restoreRef(backup io.Reader) *ref {
	var st refState
	for {
		var key, val int
		if n, _ := fmt.Fscanf(backup, "%d %d ", &key, &val); n < 2 {
			return newRef(st, 0)
		}
		b := make([]byte, key+val)
		if _, err := io.ReadFull(backup, b); err != nil {
			panic(err)
		}
		st.pairs = append(st.pairs, engine.Pair{Key: b[:key:key], Val: b[key:]})
	}
}

func (r *ref) Stopped() <-chan struct{} { return nil }

func (r *ref) Err() error { return nil }

func (r *ref) Cluster() engine.Cluster { return refCluster{r} }

func (r *ref) Advertise(http, _ string) { r.http.Store(&http) }

func (r *ref) HandOver() {}

// refCluster has one node, which is the leader.
type refCluster struct{ r *ref }

func (c refCluster) State() engine.ClusterState {
	n := engine.Node{ID: 1, Voter: true}
	if http := c.r.http.Load(); http != nil {
		n.HTTP = *http
	}
	return engine.ClusterState{Self: 1, Leader: 1, Nodes: []engine.Node{n}}
}

func (c refCluster) AwaitLeader(context.Context) (engine.Node, error) {
	return c.State().Nodes[0], nil
}

func (c refCluster) Dial(context.Context, uint64, string) (net.Conn, error) {
	return nil, engine.ErrNotLeader
}

func (c refCluster) Listen(string) net.Listener { return nil }

func (r *ref) Metrics() iter.Seq[engine.Metric] {
	st, _, _ := r.current()
	return slices.Values([]engine.Metric{
		{Name: "engine_transactions_total", Help: "Transactions committed.", Counter: true, Value: float64(st.pos)},
		{Name: "engine_keys", Help: "Keys held.", Value: float64(len(st.pairs))},
	})
}

// refTx is a transaction on a list of its own.
type refTx struct {
	pairs    []engine.Pair
	now      time.Time
	readOnly bool
	wrote    map[string]bool
	size     int
	saved    []refSave
	broken   error // by Break, before the savepoint brokenAt
	brokenAt int
	scanning int
	ended    bool
	fenced   bool // only the fence may be written
}

// refSave is the state of a transaction at a savepoint.
type refSave struct {
	pairs []engine.Pair
	wrote map[string]bool
}

func (t *refTx) find(key []byte) (int, bool) {
	return slices.BinarySearchFunc(t.pairs, key, func(p engine.Pair, k []byte) int { return bytes.Compare(p.Key, k) })
}

func (t *refTx) Get(key []byte) ([]byte, bool, error) {
	if i, ok := t.find(key); ok {
		return t.pairs[i].Val, true, nil
	}
	return nil, false, nil
}

func (t *refTx) Put(key, val []byte) error {
	switch {
	case t.readOnly:
		return engine.ErrReadOnly
	case len(key) == 0:
		return engine.ErrKeyEmpty
	case len(key) > refMaxKey:
		return engine.ErrKeyTooLarge
	case len(val) > refMaxVal:
		return engine.ErrValueTooLarge
	case t.size+len(key)+len(val) > refMaxTx:
		return engine.ErrTxTooLarge
	case t.stopped(key):
		return engine.ErrFenced
	}
	t.size += len(key) + len(val)
	t.wrote[string(key)] = true
	p := engine.Pair{Key: bytes.Clone(key), Val: append([]byte{}, val...)}
	if i, ok := t.find(key); ok {
		t.pairs[i] = p
	} else {
		t.pairs = slices.Insert(t.pairs, i, p)
	}
	return nil
}

// stopped reports whether a fence stops the write of key.
func (t *refTx) stopped(key []byte) bool {
	if string(key) == engine.FenceKey {
		t.fenced = false
	}
	return t.fenced
}

func (t *refTx) Delete(key []byte) error {
	if t.readOnly {
		return engine.ErrReadOnly
	}
	if t.stopped(key) {
		return engine.ErrFenced
	}
	if i, ok := t.find(key); ok {
		t.wrote[string(key)] = true
		t.pairs = slices.Delete(t.pairs, i, i+1)
	}
	return nil
}

func (t *refTx) within(lo, hi []byte) []engine.Pair {
	from, _ := t.find(lo)
	to := len(t.pairs)
	if hi != nil {
		to, _ = t.find(hi)
	}
	return t.pairs[from:max(from, to)]
}

func (t *refTx) Scan(lo, hi []byte) iter.Seq2[engine.Pair, error] {
	return t.counted(valuesOf(t.within(lo, hi)))
}

func (t *refTx) counted(pairs iter.Seq2[engine.Pair, error]) iter.Seq2[engine.Pair, error] {
	return func(yield func(engine.Pair, error) bool) {
		t.scanning++
		defer func() { t.scanning-- }()
		pairs(yield)
	}
}

func (t *refTx) Savepoint() int {
	t.saved = append(t.saved, refSave{slices.Clone(t.pairs), maps.Clone(t.wrote)})
	return len(t.saved) - 1
}

func (t *refTx) RollbackTo(mark int) error {
	if t.ended || mark < 0 || mark >= len(t.saved) {
		return engine.ErrInvalid
	}
	if s := t.saved[mark]; t.scanning == 0 {
		t.pairs, t.wrote = slices.Clone(s.pairs), maps.Clone(s.wrote)
	} else if !slices.EqualFunc(s.pairs, t.pairs, func(a, b engine.Pair) bool {
		return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Val, b.Val)
	}) {
		return engine.ErrInvalid
	}
	if t.saved = t.saved[:mark+1]; mark < t.brokenAt {
		t.broken = nil
	}
	return nil
}

func (t *refTx) ScanBack(lo, hi []byte) iter.Seq2[engine.Pair, error] {
	back := slices.Clone(t.within(lo, hi))
	slices.Reverse(back)
	return t.counted(valuesOf(back))
}

func (t *refTx) Now() time.Time { return t.now }

func (t *refTx) AsOf() time.Time { return t.now }

func (t *refTx) Count(lo, hi []byte) (int, error) {
	if t.ended {
		return 0, engine.ErrInvalid
	}
	return len(t.within(lo, hi)), nil
}

func (t *refTx) At(lo, hi []byte, i int) (engine.Pair, bool, error) {
	if t.ended {
		return engine.Pair{}, false, engine.ErrInvalid
	}
	if list := t.within(lo, hi); i >= 0 && i < len(list) {
		return list[i], true, nil
	}
	return engine.Pair{}, false, nil
}

func (t *refTx) PutUntil(key, val []byte, _ time.Time) error { return t.Put(key, val) }

func (t *refTx) GetMany(keys [][]byte) ([][]byte, error) {
	vals := make([][]byte, len(keys))
	for i, key := range keys {
		vals[i], _, _ = t.Get(key)
	}
	return vals, nil
}

func (t *refTx) Expects() bool { return !t.ended }

func (t *refTx) Expect([][]byte) {}

func (t *refTx) Break(err error) {
	if t.broken == nil {
		t.broken, t.brokenAt = err, len(t.saved)
	}
}

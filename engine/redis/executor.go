package redis

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"math"
	mathrand "math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/engine"
)

// executor is the state of execute. Only that goroutine uses it, but for over.
//
// A batch passes these stages. gather takes the calls that wait. fill runs their
// transactions one after the other over the batch's writes and what Redis has at base.
// commit sends the writes; the script applies them only if base is still the newest
// position, and then everything that was read is of base too. If another process has
// committed in between, the batch is filled again on the new base.
type executor struct {
	base  engine.Position
	at    int64 // the time of base, in microseconds
	known map[string]entry
	size  int // bytes of known
	over  chan struct{}
}

// entry is the value of a key at base.
type entry struct {
	val  []byte
	none bool
}

const knownBytes = 16 << 20 // of executor.known

func (x *executor) done(d *db) {
	select {
	case <-x.over:
	case <-d.ctx.Done():
	}
}

func (x *executor) forget() { x.known, x.size = map[string]entry{}, 0 }

func (x *executor) learn(key string, e entry) {
	if x.size > knownBytes {
		x.forget()
	}
	x.size += len(key) + len(e.val) + 100
	x.known[key] = e
}

func (d *db) execute() {
	defer close(d.exec.over)
	d.exec.forget()
	for {
		select {
		case <-d.ended:
			return
		case c := <-d.queue:
			d.run(d.gather(c))
		}
	}
}

// gather takes the calls that wait already.
func (d *db) gather(first *call) []*call {
	calls := []*call{first}
	for len(calls) < maxBatchCalls {
		select {
		case c := <-d.queue:
			calls = append(calls, c)
		default:
			return calls
		}
	}
	return calls
}

// cursor is the next transaction of some calls: transaction i of calls[0].
type cursor struct {
	calls []*call
	i     int
}

// run carries out calls, in as many batches as it takes. If one fails, so do the calls
// that were to be in it or after it.
func (d *db) run(calls []*call) {
	for at := (cursor{calls, 0}); len(at.calls) > 0; {
		b, err := d.batch(at)
		if err != nil {
			for i, c := range at.calls {
				c.err = err
				if i == 0 && at.i > 0 && !errors.Is(err, engine.ErrOutcomeUnknown) {
					c.err = engine.Errorf(engine.CodeOutcomeUnknown, "redis: some of the transactions were committed: %w", err)
				}
				close(c.done)
			}
			return
		}
		for _, r := range b.results {
			r.c.pos, r.c.err = r.pos, r.err
			close(r.c.done)
		}
		at = b.next
	}
}

// batch fills and commits one batch.
func (d *db) batch(at cursor) (*batch, error) {
	most := int64(math.MaxInt64)
	for try := 0; ; try++ {
		b := d.fill(at, most)
		err := b.fail
		if err == nil {
			err = d.commit(b)
		}
		if err == nil {
			return b, nil
		}
		if err == errReplaces && b.txs > 1 {
			most = b.txs / 2
			continue
		}
		if err != errConflict {
			d.exec.forget()
			return nil, d.orClosed(err)
		}
		d.conflicts.Add(1)
		d.exec.forget()
		select {
		case <-d.ended:
			return nil, engine.ErrClosed
		default:
		}
		if try == maxConflicts {
			return nil, engine.Errorf(engine.CodeConflict, "redis: a batch lost to other processes %d times", try)
		}
		if try > 1 {
			d.pause(time.Duration(mathrand.IntN(min(try, 10)*200)) * time.Microsecond)
		}
		if try > 3 {
			d.askTurn()
		}
		if err := d.rebase(); err != nil {
			return nil, d.orClosed(err)
		}
	}
}

// askTurn asks the other processes to let this one commit next, for a short time.
func (d *db) askTurn() {
	ctx, cancel := context.WithTimeout(d.ctx, d.o.patience)
	defer cancel()
	d.c.Do(ctx, d.c.B().Set().Key(d.n.turn).Value(d.self).Nx().Px(100*time.Millisecond).Build())
}

// rebase learns the newest position. If that is older than one that is known, sync begins a new epoch or says why not.
func (d *db) rebase() error {
	for {
		known := d.Position()
		p, _, err := d.values(d.ctx, "", nil)
		if err == nil && p.pos < known {
			if err = d.sync(d.ctx, ""); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		d.exec.base, d.exec.at = p.pos, p.at
		return d.advance(d.ctx, p.pos)
	}
}

// errReplaces: the values that the batch replaces do not fit into the history at once.
var errReplaces = engine.Errorf(engine.CodeTxTooLarge, "redis: a transaction replaces or deletes at most %d bytes of values", maxReplaced)

// errConflict: base is not the newest position.
var errConflict = errors.New("another process has committed")

// batch is a sequence of transactions that are committed together.
type batch struct {
	d       *db
	over    *btree.Pairs // all writes; marked: deleted
	pos     engine.Position
	at      int64
	fresh   bool // something was read from Redis, so base was the newest position after the calls began
	wrote   []byte
	writes  int
	txs     int64
	where   map[string][4]uint32 // of each key's last write in wrote
	want    [][]byte             // keys that are expected to be used
	results []result
	next    cursor
	fail    error
}

type result struct {
	c   *call
	pos engine.Position
	err error
}

// fill runs transactions: most of them at most, and as many as fit.
func (d *db) fill(at cursor, most int64) *batch {
	b := &batch{d: d, over: btree.NewPairs(), pos: d.exec.base, at: d.exec.at, where: map[string][4]uint32{}}
	for _, c := range at.calls {
		b.want = append(b.want, c.keys...)
	}
	for len(at.calls) > 0 && len(b.wrote) < maxBatchBytes && b.writes < maxBatchWrites && b.txs < most {
		c := at.calls[0]
		err := b.transact(c, at.i)
		if b.fail != nil {
			return b
		}
		_, panics := errors.AsType[*panicked](err)
		switch {
		case c.each && panics:
			err = engine.Errorf(engine.CodeOutcomeUnknown, "redis: %w", err)
		case c.each && !errors.Is(err, errLeft):
			if err = nil; at.i+1 < c.n {
				at.i++
				continue
			}
		}
		r := result{c: c, err: err}
		if err == nil {
			r.pos = b.pos
		}
		b.results = append(b.results, r)
		at = cursor{at.calls[1:], 0}
	}
	b.next = at
	return b
}

// transact runs one transaction and keeps its writes if it succeeds.
func (b *batch) transact(c *call, i int) error {
	tx := &writeTx{b: b, mine: btree.NewPairs(), now: max(b.d.clock(), b.at+1)}
	err := c.run(tx, i)
	if err == nil {
		err = tx.broken
	}
	tx.ended = true
	b.txs++
	if err != nil || b.fail != nil || tx.mine.Len() == 0 {
		return err
	}
	b.pos, b.at = b.pos+1, tx.now
	b.add(tx)
	return nil
}

// add encodes one transaction: its time, how many writes, and each key and value with its
// length. The encoding is stored: do not change it.
func (b *batch) add(tx *writeTx) {
	w := binary.BigEndian.AppendUint64(b.wrote, uint64(tx.now))
	w = binary.BigEndian.AppendUint32(w, uint32(tx.mine.Len()))
	for k, v := range tx.mine.Ascend(nil, nil) {
		w = binary.BigEndian.AppendUint32(w, uint32(len(k)))
		at := [4]uint32{uint32(len(w)), uint32(len(k)), 0, none}
		w = append(w, k...)
		if v.Marked {
			w = binary.BigEndian.AppendUint32(w, none)
		} else {
			w = binary.BigEndian.AppendUint32(w, uint32(len(v.Bytes)))
			at[2], at[3] = uint32(len(w)), uint32(len(v.Bytes))
			w = append(w, v.Bytes...)
		}
		b.where[string(k)] = at
		b.over.Set(k, v)
		b.writes++
	}
	b.wrote = w
}

// get returns what a key has after the transactions of the batch so far.
func (b *batch) get(keys [][]byte) ([]entry, error) {
	out := make([]entry, len(keys))
	var miss []int
	for i, k := range keys {
		if v, ok := b.over.Get(k); ok {
			out[i] = entry{v.Bytes, v.Marked}
		} else if e, ok := b.d.exec.known[string(k)]; ok {
			out[i] = e
		} else {
			miss = append(miss, i)
		}
	}
	for len(miss) > 0 {
		n := min(len(miss), maxMany)
		ask := make([][]byte, 0, n)
		for _, i := range miss[:n] {
			ask = append(ask, keys[i])
		}
		ask = b.expected(ask)
		vals, err := b.stored(ask)
		if err != nil {
			return nil, err
		}
		for j, i := range miss[:n] {
			out[i] = vals[j]
		}
		miss = miss[n:]
	}
	return out, nil
}

// expected adds keys that will be used soon, as many as one script may read.
func (b *batch) expected(ask [][]byte) [][]byte {
	for len(b.want) > 0 && len(ask) < maxMany {
		k := b.want[0]
		b.want = b.want[1:]
		if _, ok := b.d.exec.known[string(k)]; !ok {
			ask = append(ask, k)
		}
	}
	return ask
}

// stored reads what keys have in Redis at base.
func (b *batch) stored(keys [][]byte) ([]entry, error) {
	x := &b.d.exec
	if _, ok := x.known[engine.FenceKey]; !ok { // every write needs it
		keys = append(keys, fence)
	}
	p, vals, err := b.d.values(b.d.ctx, "", keys)
	if err = b.is(p, err); err != nil {
		return nil, err
	}
	out := make([]entry, len(keys))
	for i, v := range vals {
		out[i] = entry{v, v == nil}
		x.learn(string(keys[i]), out[i])
	}
	return out, nil
}

var fence = []byte(engine.FenceKey)

// is checks that a read was of base. Otherwise the batch is void.
func (b *batch) is(p past, err error) error {
	if err == nil && p.pos != b.d.exec.base {
		err = errConflict
	}
	if err != nil {
		b.fail = cmp.Or(b.fail, faultOr(b.d.ctx, err))
		return engine.Errorf(engine.CodeUnavailable, "redis: the transaction will run again or fail: %w", err)
	}
	b.fresh = true
	return nil
}

// faultOr is fault, but for conflicts.
func faultOr(ctx context.Context, err error) error {
	if err == errConflict {
		return err
	}
	return fault(ctx, err)
}

// commit makes the writes of the batch the newest state. A batch that wrote nothing must
// have been filled on the newest one.
func (d *db) commit(b *batch) error {
	x := &d.exec
	if b.pos == x.base {
		if b.fresh {
			return nil
		}
		p, _, err := d.values(d.ctx, "", nil)
		if err == nil && p.pos != x.base {
			err = errConflict
		}
		return err
	}
	if err := d.send(b); err != nil {
		return err
	}
	d.batches.Add(1)
	d.txs.Add(b.txs)
	for k, v := range b.over.Ascend(nil, nil) {
		x.learn(string(k), entry{append([]byte{}, v.Bytes...), v.Marked})
	}
	x.base, x.at = b.pos, b.at
	return d.advance(d.ctx, b.pos)
}

// send runs the commit script until it is known what became of the batch. After a lost
// connection it sends the same batch again: the script applies it once at most, because
// afterwards base is not the newest position; whether it was applied, its id tells.
func (d *db) send(b *batch) error {
	script, keys, args, id := d.request(b)
	unknown, cut := false, false
	until := time.Now().Add(d.o.patience)
	for wait := time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		if err := d.refusal(); err != nil {
			return orUnknown(unknown, err)
		}
		got, err := script.Exec(d.ctx, d.c, keys, args).ToArray()
		word := ""
		if err == nil {
			word, err = got[0].ToString()
		}
		if final, err := d.verdict(word, id, unknown); final {
			return err
		}
		switch {
		case word == "epoch":
			if err = d.sync(d.ctx, ""); err == nil {
				continue
			}
		case isServers(err) && !passing(err):
			return orUnknown(unknown, fault(d.ctx, err))
		case err != nil && !isServers(err):
			unknown = unknown || !unsent(err)
			if !cut {
				cut, until = true, time.Now().Add(d.o.patience) // silence may have taken all of it
			}
		}
		select {
		case <-d.ended:
			until = time.Time{}
		default:
		}
		if time.Now().After(until) || errors.Is(err, rueidis.ErrClosing) {
			return orUnknown(unknown, cmp.Or(fault(d.ctx, err), errConflict))
		}
		d.retries.Add(1)
		d.pause(wait + mathrand.N(wait))
	}
}

// verdict returns what an answer of the commit script means, unless the batch must be sent again.
func (d *db) verdict(word, id string, unknown bool) (final bool, err error) {
	switch {
	case word == "ok":
		return true, nil
	case word == "lost":
		return true, orUnknown(unknown, errLost)
	case word == "large":
		return true, orUnknown(unknown, errReplaces)
	case word == "conflict" && unknown:
		return true, d.settle(id)
	case word == "turn" && unknown: // another process's turn ends soon
	case word == "turn":
		d.pause(time.Millisecond)
		return true, errConflict
	case word == "conflict":
		return true, errConflict
	}
	return false, nil
}

// orUnknown returns err, or says that the batch may have been committed before.
func orUnknown(unknown bool, err error) error {
	if unknown {
		return engine.Errorf(engine.CodeOutcomeUnknown, "redis: the batch was cut off: %w", err)
	}
	return err
}

func (d *db) request(b *batch) (script *rueidis.Lua, keys, args []string, id string) {
	script = deleteScript
	index := make([]byte, 0, 16*len(b.where))
	for _, at := range b.where {
		for _, n := range at {
			index = binary.BigEndian.AppendUint32(index, n)
		}
		if at[3] != none {
			script = commitScript
		}
	}
	id = rand.Text()
	n := d.n
	keys = []string{n.meta, n.value, n.order, n.change, n.turn, n.mark}
	args = []string{
		formatPos(d.exec.base), formatPos(b.pos), strconv.FormatInt(b.at, 10), id, d.self,
		rueidis.BinaryString(b.wrote), rueidis.BinaryString(index), n.moved,
		strconv.FormatInt(d.o.HistoryBytes/marks, 10), strconv.Itoa(marks), strconv.Itoa(d.o.replaced),
	}
	return script, keys, args, id
}

// settle finds out what became of a batch whose answer was lost, now that base is not the
// newest position: if it was committed, it is the batch after base.
func (d *db) settle(id string) error {
	var first entryOf
	var had bool
	err := d.retry(d.ctx, func(ctx context.Context) error {
		list, err := d.entries(ctx, d.exec.base, 1)
		if had = len(list) > 0; had {
			first = list[0]
		}
		return err
	})
	switch {
	case err != nil:
		return engine.Errorf(engine.CodeOutcomeUnknown, "redis: the batch was cut off: %w", err)
	case had && first.id == id:
		d.settled.Add(1)
		return nil
	case had && first.base <= d.exec.base:
		d.settled.Add(1)
		return errConflict
	}
	return engine.Errorf(engine.CodeOutcomeUnknown, "redis: the batch was cut off, and the history of that time is gone")
}

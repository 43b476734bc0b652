package redis

import (
	"bytes"
	"context"
	"encoding/binary"
	"iter"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/overlay"
)

var (
	errEnded = engine.Errorf(engine.CodeInvalid, "the transaction has ended")
	// errOld: the history no longer has what was replaced since the view began.
	errOld = engine.Errorf(engine.CodeConflict, "redis: the view lasted longer than the history of changes")
)

// past is the head of what the read scripts return.
type past struct {
	pos  engine.Position
	at   int64
	undo []rueidis.RedisMessage
}

// parsePast reads the head of an answer, and returns the rest.
func parsePast(all []rueidis.RedisMessage, err error) (p past, rest []rueidis.RedisMessage, _ error) {
	if err != nil {
		return p, nil, err
	}
	if len(all) < 3 || all[0].IsNil() {
		return p, nil, errLost
	}
	text, err := all[0].ToString()
	if err == nil {
		p.pos, err = parsePos(text)
	}
	if err == nil {
		if text, err = all[1].ToString(); err == nil {
			p.at, err = strconv.ParseInt(text, 10, 64)
		}
	}
	if err == nil {
		p.undo, err = all[2].ToArray()
	}
	return p, all[3:], err
}

// values returns the values of keys, nil for none, as of p.pos.
func (d *db) values(ctx context.Context, seen string, keys [][]byte) (p past, vals [][]byte, err error) {
	args := make([]string, 1+len(keys))
	args[0] = seen
	for i, k := range keys {
		args[i+1] = rueidis.BinaryString(k)
	}
	err = d.retry(ctx, func(ctx context.Context) error {
		var rest []rueidis.RedisMessage
		p, rest, err = parsePast(readScript.Exec(ctx, d.c, []string{d.n.meta, d.n.change, d.n.value}, args).ToArray())
		if err != nil {
			return err
		}
		vals = make([][]byte, len(rest))
		for i := range rest {
			if rest[i].IsNil() {
				continue
			}
			if vals[i], err = rest[i].AsBytes(); err != nil {
				return err
			}
			if vals[i] == nil {
				vals[i] = []byte{}
			}
		}
		return nil
	})
	return p, vals, err
}

// page is what one call of scan.lua returns.
type page struct {
	pairs []engine.Pair
	more  bool
	last  []byte // the last key that it covers, if there is more
}

// bounds are those of a scan that is under way; lo is included unless it was yielded.
type bounds struct {
	lo, hi []byte
	after  bool // lo itself is not included
	back   bool
}

func (b bounds) args(seen string, n int) []string {
	from, to := "-", "+"
	switch {
	case b.after:
		from = "(" + string(b.lo)
	case len(b.lo) > 0:
		from = "[" + string(b.lo)
	}
	if b.hi != nil {
		to = "(" + string(b.hi)
	}
	back := "0"
	if b.back {
		from, to, back = to, from, "1"
	}
	return []string{seen, from, to, strconv.Itoa(n), strconv.Itoa(scanBytes), back}
}

func (d *db) page(ctx context.Context, seen string, b bounds, n int) (p past, out page, err error) {
	args := b.args(seen, n)
	err = d.retry(ctx, func(ctx context.Context) error {
		var rest []rueidis.RedisMessage
		p, rest, err = parsePast(scanScript.Exec(ctx, d.c, []string{d.n.meta, d.n.change, d.n.value, d.n.order}, args).ToArray())
		if err != nil {
			return err
		}
		out = page{pairs: make([]engine.Pair, 0, len(rest)/2)}
		for i := 0; i+1 < len(rest); i += 2 {
			k, err := rest[i].AsBytes()
			if err != nil {
				return err
			}
			v, err := rest[i+1].AsBytes()
			if err != nil {
				return err
			}
			out.pairs = append(out.pairs, engine.Pair{Key: k, Val: v})
		}
		n, err := rest[len(rest)-1].AsInt64()
		if out.more = n == 1; out.more {
			out.last = out.pairs[len(out.pairs)-1].Key
		}
		return err
	})
	return p, out, err
}

const (
	scanFirst = 32        // pairs of the first page of a scan
	scanMost  = 512       // pairs of a page
	scanBytes = 512 << 10 // of a page, unless one value is larger
)

// pages yields the pairs of a range. read returns one page.
func pages(b bounds, read func(b bounds, n int) (page, error)) iter.Seq2[engine.Pair, error] {
	return func(yield func(engine.Pair, error) bool) {
		b.lo, b.hi = bytes.Clone(b.lo), bytes.Clone(b.hi)
		for n := scanFirst; b.hi == nil || bytes.Compare(b.lo, b.hi) < 0; n = min(4*n, scanMost) {
			p, err := read(b, n)
			if err != nil {
				yield(engine.Pair{}, err)
				return
			}
			for _, pair := range p.pairs {
				if !yield(pair, nil) {
					return
				}
			}
			switch {
			case !p.more:
				return
			case b.back:
				b.hi = p.last
			default:
				b.lo, b.after = p.last, true
			}
		}
	}
}

// viewTx is a snapshot of the position at which it first read. What was replaced since is
// in the history; old holds it.
type viewTx struct {
	d     *db
	ctx   context.Context
	begun bool
	pos   engine.Position // of the snapshot
	seen  engine.Position // up to which old is complete
	now   time.Time
	old   *btree.Pairs // what keys had at pos; marked: nothing
	fail  error        // of Redis, or errOld
	ended bool
}

// View implements engine.Engine.
func (d *db) View(ctx context.Context, r engine.Read, fn func(engine.Tx) error) (engine.Position, error) {
	for try := 0; ; try++ {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if err := d.await(ctx, r.AtLeast); err != nil {
			return 0, err
		}
		pos, err := d.viewOnce(ctx, fn)
		if err == nil && pos < r.AtLeast { // the server was replaced by one that lacks commits
			if err := d.sync(ctx, ""); err != nil {
				return 0, err
			}
			continue
		}
		if err == errOld && try < 3 {
			continue
		}
		return pos, err
	}
}

func (d *db) viewOnce(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	tx := &viewTx{d: d, ctx: ctx, old: btree.NewPairs()}
	defer func() { tx.ended = true }()
	err := fn(tx)
	if tx.fail != nil {
		return 0, tx.fail
	}
	if err != nil {
		return 0, err
	}
	if err := tx.begin(); err != nil {
		return 0, err
	}
	return tx.pos, d.advance(ctx, tx.pos)
}

// take includes what an answer says about the past. It reports whether all of that was in it.
func (t *viewTx) take(p past) (bool, error) {
	if !t.begun {
		t.begun, t.pos, t.seen = true, p.pos, p.pos
		t.now = time.UnixMicro(max(t.d.clock(), p.at))
		return true, nil
	}
	for i := 0; i+2 < len(p.undo); i += 3 {
		var at [2]engine.Position
		for j := range at {
			text, err := p.undo[i+j].ToString()
			if err == nil {
				at[j], err = parsePos(text)
			}
			if err != nil {
				return false, err
			}
		}
		if at[1] != t.seen {
			return false, errOld
		}
		olds, err := p.undo[i+2].AsBytes()
		if err != nil {
			return false, err
		}
		for k, v := range undone(olds) {
			if _, ok := t.old.Get(k); !ok {
				t.old.Set(k, v)
			}
		}
		t.seen = at[0]
	}
	if t.seen != p.pos && len(p.undo) == 0 {
		return false, errOld
	}
	return t.seen == p.pos, nil
}

// undone yields keys and what they had before a batch.
func undone(b []byte) iter.Seq2[[]byte, btree.Value] {
	return func(yield func([]byte, btree.Value) bool) {
		for len(b) >= 8 {
			n := binary.BigEndian.Uint32(b)
			k := b[4 : 4+n]
			b = b[4+n:]
			size := binary.BigEndian.Uint32(b)
			v := btree.Value{Marked: size == none}
			b = b[4:]
			if !v.Marked {
				v.Bytes, b = b[:size], b[size:]
			}
			if !yield(k, v) {
				return
			}
		}
	}
}

// none is the size of a value that there is not. It is stored: do not change it.
const none = 1<<32 - 1

// ask repeats a read until what it says about the past is complete.
func (t *viewTx) ask(read func(seen string) (past, error)) error {
	for {
		switch {
		case t.ended:
			return errEnded
		case t.fail != nil:
			return t.fail
		}
		seen := ""
		if t.begun {
			seen = formatPos(t.seen)
		}
		p, err := read(seen)
		all := false
		if err == nil {
			all, err = t.take(p)
		}
		if err != nil {
			t.fail = t.d.orClosed(fault(t.ctx, err))
			return t.fail
		}
		if all {
			return nil
		}
	}
}

func (t *viewTx) begin() error {
	if t.begun && !t.ended {
		return t.fail
	}
	_, err := t.GetMany(nil)
	return err
}

// Get implements engine.Tx.
func (t *viewTx) Get(key []byte) ([]byte, bool, error) {
	vals, err := t.GetMany([][]byte{key})
	if err != nil || vals[0] == nil {
		return nil, false, err
	}
	return vals[0], true, nil
}

// GetMany implements engine.ManyGetter.
func (t *viewTx) GetMany(keys [][]byte) (vals [][]byte, err error) {
	for first := true; first || len(keys) > 0; first = false {
		n := min(len(keys), maxMany)
		var part [][]byte
		err = t.ask(func(seen string) (p past, err error) {
			p, part, err = t.d.values(t.ctx, seen, keys[:n])
			return p, err
		})
		if err != nil {
			return nil, err
		}
		vals, keys = append(vals, t.corrected(keys[:n], part)...), keys[n:]
	}
	return vals, nil
}

// maxMany bounds the keys that one script reads.
const maxMany = 128

func (t *viewTx) corrected(keys, vals [][]byte) [][]byte {
	for i, k := range keys {
		if v, ok := t.old.Get(k); ok {
			vals[i] = nil
			if !v.Marked {
				vals[i] = append([]byte{}, v.Bytes...)
			}
		}
	}
	return vals
}

// Put implements engine.Tx.
func (t *viewTx) Put(_, _ []byte) error { return engine.ErrReadOnly }

// Delete implements engine.Tx.
func (t *viewTx) Delete([]byte) error { return engine.ErrReadOnly }

// Scan implements engine.Tx.
func (t *viewTx) Scan(lo, hi []byte) iter.Seq2[engine.Pair, error] { return t.scan(lo, hi, false) }

// ScanBack implements engine.Tx.
func (t *viewTx) ScanBack(lo, hi []byte) iter.Seq2[engine.Pair, error] { return t.scan(lo, hi, true) }

// scan corrects each page by what was replaced up to the time when the page was read. A page
// covers the keys up to its last one, or to the end if it is the last page.
func (t *viewTx) scan(lo, hi []byte, back bool) iter.Seq2[engine.Pair, error] {
	read := func(b bounds, n int) (page, error) {
		var got page
		err := t.ask(func(seen string) (p past, err error) {
			p, got, err = t.d.page(t.ctx, seen, b, n)
			return p, err
		})
		if err != nil || t.old.Len() == 0 {
			return got, err
		}
		if got.more {
			if back {
				b.lo, b.after = got.last, false
			} else {
				b.hi = append(bytes.Clone(got.last), 0)
			}
		}
		if b.after {
			b.lo = append(bytes.Clone(b.lo), 0)
		}
		fixed := page{more: got.more, last: got.last}
		stored := func(yield func(engine.Pair, error) bool) {
			for _, p := range got.pairs {
				if !yield(p, nil) {
					return
				}
			}
		}
		for p, _ := range overlay.Merge(t.old, b.lo, b.hi, back, stored) {
			fixed.pairs = append(fixed.pairs, p)
		}
		return fixed, nil
	}
	return pages(bounds{lo: lo, hi: hi, back: back}, read)
}

// Now implements engine.Tx.
func (t *viewTx) Now() time.Time {
	if t.begin() != nil {
		return time.UnixMicro(t.d.clock())
	}
	return t.now
}

// AsOf implements engine.Tx.
func (t *viewTx) AsOf() time.Time { return t.Now() }

package resp

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/skerrydb/skerry/decimal"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/resp/wire"
)

// maxScanStep is how many keys one SCAN visits at most, regardless of its COUNT.
const maxScanStep = 100_000

func keysCmd(x *call) error {
	pattern := x.args[1]
	prefix, whole := globPrefix(pattern)
	list := wire.Writer{Buf: x.scratch()}
	n := 0
	if whole {
		if len(prefix) == 0 {
			x.out.Array(0)
			return nil
		}
		_, ok, err := x.tx.Get(prefix)
		if err != nil && engine.CodeOf(err) != engine.CodeKeyTooLarge {
			return err
		}
		if ok {
			list.Bulk(prefix)
			n++
		}
	} else {
		for it, err := range x.tx.ScanPrefix(prefix) {
			if err != nil {
				return err
			}
			if globMatch(pattern, it.Key) {
				list.Bulk(it.Key)
				n++
			}
			if len(list.Buf) > MaxReplyBytes {
				return errReplyTooBig
			}
		}
	}
	x.conn.tmp = list.Buf
	x.out.Array(n)
	x.out.Raw(list.Buf)
	return nil
}

// cursors stores the state of SCANs. Clients have a number, which stands for the last key
// that they received. Cursors that have been continued are kept for clients that retry, but
// are dropped first.
type cursors struct {
	mu   sync.Mutex // guards the fields below
	next uint64
	byID map[uint64]*cursor
	used []uint64 // continued, oldest first
	open []uint64 // the others, oldest first; may contain some of used too
}

type cursor struct {
	db   uint8
	key  []byte
	used bool
}

func (t *cursors) init() {
	t.byID = map[uint64]*cursor{}
	t.next = 1 + rand.Uint64N(1<<20) // so that a cursor of an earlier run of the server is rarely valid
}

// add returns a new cursor for a scan of db that has reached key.
func (t *cursors) add(db uint8, key []byte) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.byID) >= MaxCursors {
		t.forget()
	}
	id := t.next
	t.next++
	t.byID[id] = &cursor{db: db, key: bytes.Clone(key)}
	t.open = append(t.open, id)
	return id
}

// forget drops the oldest cursor, preferably one that has been continued. The caller holds
// mu.
func (t *cursors) forget() {
	if len(t.used) > 0 {
		delete(t.byID, t.used[0])
		t.used = t.used[1:]
		return
	}
	id := t.open[0]
	t.open = t.open[1:]
	if c := t.byID[id]; c != nil && !c.used {
		delete(t.byID, id)
	}
}

// get returns the key after which the cursor continues.
func (t *cursors) get(id uint64, db uint8) ([]byte, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.byID[id]
	if c == nil || c.db != db {
		return nil, false
	}
	if !c.used {
		c.used = true
		t.used = append(t.used, id)
		for len(t.open) > 0 && (t.byID[t.open[0]] == nil || t.byID[t.open[0]].used) {
			t.open = t.open[1:]
		}
	}
	return c.key, true
}

// scanOptions are the options of SCAN.
type scanOptions struct {
	match []byte
	count int
	none  bool // TYPE selects a type that does not exist here
}

func (o *scanOptions) parse(args [][]byte) error {
	o.count = 10
	for ; len(args) > 0; args = args[2:] {
		if len(args) == 1 {
			return errSyntax
		}
		v := args[1]
		switch {
		case wordIs(args[0], "COUNT"):
			n, ok := decimal.Parse(v)
			if !ok {
				return errNotInteger
			}
			if n < 1 {
				return errSyntax
			}
			o.count = int(min(n, maxScanStep))
		case wordIs(args[0], "MATCH"):
			o.match = v
		case wordIs(args[0], "TYPE"):
			o.none = !wordIs(v, "STRING")
		default:
			return errSyntax
		}
	}
	return nil
}

func scanCmd(x *call) error {
	id, err := strconv.ParseUint(string(x.args[1]), 10, 64)
	if err != nil {
		return replyError("ERR invalid cursor")
	}
	var o scanOptions
	if err := o.parse(x.args[2:]); err != nil {
		return err
	}
	lo, hi, err := x.scanRange(id, o.match)
	if err != nil {
		return err
	}
	list := wire.Writer{Buf: x.scratch()}
	n, seen := 0, 0
	var last []byte
	next := uint64(0)
	if !o.none {
		for it, err := range x.tx.Scan(lo, hi) {
			if err != nil {
				return err
			}
			if seen == o.count || len(list.Buf) > MaxReplyBytes/2 {
				next = x.srv.cursors.add(x.db, last)
				break
			}
			seen++
			last = append(last[:0], it.Key...)
			if o.match == nil || globMatch(o.match, it.Key) {
				list.Bulk(it.Key)
				n++
			}
		}
	}
	x.conn.tmp = list.Buf
	x.out.Array(2)
	var num [20]byte
	x.out.Bulk(strconv.AppendUint(num[:0], next, 10))
	x.out.Array(n)
	x.out.Raw(list.Buf)
	return nil
}

// scanRange returns the range of keys that a SCAN from a cursor still has to visit.
func (x *call) scanRange(id uint64, match []byte) (lo, hi []byte, err error) {
	if match != nil {
		lo, _ = globPrefix(match)
		hi = engine.PrefixEnd(lo)
	}
	if id == 0 {
		return lo, hi, nil
	}
	after, ok := x.srv.cursors.get(id, x.db)
	if !ok {
		return nil, nil, replyError("ERR invalid cursor: it is unknown, belongs to another database, or was dropped for newer ones (limit of 10,000) [limit]")
	}
	after = append(bytes.Clone(after), 0)
	if bytes.Compare(after, lo) > 0 {
		lo = after
	}
	if hi != nil && bytes.Compare(lo, hi) > 0 {
		lo = hi
	}
	return lo, hi, nil
}

// randomTries is how often RANDOMKEY guesses before it visits all keys. A guess fails if it
// picks a key that has expired but is not deleted yet.
const randomTries = 100

func randomKeyCmd(x *call) error {
	n, err := x.tx.Count()
	if err != nil {
		return err
	}
	for range min(n, randomTries) {
		it, ok, err := x.tx.At(rand.IntN(n))
		if err != nil {
			return err
		}
		if ok {
			x.out.Bulk(it.Key)
			return nil
		}
	}
	for it, err := range x.tx.Scan(nil, nil) {
		if err != nil {
			return err
		}
		x.out.Bulk(it.Key)
		return nil
	}
	x.out.Null()
	return nil
}

func dbSizeCmd(x *call) error {
	n, err := x.tx.Count()
	if err != nil {
		return err
	}
	x.out.Int(int64(n))
	return nil
}

// deleteAll removes all keys of the transaction's space.
func deleteAll(t *kv.Tx) error {
	var keys [][]byte
	for it, err := range t.Scan(nil, nil) {
		if err != nil {
			return err
		}
		keys = append(keys, bytes.Clone(it.Key))
	}
	for _, key := range keys {
		if _, err := t.Delete(key); err != nil {
			return err
		}
	}
	return nil
}

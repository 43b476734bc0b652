package redis

import (
	"context"
	"iter"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/skerrydb/skerry/engine"
)

// used is what a transaction did with one key.
type used struct {
	read  bool
	stamp string // of the value that was read; "": there was none
	val   []byte // as the transaction sees it; nil: none
	wrote bool
	until int64 // milliseconds; 0: for ever
}

// slotTx is one transaction, or a view.
type slotTx struct {
	e      *slots
	ctx    context.Context
	writes bool
	now    time.Time
	keys   map[string]*used
	part   []byte // of an Update; nil: none yet
	wrote  int
	size   int
	ended  bool

	crossed, fail error
}

// stay checks that a key is of the transaction's partition.
func (t *slotTx) stay(key []byte) error {
	if t.ended {
		return errEnded
	}
	part := engine.Partition(key)
	switch {
	case !t.writes || t.crossed != nil:
	case t.part == nil:
		t.part = append([]byte{}, part...)
	case string(part) != string(t.part):
		t.crossed = engine.Errorf(engine.CodeCrossPartition, "key %q is not of the partition %q, and a Redis Cluster changes one partition at a time", key, t.part)
	}
	return t.crossed
}

// Get implements engine.Tx.
func (t *slotTx) Get(key []byte) ([]byte, bool, error) {
	vals, err := t.GetMany([][]byte{key})
	if err != nil || vals[0] == nil {
		return nil, false, err
	}
	return vals[0], true, nil
}

// GetMany implements engine.ManyGetter.
func (t *slotTx) GetMany(keys [][]byte) ([][]byte, error) {
	var miss []string
	for _, k := range keys {
		if err := t.stay(k); err != nil {
			return nil, err
		}
		if len(k) > 0 && t.keys[string(k)] == nil {
			miss = append(miss, string(k))
		}
	}
	if err := t.fetch(miss); err != nil {
		return nil, err
	}
	out := make([][]byte, len(keys))
	for i, k := range keys {
		if u := t.keys[string(k)]; u != nil {
			out[i] = u.val
		}
	}
	return out, nil
}

func (t *slotTx) fetch(keys []string) error {
	if len(t.keys)+len(keys) > MaxTxKeys {
		return errManyKeys
	}
	until, cut := time.Now().Add(t.e.o.patience), false
	for wait := time.Millisecond; len(keys) > 0; wait = min(2*wait, 200*time.Millisecond) {
		cmds := make(rueidis.Commands, len(keys))
		for i, k := range keys {
			cmds[i] = t.e.c.B().Get().Key(t.e.name(k)).Build()
		}
		var left []string
		for i, r := range t.e.c.DoMulti(t.ctx, cmds...) {
			raw, err := r.AsBytes()
			if err != nil && !isServers(err) && !rueidis.IsRedisNil(err) && !cut {
				cut, until = true, time.Now().Add(t.e.o.patience) // silence may have taken all of it
			}
			switch {
			case rueidis.IsRedisNil(err):
				t.keys[keys[i]] = &used{read: true}
			case err == nil && len(raw) < stampBytes:
				t.fail = engine.Errorf(engine.CodeCorrupt, "redis: the value of key %q has no stamp", keys[i])
				return t.fail
			case err == nil:
				t.keys[keys[i]] = &used{read: true, stamp: string(raw[:stampBytes]), val: raw[stampBytes:len(raw):len(raw)]}
			case isServers(err) && !passing(err) || t.ctx.Err() != nil || t.e.closed.Load() || time.Now().After(until):
				t.fail = fault(t.ctx, err)
				return t.fail
			default:
				left = append(left, keys[i])
			}
		}
		if keys = left; len(keys) > 0 {
			t.e.retries.Add(1)
			time.Sleep(wait + rand.N(wait))
		}
	}
	return nil
}

var errManyKeys = engine.Errorf(engine.CodeTxTooLarge, "a transaction in a Redis Cluster uses at most %d keys", MaxTxKeys)

// Put implements engine.Tx.
func (t *slotTx) Put(key, val []byte) error { return t.put(key, val, 0) }

// PutUntil implements engine.Expirer.
func (t *slotTx) PutUntil(key, val []byte, until time.Time) error {
	return t.put(key, val, max(1, until.Add(expiryGrace).UnixMilli()))
}

func (t *slotTx) put(key, val []byte, until int64) error {
	if err := checkPut(key, val); err != nil && t.writes && !t.ended {
		return err
	}
	return t.write(key, append([]byte{}, val...), until)
}

// Delete implements engine.Tx.
func (t *slotTx) Delete(key []byte) error {
	if t.writes && !t.ended && (len(key) == 0 || len(key) > MaxKeyBytes) {
		return nil
	}
	return t.write(key, nil, 0)
}

func (t *slotTx) write(key, val []byte, until int64) error {
	if !t.writes && !t.ended {
		return engine.ErrReadOnly
	}
	if err := t.stay(key); err != nil {
		return err
	}
	u := t.keys[string(key)]
	size := len(key) + len(val)
	switch {
	case t.size+size > MaxTxBytes:
		return engine.Errorf(engine.CodeTxTooLarge, "redis: a transaction writes at most %d bytes (MaxTxBytes); use several", MaxTxBytes)
	case u == nil && len(t.keys) >= MaxTxKeys:
		return errManyKeys
	case u == nil:
		u = &used{}
		t.keys[string(key)] = u
	}
	u.val, u.wrote, u.until = val, true, until
	t.size += size
	t.wrote++
	return nil
}

// reads counts the keys that were read in each partition.
func (t *slotTx) reads() map[string]int {
	n := map[string]int{}
	for k, u := range t.keys {
		if u.read {
			n[string(engine.Partition([]byte(k)))]++
		}
	}
	return n
}

// request returns the call of slot.lua for a partition, and whether it can be sent again.
func (t *slotTx) request(part string, apply bool) (script *rueidis.Lua, keys, args []string, checked bool) {
	script, checked = slotCheck, true
	if apply {
		script = slotDelete
	}
	stamp := strconv.FormatUint(rand.Uint64(), 36) + strconv.FormatUint(rand.Uint64(), 36)
	stamp = (stamp + strings.Repeat("0", stampBytes))[:stampBytes]
	args = []string{stamp}
	for k, u := range t.keys {
		if string(engine.Partition([]byte(k))) != part || !apply && !u.read {
			continue
		}
		want, what := "*", "r"
		if u.read {
			want = u.stamp
		}
		switch {
		case !u.wrote || !apply:
		case u.val == nil:
			what = "d"
		case u.until > 0:
			what = "u" + strconv.FormatInt(u.until, 10) + ";" + rueidis.BinaryString(u.val)
		default:
			what = "p" + rueidis.BinaryString(u.val)
		}
		if apply && u.wrote {
			checked = checked && u.read
			if u.val != nil {
				script = slotScript
			}
		}
		keys, args = append(keys, t.e.name(k)), append(args, want, what)
	}
	return script, keys, args, checked
}

// Scan implements engine.Tx.
func (t *slotTx) Scan(_, _ []byte) iter.Seq2[engine.Pair, error] {
	return func(yield func(engine.Pair, error) bool) { yield(engine.Pair{}, lacks("ordered scans")) }
}

// ScanBack implements engine.Tx.
func (t *slotTx) ScanBack(lo, hi []byte) iter.Seq2[engine.Pair, error] { return t.Scan(lo, hi) }

// Now implements engine.Tx.
func (t *slotTx) Now() time.Time { return t.now }

// AsOf implements engine.Tx.
func (t *slotTx) AsOf() time.Time { return t.now }

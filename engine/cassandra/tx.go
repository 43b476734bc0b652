package cassandra

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/apache/cassandra-gocql-driver/v2"

	"github.com/skerrydb/skerry/engine"
)

// used is what a transaction did with one key.
type used struct {
	val   []byte // as the transaction sees it; nil: none
	wrote bool
	until time.Time // zero: for ever
}

// seen is what a transaction knows of one partition.
type seen struct {
	stamp []byte
	reads int // keys read
}

// tx is one transaction, or a view.
type tx struct {
	e      *db
	ctx    context.Context
	writes bool
	at     gocql.Consistency // of reads
	now    time.Time
	began  time.Time // by the monotonic clock
	keys   map[string]*used
	parts  map[string]*seen // what was read
	part   []byte           // of an Update; nil: none yet
	done   func()           // gives the turn back; nil: there is none
	size   int
	wrote  int
	ended  bool

	crossed, fail error
}

var (
	errEnded = engine.Errorf(engine.CodeInvalid, "the transaction has ended")
	// errConflict: what a transaction has read is no longer so.
	errConflict = errors.New("a partition that was read has changed")
	// errSerial: a view reads several keys of a partition, and only serial reads are of one state.
	errSerial   = errors.New("the view needs serial reads")
	errManyKeys = engine.Errorf(engine.CodeTxTooLarge, "cassandra: a transaction uses at most %d keys (MaxTxKeys)", MaxTxKeys)
)

// stay checks that a key is of the transaction's partition.
func (t *tx) stay(key []byte) error {
	if t.ended {
		return errEnded
	}
	if !t.writes || t.crossed != nil {
		return t.crossed
	}
	part := engine.Partition(key)
	if t.part == nil {
		t.part = append([]byte{}, part...)
		t.done = t.e.turns.take(t.ctx, string(part))
	} else if !bytes.Equal(part, t.part) {
		t.crossed = engine.Errorf(engine.CodeCrossPartition, "key %q is not of the partition %q, and Cassandra changes one partition at a time", key, t.part)
	}
	return t.crossed
}

// end makes the transaction unusable.
func (t *tx) end() {
	t.ended = true
	if t.done != nil {
		t.done()
	}
}

// Get implements engine.Tx.
func (t *tx) Get(key []byte) ([]byte, bool, error) {
	vals, err := t.GetMany([][]byte{key})
	if err != nil || vals[0] == nil {
		return nil, false, err
	}
	return vals[0], true, nil
}

// GetMany implements engine.ManyGetter.
func (t *tx) GetMany(keys [][]byte) ([][]byte, error) {
	if t.ended {
		return nil, errEnded
	}
	miss := map[string][]string{} // by partition
	missed := map[string]bool{}
	for _, k := range keys {
		if err := t.stay(k); err != nil {
			return nil, err
		}
		if len(k) > 0 && len(k) <= MaxKeyBytes && t.keys[string(k)] == nil && !missed[string(k)] {
			part := string(engine.Partition(k))
			miss[part] = append(miss[part], string(k))
			missed[string(k)] = true
		}
	}
	if err := t.fetch(miss, len(missed)); err != nil {
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

// fetch reads keys, partition by partition.
func (t *tx) fetch(miss map[string][]string, n int) error {
	switch {
	case t.fail != nil:
		return t.fail
	case len(t.keys)+n > MaxTxKeys:
		return errManyKeys
	}
	if len(miss) == 1 {
		for part, keys := range miss {
			stamps, rows, err := t.pages(part, keys)
			return t.learn(part, keys, stamps, rows, err)
		}
	}
	var mu sync.Mutex // guards t, and orders what is learnt
	var bg sync.WaitGroup
	slots := make(chan struct{}, readAtOnce)
	for part, keys := range miss {
		slots <- struct{}{}
		bg.Go(func() {
			defer func() { <-slots }()
			stamps, rows, err := t.pages(part, keys)
			mu.Lock()
			defer mu.Unlock()
			_ = t.learn(part, keys, stamps, rows, err) // it is t.fail
		})
	}
	bg.Wait()
	return t.fail
}

// pages reads keys of one partition, and the stamp with each page.
func (t *tx) pages(part string, keys []string) (stamps [][]byte, rows []row, err error) {
	for len(keys) > 0 {
		page := keys[:min(len(keys), readKeys)]
		stamp, got, err := t.e.read(t.ctx, t.at, part, page)
		if err != nil {
			return nil, nil, err
		}
		stamps, rows, keys = append(stamps, stamp), append(rows, got...), keys[len(page):]
	}
	return stamps, rows, nil
}

// learn adds what was read to the transaction, if all that it knows of the partition is one state.
func (t *tx) learn(part string, keys []string, stamps [][]byte, rows []row, err error) error {
	if t.fail != nil {
		return t.fail
	}
	if err != nil {
		t.fail = t.e.fault(t.ctx, err)
		return t.fail
	}
	p := t.parts[part]
	if p == nil {
		p = &seen{stamp: stamps[0]}
		t.parts[part] = p
	}
	if p.reads += len(keys); p.reads > 1 && t.at != t.e.level.serial {
		t.fail = errSerial
		return t.fail
	}
	for _, s := range stamps {
		if !bytes.Equal(s, p.stamp) {
			t.fail = errConflict
			return t.fail
		}
	}
	for _, k := range keys {
		t.keys[k] = &used{}
	}
	for _, r := range rows {
		t.keys[r.key].val = r.val
	}
	return nil
}

// Put implements engine.Tx.
func (t *tx) Put(key, val []byte) error { return t.put(key, val, time.Time{}) }

// PutUntil implements engine.Expirer.
func (t *tx) PutUntil(key, val []byte, until time.Time) error { return t.put(key, val, until) }

func (t *tx) put(key, val []byte, until time.Time) error {
	if !t.writes || t.ended {
		return t.write(key, nil, until)
	}
	switch {
	case len(key) == 0:
		return engine.ErrKeyEmpty
	case len(key) > MaxKeyBytes:
		return engine.Errorf(engine.CodeKeyTooLarge, "the key has %d bytes, at most %d are possible", len(key), MaxKeyBytes)
	case len(val) > MaxValBytes:
		return engine.Errorf(engine.CodeValueTooLarge, "the value has %d bytes, at most %d are possible", len(val), MaxValBytes)
	}
	return t.write(key, append([]byte{}, val...), until)
}

// Delete implements engine.Tx.
func (t *tx) Delete(key []byte) error {
	if t.writes && !t.ended && (len(key) == 0 || len(key) > MaxKeyBytes) {
		return nil
	}
	return t.write(key, nil, time.Time{})
}

func (t *tx) write(key, val []byte, until time.Time) error {
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
		return engine.Errorf(engine.CodeTxTooLarge, "cassandra: a transaction writes at most %d bytes (MaxTxBytes); use several", MaxTxBytes)
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

// Scan implements engine.Tx.
func (t *tx) Scan(_, _ []byte) iter.Seq2[engine.Pair, error] {
	return func(yield func(engine.Pair, error) bool) { yield(engine.Pair{}, lacks("ordered scans")) }
}

// ScanBack implements engine.Tx.
func (t *tx) ScanBack(lo, hi []byte) iter.Seq2[engine.Pair, error] { return t.Scan(lo, hi) }

// Now implements engine.Tx.
func (t *tx) Now() time.Time { return t.now }

// AsOf implements engine.Tx.
func (t *tx) AsOf() time.Time { return t.now }

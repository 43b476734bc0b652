package enginetest

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Needs that many cases share.
var (
	onOneKey  = engine.Promises{}
	clocked   = engine.Promises{Clock: true}
	placed    = engine.Promises{Positions: true}
	onAllKeys = engine.Promises{Atomic: engine.AllKeys, Snapshot: true}
	inOrder   = engine.Promises{Atomic: engine.AllKeys, Snapshot: true, Positions: true}
	ordered   = engine.Promises{Atomic: engine.AllKeys, Snapshot: true, Positions: true, Ordered: true}
)

func txCases() []Case {
	return []Case{
		{"tx/get-put-delete", onOneKey, txBasics},
		{"tx/empty-value", onOneKey, txEmptyValue},
		{"tx/binary", onAllKeys, txBinary},
		{"tx/own-writes", ordered, txOwnWrites},
		{"tx/copies-arguments", onAllKeys, txCopies},
		{"tx/returned-bytes-stay", ordered, txReturnedBytes},
		{"tx/now", onOneKey, txNow},
		{"tx/now-of-view", clocked, txNowOfView},
		{"tx/as-of-view", engine.Promises{Clock: true, Positions: true}, txAsOfView},
		{"promises/constant", onOneKey, promisesConstant},
		{"promises/refused", onOneKey, promisesRefused},
		{"partition/within", onOneKey, partitionWithin},
		{"partition/crossing", onOneKey, partitionCrossing},
		{"partition/views", onOneKey, partitionViews},
	}
}

func promisesConstant(e *env) {
	first := e.eng.Promises()
	if first.Atomic > engine.AllKeys || first.MaxKeyBytes < 0 || first.MaxValBytes < 0 || first.MaxTxBytes < 0 {
		e.Errorf("promises out of range: %+v", first)
	}
	e.put("a", "1")
	if now := e.eng.Promises(); now != first {
		e.Errorf("promises were %+v and are %+v", first, now)
	}
	e.close()
	if now := e.eng.Promises(); now != first {
		e.Errorf("promises were %+v and are, after Close, %+v", first, now)
	}
}

func txBasics(e *env) {
	e.lacks("a")
	e.put("a", "1")
	e.has("a", "1")
	e.put("a", "22")
	e.has("a", "22")
	e.update(func(tx engine.Tx) error { return tx.Delete([]byte("a")) })
	e.lacks("a")
	e.update(func(tx engine.Tx) error { return tx.Delete([]byte("a")) })
	e.lacks("a")
	e.put("a", "3")
	e.has("a", "3")
}

func txEmptyValue(e *env) {
	e.put("empty", "")
	e.has("empty", "")
	e.update(func(tx engine.Tx) error { return tx.Put([]byte("nil"), nil) })
	e.has("nil", "")
	e.put("full", "x")
	e.put("full", "")
	e.has("full", "")
}

func txBinary(e *env) {
	m := model{}
	for b := range 256 {
		k := string([]byte{byte(b)})
		m[k] = fmt.Sprint(b)
		m["k"+k] = k
		m[k+k] = k + "\x00" + k
	}
	m["\x00\x00\x00"], m["\xff\xff\xff\xff"], m["\xc3\x28"] = "zeros", "ones", "\xc3\x28" // not UTF-8
	e.update(func(tx engine.Tx) error {
		for k, v := range m {
			if err := putAll(tx, k, v); err != nil {
				return err
			}
		}
		return nil
	})
	e.view(func(tx engine.Tx) error {
		for k, v := range m {
			if err := hasAll(tx, k, v); err != nil {
				return err
			}
		}
		if !e.p.Ordered {
			return nil
		}
		return m.check(tx)
	})
}

func txOwnWrites(e *env) {
	e.put("b", "old", "c", "old", "d", "old")
	e.update(func(tx engine.Tx) error {
		m := model{"a": "new", "b": "new", "d": "old"}
		if err := putAll(tx, "a", "new", "b", "new"); err != nil {
			return err
		}
		if err := tx.Delete([]byte("c")); err != nil {
			return err
		}
		if err := lacksAll(tx, "c"); err != nil {
			return err
		}
		if err := m.check(tx); err != nil {
			return err
		}
		if err := putAll(tx, "c", "again"); err != nil {
			return err
		}
		m["c"] = "again"
		if err := m.check(tx); err != nil {
			return err
		}
		delete(m, "a")
		if err := tx.Delete([]byte("a")); err != nil {
			return err
		}
		return m.check(tx)
	})
	e.view(model{"b": "new", "c": "again", "d": "old"}.check)
}

func txCopies(e *env) {
	e.update(func(tx engine.Tx) error {
		key, val := []byte("key1"), []byte("val1")
		if err := tx.Put(key, val); err != nil {
			return err
		}
		copy(key, "key2")
		copy(val, "val2")
		if err := hasAll(tx, "key1", "val1"); err != nil {
			return err
		}
		if err := tx.Put(key, val); err != nil {
			return err
		}
		copy(key, "XXXX")
		copy(val, "XXXX")
		del := []byte("key3")
		if err := putAll(tx, "key3", "val3"); err != nil {
			return err
		}
		if err := tx.Delete(del); err != nil {
			return err
		}
		copy(del, "key1")
		return nil
	})
	e.has("key1", "val1", "key2", "val2")
	e.lacks("key3", "XXXX")
}

// txReturnedBytes keeps the results of Get and Scan until the end of the transaction,
// while others write, and then compares them.
func txReturnedBytes(e *env) {
	m := model{}
	for i := range 300 {
		m[fmt.Sprintf("key%03d", i)] = fmt.Sprint("value ", i)
	}
	fill := func(tx engine.Tx) error {
		for k, v := range m {
			if err := putAll(tx, k, v); err != nil {
				return err
			}
		}
		return nil
	}
	look := func(meanwhile func()) func(tx engine.Tx) error {
		return func(tx engine.Tx) error {
			var got, scanned []engine.Pair
			for p, err := range tx.Scan(nil, nil) {
				if err != nil {
					return err
				}
				scanned = append(scanned, p)
			}
			for k := range m {
				v, _, err := tx.Get([]byte(k))
				if err != nil {
					return err
				}
				got = append(got, engine.Pair{Key: []byte(k), Val: v})
			}
			meanwhile()
			slices.SortFunc(got, func(a, b engine.Pair) int { return bytes.Compare(a.Key, b.Key) })
			for _, pairs := range [][]engine.Pair{got, scanned} {
				if err := samePairs(valuesOf(pairs), m.pairs(nil, nil)); err != nil {
					return fmt.Errorf("returned bytes changed: %w", err)
				}
			}
			return nil
		}
	}
	e.update(fill)
	e.update(look(func() {}))
	e.view(look(func() {
		done := make(chan error, 1)
		go func() {
			var err error
			for i := 0; i < 50 && err == nil; i++ {
				_, err = e.eng.Update(e.ctx, func(tx engine.Tx) error {
					k := fmt.Sprintf("key%03d", i)
					if i%3 == 0 {
						return tx.Delete([]byte(k))
					}
					return tx.Put([]byte(k), []byte("overwritten"))
				})
			}
			done <- err
		}()
		select {
		case err := <-done:
			if err != nil {
				e.Errorf("update while a view is open: %v", err)
			}
		case <-time.After(e.o.Wait):
			e.Errorf("an open View holds writers up")
		}
	}))
}

func valuesOf(pairs []engine.Pair) func(func(engine.Pair, error) bool) {
	return func(yield func(engine.Pair, error) bool) {
		for _, p := range pairs {
			if !yield(p, nil) {
				return
			}
		}
	}
}

func txNow(e *env) {
	var last time.Time
	for i := range 200 {
		var now time.Time
		e.update(func(tx engine.Tx) error {
			now = tx.Now()
			if err := putAll(tx, "a", fmt.Sprint(i)); err != nil {
				return err
			}
			if i%50 == 0 {
				time.Sleep(2 * time.Millisecond)
			}
			if again := tx.Now(); !again.Equal(now) {
				return fmt.Errorf("time Now is %v, then %v in the same transaction", now, again)
			}
			if asOf := tx.AsOf(); !asOf.Equal(now) {
				return fmt.Errorf("time Now is %v, but AsOf is %v in an update", now, asOf)
			}
			return nil
		})
		if !now.Equal(now.Truncate(time.Microsecond)) {
			e.Fatalf("Now is finer than a microsecond: %v", now)
		}
		if e.p.Clock && now.Before(last) || e.p.DistinctTimes && now.Equal(last) {
			e.Fatalf("Now is %v after a committed transaction of %v", now, last)
		}
		last = now
	}
	if off := time.Since(last); off > time.Hour || off < -time.Hour {
		e.Errorf("Now is %v away from this machine's clock", off)
	}
}

// txAsOfView checks that AsOf in views does not go back as positions and time advance.
func txAsOfView(e *env) {
	var last time.Time
	for i := range 50 {
		var wrote time.Time
		pos := e.update(func(tx engine.Tx) error {
			wrote = tx.AsOf()
			return putAll(tx, "a", fmt.Sprint(i))
		})
		if wrote.Before(last) {
			e.Fatalf("AsOf is %v in an update after a view of %v", wrote, last)
		}
		for _, level := range []engine.Level{engine.Local, engine.Session, engine.Linearizable} { // from weak to strong
			e.viewAt(engine.Read{Level: level, AtLeast: pos}, func(tx engine.Tx) error {
				now, asOf := tx.Now(), tx.AsOf()
				switch {
				case asOf.Before(wrote):
					return fmt.Errorf("time AsOf is %v in a view of a transaction of %v", asOf, wrote)
				case asOf.Before(last):
					return fmt.Errorf("time AsOf is %v after a view of %v", asOf, last)
				case asOf.After(now), level == engine.Linearizable && !asOf.Equal(now):
					return fmt.Errorf("time AsOf is %v, Now %v at level %d", asOf, now, level)
				}
				last = asOf
				return nil
			})
		}
	}
}

func txNowOfView(e *env) {
	for i := range 50 {
		var wrote time.Time
		e.update(func(tx engine.Tx) error {
			wrote = tx.Now()
			return putAll(tx, "a", fmt.Sprint(i))
		})
		e.view(func(tx engine.Tx) error {
			now := tx.Now()
			if now.Before(wrote) {
				return fmt.Errorf("time Now is %v in a view of a transaction of %v", now, wrote)
			}
			if again := tx.Now(); again.Before(now) {
				return fmt.Errorf("time Now goes back from %v to %v in one view", now, again)
			}
			return nil
		})
	}
}

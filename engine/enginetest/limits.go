package enginetest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/skerrydb/skerry/engine"
)

// maxTestedTx is the largest transaction limit that is tested to the byte.
const maxTestedTx = 128 << 20

func limitCases() []Case {
	return []Case{
		{"limits/key-empty", onAllKeys, limitKeyEmpty},
		{"limits/key", onAllKeys, limitKey},
		{"limits/value", onAllKeys, limitValue},
		{"limits/transaction", onAllKeys, limitTx},
		{"limits/error-of-put-returned", onAllKeys, limitReturned},
	}
}

// refused tries a Put that must fail, in a transaction that continues.
func (e *env) refused(key, val string, want error) {
	e.Helper()
	e.put("before", "1")
	pos := e.update(func(tx engine.Tx) error {
		if err := putAll(tx, "same-tx", "1"); err != nil {
			return err
		}
		if err := tx.Put([]byte(key), []byte(val)); !errors.Is(err, want) {
			return fmt.Errorf("put %q = %q: error is %v, want %v", short(key), short(val), err, want)
		}
		if key != "" {
			if err := lacksAll(tx, key[:min(len(key), e.p.MaxKeyBytes)]); err != nil {
				return err
			}
		}
		return putAll(tx, "after", "1")
	})
	e.has("before", "1", "same-tx", "1", "after", "1")
	if key != "" {
		e.lacks(key[:min(len(key), e.p.MaxKeyBytes)])
	}
	if e.p.Ordered {
		e.view(model{"before": "1", "same-tx": "1", "after": "1"}.check)
	}
	if e.p.Feed {
		for _, c := range e.changes(pos-1, pos) {
			if len(c.Writes) != 2 {
				e.Errorf("the change with a refused Put has %d writes, want 2", len(c.Writes))
			}
		}
	}
}

func limitKeyEmpty(e *env) {
	e.refused("", "x", engine.ErrKeyEmpty)
	e.update(func(tx engine.Tx) error {
		if err := tx.Put(nil, []byte("x")); !errors.Is(err, engine.ErrKeyEmpty) {
			return fmt.Errorf("put of a nil key: error is %v", err)
		}
		return nil
	})
}

func limitKey(e *env) {
	e.refused(strings.Repeat("k", e.p.MaxKeyBytes+1), "x", engine.ErrKeyTooLarge)
	key := strings.Repeat("k", e.p.MaxKeyBytes)
	e.put(key, "x")
	e.has(key, "x")
	e.update(func(tx engine.Tx) error { return tx.Delete([]byte(key)) })
	e.lacks(key)
}

func limitValue(e *env) {
	e.refused("k", strings.Repeat("v", e.p.MaxValBytes+1), engine.ErrValueTooLarge)
	val := strings.Repeat("v", e.p.MaxValBytes)
	e.put("k", val)
	e.has("k", val)
	e.put("k", "small")
	e.has("k", "small")
}

// limitTx fills a transaction to its last byte with keys that it writes once.
func limitTx(e *env) {
	if e.p.MaxTxBytes > maxTestedTx {
		e.Skipf("skipped: transactions of %d bytes are too large to try", e.p.MaxTxBytes)
	}
	fill := func(tx engine.Tx) (keys int, err error) {
		val := []byte(strings.Repeat("v", min(e.p.MaxValBytes, e.p.MaxTxBytes/3)))
		for left := e.p.MaxTxBytes; left > 0; keys++ {
			key := fmt.Appendf(nil, "%08d", keys)
			if rest := left - len(key) - len(val); rest < 0 {
				val = val[:left-len(key)]
			} else if rest > 0 && rest <= len(key) { // leave room for one more pair
				val = val[:len(val)-len(key)]
			}
			if err := tx.Put(key, val); err != nil {
				return 0, fmt.Errorf("put with %d of %d bytes left: %w", left, e.p.MaxTxBytes, err)
			}
			left -= len(key) + len(val)
		}
		return keys, nil
	}
	var keys int
	e.update(func(tx engine.Tx) (err error) {
		if keys, err = fill(tx); err != nil {
			return err
		}
		for range 2 {
			if err := tx.Put([]byte("x"), nil); !errors.Is(err, engine.ErrTxTooLarge) {
				return fmt.Errorf("put beyond %d bytes: error is %v, want %v", e.p.MaxTxBytes, err, engine.ErrTxTooLarge)
			}
		}
		return lacksAll(tx, "x")
	})
	e.lacks("x")
	n := 0
	e.view(func(tx engine.Tx) error {
		n = 0
		for i := range keys {
			if _, ok, err := tx.Get(fmt.Appendf(nil, "%08d", i)); err != nil {
				return err
			} else if ok {
				n++
			}
		}
		return nil
	})
	if n != keys {
		e.Errorf("of %d keys of a full transaction %d are there", keys, n)
	}
	e.put("x", "1") // the limit is per transaction
	e.has("x", "1")
}

// limitReturned lets fn return the error of its Put.
func limitReturned(e *env) {
	long := []byte(strings.Repeat("k", e.p.MaxKeyBytes+1))
	var given error
	_, err := e.eng.Update(e.ctx, func(tx engine.Tx) error {
		if err := putAll(tx, "a", "1"); err != nil {
			return err
		}
		given = fmt.Errorf("wrapped: %w", tx.Put(long, nil))
		return given
	})
	if err != given {
		e.Errorf("update returned %v, want %v", err, given)
	}
	e.is("update", err, engine.ErrKeyTooLarge)
	e.lacks("a")
}

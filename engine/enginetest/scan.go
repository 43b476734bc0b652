package enginetest

import (
	"fmt"

	"github.com/skerrydb/skerry/engine"
)

func scanCases() []Case {
	return []Case{
		{"scan/bounds", ordered, scanBounds},
		{"scan/empty", ordered, scanEmpty},
		{"scan/early-end-and-nested", ordered, scanNested},
		{"scan/long", ordered, scanLong},
		{"scan/own-writes-in-all-ranges", ordered, scanOwnWrites},
		{"model/random-transactions", ordered, modelRandom},
	}
}

// allBounds returns bounds in all positions relative to the keys.
func allBounds(keys ...string) [][]byte {
	out := [][]byte{nil, {}, {0}, []byte("\xff\xff\xff\xff")}
	for _, k := range keys {
		out = append(out, []byte(k), []byte(k+"\x00"), []byte(k[:len(k)-1]))
	}
	return out
}

func scanBounds(e *env) {
	m := model{"a": "1", "ab": "2", "ab\x00": "3", "b": "4", "b\xff": "5", "c": "6", "\xff": "7", "\xff\xff": "8", "\x00": "9"}
	e.update(func(tx engine.Tx) error {
		for k, v := range m {
			if err := putAll(tx, k, v); err != nil {
				return err
			}
		}
		return nil
	})
	check := func(tx engine.Tx) error {
		all := allBounds("a", "ab", "ab\x00", "b", "b\xff", "c", "\xff", "\xff\xff")
		for _, lo := range all {
			for _, hi := range all {
				if err := m.checkScan(tx, lo, hi); err != nil {
					return err
				}
			}
		}
		return nil
	}
	e.view(check)
	e.update(check)
}

func scanEmpty(e *env) {
	check := func(tx engine.Tx) error {
		for _, lo := range allBounds("a") {
			for _, hi := range allBounds("a") {
				if err := (model{}).checkScan(tx, lo, hi); err != nil {
					return err
				}
			}
		}
		return nil
	}
	e.view(check)
	e.update(check)
	e.put("a", "1")
	e.update(func(tx engine.Tx) error {
		if err := tx.Delete([]byte("a")); err != nil {
			return err
		}
		return check(tx)
	})
	e.view(check)
}

// scanNested ends scans early, reads inside a scan, and scans inside a scan.
func scanNested(e *env) {
	m := model{}
	e.update(func(tx engine.Tx) error {
		for i := range 100 {
			k := fmt.Sprintf("%02d", i)
			m[k] = k + k
			if err := putAll(tx, k, m[k]); err != nil {
				return err
			}
		}
		return nil
	})
	check := func(tx engine.Tx) error {
		outer := 0
		for p, err := range tx.Scan([]byte("10"), nil) {
			if err != nil {
				return err
			}
			if want := fmt.Sprintf("%02d", 10+outer); string(p.Key) != want {
				return fmt.Errorf("outer scan is at %q, want %q", p.Key, want)
			}
			if err := hasAll(tx, string(p.Key), m[string(p.Key)]); err != nil {
				return err
			}
			inner := 0
			for q, err := range tx.ScanBack(nil, p.Key) {
				if err != nil {
					return err
				}
				if want := fmt.Sprintf("%02d", 10+outer-1-inner); string(q.Key) != want {
					return fmt.Errorf("inner scan is at %q, want %q", q.Key, want)
				}
				if inner++; inner == 5 {
					break
				}
			}
			if outer++; outer == 50 {
				break
			}
		}
		return m.check(tx)
	}
	e.view(check)
	e.update(check)
}

// scanLong reads more pairs than an engine would fetch at once.
func scanLong(e *env) {
	const n = 5000
	m := model{}
	for from := 0; from < n; from += 500 {
		var pairs []string
		for i := from; i < from+500; i++ {
			k := fmt.Sprintf("%08d", i*7919%n)
			m[k] = fmt.Sprint(i)
			pairs = append(pairs, k, m[k])
		}
		e.update(func(tx engine.Tx) error { return putAll(tx, pairs...) })
	}
	e.view(m.check)
	e.view(func(tx engine.Tx) error { return m.checkScan(tx, []byte("00001"), []byte("00004")) })
	for len(m) > n/2 {
		var gone []string
		for range 500 {
			gone = append(gone, fmt.Sprintf("%08d", e.rng.IntN(n)))
			delete(m, gone[len(gone)-1])
		}
		e.update(func(tx engine.Tx) error {
			for _, k := range gone {
				if err := tx.Delete([]byte(k)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	e.view(m.check)
}

// scanOwnWrites scans every range between writes at its ends.
func scanOwnWrites(e *env) {
	keys := []string{"b", "d", "f", "h"}
	for mask := range 1 << len(keys) {
		e.update(func(tx engine.Tx) error {
			if _, err := wipe(tx); err != nil {
				return err
			}
			m := model{}
			for i, k := range keys { // half of the states by writing, half by deleting
				m[k] = fmt.Sprint(mask)
				if err := putAll(tx, k, m[k]); err != nil {
					return err
				}
				if mask>>i&1 == 0 {
					delete(m, k)
					if err := tx.Delete([]byte(k)); err != nil {
						return err
					}
				}
			}
			for _, lo := range allBounds("a", "b", "c", "f", "h", "i") {
				for _, hi := range allBounds("b", "d", "e", "h", "i") {
					if err := m.checkScan(tx, lo, hi); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
}

// modelRandom compares random transactions, a fifth of them rolled back, with
// the model, inside and after each.
func modelRandom(e *env) {
	m := model{}
	giveUp := fmt.Errorf("given up")
	for i := range 400 {
		ops := randomOps(e.rng, 1+e.rng.IntN(12))
		rollBack := e.rng.IntN(5) == 0
		var after model
		_, err := e.eng.Update(e.ctx, func(tx engine.Tx) (err error) {
			if after, err = m.apply(tx, ops); err != nil {
				return err
			}
			if rollBack {
				return giveUp
			}
			return nil
		})
		switch {
		case rollBack && err != giveUp:
			e.Fatalf("transaction %d: error is %v, want its own", i, err)
		case !rollBack && err != nil:
			e.Fatalf("transaction %d: %v", i, err)
		case !rollBack:
			m = after
		}
		if i%10 == 0 || rollBack {
			e.view(m.check)
			lo, hi := randomBound(e.rng), randomBound(e.rng)
			e.view(func(tx engine.Tx) error { return m.checkScan(tx, lo, hi) })
		}
	}
	e.view(m.check)
}

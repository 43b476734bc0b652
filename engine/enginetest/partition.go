package enginetest

import (
	"errors"
	"fmt"

	"github.com/skerrydb/skerry/engine"
)

// promisesRefused uses features that the engine does not promise.
func promisesRefused(e *env) {
	if !e.p.Ordered {
		scan := func(tx engine.Tx) error {
			for _, err := range tx.Scan(nil, nil) {
				return err
			}
			return nil
		}
		_, err := e.eng.View(e.ctx, engine.Read{}, scan)
		e.is("a scan without ordered scans", err, engine.ErrUnsupported)
		_, err = e.eng.Update(e.ctx, scan)
		e.is("a scan in an update without ordered scans", err, engine.ErrUnsupported)
	}
	if !e.p.Feed {
		var err error
		e.within(e.o.Wait, "Changes without a feed", func() {
			for _, err = range e.eng.Changes(e.ctx, 0) {
				break
			}
		})
		e.is("Changes without a feed", err, engine.ErrUnsupported)
	}
	if !e.p.Positions {
		_, err := e.eng.View(e.ctx, engine.Read{AtLeast: 1}, func(engine.Tx) error { return nil })
		e.is("a view of at least a position, without positions", err, engine.ErrUnsupported)
		if pos := e.put("a", "1"); pos != 0 {
			e.Errorf("an engine without positions returned %d", pos)
		}
	}
}

// pair puts val under two keys, and checks that they had equal values before.
func pair(tx engine.Tx, a, b, val string) error {
	was, _, err := tx.Get([]byte(a))
	if err != nil {
		return err
	}
	old := string(was)
	other, _, err := tx.Get([]byte(b))
	if err != nil {
		return err
	}
	if string(other) != old {
		return fmt.Errorf("%q holds %q and %q holds %q", a, old, b, other)
	}
	return putAll(tx, a, val, b, val)
}

// partitionWithin changes two keys of one partition together.
func partitionWithin(e *env) {
	const a, b = "a{tag}", "b{tag}x"
	e.together(a, b, e.p.Atomic >= engine.OnePartition)
}

// partitionCrossing changes two keys of different partitions together.
func partitionCrossing(e *env) { e.together("a{tag}", "a{other}", e.p.Atomic >= engine.AllKeys) }

// together changes two keys in one transaction, which must succeed if can is set and
// otherwise be refused.
func (e *env) together(a, b string, can bool) {
	e.Helper()
	if can {
		errs := make(chan error, 4)
		for w := range cap(errs) {
			go func() {
				var err error
				for i := 0; i < 25 && err == nil; i++ {
					_, err = e.eng.Update(e.ctx, func(tx engine.Tx) error { return pair(tx, a, b, fmt.Sprint(w, i)) })
				}
				errs <- err
			}()
		}
		for range cap(errs) {
			if err := receive(e, "a writer of two keys", errs); err != nil && (e.p.Serializable || !engine.Retryable(err)) {
				e.Fatalf("change two keys: %v", err)
			}
		}
		own := errors.New("own error")
		_, err := e.eng.Update(e.ctx, func(tx engine.Tx) error { return errors.Join(pair(tx, a, b, "undone"), own) })
		e.is("a failed transaction", err, own)
		e.update(func(tx engine.Tx) error { return pair(tx, a, b, "last") })
		e.has(a, "last", b, "last")
		return
	}
	e.put(a, "1")
	e.put(b, "1")
	for name, cross := range map[string]func(tx engine.Tx) error{
		"a put":    func(tx engine.Tx) error { return tx.Put([]byte(b), []byte("2")) },
		"a delete": func(tx engine.Tx) error { return tx.Delete([]byte(b)) },
		"a get":    func(tx engine.Tx) error { _, _, err := tx.Get([]byte(b)); return err },
	} {
		for _, swallowed := range []bool{false, true} {
			_, err := e.eng.Update(e.ctx, func(tx engine.Tx) error {
				if err := putAll(tx, a, "2"); err != nil {
					return err
				}
				err := cross(tx)
				if !errors.Is(err, engine.ErrCrossPartition) {
					return fmt.Errorf("%s of %q after a put of %q: error is %v, want %v", name, b, a, err, engine.ErrCrossPartition)
				}
				if swallowed {
					return nil
				}
				return err
			})
			e.is(name+" that crosses", err, engine.ErrCrossPartition)
			e.has(a, "1", b, "1")
		}
	}
	e.update(func(tx engine.Tx) error {
		return errors.Join(putAll(tx, a, "3"), hasAll(tx, a, "3"), putAll(tx, a, "4"))
	})
	e.has(a, "4", b, "1")
}

// partitionViews reads several partitions in one view, which every engine supports.
func partitionViews(e *env) {
	for i, key := range []string{"a{tag}", "b{tag}", "a{other}", "plain"} {
		e.put(key, fmt.Sprint(i))
	}
	e.has("a{tag}", "0", "b{tag}", "1", "a{other}", "2", "plain", "3")
}

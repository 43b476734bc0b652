package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/engine"
)

func eachCases() []Case {
	return []Case{
		{"each/own-transactions-in-order", inOrder, eachOrder},
		{"each/failures-are-alone", ordered, eachFailures},
		{"each/changes", fed, eachChanges},
		{"each/none", onOneKey, eachNone},
		{"each/many", onAllKeys, eachMany},
		{"each/over-a-limit", onAllKeys, eachLimit},
		{"each/now", timed, eachNow},
		{"each/beside-others", serial, eachBeside},
		{"each/ctx-ended-before", onOneKey, eachCtxBefore},
		{"each/ctx-ends-during", ordered, eachCtxDuring},
		{"each/panic", ordered, eachPanic},
	}
}

// each runs n transactions, which must succeed as a whole.
func (e *env) each(n int, fn func(tx engine.Tx, i int) error) engine.Position {
	e.Helper()
	pos, err := engine.UpdateEach(e.ctx, e.eng, n, fn)
	if err != nil {
		e.Fatalf("UpdateEach: %v", err)
	}
	return pos
}

func eachOrder(e *env) {
	var order []int
	before := e.put("n", "0")
	pos := e.each(20, func(tx engine.Tx, i int) error {
		if len(order) == 0 || order[len(order)-1] != i { // not a second try
			order = append(order, i)
		}
		if err := hasAll(tx, "n", fmt.Sprint(i)); err != nil {
			return err
		}
		return putAll(tx, "n", fmt.Sprint(i+1), fmt.Sprint("k", i), "1")
	})
	for i := range 20 {
		if len(order) != 20 || order[i] != i {
			e.Fatalf("the transactions ran in order %v", order)
		}
		e.has(fmt.Sprint("k", i), "1")
	}
	e.has("n", "20")
	if pos <= before {
		e.Errorf("position is %d after %d", pos, before)
	}
	e.viewAt(engine.Read{Level: engine.Session, AtLeast: pos}, func(tx engine.Tx) error { return hasAll(tx, "n", "20") })
	if next := e.put("n", "21"); next <= pos {
		e.Errorf("the next position is %d after %d", next, pos)
	}
}

func eachFailures(e *env) {
	e.put("b", "1", "c", "2", "d", "3", "f", "4")
	m := model{"b": "1", "c": "2", "d": "3", "f": "4"}
	own := errors.New("own error")
	fails := func(i int) bool { return i%2 == 0 || i == 9 }
	pos := e.each(10, func(tx engine.Tx, i int) error {
		if fails(i) {
			if err := changeMuch(tx); err != nil {
				return err
			}
			return own
		}
		if err := hasAll(tx, "b", "1", "c", "2", "d", "3"); err != nil {
			return fmt.Errorf("after a failed transaction: %w", err)
		}
		return putAll(tx, fmt.Sprint("k", i), "1")
	})
	for i := range 10 {
		if !fails(i) {
			m[fmt.Sprint("k", i)] = "1"
		}
	}
	e.viewAt(engine.Read{AtLeast: pos}, m.check)
	pos = e.each(3, func(engine.Tx, int) error { return own }) // all fail
	e.viewAt(engine.Read{AtLeast: pos}, m.check)
}

func eachChanges(e *env) {
	start := e.put("start", "1")
	last := e.each(10, func(tx engine.Tx, i int) error {
		switch i % 5 {
		case 1:
			if err := putAll(tx, "failed", "1"); err != nil {
				return err
			}
			return errors.New("own error")
		case 2:
			return nil
		}
		return putAll(tx, "k", fmt.Sprint(i))
	})
	var got []string
	list := e.changes(start, last)
	for _, c := range list {
		for _, w := range c.Writes {
			got = append(got, string(w.Key)+string(w.Val))
		}
	}
	if want := []string{"k0", "k3", "k4", "k5", "k8", "k9"}; len(list) != len(want) || !slices.Equal(got, want) {
		e.Errorf("%d changes write %v, want one for each of %v", len(list), got, want)
	}
}

func eachNone(e *env) {
	e.put("a", "1")
	e.each(0, func(engine.Tx, int) error {
		e.Errorf("a function was run for no transaction")
		return nil
	})
	e.has("a", "1")
}

func eachMany(e *env) {
	const n = 5000
	val := strings.Repeat("v", 1000)
	e.each(n, func(tx engine.Tx, i int) error {
		return putAll(tx, fmt.Sprint("k", i), val, "n", fmt.Sprint(i))
	})
	e.has("n", fmt.Sprint(n-1))
	e.view(func(tx engine.Tx) error {
		for i := range n {
			if err := hasAll(tx, fmt.Sprint("k", i), val); err != nil {
				return err
			}
		}
		return nil
	})
}

func eachLimit(e *env) {
	long := strings.Repeat("k", e.p.MaxKeyBytes+1)
	var failed [3]error
	e.each(3, func(tx engine.Tx, i int) error {
		key := fmt.Sprint("k", i)
		if failed[i] = putAll(tx, key, "1"); failed[i] == nil && i == 1 {
			failed[i] = putAll(tx, long, "1")
		}
		return failed[i]
	})
	e.is("the second", failed[1], engine.ErrKeyTooLarge)
	e.has("k0", "1", "k2", "1")
	e.lacks("k1")
}

func eachNow(e *env) {
	var now [50]int64
	e.each(len(now), func(tx engine.Tx, i int) error {
		now[i] = tx.Now().UnixMicro()
		return putAll(tx, "a", fmt.Sprint(i))
	})
	for i := 1; i < len(now); i++ {
		if now[i] < now[i-1] || e.p.DistinctTimes && now[i] == now[i-1] {
			e.Fatalf("Now of transactions %d and %d is %d and %d µs", i-1, i, now[i-1], now[i])
		}
	}
}

// eachBeside increments a number concurrently, with Update and UpdateEach.
func eachBeside(e *env) {
	const clients, rounds, row = 6, 30, 7
	errs := make(chan error, clients)
	for c := range clients {
		go func() {
			if c%2 == 0 {
				errs <- e.increments("n", rounds*row)
				return
			}
			for range rounds {
				var inner error
				_, err := engine.UpdateEach(e.ctx, e.eng, row, func(tx engine.Tx, i int) error {
					err := increment(tx, "n")
					if err != nil {
						inner = err
					}
					return err
				})
				if err = errors.Join(err, inner); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range clients {
		if err := receive(e, "a client", errs); err != nil {
			e.Fatalf("add: %v", err)
		}
	}
	e.has("n", fmt.Sprint(clients*rounds*row))
}

func eachCtxBefore(e *env) {
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	_, err := engine.UpdateEach(ctx, e.eng, 3, func(tx engine.Tx, i int) error { return putAll(tx, "a", "1") })
	e.is("UpdateEach after its ctx has ended", err, context.Canceled)
	if errors.Is(err, engine.ErrOutcomeUnknown) {
		e.Errorf("the outcome of what cannot have run is unknown: %v", err)
	}
	e.lacks("a")
}

// eachCtxDuring ends ctx in the middle. Then a prefix of the transactions must be there,
// and all of them if there was no error.
func eachCtxDuring(e *env) {
	for at := range 4 {
		ctx, cancel := context.WithCancel(e.ctx)
		_, err := engine.UpdateEach(ctx, e.eng, 5, func(tx engine.Tx, i int) error {
			if i == 0 {
				if _, err := wipe(tx); err != nil {
					return err
				}
			}
			if i == at {
				cancel()
			}
			return putAll(tx, fmt.Sprint("k", i), fmt.Sprint(at))
		})
		cancel()
		if err != nil {
			e.is("UpdateEach whose ctx ended", err, engine.ErrOutcomeUnknown)
			e.is("UpdateEach whose ctx ended", err, context.Canceled)
		}
		e.put("barrier", "1") // work that continues after the call ends before this
		m := model{"barrier": "1"}
		e.view(func(tx engine.Tx) error {
			ended := false
			for i := range 5 {
				v, ok, err := tx.Get([]byte(fmt.Sprint("k", i)))
				if err != nil {
					return err
				}
				ok = ok && string(v) == fmt.Sprint(at)
				if ok && ended {
					return fmt.Errorf("transaction %d is there, one before it is not", i)
				}
				ended = !ok
			}
			return nil
		})
		if err == nil {
			for i := range 5 {
				m[fmt.Sprint("k", i)] = fmt.Sprint(at)
			}
			e.view(m.check)
		}
	}
}

// eachPanic checks that the transaction that panicked is undone and that the engine works.
func eachPanic(e *env) {
	e.put("b", "1", "c", "2", "d", "3")
	var err error
	e.within(e.o.Wait, "UpdateEach that panics", func() {
		err = caught(func() error {
			_, err := engine.UpdateEach(e.ctx, e.eng, 3, func(tx engine.Tx, i int) error {
				if i == 1 {
					if err := changeMuch(tx); err != nil {
						return err
					}
					panic("own panic")
				}
				return putAll(tx, fmt.Sprint("k", i), "1")
			})
			return err
		})
	})
	if err == nil {
		e.Fatalf("UpdateEach whose function panicked succeeded")
	}
	e.put("z", "after")
	e.has("b", "1", "c", "2", "d", "3", "z", "after")
	e.lacks("a", "e", "x", "k2")
}

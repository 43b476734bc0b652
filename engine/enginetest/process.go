package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skerrydb/skerry/engine"
)

func processCases() []Case {
	return []Case{
		{"process/sees-acknowledged", onOneKey, processSees},
		{"process/no-lost-update", serial, processCounter},
		{"process/same-changes", fed, processChanges},
		{"process/fence", fenced, processFence},
		{"process/outlives-the-other", onOneKey, processOutlives},
		{"connection/lost", serial, connectionLost},
	}
}

// second opens the engine's data as another process does.
func (e *env) second() engine.Engine {
	e.Helper()
	e.lacksHook("Second", e.o.Second != nil)
	other := e.o.Second(e.T)
	e.Cleanup(func() {
		if err := other.Close(); err != nil && !errors.Is(err, engine.ErrClosed) {
			e.Errorf("close the second engine: %v", err)
		}
	})
	return other
}

// processSees checks that one process sees the acknowledged writes of the other.
func processSees(e *env) {
	both := [2]engine.Engine{e.eng, e.second()}
	for i := range 50 {
		writer, reader := both[i%2], both[1-i%2]
		val := fmt.Sprint(i)
		pos, err := writer.Update(e.ctx, func(tx engine.Tx) error { return putAll(tx, "a", val) })
		if err != nil {
			e.Fatalf("update: %v", err)
		}
		saw, err := reader.View(e.ctx, engine.Read{}, func(tx engine.Tx) error { return hasAll(tx, "a", val) })
		if err != nil || saw < pos {
			e.Fatalf("a view of the other process at %d, after a write at %d: %v", saw, pos, err)
		}
	}
}

// processCounter lets both processes increment one number.
func processCounter(e *env) {
	other := *e
	other.eng = e.second()
	const each = 100
	errs := make(chan error, 4)
	for i := range cap(errs) {
		go func() { errs <- []*env{e, &other}[i%2].increments("n", each) }()
	}
	for range cap(errs) {
		if err := receive(e, "adding from two processes", errs); err != nil {
			e.Fatalf("add: %v", err)
		}
	}
	e.has("n", fmt.Sprint(each*cap(errs)))
}

// processChanges checks that both processes yield the same changes.
func processChanges(e *env) {
	other := *e
	other.eng = e.second()
	start := e.put("start", "1")
	for i := range 20 {
		[]*env{e, &other}[i%2].put("k", fmt.Sprint(i))
	}
	end := other.put("end", "1")
	mine, others := texts(e.changes(start, end)), texts(other.changes(start, end))
	if len(mine) != 21 || !slices.Equal(mine, others) {
		e.Fatalf("one process yields %q, the other %q", mine, others)
	}
}

// processOutlives closes one of two.
func processOutlives(e *env) {
	other := e.second()
	e.put("a", "1")
	if err := other.Close(); err != nil {
		e.Fatalf("close the second engine: %v", err)
	}
	e.put("a", "2")
	e.has("a", "2")
}

// connectionLost cuts connections during writes. Every call must end with success, with a
// retryable code or with an unknown outcome, and the engine must recover.
func connectionLost(e *env) {
	e.lacksHook("Cut", e.o.Cut != nil)
	const writers, cuts = 4, 8
	stop := make(chan struct{})
	type sums struct{ acked, unknown int }
	out := make(chan sums, writers)
	for range writers {
		go func() {
			var s sums
			for more := true; more; {
				select {
				case <-stop:
					more = false
				default:
				}
				_, err := e.eng.Update(e.ctx, func(tx engine.Tx) error { return increment(tx, "n") })
				switch {
				case err == nil:
					s.acked++
				case errors.Is(err, engine.ErrOutcomeUnknown):
					s.unknown++
				case !engine.Retryable(err):
					e.Errorf("an update whose connection was lost returned %v", err)
				}
			}
			out <- s
		}()
	}
	var all sums
	for range cuts {
		time.Sleep(5 * time.Millisecond)
		e.o.Cut(e.T)
	}
	close(stop)
	for range writers {
		s := receive(e, "a writer whose connection was lost", out)
		all.acked, all.unknown = all.acked+s.acked, all.unknown+s.unknown
	}
	e.eventually("a write after connections were lost", func() bool {
		_, err := e.eng.Update(e.ctx, func(tx engine.Tx) error { return putAll(tx, "after", "1") })
		return err == nil
	})
	e.view(func(tx engine.Tx) error {
		n, err := number(tx, "n")
		if err == nil && (n < all.acked || n > all.acked+all.unknown) {
			err = fmt.Errorf("the number is %d; %d additions were acknowledged and %d are unknown", n, all.acked, all.unknown)
		}
		return err
	})
}

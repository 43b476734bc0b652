package enginetest

import (
	"fmt"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// isolationReadOnly reads between the commit of a deposit and that of a withdrawal which
// began before it. If the withdrawal can still commit as if it came first, the view saw a
// state that no serial order has.
func isolationReadOnly(e *env) {
	for i := range 3 {
		x, y := fmt.Sprint("x", i), fmt.Sprint("y", i)
		e.put(x, "0", y, "0")
		inside, release := make(chan struct{}, 8), make(chan struct{})
		penalty := make(chan bool, 1)
		withdrawn := make(chan error, 1)
		go func() {
			_, err := e.eng.Update(e.ctx, func(tx engine.Tx) error { return withdraw(tx, x, y, inside, release, penalty) })
			withdrawn <- err
		}()
		receive(e, "the withdrawal", inside)
		deposited := make(chan error, 1)
		go func() {
			_, err := e.eng.Update(e.ctx, func(tx engine.Tx) error { return putAll(tx, y, "20") })
			deposited <- err
		}()
		select { // an engine with one writer at a time delays the deposit
		case err := <-deposited:
			deposited <- err
		case <-time.After(30 * time.Millisecond):
		}
		var sawDeposit, sawWithdrawal bool
		e.view(func(tx engine.Tx) error {
			b, err := number(tx, y)
			if err != nil {
				return err
			}
			a, err := number(tx, x)
			sawDeposit, sawWithdrawal = b == 20, a != 0
			return err
		})
		close(release)
		for _, c := range []chan error{withdrawn, deposited} {
			if err := receive(e, "an update", c); err != nil {
				e.Fatalf("update: %v", err)
			}
		}
		if sawDeposit && !sawWithdrawal && <-penalty {
			e.Fatalf("a view saw the deposit without the withdrawal, which committed as if it had come before the deposit")
		}
	}
}

// withdraw takes 10 from x, and 1 more if x and y have less than 10 together. After
// reading it waits for release. penalty receives the decision of its last run.
func withdraw(tx engine.Tx, x, y string, inside chan<- struct{}, release <-chan struct{}, penalty chan bool) error {
	a, err := number(tx, x)
	if err != nil {
		return err
	}
	b, err := number(tx, y)
	if err != nil {
		return err
	}
	select {
	case inside <- struct{}{}:
	default:
	}
	<-release
	select {
	case <-penalty:
	default:
	}
	penalty <- a+b < 10
	if a+b < 10 {
		return putAll(tx, x, fmt.Sprint(a-11))
	}
	return putAll(tx, x, fmt.Sprint(a-10))
}

package cassandra

import (
	"context"
	"sync"
	"time"
)

// turnWait is how long a transaction waits for others of this process on the same partition.
const turnWait = time.Second

// turns lets the transactions of this process that use the same partition run one after the other,
// because otherwise all but one would run in vain. It is no lock: who has waited for long runs too.
type turns struct {
	mu  sync.Mutex // guards all
	all map[string]*turn
}

type turn struct {
	free chan struct{} // has one element if nobody has the turn
	n    int           // who has it or waits
}

// take waits for the turn of a partition. The caller must call done once.
func (t *turns) take(ctx context.Context, part string) (done func()) {
	t.mu.Lock()
	tn := t.all[part]
	if tn == nil {
		tn = &turn{free: make(chan struct{}, 1)}
		tn.free <- struct{}{}
		t.all[part] = tn
	}
	tn.n++
	t.mu.Unlock()
	has := true
	select {
	case <-tn.free:
	default:
		timer := time.NewTimer(turnWait)
		defer timer.Stop()
		select {
		case <-tn.free:
		case <-timer.C:
			has = false
		case <-ctx.Done():
			has = false
		}
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if has {
			tn.free <- struct{}{}
		}
		if tn.n--; tn.n == 0 {
			delete(t.all, part)
		}
	}
}

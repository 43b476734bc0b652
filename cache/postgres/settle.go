package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/skerrydb/skerry/cache"
)

const (
	// confirmAfter is how old a position is when the slot is told that nothing before it is needed: the disk tier has
	// it on the disk by then, so a cache that was killed still resumes.
	confirmAfter = 10 * time.Second

	// Transactions that have committed and are not visible yet are looked for again after a pause that doubles.
	minLook = time.Millisecond
	maxLook = 100 * time.Millisecond

	// A feed that begins looks so often whether transactions still run.
	beginLooks = 4
	beginPause = 5 * time.Millisecond
)

// settler passes on changes once every new load sees them, and proves that none is missing. It works in rounds:
//
//  1. Take what the stream has received, and how far the server has sent (received).
//  2. Note the time, and ask for a snapshot S and the position L at which the next record will be written. Whatever S
//     sees was committed before L. Now and then also ask whether the tables are in S what they were.
//  3. Report the changes that S sees. The others wait for the next round.
//  4. If received has reached the L of an earlier round, every change that was visible then has been received by step 1
//     of this round, and reported by step 3, as it is still visible. That is the proof, with the time of that round.
//
// The position is the end of the last change before the first one that waits, or received if none does.
type settler struct {
	every time.Duration
	s     interface {
		take() (list []*change, received cache.Position, heard time.Time, err error)
		status(confirmed cache.Position, answer bool) error
	}
	db interface {
		now(ctx context.Context, due bool) (snap snapshot, pos cache.Position, shape string, err error)
		nudge(ctx context.Context) error
	}
	sink  cache.Sink
	shape string          // of the tables; see sqlShape
	news  <-chan struct{} // has a token when the stream has something

	waiting  []*change      // received, not visible
	reached  cache.Position // every change up to it was reported
	doubtful []uint64       // transactions that ran when the feed began; see begin
	asked    *question      // the round whose L is to be reached
	sent     []sent         // positions that were reached, oldest first
}

// question is the second step of a round.
type question struct {
	at  time.Time
	lsn cache.Position
}

type sent struct {
	pos cache.Position
	at  time.Time
}

func (t *settler) run(ctx context.Context, history string, pos cache.Position, resumed bool) error {
	if err := t.begin(ctx, history, pos, resumed); err != nil {
		return err
	}
	tick := time.NewTicker(t.every)
	defer tick.Stop()
	look, pause := time.NewTimer(0), minLook
	defer look.Stop()
	due := true // a proof
	for {
		waits, err := t.round(ctx, due)
		if err != nil {
			return cause(ctx, err)
		}
		due = false
		if waits {
			look.Reset(pause)
			pause = min(2*pause, maxLook)
		} else {
			look.Stop()
			pause = minLook
		}
		select {
		case <-t.news:
		case <-look.C:
		case <-tick.C:
			due = true
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// cause returns the error of ctx if that is why something failed.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// begin begins delivery. A transaction whose commit record is before pos may not be visible yet: the stream does not
// report it, and a load that begins now does not see it. It is one of those that run in a snapshot of now. Once one of
// them has ended, the cache is emptied, unless the stream has reported it.
func (t *settler) begin(ctx context.Context, history string, pos cache.Position, resumed bool) error {
	for looks := 0; !resumed && looks < beginLooks; looks++ {
		snap, _, _, err := t.db.now(ctx, false)
		if err != nil {
			return cause(ctx, err)
		}
		if t.doubtful = snap.running; len(t.doubtful) == 0 {
			break
		}
		time.Sleep(beginPause) // nearly all of them end at once
	}
	t.sink.Begin(history, pos, resumed)
	return nil
}

// round reports whether changes wait to become visible. With due, a proof is wanted.
func (t *settler) round(ctx context.Context, due bool) (waits bool, err error) {
	list, received, heard, err := t.s.take()
	if err != nil {
		return false, fmt.Errorf("read the stream of changes: %w", err)
	}
	if t.asked != nil && time.Since(t.asked.at) > streamWithin && time.Since(heard) > streamWithin {
		return false, fmt.Errorf("read the stream of changes: %w", errSilent)
	}
	t.waiting = append(t.waiting, list...)
	proven := t.asked != nil && received >= t.asked.lsn
	if len(t.waiting) == 0 && !due && !proven {
		t.reach(received, time.Time{})
		return false, nil
	}
	at := time.Now()
	snap, lsn, shape, err := t.db.now(ctx, due)
	if err != nil {
		return false, err
	}
	if due && shape != t.shape {
		return false, errShape
	}
	t.report(&snap)
	t.doubt(&snap)
	pos := received
	if len(t.waiting) > 0 {
		pos = min(pos, t.waiting[0].from)
	}
	var proof time.Time
	if proven {
		proof, t.asked = t.asked.at, nil
	}
	t.reach(pos, proof)
	t.sink.Lag(int64(lsn) - int64(min(received, lsn)))
	if due && t.asked != nil {
		err = t.db.nudge(ctx) // a whole period has not sufficed
	} else if due {
		t.asked = &question{at, lsn}
	}
	if err != nil {
		return false, err
	}
	if due || len(list) > 0 {
		err = t.s.status(t.confirmed(), true)
	}
	return len(t.waiting) > 0, err
}

// report reports the changes that are visible.
func (t *settler) report(snap *snapshot) {
	kept := t.waiting[:0]
	for _, c := range t.waiting {
		xid := snap.full(c.xid)
		if !snap.sees(xid) {
			kept = append(kept, c)
			continue
		}
		if c.all != "" {
			t.sink.ChangedAll(c.all)
		} else if len(c.keys) > 0 {
			t.sink.Changed(c.keys...)
		}
		t.certain(xid)
	}
	clear(t.waiting[len(kept):])
	t.waiting = kept
}

// certain removes a transaction that the stream has reported from the doubtful ones.
func (t *settler) certain(xid uint64) {
	for i, x := range t.doubtful {
		if x == xid {
			t.doubtful = append(t.doubtful[:i], t.doubtful[i+1:]...)
			return
		}
	}
}

// doubt empties the cache if a doubtful transaction has ended.
func (t *settler) doubt(snap *snapshot) {
	kept := t.doubtful[:0]
	for _, x := range t.doubtful {
		if !snap.sees(x) {
			kept = append(kept, x)
		}
	}
	if len(kept) < len(t.doubtful) {
		t.sink.ChangedAll("a transaction that ran when the feed began has ended")
	}
	t.doubtful = kept
}

// reach passes on a position, and a proof if there is one.
func (t *settler) reach(pos cache.Position, proof time.Time) {
	t.reached = max(t.reached, pos)
	t.sink.Reached(t.reached, proof)
	if n := len(t.sent); n == 0 || time.Since(t.sent[n-1].at) > time.Second {
		t.sent = append(t.sent, sent{t.reached, time.Now()})
	}
}

// confirmed returns the newest position that is old enough for the slot to forget what is before it; 0: none.
func (t *settler) confirmed() (pos cache.Position) {
	for len(t.sent) > 1 && time.Since(t.sent[0].at) > confirmAfter {
		pos = t.sent[0].pos
		t.sent = t.sent[1:]
	}
	return pos
}

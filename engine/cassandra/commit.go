package cassandra

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// A commit goes through these stages:
//
//  1. The stamp of the partition is known from what was read, or is read now.
//  2. One conditional batch replaces it by one that ends with the commit's id, and writes.
//  3. If the batch was refused, it was not applied: a node that is not sure reports a timeout. The stamp
//     found is looked at all the same.
//  4. If the answer was lost, serial reads ask the stamp. If it has not changed, the batch may still be
//     on its way: then another commit, which writes nothing, takes its place.

const (
	// expiryGrace is how much later than asked Cassandra removes a key: its clocks may be ahead.
	expiryGrace = 10 * time.Minute
	// maxTTL is the longest that Cassandra takes: 20 years.
	maxTTL = 20 * 365 * 24 * time.Hour
)

// list returns the writes of a transaction.
func (t *tx) list() (writes []write) {
	for k, u := range t.keys {
		if !u.wrote {
			continue
		}
		w := write{key: []byte(k), val: u.val}
		if left := u.until.Sub(t.now); !u.until.IsZero() && left < maxTTL-expiryGrace {
			w.ttl = max(1, int((left+expiryGrace+time.Second-1)/time.Second))
		}
		writes = append(writes, w)
	}
	slices.SortFunc(writes, func(a, b write) int { return strings.Compare(string(a.key), string(b.key)) })
	return writes
}

// commit applies the writes of a transaction, or returns errConflict if it must run again.
func (e *db) commit(t *tx) error {
	part := string(t.part)
	p := t.parts[part]
	if p == nil {
		stamp, _, err := e.read(t.ctx, e.level.serial, part, nil)
		if err != nil {
			return e.fault(t.ctx, err)
		}
		p = &seen{stamp: stamp}
	}
	if time.Since(t.began) > maxDuration {
		return engine.Errorf(engine.CodeConflict, "cassandra: the transaction has taken more than %v", maxDuration)
	}
	id := newID()
	var applied bool
	var found []byte
	err := e.patiently(t.ctx, func() (err error) {
		applied, found, err = e.apply(t.ctx, part, p.stamp, follow(p.stamp, id), t.list())
		if err != nil && !unsent(err) {
			return &cut{err} // not tried again as it is
		}
		return err
	})
	lostAnswer, isCut := errors.AsType[*cut](err)
	switch {
	case isCut && refusedAtOnce(lostAnswer.error):
		return e.fault(t.ctx, lostAnswer.error)
	case isCut:
		err = e.settle(t, part, p.stamp, id, lostAnswer.error)
	case err != nil:
		return e.fault(t.ctx, err)
	case !applied && !names(found, id):
		return errConflict
	}
	if err == nil {
		e.commits.Add(1)
	}
	return err
}

// errRefused: an empty commit was refused, because the stamp has changed meanwhile.
var errRefused = errors.New("the batch was refused")

// cut is the error of a batch that may have been applied.
type cut struct{ error }

// settle finds out what became of a batch whose answer was lost.
func (e *db) settle(t *tx, part string, base, id []byte, cause error) error {
	until := time.Now().Add(e.o.patience)
	for wait := time.Millisecond; t.ctx.Err() == nil && time.Now().Before(until); wait = min(2*wait, 200*time.Millisecond) {
		now, err := e.stampOf(t.ctx, part)
		if err == nil && settle(now, base, id) == pending {
			// Whatever comes of this attempt, the next look says.
			var applied bool
			fence := newID()
			applied, _, err = e.apply(t.ctx, part, base, follow(base, fence), nil)
			if applied {
				now = follow(base, fence)
			} else {
				err = errors.Join(err, errRefused)
			}
		}
		if err != nil {
			pause(t.ctx, wait+rand.N(wait))
			continue
		}
		switch settle(now, base, id) {
		case committed:
			e.settled.Add(1)
			if e.level.more {
				return engine.Errorf(engine.CodeOutcomeUnknown, "cassandra: the commit is on a quorum of the replicas, but not confirmed at consistency %s: %w", e.level.name, cause)
			}
			return nil
		case lost:
			e.settled.Add(1)
			if again(cause) {
				return errConflict
			}
			return e.fault(t.ctx, cause)
		case forgotten:
			return cutOff(t.ctx, cause)
		}
	}
	return cutOff(t.ctx, cause)
}

// stampOf reads a partition's stamp once.
func (e *db) stampOf(ctx context.Context, part string) (stamp []byte, err error) {
	stamp, _, err = e.readOnce(ctx, e.level.serial, part, nil)
	return stamp, err
}

func cutOff(ctx context.Context, cause error) error {
	if err := ctx.Err(); err != nil {
		cause = err
	}
	return engine.Errorf(engine.CodeOutcomeUnknown, "cassandra: the commit was cut off: %w", cause)
}

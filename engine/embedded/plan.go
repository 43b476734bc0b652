package embedded

import (
	"sync/atomic"
	"time"
)

// DefaultRecoveryTarget is the default of Options.RecoveryTarget.
const DefaultRecoveryTarget = 2500 * time.Millisecond

// snapshotPerLog bounds how much more snapshots write than the log: a snapshot begins
// only when the log since the last one is at least 1/snapshotPerLog of its size.
const snapshotPerLog = 4

// Costs of recovery on one core of a small machine, before they are measured.
const (
	loadPairCost    = 100 * time.Nanosecond
	replayWriteCost = 350 * time.Nanosecond
	kibCost         = time.Microsecond // of a KiB of snapshot or log
)

// A measured cost counts only if it took at least leastMeasured, and within these
// factors of the constants: another process may have disturbed the start.
const (
	leastMeasured = 50 * time.Millisecond
	leastFactor   = 0.5
	mostFactor    = 4
)

// recoveryPlan decides when a snapshot begins, from a model of what the next recovery
// would cost. It is safe for concurrent use.
type recoveryPlan struct {
	floor  int64         // least bytes of log before a snapshot
	target time.Duration // of a recovery

	pairs, size  atomic.Int64 // of the last snapshot
	log, writes  atomic.Int64 // bytes and writes since the last snapshot that was written began
	ask          atomic.Int64 // value of log from which due may be true
	load, replay factor       // measured, as a factor of the constants
}

// factor is 1 until set.
type factor struct{ micro atomic.Int64 }

// measure sets the factor to took / expected.
func (f *factor) measure(took, expected time.Duration) {
	if expected >= leastMeasured {
		f.micro.Store(int64(1e6 * min(max(leastFactor, took.Seconds()/expected.Seconds()), mostFactor)))
	}
}

func (f *factor) of(d time.Duration) time.Duration {
	if m := f.micro.Load(); m > 0 {
		return time.Duration(float64(d) * float64(m) / 1e6)
	}
	return d
}

func loadCost(pairs, size int64) time.Duration {
	return time.Duration(pairs)*loadPairCost + time.Duration(size>>10)*kibCost
}

func replayCost(log, writes int64) time.Duration {
	return time.Duration(writes)*replayWriteCost + time.Duration(log>>10)*kibCost
}

// replaying returns how long the log since the last snapshot would take.
func (p *recoveryPlan) replaying() time.Duration {
	return p.replay.of(replayCost(p.log.Load(), p.writes.Load()))
}

// predicted returns how long a recovery would take now.
func (p *recoveryPlan) predicted() time.Duration {
	return p.load.of(loadCost(p.pairs.Load(), p.size.Load())) + p.replaying()
}

// least and most bound the log since the last snapshot at which the next one begins.
func (p *recoveryPlan) least() int64 { return max(p.floor, p.size.Load()/snapshotPerLog) }
func (p *recoveryPlan) most() int64  { return max(p.floor, p.size.Load()) }

// logged counts n more bytes of log with writes, and reports whether due should be
// called.
func (p *recoveryPlan) logged(n, writes int) bool {
	p.writes.Add(int64(writes))
	return p.log.Add(int64(n)) >= max(p.ask.Load(), p.least())
}

// due reports whether a snapshot should begin. elapsed is the time since the last one
// began and took how long that one took: the log grows while a snapshot is written, and
// a crash just before its end replays all of that.
func (p *recoveryPlan) due(elapsed, took time.Duration) bool {
	log := p.log.Load()
	switch {
	case log < max(p.ask.Load(), p.least()):
		return false
	case log >= p.most():
		return true
	}
	growth := time.Duration(0)
	if elapsed > 0 {
		growth = time.Duration(p.replaying().Seconds() / elapsed.Seconds() * float64(took))
	}
	if p.predicted()+growth >= p.target {
		return true
	}
	p.ask.Store(log + p.least()/16) // not with every batch
	return false
}

// begin returns what to pass to saved when the snapshot that begins now is written.
func (p *recoveryPlan) begin() (log, writes int64) { return p.log.Load(), p.writes.Load() }

// saved records a written snapshot. Only the log after its beginning remains.
func (p *recoveryPlan) saved(log, writes int64) {
	p.log.Add(-log)
	p.writes.Add(-writes)
	p.ask.Store(0)
}

// failed records that the snapshot was not written. The next attempt is after the same
// amount of log.
func (p *recoveryPlan) failed() { p.ask.Store(p.log.Load() + p.least()) }

// contents returns how many pairs s has, and the bytes of their keys and values.
func (s *snapshot) contents() (pairs, size int64) {
	return int64(s.tree.Len()), s.bytes
}

// holds records what the last snapshot has: pairs, and size bytes.
func (p *recoveryPlan) holds(pairs, size int64) {
	p.pairs.Store(pairs)
	p.size.Store(size)
}

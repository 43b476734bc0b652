package redis

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/skerrydb/skerry/engine"
)

// epochShift is where the epoch begins in a position; below it commits are counted.
const epochShift = 48

func epochOf(p engine.Position) uint64 { return uint64(p) >> epochShift }

// db is the engine on one primary.
type db struct {
	o        Options
	n        names
	c        rueidis.Client
	self     string // names this process among those that write
	promises engine.Promises

	queue chan *call
	ended chan struct{} // closed by Close
	ctx   context.Context
	stop  context.CancelFunc
	bg    sync.WaitGroup
	kick  chan struct{} // asks the keeper to look at the server now

	mu     sync.Mutex // guards the fields below
	pos    engine.Position
	moved  chan struct{} // closed when pos grows
	forks  map[uint64]engine.Position
	closed bool
	unfit  error // why the server must take no writes any more; nil: it may
	gone   error // why nothing can be read any more; nil: it can

	exec executor

	batches, txs, conflicts, retries, settled, epochs atomic.Int64
}

func openPrimary(ctx context.Context, t target, o Options) (engine.Engine, error) {
	c, s, err := connect(ctx, t)
	if err != nil {
		return nil, err
	}
	d := &db{
		o: o, n: namesOf(t.prefix), c: c, self: strconv.FormatUint(rand.Uint64(), 36),
		promises: engine.Promises{
			Atomic: engine.AllKeys, Serializable: true, Ordered: true, Feed: true, Durable: s.volatile == "",
			Snapshot: true, Clock: true, Positions: true, ExactPositions: true, Fence: true, DistinctTimes: true,
			MaxKeyBytes: MaxKeyBytes, MaxValBytes: MaxValBytes, MaxTxBytes: MaxTxBytes,
		},
		queue: make(chan *call, queueLength), ended: make(chan struct{}), kick: make(chan struct{}, 1),
		moved: make(chan struct{}), forks: map[uint64]engine.Position{},
		exec: executor{over: make(chan struct{})},
	}
	d.ctx, d.stop = context.WithCancel(context.Background())
	err = d.sync(ctx, "")
	if err == errLost {
		err = d.sync(ctx, formatVersion)
	}
	if err != nil {
		d.stop()
		c.Close()
		return nil, err
	}
	if s.volatile != "" {
		o.Logger.Warn("redis: commits are not durable", "reason", s.volatile)
	}
	if err := d.rebase(); err != nil {
		d.stop()
		c.Close()
		return nil, err
	}
	d.bg.Go(d.listen)
	d.bg.Go(d.keep)
	d.bg.Go(d.execute)
	return d, nil
}

// state is what state.lua returns.
type state struct {
	format, replid, actual string
	pos                    engine.Position
	at                     int64
}

func (d *db) readState(ctx context.Context, create string) (s state, err error) {
	keys := []string{d.n.meta, d.n.value, d.n.order, d.n.change}
	script := stateScript
	if create != "" {
		script = createScript
	}
	got, err := script.Exec(ctx, d.c, keys, []string{create}).AsStrSlice()
	if err != nil {
		return s, fault(ctx, err)
	}
	if got[0] != "ok" {
		return s, errLost
	}
	s = state{format: got[1], replid: got[4], actual: got[5]}
	if s.pos, err = parsePos(got[2]); err != nil {
		return s, err
	}
	s.at, err = strconv.ParseInt(got[3], 10, 64)
	return s, err
}

var errLost = engine.Errorf(engine.CodeCorrupt, "redis: the data was removed from the server: there is no meta key, or keys without it")

func parsePos(s string) (engine.Position, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, engine.Errorf(engine.CodeCorrupt, "redis: a position is damaged: %w", err)
	}
	return engine.Position(n), nil
}

func formatPos(p engine.Position) string { return strconv.FormatUint(uint64(p), 10) }

// sync learns the newest position, and begins a new epoch if the server has another
// replication id than the data: it was promoted or restarted, so it may lack commits.
func (d *db) sync(ctx context.Context, create string) error {
	for {
		known := d.Position()
		s, err := d.readState(ctx, create)
		if err != nil {
			return err
		}
		if s.format != formatVersion {
			return errNewer(s.format)
		}
		if s.replid == s.actual && s.pos < known {
			return engine.Errorf(engine.CodeCorrupt, "redis: the data went back from position %d to %d: it was removed or restored while the engine was open, or this is an old primary", known, s.pos)
		}
		if s.replid == s.actual {
			return d.adopt(ctx, s.pos)
		}
		epoch := epochOf(s.pos) + 1
		next := engine.Position(epoch<<epochShift | uint64(s.pos)&(1<<epochShift-1))
		keys := []string{d.n.meta, d.n.change, d.n.turn, d.n.fork}
		args := []string{formatPos(s.pos), s.replid, formatPos(next), s.actual, strconv.FormatUint(epoch, 10), d.n.moved}
		n, err := epochScript.Exec(ctx, d.c, keys, args).AsInt64()
		if err != nil {
			return fault(ctx, err)
		}
		if d.epochs.Add(n); n == 1 {
			d.o.Logger.Warn("redis: a new epoch begins: the server was restarted or replaced, and may have lost commits", "epoch", epoch, "after", s.pos)
		}
	}
}

func errNewer(format string) error {
	return engine.Errorf(engine.CodeFormatNewer, "redis: the data has format %q, and this program knows up to %s", format, formatVersion)
}

// adopt makes a position known, with the forks that led to it. If that is of another epoch, the server was restarted
// or replaced: adopt looks first whether it still keeps what was promised.
func (d *db) adopt(ctx context.Context, pos engine.Position) error {
	d.mu.Lock()
	same := epochOf(pos) == epochOf(d.pos)
	d.mu.Unlock()
	forks := map[uint64]engine.Position{}
	if !same {
		if err := d.look(ctx); err != nil {
			return err
		}
		all, err := d.c.Do(ctx, d.c.B().Hgetall().Key(d.n.fork).Build()).AsStrMap()
		if err != nil {
			return fault(ctx, err)
		}
		for k, v := range all {
			epoch, err := strconv.ParseUint(k, 10, 64)
			if err != nil {
				return engine.Errorf(engine.CodeCorrupt, "redis: an epoch is damaged: %w", err)
			}
			if forks[epoch], err = parsePos(v); err != nil {
				return err
			}
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !same {
		d.forks = forks
	}
	d.grow(pos)
	return nil
}

// grow requires mu.
func (d *db) grow(pos engine.Position) {
	if pos > d.pos {
		d.pos = pos
		d.wakeReaders()
	}
}

// advance makes a position known, if it is of the known epoch.
func (d *db) advance(ctx context.Context, pos engine.Position) error {
	d.mu.Lock()
	if epochOf(pos) == epochOf(d.pos) {
		d.grow(pos)
		d.mu.Unlock()
		return nil
	}
	d.mu.Unlock()
	return d.adopt(ctx, pos)
}

func (d *db) current() (engine.Position, <-chan struct{}, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return 0, nil, engine.ErrClosed
	}
	return d.pos, d.moved, nil
}

// damage returns why nothing can be read, as far as the keeper knows.
func (d *db) damage() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.gone
}

// lost reports whether a position names a commit that a server has lost.
func (d *db) lost(p engine.Position) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	fork, ok := d.forks[epochOf(p)+1]
	return ok && p > fork
}

// await waits until a position is known.
func (d *db) await(ctx context.Context, at engine.Position) error {
	for first := true; ; first = false {
		pos, moved, err := d.current()
		if err != nil {
			return err
		}
		if pos >= at {
			if d.lost(at) {
				return engine.Errorf(engine.CodeTruncated, "redis: the commit of position %d was lost when the server was replaced", at)
			}
			return nil
		}
		if first {
			if err := d.sync(ctx, ""); err == nil {
				continue
			}
		}
		select {
		case <-moved:
		case <-d.ended:
			return engine.ErrClosed
		case <-ctx.Done():
			return engine.Errorf(engine.CodePositionTimeout, "at %d, not at %d: %w", pos, at, ctx.Err())
		}
	}
}

// listen learns of commits of other processes.
func (d *db) listen() {
	for d.ctx.Err() == nil {
		_ = d.c.Receive(d.ctx, d.c.B().Subscribe().Channel(d.n.moved).Build(), func(m rueidis.PubSubMessage) {
			pos, err := parsePos(m.Message)
			if err != nil {
				return
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			if epochOf(pos) == epochOf(d.pos) {
				d.grow(pos)
			} else {
				d.wake()
			}
		})
		d.wake()
		d.pause(50 * time.Millisecond)
	}
}

// wake makes the keeper look at the server.
func (d *db) wake() {
	select {
	case d.kick <- struct{}{}:
	default:
	}
}

// keep finds out within a second that a message was missed, or that the server was replaced.
func (d *db) keep() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-d.ctx.Done():
			return
		case <-tick.C:
		case <-d.kick:
		}
		ctx, cancel := context.WithTimeout(d.ctx, d.o.patience)
		d.note(d.sync(ctx, "")) // calls report what else is wrong
		_ = d.look(ctx)
		cancel()
	}
}

// look finds out whether the server still keeps what was promised.
func (d *db) look(ctx context.Context) error {
	s, err := inspect(ctx, d.c)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unfit = s.unfit(d.promises.Durable)
	return nil
}

// note remembers whether the data is still there, and wakes those who wait for changes if it is not.
func (d *db) note(err error) {
	lost := engine.CodeOf(err) == engine.CodeCorrupt
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err == nil:
		d.gone = nil
	case lost && d.gone == nil:
		d.gone = err
		d.wakeReaders()
	}
}

// wakeReaders requires mu.
func (d *db) wakeReaders() {
	close(d.moved)
	d.moved = make(chan struct{})
}

// pause waits, or until the engine is closed.
func (d *db) pause(t time.Duration) {
	select {
	case <-time.After(t):
	case <-d.ended:
	}
}

// Promises implements engine.Engine.
func (d *db) Promises() engine.Promises { return d.promises }

// Position implements engine.Positioner.
func (d *db) Position() engine.Position {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pos
}

// Close implements engine.Engine.
func (d *db) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	close(d.ended)
	d.mu.Unlock()
	d.exec.done(d)
	d.stop()
	d.bg.Wait()
	d.c.Close()
	return nil
}

// retry runs a read of one script until it succeeds, the server refuses it, or patience
// ends. After a lost connection it looks at the server first: it may be another one.
func (d *db) retry(ctx context.Context, do func(context.Context) error) error {
	until := time.Now().Add(d.o.patience)
	cut := false
	for wait := time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		err := do(ctx)
		if _, ours := errors.AsType[*engine.Error](err); err == nil || ours || isServers(err) && !passing(err) {
			return fault(ctx, err)
		}
		select {
		case <-d.ended:
			return engine.ErrClosed
		default:
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !isServers(err) && !cut {
			cut, until = true, time.Now().Add(d.o.patience) // silence may have taken all of it
		}
		if errors.Is(err, rueidis.ErrClosing) || time.Now().After(until) {
			return d.orClosed(fault(ctx, err))
		}
		d.retries.Add(1)
		d.pause(wait + rand.N(wait))
		if !isServers(err) {
			_ = d.sync(ctx, "")
		}
	}
}

// orClosed returns ErrClosed if the engine was closed and err does not say more, else err.
func (d *db) orClosed(err error) error {
	if errors.Is(err, engine.ErrOutcomeUnknown) {
		return err
	}
	if _, _, closed := d.current(); closed != nil {
		return closed
	}
	return err
}

func (d *db) clock() int64 { return d.o.Now().UnixMicro() }

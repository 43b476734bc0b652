package cache

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/feed"
)

const (
	defaultProof = 500 * time.Millisecond
	proofWithin  = 10 * time.Second // bounds one question for the newest position
)

// ChangesOptions configure Changes. Engine, Feed, Prefixes and Keys are required.
type ChangesOptions struct {
	Engine engine.Engine
	Feed   *feed.Feed // of Engine

	// Prefixes selects the keys of the engine that entries are made of.
	Prefixes [][]byte

	// Keys calls drop with each key of the cache whose entry is out of date after a change, or returns true if any may
	// be. The change has only the writes to Prefixes. It must not be modified.
	Keys func(c engine.Change, drop func(key string)) (all bool)

	// Every is how often the feed asks for the newest position, to prove that it is not behind; 0 is 500 ms.
	// Each time costs one linearizable read.
	Every time.Duration
}

// Changes returns a Feed of the changes of Skerry's own engine. Its positions are those of the engine, so a
// position that a write returned can be a Read.AtLeast. The source of the cache must read the same engine on
// the same node at level Linearizable: a weaker read can miss a change that the feed has delivered already.
//
// It resumes within one process only: a disk tier starts empty.
func Changes(o ChangesOptions) (Feed, error) {
	if o.Engine == nil || o.Feed == nil || len(o.Prefixes) == 0 || o.Keys == nil {
		return nil, engine.Errorf(engine.CodeInvalid, "cache: Changes needs Engine, Feed, Prefixes and Keys")
	}
	if o.Every < 0 {
		return nil, engine.Errorf(engine.CodeInvalid, "cache: ChangesOptions.Every is negative")
	}
	o.Every = cmp.Or(o.Every, defaultProof)
	return &changes{o, rand.Text()}, nil
}

type changes struct {
	o       ChangesOptions
	history string // of this process: nothing in an engine's data says that it is the same data as before
}

// proof says that no change after pos had been committed at that time.
type proof struct {
	pos Position
	at  time.Time
}

// Run implements Feed.
func (f *changes) Run(ctx context.Context, sink Sink) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	newest, err := f.newest(ctx)
	if err != nil {
		return err
	}
	sub, err := f.subscribe(sink, newest.pos)
	if err != nil {
		return err
	}
	defer sub.Close()
	proofs := make(chan proof)
	proving := make(chan struct{})
	go func() {
		defer close(proving)
		f.prove(ctx, proofs)
	}()
	defer func() { cancel(); <-proving }()

	latest := newest
	for {
		f.settle(sink, sub, latest)
		select {
		case c, ok := <-sub.C:
			if !ok {
				return cmp.Or(sub.Err(), error(engine.ErrClosed))
			}
			f.report(sink, c)
		case latest = <-proofs:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// subscribe subscribes after the position up to which the cache has applied all changes, if the engine still has
// what came since, or after pos.
func (f *changes) subscribe(sink Sink, pos Position) (*feed.Sub, error) {
	filter := feed.Filter{Prefixes: f.o.Prefixes}
	if history, after := sink.Resume(); history == f.history {
		sub, err := f.o.Feed.Subscribe(filter, after)
		if err == nil {
			sink.Begin(f.history, after, true)
			return sub, nil
		}
		if !errors.Is(err, engine.ErrTruncated) {
			return nil, err
		}
	}
	sub, err := f.o.Feed.Subscribe(filter, pos)
	if err != nil {
		return nil, err
	}
	sink.Begin(f.history, pos, false)
	return sub, nil
}

// report passes one change on. A heartbeat has no keys.
func (f *changes) report(sink Sink, c engine.Change) {
	if len(c.Writes) > 0 {
		var keys []string
		if f.o.Keys(c, func(key string) { keys = append(keys, key) }) {
			sink.ChangedAll("a change may concern every entry")
		} else {
			sink.Changed(keys...)
		}
	}
	sink.Reached(c.Pos, time.Time{})
}

// settle passes on what is in the subscription, and the proof, if all that it needs was in there.
func (f *changes) settle(sink Sink, sub *feed.Sub, p proof) {
	reached := sub.Reached() // before the channel is emptied: all up to it is there
	for {
		select {
		case c, ok := <-sub.C:
			if ok {
				f.report(sink, c)
				continue
			}
			return // the caller sees it too
		default:
		}
		break
	}
	if reached >= p.pos {
		sink.Reached(reached, p.at)
	} else {
		sink.Reached(reached, time.Time{})
	}
}

// prove sends a proof every now and then. A node that cannot reach the leader of its cluster has none.
func (f *changes) prove(ctx context.Context, to chan<- proof) {
	tick := time.NewTicker(f.o.Every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		p, err := f.newest(ctx)
		if err != nil {
			continue
		}
		select {
		case to <- p:
		case <-ctx.Done():
			return
		}
	}
}

// newest returns the engine's newest position, once the feed has reached it on this node.
func (f *changes) newest(ctx context.Context) (proof, error) {
	ctx, cancel := context.WithTimeout(ctx, proofWithin)
	defer cancel()
	at := time.Now()
	pos, err := f.o.Engine.View(ctx, engine.Read{}, func(engine.Tx) error { return nil })
	if err != nil {
		return proof{}, err
	}
	return proof{pos, at}, f.o.Feed.Wait(ctx, pos)
}

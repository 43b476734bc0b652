// Package forward finds the node that leads and has it carry out requests.
//
// It knows how long a request waits for an election, how many requests wait or are
// under way at once, which attempts may be followed by another one, and what is known
// of a request whose connection broke. It must not know protocols, connections or
// what a request means: a face makes each attempt and says what became of it.
package forward

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
)

const (
	// ElectionWait is how long a request waits for a leader unless its face says
	// otherwise: while there is none, or the known one cannot be reached. Then it
	// fails with engine.CodeNotLeader.
	ElectionWait = 5 * time.Second
	// MaxForwards is how many requests an HTTP face forwards, or lets wait for a
	// leader, at once; more get engine.CodeQueueFull.
	MaxForwards = 4096
	// MaxBreaks is how many connections to leaders may break after a repeatable
	// request was sent over them. Then it is not sent again: it may be what breaks
	// them.
	MaxBreaks = 2

	minPause, maxPause = 2 * time.Millisecond, 100 * time.Millisecond // between attempts
)

// Outcome is what became of one attempt to have a request carried out.
type Outcome uint8

const (
	// Answered means that the attempt was the last one: the request has its answer,
	// or the error that is its answer.
	Answered Outcome = iota
	// NotRun means that the attempt changed nothing and another one may be made.
	NotRun
	// MayHaveRun means that the request may or may not have run.
	MayHaveRun
)

// OutcomeOf returns what err says about the call of an engine that returned it.
func OutcomeOf(err error) Outcome {
	switch engine.CodeOf(err) {
	case engine.CodeNotLeader:
		return NotRun
	case engine.CodeOutcomeUnknown:
		return MayHaveRun
	}
	return Answered
}

// Doubt is what is known of a request that earlier attempts may have run. The zero
// value is a request that has not run.
type Doubt struct {
	raised bool
	breaks int
}

// Raise records that an attempt may have run the request.
func (d *Doubt) Raise() { d.raised = true }

// Raised reports whether an attempt may have run the request.
func (d *Doubt) Raised() bool { return d.raised }

// Remains reports whether the request may have run in an earlier attempt although a
// later one ended with code: a node can refuse a request with that code before it
// looks for what an earlier attempt left, or lose what it found.
func (d *Doubt) Remains(code engine.Code) bool {
	if !d.raised {
		return false
	}
	switch code {
	case engine.CodeNotLeader, engine.CodeOutcomeUnknown, engine.CodeQueueFull, engine.CodeClosed, engine.CodeStopped,
		engine.CodeDiskFull, engine.CodeFilesFull, engine.CodeInternal: // also that of a client that is gone
		return true
	}
	return false
}

// Break records that a connection broke after the request was sent over it.
func (d *Doubt) Break() { d.breaks++ }

// Exhausted reports whether MaxBreaks connections have broken.
func (d *Doubt) Exhausted() bool { return d.breaks >= MaxBreaks }

// Call is one request for the leader. It belongs to one goroutine.
type Call struct {
	// Try makes one attempt to have the node that leads carry out the request; here
	// means that it is this node. With Answered the error is that of the request, or
	// nil; with the other outcomes it says why there is no answer.
	Try func(leader uint64, here bool) (Outcome, error)

	// Begin, if not nil, is called once, before the first attempt or the wait for a
	// leader, and not over the limit. Its error is the request's.
	Begin func() error

	// Repeatable reports whether the request may be sent again although it may have
	// run, because the leader recognizes it. If nil, it may not.
	Repeatable func() bool

	// Waited is the part of the patience that was used up before the call.
	Waited time.Duration

	Doubt
	unknown error // of the attempt that raised the doubt
}

// MayRepeat reports whether the request may be sent again although it may have run.
func (c *Call) MayRepeat() bool {
	return c.Repeatable != nil && c.Repeatable() && !c.Exhausted()
}

// tried records the result of an attempt. It reports whether that was the last one,
// and what the request has come to then.
func (c *Call) tried(o Outcome, err error) (done bool, _ error) {
	switch o {
	case NotRun:
		return false, nil
	case MayHaveRun:
		c.Raise()
		c.unknown = err
		return !c.MayRepeat(), err
	default:
		return true, c.result(err)
	}
}

// result returns what the request has come to when no attempt follows the one that
// ended with err.
func (c *Call) result(err error) error {
	if err != nil && c.Remains(engine.CodeOf(err)) {
		return c.unknown
	}
	return err
}

// Router has requests carried out by the node that leads. Its methods are safe for
// concurrent use; its fields must not be changed meanwhile.
type Router struct {
	Cluster  engine.Cluster
	Patience time.Duration // how long a request waits for a leader after its first attempt
	Limit    int32         // how many requests may be in Do at once; 0: any number

	inside atomic.Int32
}

// Leads reports whether this node leads, as far as it knows.
func (r *Router) Leads() bool {
	s := r.Cluster.State()
	return s.Leader == s.Self
}

// Do makes attempts until one is Answered, or MayHaveRun and not repeatable, and
// returns its error. When no attempt succeeds within the patience, the error has
// engine.CodeNotLeader; when ctx ends, it is ctx's; over the limit, it has
// engine.CodeQueueFull. If the request may have run by then, the error is that of
// the attempt that may have run it.
func (r *Router) Do(ctx context.Context, c *Call) error {
	defer r.inside.Add(-1)
	if n := r.inside.Add(1); r.Limit > 0 && n > r.Limit {
		return c.result(engine.Errorf(engine.CodeQueueFull, "%d requests for the leader are being answered already", r.Limit))
	}
	if c.Begin != nil {
		if err := c.Begin(); err != nil {
			return c.result(err)
		}
	}
	if s := r.Cluster.State(); s.Leader != 0 && s.Leader != s.Self {
		// Nearly always this is all there is to it.
		if done, err := c.tried(c.Try(s.Leader, false)); done {
			return err
		}
	}
	wait, cancel := context.WithTimeout(ctx, r.Patience-c.Waited)
	defer cancel()
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		if done, err := c.tried(r.attempt(wait, c)); done {
			return err
		}
		select {
		case <-time.After(pause):
		case <-wait.Done():
			if gone := ctx.Err(); gone != nil {
				return c.result(gone)
			}
			return c.result(engine.Errorf(engine.CodeNotLeader, "no leader was found within %v; nothing was written", r.Patience))
		}
	}
}

// Resume is Do after an attempt on this node that ended with err.
func (r *Router) Resume(ctx context.Context, c *Call, err error) error {
	if done, err := c.tried(OutcomeOf(err), err); done {
		return err
	}
	return r.Do(ctx, c)
}

// attempt waits for a leader and has it tried.
func (r *Router) attempt(wait context.Context, c *Call) (Outcome, error) {
	if err := wait.Err(); err != nil {
		return NotRun, err
	}
	leader, err := r.Cluster.AwaitLeader(wait)
	if err != nil {
		return OutcomeOf(err), err
	}
	return c.Try(leader.ID, leader.ID == r.Cluster.State().Self)
}

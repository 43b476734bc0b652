// Package forward finds the leader of a cluster and has it run requests.
//
// It knows how long a request waits for an election, how many requests may wait or be in
// progress at once, which attempts may be repeated, and whether a request whose connection
// broke may have run. It must not know protocols, connections or what a request means: a
// face makes each attempt and reports its outcome.
package forward

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
)

const (
	// ElectionWait is the default time that a request waits for a leader while there is
	// none or the known one cannot be reached. Then it fails with engine.CodeNotLeader.
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

// Outcome is the outcome of one attempt to run a request.
type Outcome uint8

const (
	// Answered means that the attempt was the last one: the request has its result or its
	// error.
	Answered Outcome = iota
	// NotRun means that the attempt changed nothing and another one may be made.
	NotRun
	// MayHaveRun means that the request may or may not have run.
	MayHaveRun
)

// OutcomeOf returns the outcome of an engine call that returned err.
func OutcomeOf(err error) Outcome {
	switch engine.CodeOf(err) {
	case engine.CodeNotLeader:
		return NotRun
	case engine.CodeOutcomeUnknown:
		return MayHaveRun
	}
	return Answered
}

// Doubt records whether earlier attempts may have run a request. The zero value is a
// request that has not run.
type Doubt struct {
	raised bool
	breaks int
}

// Raise records that an attempt may have run the request.
func (d *Doubt) Raise() { d.raised = true }

// Raised reports whether an attempt may have run the request.
func (d *Doubt) Raised() bool { return d.raised }

// Remains reports whether the request may have run in an earlier attempt although a later
// one ended with code: a node can reject a request with that code before it looks for the
// result of an earlier attempt, or lose that result.
func (d *Doubt) Remains(code engine.Code) bool {
	if !d.raised {
		return false
	}
	switch code {
	case engine.CodeNotLeader, engine.CodeOutcomeUnknown, engine.CodeQueueFull, engine.CodeClosed, engine.CodeStopped,
		engine.CodeDiskFull, engine.CodeFilesFull, engine.CodeInternal: // also if the client disconnected
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
	// Try makes one attempt to run the request on the leader. here means that the leader is
	// this node. If the outcome is Answered, the error is the request's or nil; otherwise
	// it says why the attempt has no result.
	Try func(leader uint64, here bool) (Outcome, error)

	// Begin, if not nil, is called once, before the first attempt or the wait for a leader.
	// It is not called if the limit is exceeded. If it returns an error, the request fails
	// with it.
	Begin func() error

	// Repeatable reports whether the request may be sent again although it may have run,
	// because the leader detects the repetition. If nil, it may not.
	Repeatable func() bool

	// Waited is how much of the patience was used up before the call.
	Waited time.Duration

	Doubt
	unknown error // error of the attempt that raised the doubt
}

// MayRepeat reports whether the request may be sent again although it may have run.
func (c *Call) MayRepeat() bool {
	return c.Repeatable != nil && c.Repeatable() && !c.Exhausted()
}

// tried records the result of an attempt. It reports whether that was the last one and, if
// so, the error of the request.
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

// result returns the error of the request when the attempt that ended with err was the last
// one.
func (c *Call) result(err error) error {
	if err != nil && c.Remains(engine.CodeOf(err)) {
		return c.unknown
	}
	return err
}

// Router runs requests on the leader. Its methods are safe for concurrent use; its fields
// must not be changed during use.
type Router struct {
	Cluster  engine.Cluster
	Patience time.Duration // how long a request waits for a leader after its first attempt
	Limit    int32         // maximum number of requests in Do at once; 0: no limit

	inside atomic.Int32
}

// Leads reports whether this node is the leader, as far as it knows.
func (r *Router) Leads() bool {
	s := r.Cluster.State()
	return s.Leader == s.Self
}

// Do makes attempts until one is Answered, or MayHaveRun and not repeatable, and returns
// its error. If no attempt succeeds within the patience, the error has
// engine.CodeNotLeader; if ctx ends, it is ctx's; over the limit, it has
// engine.CodeQueueFull. If the request may have run by then, the error is that of the
// attempt that may have run it.
func (r *Router) Do(ctx context.Context, c *Call) error {
	defer r.inside.Add(-1)
	if n := r.inside.Add(1); r.Limit > 0 && n > r.Limit {
		return c.result(engine.Errorf(engine.CodeQueueFull, "%d requests are already waiting for the leader or its reply", r.Limit))
	}
	if c.Begin != nil {
		if err := c.Begin(); err != nil {
			return c.result(err)
		}
	}
	if s := r.Cluster.State(); s.Leader != 0 && s.Leader != s.Self {
		// The first attempt nearly always succeeds.
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

// Resume is like Do after an attempt on this node that ended with err.
func (r *Router) Resume(ctx context.Context, c *Call, err error) error {
	if done, err := c.tried(OutcomeOf(err), err); done {
		return err
	}
	return r.Do(ctx, c)
}

// attempt waits for a leader and makes an attempt on it.
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

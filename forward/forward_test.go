package forward_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/forward"
)

// cluster is a cluster in which a test chooses the leader. This node is node 1.
type cluster struct {
	mu      sync.Mutex // guards the fields below
	leader  uint64
	err     error // of AwaitLeader
	changed chan struct{}
}

func newCluster(leader uint64) *cluster {
	return &cluster{leader: leader, changed: make(chan struct{})}
}

func (c *cluster) lead(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leader = id
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *cluster) State() engine.ClusterState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return engine.ClusterState{Self: 1, Leader: c.leader}
}

func (c *cluster) AwaitLeader(ctx context.Context) (engine.Node, error) {
	for {
		c.mu.Lock()
		leader, changed, err := c.leader, c.changed, c.err
		c.mu.Unlock()
		if leader != 0 || err != nil {
			return engine.Node{ID: leader}, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return engine.Node{}, engine.Errorf(engine.CodeNotLeader, "no leader: %w", ctx.Err())
		}
	}
}

func (c *cluster) Dial(context.Context, uint64, string) (net.Conn, error) { panic("not called") }
func (c *cluster) Listen(string) net.Listener                             { panic("not called") }

// result is the result of one attempt.
type result struct {
	outcome forward.Outcome
	err     error
}

var (
	answered = result{forward.Answered, nil}
	notRun   = result{forward.NotRun, engine.ErrNotLeader}
	errBroke = engine.Errorf(engine.CodeOutcomeUnknown, "the connection broke")
	broke    = result{forward.MayHaveRun, errBroke}
)

func refused(code engine.Code) result {
	return result{forward.Answered, engine.Errorf(code, "refused")}
}

// script is a Call whose attempts have given results. It records which nodes were asked.
type script struct {
	forward.Call
	results []result
	asked   []string
}

func newScript(repeatable bool, results ...result) *script {
	s := &script{results: results}
	s.Repeatable = func() bool { return repeatable }
	s.Try = func(leader uint64, here bool) (forward.Outcome, error) {
		s.asked = append(s.asked, fmt.Sprint(leader, here))
		if len(s.results) == 0 {
			return notRun.outcome, notRun.err
		}
		r := s.results[0]
		s.results = s.results[1:]
		if r.outcome == forward.MayHaveRun {
			s.Break()
		}
		return r.outcome, r.err
	}
	return s
}

// TestOutcomes checks which results are followed by another attempt, and how the request
// ends.
func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		name       string
		repeatable bool
		results    []result
		attempts   int
		want       error
	}{
		{"answered", false, []result{answered}, 1, nil},
		{"failed for good", true, []result{refused(engine.CodeConflict)}, 1, engine.ErrConflict},
		{"refused, then answered", false, []result{notRun, notRun, notRun, answered}, 4, nil},
		{"broken", false, []result{broke, answered}, 1, engine.ErrOutcomeUnknown},
		{"refused, then broken", false, []result{notRun, broke, answered}, 2, engine.ErrOutcomeUnknown},
		{"repeated", true, []result{broke, notRun, answered}, 3, nil},
		{"repeated and failed for good", true, []result{broke, refused(engine.CodeConflict)}, 2, engine.ErrConflict},
		{"breaks every leader", true, []result{broke, broke, answered}, forward.MaxBreaks, engine.ErrOutcomeUnknown},
		{"repeated and not looked at", true, []result{broke, refused(engine.CodeQueueFull)}, 2, engine.ErrOutcomeUnknown},
		{"not looked at and not sent before", true, []result{notRun, refused(engine.CodeQueueFull)}, 2, engine.ErrQueueFull},
		{"repeated, and a fault", true, []result{broke, {forward.Answered, errors.New("fault")}}, 2, engine.ErrOutcomeUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, s := &forward.Router{Cluster: newCluster(2), Patience: time.Minute}, newScript(c.repeatable, c.results...)
				if err := r.Do(t.Context(), &s.Call); !errors.Is(err, c.want) {
					t.Errorf("the error is %v, want %v", err, c.want)
				}
				if len(s.asked) != c.attempts {
					t.Errorf("asked %q, want %d attempts", s.asked, c.attempts)
				}
			})
		})
	}
}

// TestPatience checks that without a reachable leader a request waits exactly as long as it
// may, including the time that it waited before.
func TestPatience(t *testing.T) {
	for _, leader := range []uint64{0, 1, 2} {
		for _, waited := range []time.Duration{0, 2 * time.Second, 9 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				r, s := &forward.Router{Cluster: newCluster(leader), Patience: 5 * time.Second}, newScript(true)
				s.Waited = waited
				start := time.Now()
				err := r.Do(t.Context(), &s.Call)
				if !errors.Is(err, engine.ErrNotLeader) || time.Since(start) != max(0, 5*time.Second-waited) {
					t.Errorf("leader %d: %v after %v", leader, err, time.Since(start))
				}
				if tried := len(s.asked); leader == 0 && tried != 0 || leader != 0 && waited < 5*time.Second && (tried < 20 || tried > 100) {
					t.Errorf("leader %d: %d attempts", leader, tried)
				}
			})
		}
	}
}

// TestPatienceInDoubt checks that a request that may have run and then finds no leader does
// not report that nothing was written.
func TestPatienceInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := &forward.Router{Cluster: newCluster(2), Patience: time.Second}, newScript(true, broke)
		if err := r.Do(t.Context(), &s.Call); err != error(errBroke) {
			t.Errorf("the error is %v", err)
		}
	})
}

// TestLeaderChanges checks that an attempt is made on the current leader, including this
// node.
func TestLeaderChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(2)
		r, s := &forward.Router{Cluster: c, Patience: 5 * time.Second}, newScript(false)
		next := []func(){
			func() { c.lead(0); time.AfterFunc(time.Second, func() { c.lead(3) }) },
			func() { c.lead(1) },
		}
		try := s.Try
		s.Try = func(leader uint64, here bool) (forward.Outcome, error) {
			if len(next) == 0 {
				s.results = []result{answered}
			} else {
				next[0]()
				next = next[1:]
			}
			return try(leader, here)
		}
		start := time.Now()
		if err := r.Do(t.Context(), &s.Call); err != nil || !slices.Equal(s.asked, []string{"2 false", "3 false", "1 true"}) {
			t.Errorf("%v, asked %q", err, s.asked)
		}
		if took := time.Since(start); took < time.Second || took > time.Second+time.Second/10 {
			t.Errorf("it took %v", took)
		}
	})
}

// TestClosed checks that a closed engine ends the wait.
func TestClosed(t *testing.T) {
	c := newCluster(0)
	c.err = engine.ErrClosed
	r, s := &forward.Router{Cluster: c, Patience: time.Hour}, newScript(false)
	if err := r.Do(t.Context(), &s.Call); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("the error is %v", err)
	}
}

// TestLimit checks that a request over the limit fails at once, and that a request that
// ends makes room.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(0)
		r := &forward.Router{Cluster: c, Patience: time.Minute, Limit: 2}
		var wg sync.WaitGroup
		for range 2 {
			s := newScript(false, answered)
			wg.Go(func() {
				if err := r.Do(t.Context(), &s.Call); err != nil {
					t.Errorf("within the limit: %v", err)
				}
			})
		}
		synctest.Wait()
		over := newScript(true, answered)
		if err := r.Do(t.Context(), &over.Call); !errors.Is(err, engine.ErrQueueFull) || len(over.asked) != 0 {
			t.Errorf("over the limit: %v", err)
		}
		if err := r.Resume(t.Context(), &over.Call, errBroke); err != error(errBroke) {
			t.Errorf("over the limit, and it may have run: %v", err)
		}
		c.lead(2)
		wg.Wait()
		if err := r.Do(t.Context(), &newScript(false, answered).Call); err != nil {
			t.Errorf("with room again: %v", err)
		}
	})
}

// TestGone checks that a client that disconnects ends the wait, and that a request that may
// have run stays in doubt.
func TestGone(t *testing.T) {
	for _, leader := range []uint64{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			r := &forward.Router{Cluster: newCluster(leader), Patience: time.Hour}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := time.Now()
			if err := r.Do(ctx, &newScript(false).Call); err != context.DeadlineExceeded || time.Since(start) != time.Second {
				t.Errorf("leader %d: %v after %v", leader, err, time.Since(start))
			}
			if err := r.Resume(ctx, &newScript(true).Call, errBroke); err != error(errBroke) {
				t.Errorf("leader %d, in doubt: %v", leader, err)
			}
		})
	}
}

// TestResume checks that an attempt that was made on this node counts as one of the call's.
func TestResume(t *testing.T) {
	for _, c := range []struct {
		err        error
		repeatable bool
		attempts   int
		want       error
	}{
		{nil, true, 0, nil},
		{engine.ErrConflict, true, 0, engine.ErrConflict},
		{engine.ErrNotLeader, false, 1, nil},
		{engine.ErrOutcomeUnknown, false, 0, engine.ErrOutcomeUnknown},
		{engine.ErrOutcomeUnknown, true, 1, nil},
	} {
		r, s := &forward.Router{Cluster: newCluster(2), Patience: time.Hour}, newScript(c.repeatable, answered)
		if err := r.Resume(t.Context(), &s.Call, c.err); !errors.Is(err, c.want) || len(s.asked) != c.attempts {
			t.Errorf("after %v, repeatable %v: %v, asked %q", c.err, c.repeatable, err, s.asked)
		}
	}
}

// TestBegin checks that Begin runs once, before waiting for a leader, and that the request
// fails with its error. Over the limit it does not run.
func TestBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(0)
		r := &forward.Router{Cluster: c, Patience: time.Minute, Limit: 1}
		s, begun := newScript(false, notRun, answered), 0
		s.Begin = func() error { begun++; return nil }
		done := make(chan error)
		go func() { done <- r.Do(t.Context(), &s.Call) }()
		synctest.Wait()
		if begun != 1 || len(s.asked) != 0 {
			t.Errorf("without a leader it began %d times and asked %q", begun, s.asked)
		}
		over := newScript(false, answered)
		over.Begin = func() error { t.Error("it began over the limit"); return nil }
		if err := r.Do(t.Context(), &over.Call); !errors.Is(err, engine.ErrQueueFull) {
			t.Errorf("over the limit: %v", err)
		}
		c.lead(2)
		if err := <-done; err != nil || begun != 1 {
			t.Errorf("%v, began %d times", err, begun)
		}
		s = newScript(false, answered)
		s.Begin = func() error { return engine.ErrLimit }
		if err := r.Do(t.Context(), &s.Call); !errors.Is(err, engine.ErrLimit) || len(s.asked) != 0 {
			t.Errorf("a request that cannot begin: %v, asked %q", err, s.asked)
		}
	})
}

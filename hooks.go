package skerry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Bounds of an application's background work.
const (
	// MinRestart is the first pause before work that has failed starts again. The pause
	// doubles with every failure, and is MinRestart again once the work has run for MaxRestart.
	MinRestart = time.Second
	// MaxRestart is the longest pause before background work that has failed starts again.
	MaxRestart = time.Minute

	// stopSlack is how long a function of OnStop may take to return after its context has
	// ended.
	stopSlack = time.Second

	// leaderCheck is how often a node checks whether it still leads.
	leaderCheck = 50 * time.Millisecond
)

// hooks are the functions that an application runs besides requests.
type hooks struct {
	start, stop []func(ctx context.Context) error
	work        []work
	sealed      bool // the application is made: nothing can be added anymore
}

// work is one background function of an application.
type work struct {
	name       string
	leaderOnly bool
	run        func(ctx context.Context) error
}

// add calls fn, and panics once the application is made: what is added then would never run.
func (h *hooks) add(fn func()) {
	if h.sealed {
		panic("skerry: OnStart, OnStop, Background and OnLeader can be called only while the application is being made")
	}
	fn()
}

// OnStart adds a function that runs before this server answers its first request. The functions run one at a
// time, in the order in which they were added. If one returns an error or panics, Server.Run returns that
// error. When the server is stopped meanwhile, ctx ends, and Run returns at most Options.Grace later. The
// functions run on every node at each start. Only the leader can write, so use OnLeader for work on the data.
func (s *Services) OnStart(fn func(ctx context.Context) error) {
	s.hooks.add(func() { s.hooks.start = append(s.hooks.start, fn) })
}

// OnStop adds a function that runs after the last request has been answered, while the engine is still open.
// The functions run one at a time, in the reverse of the order in which they were added. They share one ctx,
// which ends after Options.Grace. A function that does not return then is abandoned. Errors and panics are
// logged. The functions run only if all functions of OnStart succeeded.
func (s *Services) OnStop(fn func(ctx context.Context) error) {
	s.hooks.add(func() { s.hooks.stop = append(s.hooks.stop, fn) })
}

// Background runs fn on every node, after the functions of OnStart, until fn returns nil or the server stops,
// which ends ctx. If fn returns an error or panics, the failure is logged under name, and fn starts again
// after a pause between MinRestart and MaxRestart.
func (s *Services) Background(name string, fn func(ctx context.Context) error) {
	s.hooks.add(func() { s.hooks.work = append(s.hooks.work, work{name, false, fn}) })
}

// OnLeader is like Background, but runs fn only on the leader, or on the only node. ctx ends when the node
// stops leading. When it leads again, fn starts again, even if it had returned nil.
//
// When the server stops, fn ends before it begins on another node. When a node loses leadership in another
// way, it notices with a delay: up to 50 milliseconds if it still reaches the other nodes, about an election
// timeout if it is cut off. Until then fn may run on two nodes, but only the new leader can write. So fn
// should claim work that cannot be undone, such as sending email, in a transaction before doing it.
func (s *Services) OnLeader(name string, fn func(ctx context.Context) error) {
	s.hooks.add(func() { s.hooks.work = append(s.hooks.work, work{name, true, fn}) })
}

// begin runs the functions of OnStart.
func (h *hooks) begin(ctx context.Context, grace time.Duration) error {
	for _, fn := range h.start {
		if err := within(ctx, grace, fn); err != nil {
			return fmt.Errorf("start the application: %w", err)
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("start the application: %w", err)
		}
	}
	return nil
}

// end runs the functions of OnStop.
func (h *hooks) end(grace time.Duration, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	for _, fn := range slices.Backward(h.stop) {
		if err := within(ctx, stopSlack, fn); err != nil {
			log.Error("an OnStop function of the application failed", "err", err)
		}
	}
}

// within runs fn and waits for it until at most slack after ctx has ended.
func within(ctx context.Context, slack time.Duration, fn func(ctx context.Context) error) error {
	ended := make(chan error, 1)
	go func() {
		err := errors.New("it called runtime.Goexit")
		defer func() { ended <- err }()
		err = recovered(ctx, fn)
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	limit := time.NewTimer(slack)
	defer limit.Stop()
	select {
	case err := <-ended:
		return err
	case <-limit.C:
		return fmt.Errorf("a function did not return after its context ended: %w", ctx.Err())
	}
}

// recovered runs fn and turns a panic into an error.
func recovered(ctx context.Context, fn func(ctx context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return fn(ctx)
}

// background starts the work. The function that it returns ends the work and waits for it for at most grace.
func (h *hooks) background(cluster engine.Cluster, log *slog.Logger) (stop func(grace time.Duration)) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, w := range h.work {
		running.Go(func() {
			log := log.With("work", w.name)
			if !w.leaderOnly || cluster == nil {
				w.repeat(ctx, log)
				return
			}
			w.whileLeading(ctx, cluster, log)
		})
	}
	return func(grace time.Duration) {
		cancel()
		ended := make(chan struct{})
		go func() { running.Wait(); close(ended) }()
		limit := time.NewTimer(grace)
		defer limit.Stop()
		select {
		case <-ended:
		case <-limit.C:
			log.Warn("background work of the application did not end in time; it ignores its context", "grace", grace)
		}
	}
}

// whileLeading runs the work in each term in which this node leads.
func (w work) whileLeading(ctx context.Context, cluster engine.Cluster, log *slog.Logger) {
	for ctx.Err() == nil {
		term, err := awaitLeading(ctx, cluster)
		if err != nil { // no leader in time, the engine is closed, or ctx ended
			select {
			case <-time.After(leaderCheck):
			case <-ctx.Done():
			}
			continue
		}
		leading, end := context.WithCancel(ctx)
		var watch sync.WaitGroup
		watch.Go(func() {
			defer end()
			poll(leading, func() bool { return !leads(cluster, term) })
		})
		w.repeat(leading, log)
		watch.Wait() // the work is done, but not the term
		end()
	}
}

// awaitLeading returns the term once this node leads in it and accepts writes.
func awaitLeading(ctx context.Context, cluster engine.Cluster) (term uint64, err error) {
	poll(ctx, func() bool { st := cluster.State(); return st.Leader == st.Self })
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	term = cluster.State().Term
	wait, cancel := context.WithTimeout(ctx, MinRestart)
	defer cancel()
	if _, err := cluster.AwaitLeader(wait); err != nil {
		return 0, err
	}
	if !leads(cluster, term) {
		return 0, engine.ErrNotLeader
	}
	return term, nil
}

func leads(cluster engine.Cluster, term uint64) bool {
	st := cluster.State()
	return st.Leader == st.Self && st.Term == term
}

// poll returns once cond reports true or ctx ends.
func poll(ctx context.Context, cond func() bool) {
	if cond() {
		return
	}
	tick := time.NewTicker(leaderCheck)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if cond() {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// repeat runs the work until it returns nil or ctx ends.
func (w work) repeat(ctx context.Context, log *slog.Logger) {
	for pause := MinRestart; ctx.Err() == nil; {
		began := time.Now()
		err := recovered(ctx, w.run)
		switch {
		case err == nil:
			return
		case ctx.Err() != nil:
			if !errors.Is(err, ctx.Err()) {
				log.Warn("background work of the application did not end cleanly", "err", err)
			}
			return
		case time.Since(began) >= MaxRestart:
			pause = MinRestart
		}
		log.Error("background work of the application failed", "err", err, "restart_in", pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, MaxRestart)
	}
}

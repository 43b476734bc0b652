package skerry_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
)

// application serves an application with only what make adds.
func application(add func(*skerry.Services)) skerry.Options {
	return skerry.Options{HTTP: "127.0.0.1:0", RESP: skerry.Off, Admin: "127.0.0.1:0", Grace: time.Second, Web: skerry.Web{Application: func(s *skerry.Services) (http.Handler, error) {
		add(s)
		return http.NotFoundHandler(), nil
	}}}
}

// events is a list for concurrent use.
type events struct {
	sync.Mutex
	list []string
}

func (e *events) add(what string) {
	e.Lock()
	defer e.Unlock()
	e.list = append(e.list, what)
}

func (e *events) all() string {
	e.Lock()
	defer e.Unlock()
	return strings.Join(e.list, " ")
}

func TestHooksRunInOrder(t *testing.T) {
	t.Parallel()
	var seen events
	var s *skerry.Server
	opened := make(chan struct{})
	hook := func(name string) func(context.Context) error {
		return func(ctx context.Context) error {
			<-opened
			if strings.HasPrefix(name, "start") && s.Ready() == nil {
				t.Error("it is ready before the application has started")
			}
			seen.add(name)
			return ctx.Err()
		}
	}
	s, err := skerry.Open(openEngine(t), application(func(s *skerry.Services) {
		s.OnStart(hook("start1"))
		s.OnStart(hook("start2"))
		s.OnStop(hook("stop1"))
		s.OnStop(hook("stop2"))
		s.Background("counts", func(ctx context.Context) error {
			seen.add("begin")
			<-ctx.Done()
			seen.add("end")
			return ctx.Err()
		})
	}))
	close(opened)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	eventually.True(t, "the work begins", func() bool { return strings.HasSuffix(seen.all(), "begin") })
	cancel()
	if err := wait(t, ended); err != nil {
		t.Error(err)
	}
	if got, want := seen.all(), "start1 start2 begin end stop2 stop1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestFailedStart: an error of OnStart stops the server before it has answered a request, and neither later
// functions nor OnStop run.
func TestFailedStart(t *testing.T) {
	t.Parallel()
	never := func(context.Context) error { t.Error("this must not run"); return nil }
	broken := errors.New("the cache is cold")
	s, err := skerry.Open(openEngine(t), application(func(s *skerry.Services) {
		s.OnStart(func(context.Context) error { return broken })
		s.OnStart(never)
		s.OnStop(never)
		s.Background("never", never)
		s.OnLeader("never", never)
	}))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); !errors.Is(err, broken) || !strings.Contains(err.Error(), "start the application") {
		t.Errorf("Run: %v", err)
	}
}

// TestStopDuringStart: a server that is stopped during OnStart ends cleanly.
func TestStopDuringStart(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	s, err := skerry.Open(openEngine(t), application(func(s *skerry.Services) {
		s.OnStart(func(ctx context.Context) error {
			close(begun)
			<-ctx.Done()
			return ctx.Err()
		})
	}))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(context.WithoutCancel(t.Context())) }()
	<-begun
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := wait(t, ended); err != nil {
		t.Errorf("Run: %v", err)
	}
}

// TestDeafWork: work that ignores its context delays a stop only for Grace.
func TestDeafWork(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	o := application(func(s *skerry.Services) {
		s.Background("deaf", func(context.Context) error { <-release; return nil })
	})
	o.Grace = 10 * time.Millisecond
	_, cancel, ended := start(t, openEngine(t), o)
	cancel()
	if err := wait(t, ended); err != nil {
		t.Error(err)
	}
}

// TestDeafHooks: functions of OnStart and OnStop that ignore their context delay a stop for a bounded time,
// and the other functions of OnStop still run.
func TestDeafHooks(t *testing.T) {
	t.Parallel()
	release, begun := make(chan struct{}), make(chan struct{})
	defer close(release)
	deaf := func(context.Context) error { <-release; return nil }
	o := application(func(s *skerry.Services) {
		s.OnStart(func(ctx context.Context) error { close(begun); return deaf(ctx) })
	})
	o.Grace = 10 * time.Millisecond
	s, err := skerry.Open(openEngine(t), o)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(context.WithoutCancel(t.Context())) }()
	<-begun
	go s.Close()
	if err := wait(t, ended); err != nil {
		t.Errorf("stopped during OnStart: %v", err)
	}

	var seen events
	o = application(func(s *skerry.Services) {
		s.OnStop(func(context.Context) error { seen.add("last"); return nil })
		s.OnStop(func(context.Context) error { panic("broken") })
		s.OnStop(deaf)
	})
	o.Grace = 10 * time.Millisecond
	_, cancel, stopped := start(t, openEngine(t), o)
	cancel()
	if err := wait(t, stopped); err != nil || seen.all() != "last" {
		t.Errorf("stopped: %v; OnStop ran %q", err, seen.all())
	}
}

// TestPanicInStart: a panic of OnStart is an error of Run, so that the data folder is closed properly.
func TestPanicInStart(t *testing.T) {
	t.Parallel()
	for _, fail := range []func(){func() { panic("broken") }, runtime.Goexit} {
		s, err := skerry.Open(openEngine(t), application(func(s *skerry.Services) {
			s.OnStart(func(context.Context) error { fail(); return nil })
		}))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "start the application") {
			t.Errorf("Run: %v", err)
		}
	}
}

func TestLateHook(t *testing.T) {
	t.Parallel()
	var services *skerry.Services
	start(t, openEngine(t), application(func(s *skerry.Services) { services = s }))
	defer func() {
		if p := recover(); p == nil {
			t.Error("a hook that would never run was accepted")
		}
	}()
	services.OnStart(func(context.Context) error { return nil })
}

// TestWorkStartsAgain: work restarts after an error and after a panic, with growing pauses, but not after nil.
func TestWorkStartsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		began := time.Now()
		stop := skerry.RunWork(nil, slog.New(slog.DiscardHandler), false, func(context.Context) error {
			at = append(at, time.Since(began))
			switch len(at) {
			case 3:
				panic("broken")
			case 9:
				time.Sleep(skerry.MaxRestart) // it worked for a while: the next pause is short
			case 11:
				return nil
			}
			return errors.New("failed")
		})
		time.Sleep(time.Hour)
		synctest.Wait()
		stop(time.Second)
		var want []time.Duration
		for _, s := range []int{0, 1, 3, 7, 15, 31, 63, 123, 183, 183 + 60 + 1, 183 + 60 + 1 + 2} {
			want = append(want, time.Duration(s)*time.Second)
		}
		if !slices.Equal(at, want) {
			t.Errorf("started at %v, want %v", at, want)
		}
	})
}

// ballot is a cluster whose leader and term are set by a test.
type ballot struct {
	engine.Cluster
	state  atomic.Pointer[engine.ClusterState]
	closed atomic.Bool  // AwaitLeader is ErrClosed
	asked  atomic.Int32 // how often that was
}

func (b *ballot) elect(leader, term uint64) {
	b.state.Store(&engine.ClusterState{Self: 1, Leader: leader, Term: term})
}

func (b *ballot) State() engine.ClusterState { return *b.state.Load() }

func (b *ballot) AwaitLeader(ctx context.Context) (engine.Node, error) {
	if b.closed.Load() {
		if b.asked.Add(1) > 100 {
			<-ctx.Done()
		}
		return engine.Node{}, engine.ErrClosed
	}
	return engine.Node{ID: b.State().Leader}, ctx.Err()
}

// TestLeaderWorkOnClosedEngine: work for the leader waits without using CPU while the engine has stopped, as
// during Options.Drain.
func TestLeaderWorkOnClosedEngine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster := &ballot{}
		cluster.elect(1, 1)
		cluster.closed.Store(true)
		stop := skerry.RunWork(cluster, slog.New(slog.DiscardHandler), true, func(context.Context) error { t.Error("it runs"); return nil })
		time.Sleep(time.Second)
		stop(time.Second)
		if n := cluster.asked.Load(); n > 50 {
			t.Errorf("asked for the leader %d times in a second", n)
		}
	})
}

// TestLeaderWork: work runs while this node leads, once per term, and ends with the term, even if the node
// leads again in the next term before anyone has noticed.
func TestLeaderWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster := &ballot{}
		cluster.elect(2, 1)
		var runs, running atomic.Int32
		stop := skerry.RunWork(cluster, slog.New(slog.DiscardHandler), true, func(ctx context.Context) error {
			runs.Add(1)
			running.Add(1)
			defer running.Add(-1)
			if cluster.State().Term == 7 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		})
		for i, step := range []struct {
			leader, term  uint64
			runs, running int32
		}{{2, 1, 0, 0}, {1, 2, 1, 1}, {0, 2, 1, 0}, {1, 3, 2, 1}, {1, 5, 3, 1}, {3, 6, 3, 0}, {1, 7, 4, 0}, {1, 7, 4, 0}, {1, 8, 5, 1}} {
			cluster.elect(step.leader, step.term)
			time.Sleep(time.Second)
			synctest.Wait()
			if r, n := runs.Load(), running.Load(); r != step.runs || n != step.running {
				t.Errorf("step %d, leader %d in term %d: started %d times, want %d; running %d, want %d", i, step.leader, step.term, r, step.runs, n, step.running)
			}
		}
		stop(time.Second)
		if running.Load() != 0 {
			t.Error("it still runs")
		}
	})
}

// slowTick makes the election timeout at least five seconds, so that a starved machine does not change the
// leader in the middle of a test.
const slowTick = 400 * time.Millisecond

// openNodes opens three nodes of one cluster.
func openNodes(t *testing.T) []*embedded.DB {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	var dbs []*embedded.DB
	var dirs, addrs []string
	for i := range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		o := embedded.Options{Logger: quiet, Cluster: embedded.ClusterOptions{Listener: l, Join: slices.Clone(addrs), Tick: slowTick}}
		dir := t.TempDir()
		if i == 0 {
			_, _, err = embedded.InitCluster(t.Context(), dir, l.Addr().String(), o)
		} else {
			var invitation []byte
			if invitation, err = embedded.Invite(dirs[0]); err == nil {
				_, err = embedded.Accept(dir, invitation, o)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		db, err := embedded.Open(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		dbs, dirs, addrs = append(dbs, db), append(dirs, dir), append(addrs, l.Addr().String())
		eventually.True(t, fmt.Sprintf("node %d has a vote", i+1), func() bool {
			st := dbs[0].Cluster().State()
			n, ok := st.Node(uint64(i + 1))
			return ok && n.Voter && st.Leader != 0
		})
	}
	return dbs
}

// TestLeaderWorkOnThreeNodes: exactly one of three servers does the work. When that one stops, another one
// begins only after it has ended.
func TestLeaderWorkOnThreeNodes(t *testing.T) {
	t.Parallel()
	dbs := openNodes(t)
	var running, most, last atomic.Int32
	cancels := make([]context.CancelFunc, len(dbs))
	ends := make([]<-chan error, len(dbs))
	for i, db := range dbs {
		_, cancels[i], ends[i] = start(t, db, application(func(s *skerry.Services) {
			s.OnLeader("send mail", func(ctx context.Context) error {
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				last.Store(int32(i + 1))
				<-ctx.Done()
				return ctx.Err()
			})
		}))
	}
	eventually.True(t, "one node works", func() bool { return running.Load() == 1 })
	first := last.Load()
	cancels[first-1]()
	if err := wait(t, ends[first-1]); err != nil {
		t.Error(err)
	}
	dbs[first-1].Close() // as programs do: on a starved machine the node may lead on, or again
	eventually.True(t, "another node works", func() bool { return running.Load() == 1 && last.Load() != first })
	if most.Load() != 1 {
		t.Errorf("%d nodes worked at once", most.Load())
	}
}

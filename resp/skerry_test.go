package resp_test

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/feed"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/resp"
)

// openEngine opens an embedded engine in a temporary directory, and closes it at the end of
// the test.
func openEngine(tb testing.TB, o embedded.Options) *embedded.DB {
	tb.Helper()
	if o.Logger == nil {
		o.Logger = testLog(tb)
	}
	db, err := embedded.Open(tb.TempDir(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := db.Close(); err != nil {
			tb.Errorf("close the engine: %v", err)
		}
	})
	return db
}

func testLog(tb testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
}

// loopback returns a listener on a free port of loopback.
func loopback(tb testing.TB) net.Listener {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// startSkerry serves an embedded engine in a temporary directory with all its background
// tasks, and stops it at the end of the test.
func startSkerry(tb testing.TB, o resp.Options) (addr string) {
	tb.Helper()
	l := loopback(tb)
	serveSkerry(tb, l, o)
	return l.Addr().String()
}

func serveSkerry(tb testing.TB, l net.Listener, o resp.Options) *resp.Server {
	tb.Helper()
	eng := openEngine(tb, embedded.Options{})
	o.Meter = eng
	srv, _ := serve(tb, eng, l, o)
	return srv
}

// serve serves eng to clients and, in a cluster, to other nodes, with all background tasks,
// until stop is called or the test ends.
func serve(tb testing.TB, eng engine.Engine, clients net.Listener, o resp.Options) (srv *resp.Server, stop func()) {
	tb.Helper()
	store, err := kv.New(eng, kv.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	f, err := feed.New(eng, feed.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	if o.Logger == nil {
		o.Logger = testLog(tb)
	}
	if o.Procedures == nil {
		o.Procedures = testProcedures(tb, eng)
	}
	o.Durable, o.Build = true, "test"
	if srv, err = resp.New(store, f, o); err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { f.Run(ctx) })
	wg.Go(func() { store.Run(ctx) })
	wg.Go(func() {
		if err := srv.Serve(ctx, clients); err != nil {
			tb.Errorf("Serve: %v", err)
		}
	})
	if o.Cluster != nil {
		wg.Go(func() {
			if err := srv.ServeNode(ctx, o.Cluster.Listen(resp.NodeProtocol)); err != nil {
				tb.Errorf("ServeNode: %v", err)
			}
		})
	}
	tb.Cleanup(func() {
		srv.Close()
		cancel()
		wg.Wait()
	})
	return srv, cancel
}

// TestTranscriptsOnSkerry checks that Skerry replies as Redis does, except where the
// transcript gives a reason.
func TestTranscriptsOnSkerry(t *testing.T) {
	for _, s := range scripts(t) {
		t.Run(s.name, func(t *testing.T) {
			addr := startSkerry(t, resp.Options{Password: s.password})
			for _, proto := range []int{2, 3} {
				if s.only == 0 || s.only == proto {
					flushAll(t, addr, s.password)
					playScript(t, s, proto, true, tcp(addr))
				}
			}
		})
	}
}

package resp_test

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/feed"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/resp"
)

// startSkerry serves an embedded engine in a temporary directory with all its background
// tasks, and stops it at the end of the test.
func startSkerry(tb testing.TB, o resp.Options) (addr string) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	serveSkerry(tb, l, o)
	return l.Addr().String()
}

func serveSkerry(tb testing.TB, l net.Listener, o resp.Options) *resp.Server {
	tb.Helper()
	return serveAt(tb, l, o, nil)
}

// serveAt is like serveSkerry on an engine whose clock is now; nil means time.Now.
func serveAt(tb testing.TB, l net.Listener, o resp.Options, now func() time.Time) *resp.Server {
	tb.Helper()
	log := slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	eng, err := embedded.Open(tb.TempDir(), embedded.Options{Logger: log, Now: now})
	if err != nil {
		tb.Fatal(err)
	}
	store, err := kv.New(eng, kv.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	f, err := feed.New(eng, feed.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	if o.Logger == nil {
		o.Logger = log
	}
	if o.Procedures == nil {
		o.Procedures = testProcedures(tb, eng)
	}
	o.Meter, o.Durable, o.Build = eng, true, "test"
	srv, err := resp.New(store, f, o)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { f.Run(ctx) })
	wg.Go(func() { store.Run(ctx) })
	wg.Go(func() {
		if err := srv.Serve(ctx, l); err != nil {
			tb.Errorf("Serve: %v", err)
		}
	})
	tb.Cleanup(func() {
		srv.Close()
		cancel()
		wg.Wait()
		if err := eng.Close(); err != nil {
			tb.Errorf("close the engine: %v", err)
		}
	})
	return srv
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

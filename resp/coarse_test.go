package resp_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/engine/enginetest"
	"github.com/skerrydb/skerry/feed"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/resp"
)

// TestTrackingSharedTimes checks that if transactions share times, NOLOOP hides no write of
// another client. The connection's own writes are then reported too.
func TestTrackingSharedTimes(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	db, err := embedded.Open(t.TempDir(), embedded.Options{Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	eng := enginetest.Coarse(db, 1000*time.Hour)
	store, err := kv.New(eng, kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := feed.New(eng, feed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := resp.New(store, f, resp.Options{Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	l, ended := loopback(t), make(chan error, 2)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- f.Run(ctx) }()
	go func() { ended <- srv.Serve(ctx, l) }()
	t.Cleanup(func() {
		srv.Close()
		cancel()
		<-ended
		<-ended
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	a, b := newAsker(t, l.Addr().String()), newAsker(t, l.Addr().String())
	a.want("OK", "CLIENT", "TRACKING", "ON", "NOLOOP")
	a.want("OK", "SET", "other", "1") // its own write, at the time of all others
	a.want("nil", "GET", "k")
	b.want("OK", "SET", "k", "1")
	if v := show(t, a.next()); v != "[invalidate [k]]" {
		t.Errorf("push: %s", v)
	}
}

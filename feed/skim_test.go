package feed_test

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/feed"
)

// skimmed is the embedded engine with a hook between the question whether changes are
// wanted and the change that stands for those that are not.
type skimmed struct {
	*embedded.DB
	unwanted func()
}

func (e *skimmed) SkimChanges(ctx context.Context, after engine.Position, wanted func() bool) iter.Seq2[engine.Change, error] {
	return e.DB.SkimChanges(ctx, after, func() bool {
		w := wanted()
		if !w {
			e.unwanted()
		}
		return w
	})
}

// TestJoinWhileSkimming subscribes just after the engine has learned that nobody wants the
// changes. The subscription must still receive them.
func TestJoinWhileSkimming(t *testing.T) {
	db, err := embedded.Open(t.TempDir(), embedded.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	eng := &skimmed{DB: db}
	f := create(t, eng, feed.Options{Heartbeat: time.Hour})
	joined := make(chan *feed.Sub, 1)
	var once sync.Once
	eng.unwanted = func() {
		once.Do(func() {
			s, err := f.Subscribe(feed.Filter{Prefixes: [][]byte{nil}}, f.Position())
			if err != nil {
				t.Error(err)
			}
			joined <- s
		})
	}
	run(t, f)
	first := put(t, eng, "a")
	s := <-joined
	t.Cleanup(s.Close)
	second := put(t, eng, "b")
	wantNext(t, s, first, "a")
	wantNext(t, s, second, "b")
}

// TestSkimmedPosition checks that the position and the time of changes that nobody wants
// still reach waiting calls, and a subscription that comes later.
func TestSkimmedPosition(t *testing.T) {
	db, err := embedded.Open(t.TempDir(), embedded.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	skipped := make(chan struct{}, 100)
	eng := &skimmed{DB: db, unwanted: func() { skipped <- struct{}{} }}
	f := start(t, eng, feed.Options{Heartbeat: time.Hour})
	var pos engine.Position
	for range 10 {
		pos = put(t, eng, "a")
	}
	if err := f.Wait(t.Context(), pos); err != nil {
		t.Fatal(err)
	}
	if len(skipped) == 0 {
		t.Error("no change was left out: this tests nothing")
	}
	late := subscribe(t, f, pos-1, "")
	wantNext(t, late, pos, "a")
	wantNext(t, late, put(t, eng, "b"), "b")
}

package feed_test

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
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

// TestTailRests: a tail that nobody needs does not follow every commit, and does at once
// when there is a subscription or a call that waits.
func TestTailRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := embedded.Open(t.TempDir(), embedded.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		f := start(t, db, feed.Options{Heartbeat: time.Hour})
		put(t, db, "a")
		synctest.Wait()
		put(t, db, "b")
		synctest.Wait() // at the latest now the tail rests
		second := put(t, db, "b")
		synctest.Wait()
		if pos := f.Position(); pos == second {
			t.Errorf("the tail is at %d, that of the newest commit: it did not rest", pos)
		}
		began := time.Now()
		if err := f.Wait(t.Context(), second); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		third := put(t, db, "c")
		s := subscribe(t, f, f.Position(), "")
		wantNext(t, s, third, "c")
		wantNext(t, s, put(t, db, "d"), "d")
		if d := time.Since(began); d != 0 {
			t.Errorf("a subscription or a call waited for %v", d)
		}
		s.Close()
		for range 3 {
			put(t, db, "e")
			synctest.Wait()
		}
		time.Sleep(time.Second)
		if pos := f.Position(); pos != db.Position() {
			t.Errorf("the tail is at %d, the engine at %d", pos, db.Position())
		}
	})
}

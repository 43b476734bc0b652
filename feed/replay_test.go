package feed_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/feed"
)

// TestMeeting forces every order in which a tail and a replay can handle the same changes.
// The subscriber receives each one once.
func TestMeeting(t *testing.T) {
	eng := &stepped{Engine: open(t, testengine.Options{}), readers: make(chan *reader, 1)}
	const steps = 5 // changes; the tail is one ahead when the replay begins
	orders := 0
	for order := range 1 << (2*steps - 1) {
		tails := 0
		for i := range 2*steps - 1 {
			tails += order >> i & 1
		}
		if tails == steps-1 {
			meet(t, eng, order, steps)
			orders++
		}
	}
	if orders != 126 {
		t.Errorf("%d orders, want 9 over 4", orders)
	}
}

// meet lets the tail step where order has a 1 bit and the replay where it has a 0.
func meet(t *testing.T, eng *stepped, order, steps int) {
	t.Helper()
	f := create(t, eng, feed.Options{Heartbeat: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- f.Run(ctx) }()
	tail := <-eng.readers
	first := put(t, eng, "a")
	tail.next()
	s := subscribe(t, f, first-1, "a", "b")
	replay := <-eng.readers
	want := []engine.Position{first}
	for i := 1; i < steps; i++ {
		key := [...]string{"a", "other", "b"}[i%3]
		if pos := put(t, eng, key); key != "other" {
			want = append(want, pos)
		}
	}
	for i := range 2*steps - 1 {
		if order>>i&1 != 0 {
			tail.next()
		} else {
			replay.next()
		}
	}
	if !replay.over {
		t.Errorf("order %b: the replay has handled all and not met the tail", order)
	}
	want = append(want, put(t, eng, "a"))
	tail.next()
	var got []engine.Position
	for range want {
		c, ok := next(t, s)
		if !ok {
			t.Fatalf("order %b: ended with %v", order, s.Err())
		}
		got = append(got, c.Pos)
	}
	if !slices.Equal(got, want) || len(s.C) != 0 {
		t.Errorf("order %b: positions %d and %d more, want %d", order, got, len(s.C), want)
	}
	cancel()
	<-ended
}

// TestAhead checks that a subscription can begin at a position that the tail has not
// reached yet.
func TestAhead(t *testing.T) {
	eng := &stepped{Engine: open(t, testengine.Options{}), readers: make(chan *reader, 1)}
	f := start(t, eng, feed.Options{})
	tail := <-eng.readers
	put(t, eng, "1")
	p2 := put(t, eng, "2")
	s := subscribe(t, f, p2, "")
	p3 := put(t, eng, "3")
	for range 3 {
		tail.next()
	}
	wantNext(t, s, p3, "3")
}

// TestResume has subscribers come, fall behind, leave and resume while others write, each
// with its own filter. They must receive what the engine's history contains.
func TestResume(t *testing.T) {
	r := seed.Rand(t)
	eng := open(t, testengine.Options{})
	f := start(t, eng, feed.Options{Buffer: 8, Heartbeat: 2 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	var work sync.WaitGroup
	for range 2 {
		w := rand.New(rand.NewPCG(r.Uint64(), 0))
		work.Go(func() {
			for ctx.Err() == nil {
				var keys []string
				for range 1 + w.IntN(3) {
					keys = append(keys, fmt.Sprintf("%c/%d", 'a'+w.IntN(4), w.IntN(3)))
				}
				put(t, eng, keys...)
			}
		})
	}
	logs := make([]*listener, 12)
	for i := range logs {
		l := &listener{r: rand.New(rand.NewPCG(r.Uint64(), 0))}
		for range 1 + l.r.IntN(3) {
			l.prefixes = append(l.prefixes, []string{"a", "b/", "c/1", "d/0", "a/2"}[l.r.IntN(5)])
		}
		logs[i] = l
		work.Go(func() { l.listen(ctx, t, f) })
	}
	work.Wait()
	last := put(t, eng, "end")
	for _, l := range logs {
		l.drain(t, f, last)
		l.check(t, eng, last)
	}
	t.Logf("%d changes", last)
}

// listener is one subscriber that resumes repeatedly.
type listener struct {
	r        *rand.Rand
	prefixes []string
	pos      engine.Position // it knows everything up to here
	got      []string
}

func (l *listener) matches(key string) bool {
	return slices.ContainsFunc(l.prefixes, func(p string) bool { return strings.HasPrefix(key, p) })
}

func (l *listener) take(t *testing.T, c engine.Change) {
	if c.Pos <= l.pos {
		t.Errorf("position %d after %d", c.Pos, l.pos)
	}
	l.pos = c.Pos
	for _, w := range c.Writes {
		l.got = append(l.got, fmt.Sprint(c.Pos, " ", string(w.Key)))
	}
}

func (l *listener) listen(ctx context.Context, t *testing.T, f *feed.Feed) {
	for ctx.Err() == nil {
		s := subscribe(t, f, l.pos, l.prefixes...)
		for n := l.r.IntN(200); n > 0 && ctx.Err() == nil; n-- {
			select {
			case c, ok := <-s.C:
				if !ok {
					n = 1 // it was too slow
					continue
				}
				l.take(t, c)
				if l.r.IntN(100) == 0 {
					time.Sleep(time.Duration(l.r.IntN(5)) * time.Millisecond)
				}
			case <-ctx.Done():
			}
		}
		s.Close()
		for c := range s.C { // buffered changes count too
			l.take(t, c)
		}
	}
}

// drain reads until position last.
func (l *listener) drain(t *testing.T, f *feed.Feed, last engine.Position) {
	t.Helper()
	for l.pos < last {
		s := subscribe(t, f, l.pos, l.prefixes...)
		for l.pos < last {
			c, ok := <-s.C
			if !ok {
				break
			}
			l.take(t, c)
		}
		s.Close()
	}
}

func (l *listener) check(t *testing.T, eng engine.Engine, last engine.Position) {
	t.Helper()
	var want []string
	for c, err := range eng.Changes(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range c.Writes {
			if l.matches(string(w.Key)) {
				want = append(want, fmt.Sprint(c.Pos, " ", string(w.Key)))
			}
		}
		if c.Pos == last {
			break
		}
	}
	if !slices.Equal(l.got, want) {
		t.Errorf("prefixes %q: %d writes, want %d", l.prefixes, len(l.got), len(want))
	}
}

// BenchmarkDeliver measures one change of one key with n subscriptions, of which one
// matches.
func BenchmarkDeliver(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			f := create(b, open(b, testengine.Options{}), feed.Options{Buffer: 16, Heartbeat: time.Hour})
			f.Begin()
			var mine *feed.Sub
			for i := range n {
				mine = subscribe(b, f, 0, fmt.Sprintf("topic/%06d/", i))
			}
			c := engine.Change{Writes: []engine.Write{{Key: fmt.Appendf(nil, "topic/%06d/key", n-1), Val: []byte("v")}}}
			b.ReportAllocs()
			for b.Loop() {
				c.Pos++
				feed.Deliver(f, c)
				<-mine.C
			}
		})
	}
}

package record_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine/recordengine"
	"github.com/skerrydb/skerry/feed"
	"github.com/skerrydb/skerry/record"
)

// TestReplayBounds checks that a subscription resumes with MaxReplayed changes and MaxReplayedBytes, and begins again with
// the state beyond that.
func TestReplayBounds(t *testing.T) {
	eng := recordengine.Open(t, recordengine.Options{Memory: true})
	h := openHouse(t, eng, feed.Options{})
	r := h.subscribe(record.Actor{}, record.Subscription{}, "orders/*", "plain/*")
	r.want("")
	start := r.last
	h.create("orders", "a", `{"n":0}`)
	r.want("create orders/a")
	resume := func(last string) string {
		t.Helper()
		next := h.subscribe(record.Actor{}, record.Subscription{Resume: last}, "orders/*", "plain/*")
		next.has["orders/a"] = ""
		if last == start {
			clear(next.has)
		}
		first := next.next()
		next.Close()
		return first
	}
	pos, err := engine.UpdateEach(t.Context(), eng, record.MaxReplayed-1, func(tx engine.Tx, i int) error {
		in, err := h.In(tx, record.Program())
		if err == nil {
			_, err = in.Update("orders", "a", fmt.Appendf(nil, `{"n":%d}`, i+1), 0)
		}
		return err
	})
	must(t, err)
	h.catchUp(pos)
	if first := resume(start); first != "create orders/a" {
		t.Errorf("after %d changes: %s", record.MaxReplayed, first)
	}
	h.patch("orders", "a", `{"n":-1}`)
	h.catchUp(h.do(func(*record.Tx) error { return nil }))
	if first := resume(start); first != "state orders/a" {
		t.Errorf("after %d changes: %s", record.MaxReplayed+1, first)
	}

	// The same in bytes.
	r = h.subscribe(record.Actor{}, record.Subscription{}, "orders/*", "plain/*")
	r.want("state orders/a")
	const large = 900_000
	for i := range record.MaxReplayedBytes/large + 1 {
		h.create("plain", fmt.Sprint("l", i), `{"title":"`+strings.Repeat("x", large)+`"}`)
		h.catchUp(h.do(func(*record.Tx) error { return nil }))
		want := "create plain/l0"
		if i == record.MaxReplayedBytes/large {
			h.remove("plain", "l0") // so that the state is not too large
			h.catchUp(h.do(func(*record.Tx) error { return nil }))
			want = "state orders/a, state plain/l1"
		}
		if first := resume(r.last); !strings.HasPrefix(first, want) {
			t.Errorf("after %d large changes: %s, want %s", i+1, first, want)
		}
	}
}

// catchUp waits until the hub has passed on all changes up to a position.
func (h *house) catchUp(pos engine.Position) {
	h.t.Helper()
	must(h.t, h.HubWait(h.t.Context(), pos))
}

// TestResumeEverywhere resumes after each of many changes, of which the engine has kept only the last ones: what is kept
// is replayed whole, from the first change that is, and before that there is the state.
func TestResumeEverywhere(t *testing.T) {
	h := openHouse(t, recordengine.Open(t, recordengine.Options{HistoryBytes: 30_000}), feed.Options{})
	r := h.subscribe(record.Actor{}, record.Subscription{}, "orders/*")
	r.want("")
	h.create("orders", "a", `{"n":0}`)
	r.want("create orders/a")
	ids := []string{r.last}
	for i := range 200 {
		h.patch("orders", "a", fmt.Sprintf(`{"n":%d}`, i+1))
		r.want("update orders/a")
		ids = append(ids, r.last)
	}
	replayed := 0
	for i, id := range ids {
		next := h.subscribe(record.Actor{}, record.Subscription{Resume: id}, "orders/*")
		next.has["orders/a"] = ""
		first := "update orders/a"
		if i < len(ids)-1 {
			first = next.next()
		}
		switch {
		case first == "state orders/a" && replayed == 0:
		case first == "update orders/a":
			replayed++
			for range len(ids) - 2 - i {
				next.want("update orders/a")
			}
			if i < len(ids)-1 && next.last != ids[len(ids)-1] {
				t.Fatalf("resumed after change %d, the last message is %s, want %s", i, next.last, ids[len(ids)-1])
			}
		default:
			t.Fatalf("resumed after change %d, the first message is %q; %d changes before it can be resumed", i, first, replayed)
		}
		next.Close()
	}
	if replayed < 10 || replayed > 190 {
		t.Errorf("%d of %d positions can be resumed: the edge is not tested", replayed, len(ids))
	}
}

// gated is an engine whose changes wait at a gate.
type gated struct {
	engine.Engine
	gate chan struct{}
}

func (e *gated) Changes(ctx context.Context, after engine.Position) iter.Seq2[engine.Change, error] {
	return func(yield func(engine.Change, error) bool) {
		for c, err := range e.Engine.Changes(ctx, after) {
			select {
			case <-e.gate:
			case <-ctx.Done():
				err = ctx.Err()
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

// TestResumeAhead resumes at a node that is behind the one that the subscriber has read from, and at a position that
// never was.
func TestResumeAhead(t *testing.T) {
	eng := recordengine.Open(t, recordengine.Options{})
	ahead := openHouse(t, eng, feed.Options{})
	behind := &gated{eng, make(chan struct{})}
	h := openHouse(t, behind, feed.Options{})
	must(t, h.HubWait(t.Context(), 0))
	r := ahead.subscribe(record.Actor{}, record.Subscription{}, "orders/*")
	r.want("")
	ahead.create("orders", "a", `{}`)
	ahead.create("orders", "b", `{}`)
	r.want("create orders/a", "create orders/b")
	next := h.subscribe(record.Actor{}, record.Subscription{Resume: r.last}, "orders/*")
	close(behind.gate)
	ahead.create("orders", "c", `{}`)
	next.want("create orders/c")

	_, shape, _ := strings.Cut(r.last, "-")
	h.subscribe(record.Actor{}, record.Subscription{Resume: "123456789-" + shape}, "orders/*").want("state orders/a, state orders/b, state orders/c")
}

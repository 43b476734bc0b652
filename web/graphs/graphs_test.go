package graphs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine/testengine"
	lang "github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/value"
	"github.com/skerrydb/skerry/web/graphs"
	"github.com/skerrydb/skerry/web/gremlin"
)

func open(t *testing.T) *graphs.Backend {
	t.Helper()
	b, err := graphs.New(testengine.Open(t, testengine.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// request is what a client asks for with a text.
func request(t *testing.T, text string) gremlin.Request {
	t.Helper()
	q, err := lang.Parse(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return gremlin.Request{Source: q.Source, Traversal: q.Traversal, End: q.End, N: q.N}
}

type submitter interface {
	Submit(ctx context.Context, r gremlin.Request, yield func(val any, bulk int64) error) error
}

// ask returns what a text yields.
func ask(t *testing.T, s submitter, text string) ([]string, error) {
	t.Helper()
	out := []string{}
	err := s.Submit(t.Context(), request(t, text), func(val any, bulk int64) error {
		for range bulk {
			out = append(out, value.Text(val))
		}
		return nil
	})
	return out, err
}

func want(t *testing.T, s submitter, text string, lines ...string) {
	t.Helper()
	got, err := ask(t, s, text)
	if err != nil || !slices.Equal(got, append([]string{}, lines...)) {
		t.Errorf("%s: %q, %v; want %q", text, got, err, lines)
	}
}

// TestEnds: what a text has after its steps decides what is sent.
func TestEnds(t *testing.T) {
	b := open(t)
	want(t, b, "g.addV('a').iterate()")
	want(t, b, "g.V().count()", "1")
	want(t, b, "g.inject(1, 1, 2).toSet()", "1", "2")
	want(t, b, "g.inject(1, 1, 2).toBulkSet()", "1", "1", "2")
	want(t, b, "g.inject(1, 1, 2).toList()", "1", "1", "2")
	want(t, b, "g.inject(1, 1, 2).next()", "1")
	want(t, b, "g.inject(1, 1, 2).next(2)", "1", "1")
	want(t, b, "g.inject(1).hasNext()", "true")
	want(t, b, "g.V().none().hasNext()", "false")
	want(t, b, "g.V().tryNext()", "v[1]")
	want(t, b, "g.V().addV('b').addV('c').next()", "v[3]")
	want(t, b, "g.V().count()", "3")
	got, err := ask(t, b, "g.V().has('name', 'x').explain()")
	if err != nil || len(got) != 1 || !strings.Contains(got[0], "by an index") {
		t.Errorf("explain: %q, %v", got, err)
	}
}

// TestErrors: clients see what they did wrong, and nothing was written.
func TestErrors(t *testing.T) {
	b := open(t)
	for text, say := range map[string]string{
		"g.addV('a').nothing()":            "nothing(): there is no such step",
		"g.addV('a').fail('no')":           "fail(): no",
		"g.V().repeat(identity())":         "",
		"other.V()":                        `there is no graph "other"`,
		"g.addV('a').addE('x').to('b')":    "addE()",
		"g.addV('a').math('_')":            `the variable "_" must be a number, not a vertex`,
		"g.addV('a').property('x', ['y'])": "",
	} {
		_, err := ask(t, b, text)
		own, ok := errors.AsType[*gremlin.Error](err)
		if say == "" && err == nil {
			continue
		}
		if !ok || !strings.Contains(own.Msg, say) {
			t.Errorf("%s: %v, want %q", text, err, say)
		}
	}
	want(t, b, "g.V().count()", "1") // of the last one
}

// TestSession: what a session does is seen by it, and by others once it is
// committed.
func TestSession(t *testing.T) {
	b := open(t)
	begin := func() gremlin.Session {
		t.Helper()
		s, err := b.Begin(t.Context(), gremlin.Request{Source: "g", N: -1})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := begin()
	want(t, s, "g.addV('a').iterate()")
	want(t, s, "g.V().count()", "1")
	want(t, b, "g.V().count()", "0")
	if err := s.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, b, "g.V().count()", "1")

	s = begin()
	want(t, s, "g.V().drop()")
	if err := s.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, b, "g.V().count()", "1")
	if _, err := ask(t, s, "g.V()"); err == nil {
		t.Error("a session goes on after its end")
	}

	s = begin() // an error undoes what failed
	want(t, s, "g.addV('b').iterate()")
	if _, err := ask(t, s, "g.addV('c').fail()"); err == nil {
		t.Error("fail() does not")
	}
	want(t, b, "g.addV('x').count()", "1") // others go on, and add too
	if err := s.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	want(t, b, "g.V().groupCount().by(label)", "{a=1, b=1, x=1}")

	s = begin() // it has read what another one changes
	want(t, s, "g.V().hasLabel('a').property('n', 1).count()", "1")
	want(t, b, "g.V().hasLabel('a').property('n', 2).count()", "1")
	err := s.Commit(t.Context())
	own, ok := errors.AsType[*gremlin.Error](err)
	if !ok || !strings.Contains(own.Msg, "begin it again") {
		t.Errorf("a conflict: %v", err)
	}
	if code, _ := own.Attributes.Get("code"); code != "conflict" {
		t.Errorf("its code is %v", code)
	}

	s = begin() // more than it has reserved
	want(t, s, "g.inject(0).repeat(addV('y').addV('y')).times(50).count()", "1")
	want(t, s, "g.V().hasLabel('y').count()", "100")
	want(t, s, "g.addV('z').property(T.id, 5000).id()", "5000")
	want(t, s, "g.V(5000).addE('to').to(V().hasLabel('a')).count()", "1")
	want(t, s, "g.V().count()", "104")
	if err := s.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, b, "g.V().count()", "104")
	want(t, b, "g.V(5000).out().label()", "a")
}

// TestSessionGone: a session ends with its context.
func TestSessionGone(t *testing.T) {
	b := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	s, err := b.Begin(ctx, gremlin.Request{Source: "g", N: -1})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := s.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	want(t, b, "g.addV('d').count()", "1")
	if _, err := b.Begin(t.Context(), gremlin.Request{Source: "other", N: -1}); err == nil {
		t.Error("a session on no graph")
	}
}

// TestStop: an error of whoever takes the results ends a read.
func TestStop(t *testing.T) {
	b := open(t)
	mine, n := fmt.Errorf("no more"), 0
	for text, want := range map[string]int{"g.inject(1, 2, 3)": 1, "g.inject(1).repeat(union(identity(), identity())).times(20).unfold().map(constant(2))": 1} {
		n = 0
		err := b.Submit(t.Context(), request(t, text), func(any, int64) error {
			n++
			return mine
		})
		if !errors.Is(err, mine) || n != want {
			t.Errorf("%s: %d results, %v", text, n, err)
		}
	}
}

// TestStream: the results of a long read are sent while it goes on.
func TestStream(t *testing.T) {
	b := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	err := b.Submit(ctx, request(t, "g.inject(1).emit().repeat(identity())"), func(any, int64) error {
		if n++; n == 5000 {
			cancel() // it would not end by itself
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || n < 5000 {
		t.Errorf("%d results, %v", n, err)
	}
}

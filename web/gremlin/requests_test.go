package gremlin_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/skerrydb/skerry/graph/graphson"
	"github.com/skerrydb/skerry/graph/message"
	"github.com/skerrydb/skerry/graph/value"
	"github.com/skerrydb/skerry/web/gremlin"
)

// TestBatches: results come in batches, of which the last has another status.
func TestBatches(t *testing.T) {
	for _, c := range []struct {
		results, batch int
		want           string // status and size of each response
	}{
		{0, 0, "204:0"},
		{1, 0, "200:1"},
		{64, 0, "200:64"},
		{65, 0, "206:64 200:1"},
		{150, 64, "206:64 206:64 200:22"},
		{4, 2, "206:2 200:2"},
		{3, 1, "206:1 206:1 200:1"},
		{gremlin.MaxBatch + 1, 1 << 30, fmt.Sprintf("206:%d 200:1", gremlin.MaxBatch)},
	} {
		for _, json := range []bool{false, true} {
			if json && c.results > gremlin.MaxBatch {
				continue // MaxBatchBytes comes first
			}
			back := newFake()
			back.submit = counting(c.results)
			d := newSite(t, gremlin.Options{Backend: back}).dial()
			d.json = json
			args := []any{"gremlin", traversal()}
			if c.batch > 0 {
				args = append(args, "batchSize", int32(c.batch))
			}
			for _, op := range []string{"bytecode", "eval"} {
				if op == "eval" {
					args[1] = "g.V()"
				}
				d.send(op, "", args...)
				var got []string
				n := 0
				for last := false; !last; {
					p := d.receive()
					list, _ := p.Result.(value.List)
					got = append(got, fmt.Sprintf("%d:%d", p.Status, len(list)))
					for _, v := range list {
						want := any(int32(n))
						if op == "bytecode" {
							want = message.Traverser{Bulk: 1, Val: want}
						}
						if v != want {
							t.Fatalf("result %d is %#v", n, v)
						}
						n++
					}
					last = p.Status != gremlin.StatusPartial
				}
				if strings.Join(got, " ") != c.want {
					t.Errorf("%d results by %d in %s: %v, want %s", c.results, c.batch, op, got, c.want)
				}
			}
		}
	}
}

// TestBulk: text has no bulks, so a value comes as often as it occurs; a batch is
// sent early if it is large.
func TestBulk(t *testing.T) {
	back := newFake()
	back.submit = func(_ context.Context, _ gremlin.Request, yield func(any, int64) error) error {
		if err := yield("x", 3); err != nil {
			return err
		}
		return yield("y", 1)
	}
	d := newSite(t, gremlin.Options{Backend: back}).dial()
	if p := d.expect(d.send("eval", "", "gremlin", "g.V()"), 200); value.Text(p.Result) != "[x, x, x, y]" {
		t.Errorf("text yields %v", p.Result)
	}
	if p := d.expect(d.inject(), 200); len(p.Result.(value.List)) != 2 {
		t.Errorf("bytecode yields %v", p.Result)
	}
	large := strings.Repeat("x", gremlin.MaxBatchBytes)
	back.submit = func(_ context.Context, _ gremlin.Request, yield func(any, int64) error) error { return yield(large, 3) }
	id := d.send("eval", "", "gremlin", "g.V()")
	for _, status := range []int{206, 206, 200} {
		if p := d.expect(id, status); len(p.Result.(value.List)) != 1 {
			t.Errorf("%d large values in a batch", len(p.Result.(value.List)))
		}
	}
}

// TestStreaming: batches are sent while the traversal runs.
func TestStreaming(t *testing.T) {
	back, received := newFake(), make(chan struct{})
	back.submit = func(_ context.Context, _ gremlin.Request, yield func(any, int64) error) error {
		for i := range 2 {
			if err := yield(int32(i), 1); err != nil {
				return err
			}
		}
		<-received
		return yield(int32(2), 1)
	}
	d := newSite(t, gremlin.Options{Backend: back}).dial()
	id := d.send("eval", "", "gremlin", "g.V()", "batchSize", int32(1))
	d.expect(id, 206)
	close(received)
	d.expect(id, 206)
	d.expect(id, 200)
}

// TestBackPressure: a client that does not read stops the traversal, and is
// disconnected after a while.
func TestBackPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back, n := newFake(), 0
		ended := make(chan error, 1)
		back.submit = func(_ context.Context, _ gremlin.Request, yield func(any, int64) error) error {
			for {
				if err := yield(strings.Repeat("x", 1000), 1); err != nil {
					ended <- err
					return err
				}
				n++
			}
		}
		s := newSite(t, gremlin.Options{Backend: back, WriteTimeout: time.Second, PingEvery: time.Hour})
		d := s.dial()
		began := time.Now()
		d.send("eval", "", "gremlin", "g.V()")
		if err := <-ended; err == nil {
			t.Error("yield returned no error")
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("the traversal was stopped after %v", took)
		}
		if n > 2*gremlin.DefaultBatch {
			t.Errorf("%d results were made for a client that does not read", n)
		}
	})
}

// TestCancel: the end of a connection stops what it runs.
func TestCancel(t *testing.T) {
	back := newFake()
	back.submit = back.blocked
	d := newSite(t, gremlin.Options{Backend: back}).dial()
	d.inject()
	d.inject()
	back.await(t, "running")
	back.await(t, "running")
	_ = d.ws.CloseNow()
	back.await(t, "stopped")
	back.await(t, "stopped")
}

// TestTimeout: a request has a time limit, which the options bound.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := newFake()
		back.submit = back.blocked
		d := newSite(t, gremlin.Options{Backend: back, Timeout: 10 * time.Second, MaxTimeout: time.Minute}).dial()
		for _, c := range []struct {
			args []any
			want time.Duration
		}{
			{nil, 10 * time.Second},
			{[]any{"evaluationTimeout", int32(500)}, 500 * time.Millisecond},
			{[]any{"scriptEvaluationTimeout", int64(700)}, 700 * time.Millisecond},
			{[]any{"evaluationTimeout", int32(0)}, time.Minute},
			{[]any{"evaluationTimeout", int64(60_001)}, time.Minute},
			{[]any{"evaluationTimeout", int64(1) << 62}, time.Minute},
			{[]any{"evaluationTimeout", int32(500), "gremlin", "g.with('evaluationTimeout', 300).V()"}, 300 * time.Millisecond},
			{[]any{"gremlin", "g.withStrategies(OptionsStrategy(evaluationTimeout: 20000)).V()"}, 20 * time.Second},
		} {
			began := time.Now()
			id := d.send("eval", "", append([]any{"gremlin", "g.V()"}, c.args...)...)
			p := d.expect(id, gremlin.StatusTimeout)
			if took := time.Since(began); took != c.want {
				t.Errorf("%v: stopped after %v, want %v", c.args, took, c.want)
			}
			if !strings.Contains(p.Message, c.want.String()) {
				t.Errorf("%v: %s", c.args, p.Message)
			}
		}
	})
}

// TestArguments: what a request asks for reaches the backend, and what cannot be
// asked for is refused.
func TestArguments(t *testing.T) {
	back := newFake()
	back.submit = func(_ context.Context, r gremlin.Request, yield func(any, int64) error) error {
		return yield(fmt.Sprintf("%s %v %s %v %v", r.Source, r.Traversal, r.End, r.N, r.References), 1)
	}
	d := newSite(t, gremlin.Options{Backend: back}).dial()
	for _, c := range []struct {
		op, processor string
		args          []any
		status        int
		want          string
	}{
		{"eval", "", []any{"gremlin", "g.V(x).next()", "bindings", value.MapOf("x", int32(1))}, 200, "g g.V(1) next -1 false"},
		{"eval", "", []any{"gremlin", "g.V()", "aliases", value.MapOf("g", "social"), "language", "gremlin-lang"}, 200, "social g.V()  -1 false"},
		{"eval", "", []any{"gremlin", "g.V()", "materializeProperties", "tokens", "language", "gremlin-groovy"}, 200, "g g.V()  -1 true"},
		{"bytecode", "traversal", []any{"gremlin", traversal(), "aliases", value.MapOf("g", "social")}, 200, "social g.inject()  -1 false"},
		{"eval", "", []any{"gremlin", "g.V("}, 597, "line 1, column 5"},
		{"eval", "", []any{"gremlin", int32(1)}, 499, "argument gremlin"},
		{"eval", "", nil, 499, "argument gremlin"},
		{"eval", "", []any{"gremlin", "g.V()", "language", "cypher"}, 499, "argument language"},
		{"eval", "", []any{"gremlin", "g.V()", "bindings", "x"}, 499, "argument bindings"},
		{"eval", "", []any{"gremlin", "g.V()", "aliases", value.MapOf("g", int32(1))}, 499, "argument aliases"},
		{"eval", "", []any{"gremlin", "g.V()", "batchSize", "1"}, 499, "argument batchSize"},
		{"eval", "", []any{"gremlin", "g.V()", "batchSize", int32(-1)}, 499, "argument batchSize"},
		{"eval", "", []any{"gremlin", "g.V()", "evaluationTimeout", int32(-1)}, 499, "argument evaluationTimeout"},
		{"eval", "", []any{"gremlin", "g.V()", "materializeProperties", "some"}, 499, "argument materializeProperties"},
		{"eval", "", []any{"gremlin", "g.with('materializeProperties', 'tokens').V()"}, 200, "-1 true"},
		{"eval", "", []any{"gremlin", "g.with('evaluationTimeout', 'long').V()"}, 499, "argument evaluationTimeout"},
		{"eval", "", []any{"gremlin", "g.tx().commit()"}, 499, "needs a session"},
		{"eval", "other", []any{"gremlin", "g.V()"}, 499, `no processor "other"`},
		{"eval", "session", []any{"gremlin", "g.V()"}, 499, "argument session"},
		{"eval", "session", []any{"gremlin", "g.V()", "session", strings.Repeat("x", gremlin.MaxSessionID+1)}, 499, "argument session"},
		{"bytecode", "traversal", []any{"gremlin", "g.V()"}, 499, "argument gremlin"},
		{"bytecode", "traversal", []any{"gremlin", traversal(), "aliases", value.MapOf("g", "a", "h", "b")}, 499, "argument aliases"},
		{"keys", "traversal", nil, 498, `op "keys" is not supported`},
		{"gather", "traversal", nil, 498, `op "gather" is not supported`},
		{"other", "", nil, 498, `no op "other"`},
		{"close", "", nil, 499, "processor session"},
		{"authentication", "traversal", []any{"sasl", "x"}, 498, "was not asked for"},
	} {
		p := d.expect(d.send(c.op, c.processor, c.args...), c.status)
		got := p.Message
		if list, ok := p.Result.(value.List); ok {
			got = value.Text(list[0])
			if tr, ok := list[0].(message.Traverser); ok {
				got = value.Text(tr.Val)
			}
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s %v: %q, want %q", c.op, c.args, got, c.want)
		}
	}
}

// TestErrors: an error of the backend has its status, or is hidden.
func TestErrors(t *testing.T) {
	back := newFake()
	s := newSite(t, gremlin.Options{Backend: back})
	d := s.dial()
	for _, c := range []struct {
		name   string
		submit func(yield func(any, int64) error) error
		status int
		want   string
		log    string
	}{
		{"known", func(func(any, int64) error) error {
			return fmt.Errorf("run: %w", &gremlin.Error{Status: 500, Msg: "no such step", Attributes: value.MapOf("a", "b")})
		}, 500, "no such step", ""},
		{"unknown", func(func(any, int64) error) error { return errors.New("secret") }, 500, "internal error, reference ", "secret"},
		{"panic", func(func(any, int64) error) error { panic("secret panic") }, 500, "internal error, reference ", "requests_test.go"},
		{"panic while it is encoded", func(yield func(any, int64) error) error { return yield((*value.Vertex)(nil), 1) }, 500, "internal error, reference ", "nil pointer"},
		{"cannot be sent", func(yield func(any, int64) error) error { return yield(struct{}{}, 1) }, 599, "cannot be sent", ""},
	} {
		back.submit = func(_ context.Context, _ gremlin.Request, yield func(any, int64) error) error { return c.submit(yield) }
		p := d.expect(d.inject(), c.status)
		if !strings.Contains(p.Message, c.want) || strings.Contains(p.Message, "secret") || strings.Contains(p.Message, ".go") {
			t.Errorf("%s: %q", c.name, p.Message)
		}
		if ref, ok := strings.CutPrefix(p.Message, "internal error, reference "); ok && !strings.Contains(s.log.String(), ref) {
			t.Errorf("%s: the log lacks %s", c.name, ref)
		}
		if !strings.Contains(s.log.String(), c.log) {
			t.Errorf("%s: the log lacks %q: %s", c.name, c.log, s.log)
		}
		if c.name == "known" && value.Text(p.Attributes) != "{a=b}" {
			t.Errorf("attributes are %v", p.Attributes)
		}
	}
}

// TestPanicInAnswer: if even an error cannot be sent, the connection ends, and
// nothing else does.
func TestPanicInAnswer(t *testing.T) {
	back := newFake()
	s := newSite(t, gremlin.Options{Backend: back})
	back.submit = func(context.Context, gremlin.Request, func(any, int64) error) error {
		return &gremlin.Error{Status: 500, Attributes: value.MapOf("a", value.Decimal{})}
	}
	d := s.dial()
	d.inject()
	d.closed()
	back.submit = nil
	d = s.dial()
	d.expect(d.inject(int32(1)), 200)
}

// TestMalformed: a message that cannot be read is answered with 498, the offset,
// and its id if that could be read.
func TestMalformed(t *testing.T) {
	d := newSite(t, gremlin.Options{}).dial()
	head := "\x81\x07" + strings.Repeat("\x00", 15)
	binary := "application/vnd.graphbinary-v1.0"
	for _, c := range []struct {
		name, msg, want string
		id              value.UUID
	}{
		{"nothing", "", "at byte 0", value.UUID{}},
		{"length of the MIME type", "\x10abc", "at byte 1", value.UUID{}},
		{"MIME type", "\x03abcdef", "at byte 1: expected a MIME type of", value.UUID{}},
		{"version", string(framed(binary, []byte("\x82"))), "at byte 33: expected version 0x81", value.UUID{}},
		{"op", string(framed(binary, []byte(head+"\x00\x00\x00\x09eval"))), "at byte 50: expected a length of an op", value.UUID{7}},
	} {
		d.write([]byte(c.msg))
		if p := d.expect(c.id, 498); !strings.Contains(p.Message, c.want) {
			t.Errorf("%s: %q, want %q", c.name, p.Message, c.want)
		}
	}
	d.json = true
	d.write(framed("application/json", []byte(`{"requestId":"01000000-0000-0000-0000-000000000000","op":1}`)))
	if p := d.expect(value.UUID{1}, 498); !strings.Contains(p.Message, "at byte 74: expected an op") {
		t.Error(p.Message)
	}
}

// TestFormats: a response has the encoding of its request.
func TestFormats(t *testing.T) {
	d := newSite(t, gremlin.Options{}).dial()
	body := `{"requestId":"01000000-0000-0000-0000-000000000000","op":"eval","processor":"","args":{"gremlin":"g.inject(1)"}}`
	typed := `{"requestId":"01000000-0000-0000-0000-000000000000","status":{"message":"","code":200,"attributes":{"@type":"g:Map","@value":[]}},"result":{"data":{"@type":"g:List","@value":[{"@type":"g:Int32","@value":1}]},"meta":{"@type":"g:Map","@value":[]}}}`
	for _, c := range []struct {
		typ  websocket.MessageType
		msg  []byte
		want string
	}{
		{websocket.MessageText, []byte(body), typed},
		{websocket.MessageBinary, framed(graphson.MimeTyped, []byte(body)), typed},
		{websocket.MessageBinary, framed(graphson.MimeJSON, []byte(body)), typed},
		{websocket.MessageBinary, framed("application/vnd.gremlin-v3.0+json; types=false", []byte(body)), `{"requestId":"01000000-0000-0000-0000-000000000000","status":{"message":"","code":200,"attributes":{}},"result":{"data":[1],"meta":{}}}`},
	} {
		if err := d.ws.Write(t.Context(), c.typ, c.msg); err != nil {
			t.Fatal(err)
		}
		typ, b, err := d.ws.Read(t.Context())
		if err != nil || typ != c.typ || string(b) != c.want {
			t.Errorf("%q is answered with %v %s, %v", c.msg, typ, b, err)
		}
	}
}

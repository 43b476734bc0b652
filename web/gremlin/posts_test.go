package gremlin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph/graphbinary"
	"github.com/skerrydb/skerry/graph/message"
	"github.com/skerrydb/skerry/graph/value"
	"github.com/skerrydb/skerry/web/gremlin"
)

// four sends text in the form of a driver of TinkerPop 4. Arguments are names and
// values that alternate.
func (s *site) four(text string, args ...any) (status int, p *graphbinary.Response4) {
	s.t.Helper()
	body := map[string]any{"gremlin": text, "g": "g", "batchSize": 64}
	header := []string{"Accept", graphbinary.Mime4}
	for i := 0; i+1 < len(args); i += 2 {
		body[args[i].(string)] = args[i+1]
		if args[i] == "transactionId" {
			header = append(header, "X-Transaction-Id", args[i+1].(string))
		}
	}
	b, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	status, answer := s.post(string(b), header...)
	if p, err = graphbinary.DecodeResponse4([]byte(answer)); err != nil {
		s.t.Fatalf("%s: %d %q: %v", text, status, answer, err)
	}
	return status, p
}

// begin begins a transaction and returns its id.
func (s *site) begin() string {
	s.t.Helper()
	status, p := s.four("g.tx().begin()")
	if status == 200 && len(p.Results) == 1 {
		if m, ok := p.Results[0].(*value.Map); ok {
			id, _ := m.Get("transactionId")
			return id.(string)
		}
	}
	s.t.Fatalf("begin: %d %+v", status, p)
	return ""
}

// want checks how a request of a transaction ends.
func (s *site) want(id, text string, status int, msg string) {
	s.t.Helper()
	got, p := s.four(text, "transactionId", id)
	if got != status || p.Status != status || !strings.Contains(p.Message, msg) {
		s.t.Errorf("%s: %d, %+v, want %d %q", text, got, p, status, msg)
	}
}

// TestBinary4: results are in GraphBinary 4 if that is what the client accepts, with
// bulks if it asks for them.
func TestBinary4(t *testing.T) {
	s := newSite(t, gremlin.Options{})
	one, a := message.Traverser{Bulk: 1, Val: int32(1)}, message.Traverser{Bulk: 1, Val: "a"}
	for _, c := range []struct {
		args   []any
		bulked bool
		want   []any
	}{
		{[]any{"parameters", "['x':'a']"}, false, []any{int32(1), "a"}},
		{[]any{"parameters", map[string]any{"x": "a"}}, false, []any{int32(1), "a"}},
		{[]any{"parameters", "[x:'a']", "bulkResults", false, "timeoutMillis", 100}, false, []any{int32(1), "a"}},
		{[]any{"parameters", "[x:'a']", "bulkResults", true}, true, []any{one, a}},
	} {
		status, p := s.four("g.inject(1,x)", c.args...)
		if status != 200 || p.Status != 200 || p.Message != "" || p.Bulked != c.bulked || !reflect.DeepEqual(p.Results, c.want) {
			t.Errorf("%v: %d %+v, want %v", c.args, status, p, c.want)
		}
	}
	_, answer := s.post(`{"gremlin":"g.inject(1)"}`, "Accept", "text/html, "+graphbinary.Mime4+";q=0.9, */*", "bulkResults", "true")
	if want := string(graphbinary.AppendEnd4([]byte("\x84\x01\x01\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x00\x00\x00\x00\x01"), 200, "", "")); answer != want {
		t.Errorf("answered with %x, want %x", answer, want)
	}
	if status, p := s.four("g.inject()", "bulkResults", true); status != 200 || p.Status != 200 || len(p.Results) > 0 {
		t.Errorf("no results: %d %+v", status, p)
	}
}

// TestBinary4Request: a request may be in GraphBinary 4 too.
func TestBinary4Request(t *testing.T) {
	s := newSite(t, gremlin.Options{})
	b, err := graphbinary.AppendRequest4(nil, &message.Request{Args: value.MapOf("gremlin", "g.inject(x)", "g", "g", "parameters", value.MapOf("x", "a"))})
	if err != nil {
		t.Fatal(err)
	}
	for _, accept := range []string{"*/*", graphbinary.Mime4, v4} {
		status, got := s.post(string(b), "Content-Type", graphbinary.Mime4, "Accept", accept)
		want := string(graphbinary.AppendEnd4([]byte("\x84\x00\x03\x00\x00\x00\x00\x01a"), 200, "", ""))
		if accept == v4 {
			want = `{"result":{"data":["a"]},"status":{"code":200,"message":""}}`
		}
		if status != 200 || got != want {
			t.Errorf("%s: %d %q, want %q", accept, status, got, want)
		}
	}
	if status, got := s.post("\x81", "Content-Type", graphbinary.Mime4, "Accept", graphbinary.Mime4); status != 400 || !strings.Contains(got, "expected version 0x84") {
		t.Errorf("another version: %d %q", status, got)
	}
}

// TestBinary4Errors: HTTP's status is that after the marker, and results that were not
// sent are dropped.
func TestBinary4Errors(t *testing.T) {
	back := newFake()
	s := newSite(t, gremlin.Options{Backend: back})
	fails := errors.New("secret")
	back.submit = func(_ context.Context, _ gremlin.Request, yield func(any, int64) error) error {
		return errors.Join(yield("lost", 1), fails)
	}
	try := func(text string, args []any, want int, msg, exception string) {
		t.Helper()
		status, p := s.four(text, args...)
		if status != want || p.Status != want || !strings.Contains(p.Message, msg) || p.Exception != exception || len(p.Results) > 0 {
			t.Errorf("%s: %d %+v, want %d %q %q", text, status, p, want, msg, exception)
		}
	}
	try("g.V(", nil, 400, "line 1", "")
	try("g.V()", []any{"parameters", "[x:gt(1)]"}, 400, "argument parameters: ", "")
	try("g.V()", []any{"parameters", 1}, 400, "argument parameters", "")
	try("g.V()", []any{"bulkResults", "yes"}, 400, "argument bulkResults", "")
	try("g.V()", nil, 500, "internal error, reference ", "")
	fails = &gremlin.Error{Status: 500, Msg: "changed", Attributes: value.MapOf("code", "conflict")}
	try("g.V()", nil, 500, "changed", "conflict")
	back.submit = back.blocked
	try("g.V()", []any{"timeoutMillis", 1}, 504, "time limit of 1ms", "")
	back.submit = func(_ context.Context, _ gremlin.Request, yield func(any, int64) error) error {
		return yield(struct{}{}, 1)
	}
	try("g.V()", nil, 500, "a result cannot be sent", "")
}

// TestBinary4Streaming: a large result is written while the traversal runs; what goes
// wrong then is said after the marker.
func TestBinary4Streaming(t *testing.T) {
	for _, end := range []error{nil, &gremlin.Error{Status: gremlin.StatusEvaluation, Msg: "no more"}} {
		back := newFake()
		back.submit = func(ctx context.Context, r gremlin.Request, yield func(any, int64) error) error {
			return errors.Join(counting(100_000)(ctx, r, yield), end)
		}
		status, p := newSite(t, gremlin.Options{Backend: back}).four("g.V()")
		want, msg := 200, ""
		if end != nil {
			want, msg = 400, "no more"
		}
		if status != 200 || p.Status != want || p.Message != msg || len(p.Results) < 100_000-gremlin.DefaultBatch {
			t.Errorf("%d %d %s, %d results", status, p.Status, p.Message, len(p.Results))
		}
		for i, v := range p.Results {
			if v != int32(i) {
				t.Fatalf("result %d is %v", i, v)
			}
		}
	}
}

// TestPostTransaction: a transaction over HTTP lasts from its begin to its commit or
// rollback, after which it is no more.
func TestPostTransaction(t *testing.T) {
	back := newFake()
	s := newSite(t, gremlin.Options{Backend: back})
	one, two := s.begin(), s.begin()
	if one == two {
		t.Error("two transactions with one id")
	}
	s.want(one, "g.inject(1)", 200, "")
	s.want(two, "g.inject(1)", 200, "")
	s.want(one, "g.tx().begin()", 400, "has begun")
	s.want(one, "g.V(", 400, "line 1")
	s.want(two, "g.tx().rollback()", 200, "")
	s.want(one, "g.tx().commit()", 200, "")
	for _, id := range []string{one, two, "x", strings.Repeat("x", 200)} {
		s.want(id, "g.inject(1)", 404, "there is no transaction")
		s.want(id, "g.tx().commit()", 404, "there is no transaction")
	}
	s.want(strings.Repeat("x", 300), "g.inject(1)", 400, "argument transactionId")
	for _, what := range []string{"commit", "rollback"} {
		if status, p := s.four("g.tx()." + what + "()"); status != 400 || !strings.Contains(p.Message, "needs the argument transactionId") {
			t.Errorf("%s without an id: %d %+v", what, status, p)
		}
	}
	if got, want := back.all(), "begin g, begin g, rollback, commit"; got != want {
		t.Errorf("transactions: %s, want %s", got, want)
	}
	three := s.begin() // with its id in one of two places, and in JSON
	if status, got := s.post(`{"gremlin":"g.inject(1)"}`, "X-Transaction-Id", three); status != 200 {
		t.Errorf("%d %s", status, got)
	}
	if status, got := s.post(`{"gremlin":"g.inject(1)","transactionId":"` + three + `"}`); status != 200 {
		t.Errorf("%d %s", status, got)
	}
	if status, got := s.post(`{"gremlin":"g.inject(1)","transactionId":"x"}`, "X-Transaction-Id", three); status != 400 || !strings.Contains(got, "X-Transaction-Id") {
		t.Errorf("%d %s", status, got)
	}
	s.h.Close()
	back.await(t, "rollback")
}

// TestPostTransactionFails: after a commit that has failed, the transaction can be
// rolled back only. It is never begun again by itself.
func TestPostTransactionFails(t *testing.T) {
	back := newFake()
	s := newSite(t, gremlin.Options{Backend: back})
	back.committing = func(context.Context) error {
		return &gremlin.Error{Status: 500, Msg: "changed", Attributes: value.MapOf("code", string(engine.CodeConflict))}
	}
	id := s.begin()
	s.want(id, "g.tx().commit()", 500, "changed")
	s.want(id, "g.inject(1)", 400, "roll it back and begin another")
	s.want(id, "g.tx().commit()", 400, "roll it back and begin another")
	s.want(id, "g.tx().rollback()", 200, "")
	s.want(id, "g.tx().rollback()", 404, "there is no transaction")
	back.submit = func(context.Context, gremlin.Request, func(any, int64) error) error { panic("in a transaction") }
	id = s.begin()
	s.want(id, "g.inject(1)", 500, "internal error")
	s.want(id, "g.inject(1)", 500, "was rolled back after an internal error")
	s.want(id, "g.tx().rollback()", 200, "")
	if got, want := back.all(), "begin g, begin g, rollback"; got != want {
		t.Errorf("transactions: %s, want %s", got, want)
	}
}

// TestPostTransactionTimes: a transaction without requests, or one that is open for
// long, is rolled back, and is then forgotten.
func TestPostTransactionTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := newFake()
		s := newSite(t, gremlin.Options{Backend: back, SessionIdle: time.Minute, SessionLife: 3 * time.Minute, MaxSessions: 2})
		id, other := s.begin(), s.begin()
		if status, p := s.four("g.tx().begin()"); status != http.StatusTooManyRequests || !strings.Contains(p.Message, "at most 2 sessions") {
			t.Errorf("a third transaction: %d %+v", status, p)
		}
		for range 3 {
			time.Sleep(59 * time.Second)
			s.want(id, "g.inject(1)", 200, "")
		}
		s.want(other, "g.inject(1)", 404, "unused for 1m0s")
		time.Sleep(4 * time.Second)
		s.want(id, "g.inject(1)", 500, "rolled back: it was open for 3m0s")
		s.want(id, "g.tx().commit()", 500, "rolled back: it was open for 3m0s")
		time.Sleep(61 * time.Second)
		s.want(id, "g.inject(1)", 404, "there is no transaction")
		s.begin()
		s.begin()
		if got, want := back.all(), "begin g, begin g, rollback, rollback, begin g, begin g"; got != want {
			t.Errorf("transactions: %s, want %s", got, want)
		}
	})
}

// TestPostTransactionTurns: requests of a transaction run one after the other, also if
// the client of one has gone.
func TestPostTransactionTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back, leave := newFake(), make(chan struct{})
		back.submit = func(ctx context.Context, r gremlin.Request, _ func(any, int64) error) error {
			name := fmt.Sprint(r.Traversal.Steps[0].Args[0])
			back.note(name)
			if name == "1" {
				<-leave
			}
			return ctx.Err()
		}
		s := newSite(t, gremlin.Options{Backend: back})
		id := s.begin()
		send := func(ctx context.Context, n int) <-chan error {
			done := make(chan error, 1)
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://server/gremlin", strings.NewReader(fmt.Sprintf(`{"gremlin":"g.inject(%d)","transactionId":%q}`, n, id)))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			go func() {
				p, err := s.http.Do(r)
				if err == nil {
					err = p.Body.Close()
				}
				done <- err
			}()
			synctest.Wait()
			return done
		}
		ctx, cancel := context.WithCancel(t.Context())
		first, gone := send(t.Context(), 1), send(ctx, 2)
		cancel()
		if err := <-gone; err == nil {
			t.Error("a request that was canceled was answered")
		}
		third := send(t.Context(), 3)
		if got, want := back.all(), "begin g, 1"; got != want {
			t.Errorf("%s, want %s: requests run beside each other", got, want)
		}
		close(leave)
		for _, done := range []<-chan error{first, third} {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		back.await(t, "3")
	})
}

// TestPostTransactionUser: a transaction is that of the user who began it.
func TestPostTransactionUser(t *testing.T) {
	back := newFake()
	back.submit = user
	s := newSite(t, gremlin.Options{Backend: back, Authenticate: func(_ context.Context, l gremlin.Login) (string, error) { return l.User, nil }})
	as := func(name, body string) (int, string) {
		r := &http.Request{Header: http.Header{}}
		r.SetBasicAuth(name, "password")
		return s.post(body, "Authorization", r.Header.Get("Authorization"), "Accept", v4)
	}
	_, answer := as("ann", `{"gremlin":"g.tx().begin()","g":"g"}`)
	var begun struct {
		Result struct {
			Data []struct{ TransactionID string }
		}
	}
	if err := json.Unmarshal([]byte(answer), &begun); err != nil || len(begun.Result.Data) != 1 {
		t.Fatalf("%s: %v", answer, err)
	}
	body := `{"gremlin":"g.V()","transactionId":"` + begun.Result.Data[0].TransactionID + `"}`
	if status, got := as("bob", body); status != 404 {
		t.Errorf("another user: %d %s", status, got)
	}
	if status, got := as("ann", body); status != 200 || !strings.Contains(got, `["ann"]`) {
		t.Errorf("the same user: %d %s", status, got)
	}
	if status, p := s.four("g.V()"); status != 401 || p.Status != 401 || !strings.Contains(p.Message, "authentication is required") {
		t.Errorf("nobody: %d %+v", status, p)
	}
}

// TestForwardedBinary4: the leader encodes results for a driver of another node, with
// bulks too, and has the transactions that are begun there.
func TestForwardedBinary4(t *testing.T) {
	f := newFleet(t, 2, gremlin.Options{})
	s := f.nodes[2].site
	status, p := s.four("g.inject('a',x)", "parameters", "[x:1]", "bulkResults", true)
	if want := []any{message.Traverser{Bulk: 1, Val: "a"}, message.Traverser{Bulk: 1, Val: int32(1)}}; status != 200 || !reflect.DeepEqual(p.Results, want) {
		t.Errorf("%d %+v, want %v", status, p, want)
	}
	_, answer := s.post(`{"gremlin":"g.inject(true)"}`, "Accept", graphbinary.Mime4, "bulkResults", "true")
	if p, err := graphbinary.DecodeResponse4([]byte(answer)); err != nil || !reflect.DeepEqual(p.Results, []any{message.Traverser{Bulk: 1, Val: true}}) {
		t.Errorf("with a header: %+v, %v", p, err)
	}
	b, err := graphbinary.AppendRequest4(nil, &message.Request{Args: value.MapOf("gremlin", "g.inject(x)", "g", "g", "parameters", value.MapOf("x", "a"))})
	if err != nil {
		t.Fatal(err)
	}
	if status, got := s.post(string(b), "Content-Type", graphbinary.Mime4, "Accept", v4); status != 200 || !strings.Contains(got, `["a"]`) {
		t.Errorf("a request in GraphBinary: %d %s", status, got)
	}
	id := s.begin()
	s.want(id, "g.inject(1)", 200, "")
	s.want(id, "g.tx().commit()", 200, "")
	id = s.begin()
	f.cut()
	s.want(id, "g.inject(1)", 500, "rolled back")
	s.want(id, "g.tx().rollback()", 200, "")
	f.nodes[1].back.await(t, "commit")
	f.nodes[1].back.await(t, "rollback")
}

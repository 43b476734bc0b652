package peer

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
)

type coded struct{ code, text string }

func (e *coded) Error() string { return e.text + " [" + e.code + "]" }

// handler answers the methods of these tests.
func handler(ctx context.Context, from uint64, method string, in json.RawMessage) (any, error) {
	switch method {
	case "echo":
		return map[string]any{"from": from, "in": in}, nil
	case "fail":
		return nil, &coded{"full", "the cluster is full"}
	case "wait":
		<-ctx.Done()
		return nil, ctx.Err()
	case "long":
		return strings.Repeat("x", MaxCallBytes), nil
	case "odd":
		return make(chan int), nil
	}
	return nil, errors.New("no such method")
}

func handling(o *Options) {
	o.Handle = handler
	o.Explain = func(err error) (string, string) {
		if c, ok := errors.AsType[*coded](err); ok {
			return c.code, c.text
		}
		return CodeInternal, err.Error()
	}
}

func TestCall(t *testing.T) {
	ids := identities(t, 3)
	a, b := open(t, ids[0], handling), open(t, ids[1], nil)
	client := NewClient(ids[2], "1.2.3")
	own := NewClient(ids[0], "1.2.3") // an operator at the node itself
	for from, call := range map[uint64]func(ctx context.Context, addr string, node uint64, method string, in, out any) error{
		2: b.Call, 3: client.Call, 1: own.Call,
	} {
		var out struct {
			From uint64
			In   []string
		}
		if err := call(withTimeout(t), a.Addr(), 0, "echo", []string{"x", "y"}, &out); err != nil || out.From != from || len(out.In) != 2 {
			t.Errorf("from node %d: %+v, %v", from, out, err)
		}
		if err := call(withTimeout(t), a.Addr(), 1, "echo", nil, nil); err != nil {
			t.Error(err)
		}
		err := call(withTimeout(t), a.Addr(), 0, "fail", nil, nil)
		if remote, ok := errors.AsType[*RemoteError](err); !ok || *remote != (RemoteError{"full", "the cluster is full"}) {
			t.Errorf("an error of the handler: %#v", err)
		}
		err = call(withTimeout(t), a.Addr(), 3, "echo", nil, nil)
		if refused, ok := errors.AsType[*RefusedError](err); !ok || refused.Code != CodeNode {
			t.Errorf("another node's address: %v", err)
		}
	}
}

// TestCallLimits: exceeding a limit returns an error, whichever side detects it.
func TestCallLimits(t *testing.T) {
	ids := identities(t, 2)
	a, b := open(t, ids[0], handling), open(t, ids[1], nil)
	long := strings.Repeat("x", MaxCallBytes)
	err := b.Call(withTimeout(t), a.Addr(), 1, "echo", long, nil)
	if _, ok := errors.AsType[*LimitError](err); !ok {
		t.Errorf("argument too long: %v", err)
	}
	if err := b.Call(withTimeout(t), a.Addr(), 1, "echo", long[:MaxCallBytes-2], nil); !hasCode(err, CodeLimit) {
		t.Errorf("a reply over the limit: %v", err)
	}
	for method, code := range map[string]string{"long": CodeLimit, "odd": CodeInternal, "none": CodeInternal} {
		if err := b.Call(withTimeout(t), a.Addr(), 1, method, nil, nil); !hasCode(err, code) {
			t.Errorf("%s: %v", method, err)
		}
	}
	for name, c := range map[string]struct {
		head []byte
		code string
	}{
		"argument too long": {[]byte{0xff, 0xff, 0xff, 0xff}, CodeLimit},
		"malformed":         {appendBlob(nil, []byte("{")), CodeProtocol},
		"no patience":       {appendBlob(nil, []byte("{}")), CodeProtocol},
	} {
		conn, _, err := b.connect(withTimeout(t), a.Addr(), 1, ProtocolCall)
		if err != nil {
			t.Fatal(err)
		}
		conn.Write(c.head)
		text, err := readBlob(conn.Conn, "the answer", MaxCallBytes)
		var r response
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		if err != nil || r.Error == nil || r.Error.Code != c.code {
			t.Errorf("%s: %+v, %v", name, r.Error, err)
		}
		conn.kill()
	}
}

func hasCode(err error, code string) bool {
	remote, ok := errors.AsType[*RemoteError](err)
	return ok && remote.Code == code
}

// TestCallEnds: a call ends with the caller's context, and then its handler does.
func TestCallEnds(t *testing.T) {
	ids := identities(t, 2)
	var running atomic.Int64
	a := open(t, ids[0], func(o *Options) {
		o.Handle = func(ctx context.Context, from uint64, method string, in json.RawMessage) (any, error) {
			running.Add(1)
			defer running.Add(-1)
			return handler(ctx, from, method, in)
		}
	})
	b := open(t, ids[1], nil)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, MaxCalls)
	for range MaxCalls {
		go func() { done <- b.Call(ctx, a.Addr(), 1, "wait", nil, nil) }()
	}
	eventually.True(t, "the handlers to run", func() bool { return running.Load() == MaxCalls })
	if err := b.Call(withTimeout(t), a.Addr(), 1, "echo", nil, nil); !hasCode(err, CodeBusy) {
		t.Errorf("one call more: %v", err)
	}
	cancel()
	for range MaxCalls {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	eventually.True(t, "the handlers to end", func() bool { return running.Load() == 0 })
	short, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if err := b.Call(short, a.Addr(), 1, "wait", nil, nil); err == nil {
		t.Error("a call outlived its deadline")
	}
	eventually.True(t, "the handler to end", func() bool { return running.Load() == 0 })
	go func() { done <- b.Call(withTimeout(t), a.Addr(), 1, "wait", nil, nil) }()
	eventually.True(t, "the handler to run", func() bool { return running.Load() == 1 })
	b.Close()
	if err := <-done; err == nil {
		t.Error("a call outlived its port")
	}
	if err := b.Call(withTimeout(t), a.Addr(), 1, "echo", nil, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestProtocol: whole connections are passed on, for example to net/http.
func TestProtocol(t *testing.T) {
	ids := identities(t, 2)
	a, b := open(t, ids[0], nil), open(t, ids[1], nil)
	ln := a.Protocol("http/1.1")
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Host+" "+r.URL.Path)
	})}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ln) }()
	_, err := b.Dial(withTimeout(t), 1, "http/1.1")
	if !errors.Is(err, ErrNoPeer) {
		t.Errorf("before SetPeers: %v", err)
	}
	b.SetPeers(map[uint64]string{1: a.Addr()})
	c, err := b.Dial(withTimeout(t), 1, "http/1.1")
	if err != nil {
		t.Fatal(err)
	}
	if c.(*Conn).Node() != 1 {
		t.Errorf("node %d", c.(*Conn).Node())
	}
	io.WriteString(c, "GET /some/path HTTP/1.1\r\nHost: name\r\nConnection: close\r\n\r\n")
	text, err := io.ReadAll(c)
	if err != nil || !strings.HasSuffix(string(text), "\r\n\r\nname /some/path") {
		t.Errorf("%q, %v", text, err)
	}
	c.Close()
	srv.Close()
	<-ended
	if _, err := b.Dial(withTimeout(t), 1, "http/1.1"); err == nil || !strings.Contains(err.Error(), "does not serve") {
		t.Errorf("after the listener was closed: %v", err)
	}
	again := a.Protocol("http/1.1") // the name is free again
	a.Close()
	if _, err := again.Accept(); err == nil {
		t.Error("a closed port's listener accepted")
	}
	if _, err := a.Protocol("late").Accept(); err == nil {
		t.Error("a listener of a closed port accepted")
	}
	defer func() {
		if recover() == nil {
			t.Error("a second listener was given out")
		}
	}()
	b.Protocol("x")
	b.Protocol("x")
}

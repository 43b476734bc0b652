package gremlin

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/coder/websocket"

	"github.com/skerrydb/skerry/web/requestid"
)

// Handler serves one path, such as /gremlin. It is safe for concurrent use.
type Handler struct {
	o        Options
	ids      *requestid.Source
	buffers  sync.Pool // of *[]byte
	sessions atomic.Int64
	posts    *sessions // transactions over HTTP
	protect  *http.CrossOriginProtection
	leader   *upstreams // nil: this node is the only one

	// stop is done when Close is called.
	stop   context.Context
	cancel context.CancelFunc

	mu      sync.Mutex // guards what follows
	clients int        // connections and HTTP requests
	closed  bool
	wg      sync.WaitGroup // of clients
}

// New returns a Handler.
func New(o Options) (*Handler, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	h := &Handler{o: o, ids: requestid.New(), protect: http.NewCrossOriginProtection(), leader: newUpstreams(&o)}
	h.buffers.New = func() any { return new([]byte) }
	h.stop, h.cancel = context.WithCancel(context.Background())
	h.posts = &sessions{h: h, ctx: h.stop, single: true, byID: map[string]*session{}}
	return h, nil
}

// Close closes all connections, rolls sessions back, and returns when nothing
// runs any more. Requests after it get 503.
func (h *Handler) Close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.cancel()
	h.wg.Wait()
	h.posts.end()
	if h.leader != nil {
		h.leader.close()
	}
}

// enter counts a client and reports whether it is let in. leave is its reverse.
func (h *Handler) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.clients >= h.o.MaxConnections {
		return false
	}
	h.clients++
	h.wg.Add(1)
	return true
}

func (h *Handler) leave() {
	h.mu.Lock()
	h.clients--
	h.mu.Unlock()
	h.wg.Done()
}

// ServeHTTP serves a WebSocket or a POST.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !h.enter() {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many connections, or the server stops", http.StatusServiceUnavailable)
		return
	}
	defer h.leave()
	switch {
	case strings.EqualFold(r.Header.Get("Upgrade"), "websocket"):
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{OriginPatterns: h.o.Origins})
		if err != nil {
			return // Accept has answered
		}
		h.serve(ws, r)
	case r.Method == http.MethodPost:
		h.post(w, r)
	default:
		w.Header().Set("Allow", "POST")
		http.Error(w, "POST a request, or connect by WebSocket", http.StatusMethodNotAllowed)
	}
}

// authenticate checks a user's password.
func (h *Handler) authenticate(ctx context.Context, l Login) (string, *Error) {
	ctx, cancel := context.WithTimeout(ctx, authTimeout)
	defer cancel()
	var name string
	err := h.guard(ctx, func(ctx context.Context) (err error) {
		name, err = h.o.Authenticate(ctx, l)
		return err
	})
	if err != nil {
		h.o.Log.Warn("a Gremlin login failed", "user", l.User, "from", l.From, "err", err)
		return "", errorf(StatusUnauthorized, "username and/or password are incorrect")
	}
	return name, nil
}

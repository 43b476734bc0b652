package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/session"
	"github.com/skerrydb/skerry/web/problem"
)

// Bounds of streams of events.
const (
	// DefaultMaxStreams is Options.MaxStreams if that is 0.
	DefaultMaxStreams = 10_000
	// DefaultMaxStreamsPerClient is Options.MaxStreamsPerClient if that is 0 and a quarter
	// of MaxStreams is not less.
	DefaultMaxStreamsPerClient = 256
	// DefaultMaxStreamsPerSession is Options.MaxStreamsPerSession if that is 0 and
	// MaxStreamsPerClient is not less.
	DefaultMaxStreamsPerSession = 32
	// StreamCheck is how often a stream checks whether the session or API key of its request has ended. Then the
	// stream ends, too.
	StreamCheck = time.Second
	// DefaultHeartbeat is EventOptions.Heartbeat if that is 0. Proxies close connections that are silent for a
	// minute.
	DefaultHeartbeat = 20 * time.Second
	// MaxEventBytes is the longest data of one event, in bytes.
	MaxEventBytes = 1 << 20
	// MaxEventID is the longest id of an event, in bytes; a longer Last-Event-ID is ignored.
	MaxEventID = 256
	// EventStall is how long a client may take to receive one event; then its connection is closed, and it
	// reconnects. The server's time limit for a whole response does not apply.
	EventStall = 10 * time.Second
)

const eventType = "text/event-stream"

// EventOptions configures one stream. The zero value has the defaults.
type EventOptions struct {
	// Heartbeat is how often a comment is sent while there are no events, to detect clients that have gone
	// away. 0 is DefaultHeartbeat.
	Heartbeat time.Duration
	// Retry is how long browsers should wait before they reconnect. 0: they decide.
	Retry time.Duration
}

// Event is one message to a browser's EventSource.
type Event struct {
	ID   string // sent as Last-Event-ID when the browser reconnects; "": none
	Name string // for addEventListener; "" is "message"
	Data string // any text; line breaks are kept, as \n
}

// Events sends events to one client. Its methods are safe for concurrent use until the function that received
// it returns.
type Events struct {
	ctx    context.Context
	cancel context.CancelFunc
	lastID string
	out    http.ResponseWriter
	rc     *http.ResponseController
	limits deadlines

	mu   sync.Mutex // one event at a time; guards buf, sent and err
	buf  bytes.Buffer
	sent bool // since the last heartbeat
	err  error
}

// SSE responds with a stream of events (text/event-stream) for as long as fn runs. s.Context ends when the
// client is gone or too slow (EventStall), when the server stops, and when the session or API key of the
// request has ended, was revoked or rotated, on any node (StreamCheck); fn should then return. All errors of
// Send mean one of these, so fn can simply return them. Any other error of fn closes the connection and is
// reported. SSE fails with the errors of ReserveStream.
func (c *Context) SSE(o EventOptions, fn func(s *Events) error) error {
	a := c.x.app
	leave, err := c.ReserveStream()
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithCancel(c.Request.Context())
	s := &Events{ctx: ctx, cancel: cancel, out: c.Writer, rc: http.NewResponseController(c.Writer), limits: c.x.deadlines()}
	if id := c.Request.Header.Get("Last-Event-ID"); len(id) <= MaxEventID && oneLine(id) {
		s.lastID = id
	}
	defer s.limits.endWrite()
	defer cancel()
	h := c.Header()
	h["Content-Type"] = []string{eventType}
	h["Cache-Control"] = []string{"no-store"}
	h["X-Accel-Buffering"] = []string{"no"} // nginx would buffer events
	s.limits.unlimitedRead()
	s.limits.write(EventStall)
	c.Writer.WriteHeader(http.StatusOK)
	if c.Request.Method == http.MethodHead {
		return nil
	}
	if o.Retry > 0 {
		s.buf.WriteString("retry: " + strconv.FormatInt(o.Retry.Milliseconds(), 10) + "\n\n")
	}
	if err := s.Comment(""); err != nil { // sends the headers
		return nil // the client is gone
	}
	ended := c.x.ended() // the response has begun: the session is saved
	var background sync.WaitGroup
	background.Go(func() { s.beat(o.Heartbeat, a.streams.stop) })
	if ended != nil {
		background.Go(func() { s.watch(ended) })
	}
	defer background.Wait()
	defer cancel() // first
	err = fn(s)
	if err != nil && ctx.Err() != nil {
		return nil // it ended for a reason that is nobody's fault
	}
	return err
}

// ReserveStream counts a stream that the handler will open with SSE, for handlers that have work to do first. They must
// call leave, which may be called more than once, when the stream has ended or will not be opened. It fails with
// engine.CodeQueueFull over Options.MaxStreams, with problem.CodeRateLimited over the limits per client, user or session,
// and with engine.CodeClosed once the server stops.
func (c *Context) ReserveStream() (leave func(), err error) {
	x := c.x
	if x.app.streams.stopped() {
		return nil, engine.Errorf(engine.CodeClosed, "the server is stopping; try again")
	}
	if x.stream {
		return func() {}, nil
	}
	end, err := x.app.streams.enter(x.app.o, x)
	if err != nil {
		return nil, err
	}
	x.stream = true
	return sync.OnceFunc(func() { x.stream = false; end() }), nil
}

// beat sends comments while nothing else is sent, until the stream ends. It ends the stream when the server
// stops.
func (s *Events) beat(every time.Duration, stop <-chan struct{}) {
	if every <= 0 {
		every = DefaultHeartbeat
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-stop:
			s.cancel()
			return
		case <-tick.C:
			s.mu.Lock()
			silent := !s.sent
			s.sent = false
			s.mu.Unlock()
			if silent {
				_ = s.Comment("") // a failure ends the stream
			}
		}
	}
}

// watch ends the stream when its session or key has ended.
func (s *Events) watch(ended func(context.Context) bool) {
	tick := time.NewTicker(StreamCheck)
	defer tick.Stop()
	for !ended(s.ctx) {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
	}
	s.cancel()
}

// ended returns a function that reports whether the sessions or the key of a request have ended; nil if it has
// none. The function reads this node's own state: a node that is cut off from the others receives none of
// their events either. If it cannot read, it reports false.
func (x *exchange) ended() func(context.Context) bool {
	var refs []session.Ref
	for _, s := range []*session.Session{x.session, x.global} {
		if s != nil && s.Stored() {
			refs = append(refs, s.Ref())
		}
	}
	var valid func(context.Context) error
	if x.key != nil {
		valid = x.key.Valid
	}
	if refs == nil && valid == nil {
		return nil
	}
	return func(ctx context.Context) bool {
		for _, ref := range refs {
			if errors.Is(ref.Live(ctx, engine.Read{Level: engine.Local}), session.ErrNoSession) {
				return true
			}
		}
		return valid != nil && engine.CodeOf(valid(ctx)) == engine.CodeUnauthenticated
	}
}

// Context returns a context that ends with the stream.
func (s *Events) Context() context.Context { return s.ctx }

// LastID returns the id of the last event that the client received on an earlier connection, "" if there was
// none.
func (s *Events) LastID() string { return s.lastID }

// Send sends one event. If it fails, the stream has ended and nothing more can be sent; but an id or a name
// with a line break, or more than MaxEventBytes of data, is engine.CodeInternal and sends nothing.
func (s *Events) Send(e Event) error {
	switch {
	case !oneLine(e.ID) || len(e.ID) > MaxEventID:
		return engine.Errorf(engine.CodeInternal, "web: %.60q cannot be the id of an event", e.ID)
	case !oneLine(e.Name):
		return engine.Errorf(engine.CodeInternal, "web: %.60q cannot be the name of an event", e.Name)
	case len(e.Data) > MaxEventBytes:
		return engine.Errorf(engine.CodeInternal, "web: an event of %d bytes, over the limit of %d", len(e.Data), MaxEventBytes)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.ID != "" {
		s.field("id: ", e.ID)
	}
	if e.Name != "" {
		s.field("event: ", e.Name)
	}
	for rest, more := e.Data, true; more; {
		var line string
		line, rest, more = cutLine(rest)
		s.field("data: ", line)
	}
	s.buf.WriteByte('\n')
	s.sent = true
	return s.flush()
}

// SendJSON is Send with v as the data.
func (s *Events) SendJSON(e Event, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return engine.Errorf(engine.CodeInternal, "web: cannot encode an event as JSON: %w", err)
	}
	e.Data = string(data)
	return s.Send(e)
}

// Comment sends a line that browsers ignore.
func (s *Events) Comment(text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf.WriteByte(':')
	s.buf.WriteString(strings.NewReplacer("\r", " ", "\n", " ").Replace(text))
	s.buf.WriteString("\n\n")
	return s.flush()
}

func (s *Events) field(name, text string) {
	s.buf.WriteString(name)
	s.buf.WriteString(text)
	s.buf.WriteByte('\n')
}

// flush sends what is in buf. mu is held.
func (s *Events) flush() error {
	defer s.buf.Reset()
	if s.err == nil {
		s.err = s.ctx.Err()
	}
	if s.err != nil {
		return s.err
	}
	s.limits.write(EventStall)
	if _, s.err = s.out.Write(s.buf.Bytes()); s.err == nil {
		s.err = s.rc.Flush()
	}
	if s.err != nil {
		s.cancel()
		return s.err
	}
	s.limits.unlimitedWrite()
	return nil
}

// cutLine splits off the first line; more is false if it was the last one.
func cutLine(s string) (line, rest string, more bool) {
	i := strings.IndexAny(s, "\r\n")
	if i < 0 {
		return s, "", false
	}
	if s[i] == '\r' && i+1 < len(s) && s[i+1] == '\n' {
		return s[:i], s[i+2:], true
	}
	return s[:i], s[i+1:], true
}

// streams are the open event streams of an application.
type streams struct {
	once sync.Once
	stop chan struct{} // closed when the server stops

	mu   sync.Mutex // guards what follows
	open int
	by   map[string]int // the open ones of each client, user, session and key, and of all strangers; never 0
}

// enter counts a stream of x, unless one of the limits of o is reached. leave undoes that.
func (s *streams) enter(o Options, x *exchange) (leave func(), err error) {
	client, user, whose := "client "+clientOf(x.client(x.r), defaultIPv6Bits), allStrangers, ""
	limit := int(o.forStrangers(int64(o.MaxStreams), int64(o.MaxStreams/4)))
	if who := x.caller(); !who.Stranger {
		user, limit = who.Name, o.MaxStreamsPerClient
	}
	switch {
	case x.key != nil:
		whose = "key of " + x.key.user.ID
	case x.session != nil && x.session.Stored():
		whose = "session " + x.session.Handle()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.open >= o.MaxStreams:
		return nil, engine.Errorf(engine.CodeQueueFull, "%d event streams are open, the limit", o.MaxStreams)
	case user == allStrangers && s.by[user] >= limit:
		return nil, engine.Errorf(engine.CodeQueueFull, "%d event streams without a user are open, the limit", limit)
	case s.by[user] >= limit:
		return nil, engine.Errorf(problem.CodeRateLimited, "%d event streams of this user are open, the limit", limit)
	case s.by[client] >= o.MaxStreamsPerClient:
		return nil, engine.Errorf(problem.CodeRateLimited, "%d event streams are open to this address, the limit", o.MaxStreamsPerClient)
	case whose != "" && s.by[whose] >= o.MaxStreamsPerSession:
		return nil, engine.Errorf(problem.CodeRateLimited, "%d event streams are open to this session or API key, the limit", o.MaxStreamsPerSession)
	}
	s.add(1, client, user, whose)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.add(-1, client, user, whose)
	}, nil
}

// allStrangers is the name of all streams without a user; no other name is like it.
const allStrangers = "strangers"

// add counts n more streams of some names. mu is held.
func (s *streams) add(n int, names ...string) {
	s.open += n
	for _, name := range names {
		if s.by[name] += n; s.by[name] == 0 {
			delete(s.by, name)
		}
	}
}

// count returns how many are open.
func (s *streams) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

func (s *streams) stopped() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// endWith ends a stream of another node, whose context is ctx, when the server stops.
func (s *streams) endWith(ctx context.Context, end func()) {
	select {
	case <-s.stop:
		end()
	case <-ctx.Done():
	}
}

// EndStreams ends all streams of events and refuses new ones. A server calls it when it begins to stop
// (http.Server.RegisterOnShutdown), because they would not end by themselves. It may be called more than once.
func (a *App) EndStreams() { a.streams.once.Do(func() { close(a.streams.stop) }) }

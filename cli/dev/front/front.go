// Package front is a proxy in front of a program under development. Browsers use its address, which stays the
// same while the program is built, stopped and started.
//
// It knows requests, that the program may be away for a while, and how a failure looks in a browser; it must
// not know how programs are built or run.
package front

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/skerrydb/skerry/web/hostname"
)

// Defaults and limits of a Front.
const (
	// DefaultWait is how long a request waits for the program if Options.Wait is 0.
	DefaultWait = 20 * time.Second
	// DefaultCut is how long what is in flight may go on after Hold if Options.Cut is 0.
	DefaultCut = 2 * time.Second
	// MaxWaiting is how many requests wait at once; more are refused as unavailable.
	MaxWaiting = 1000
	// MaxFailureBytes is how much of a failure's text is shown.
	MaxFailureBytes = 64 << 10
	// longPoll is how long SeenPath waits for something new.
	longPoll = 20 * time.Second
)

// ReloadPath is where pages of a program in debug mode listen for reloads; see package web.
const ReloadPath = "/_dev/reload"

// SeenPath is where pages of failures poll for changes. The program cannot have a route there.
const SeenPath = "/_dev/front"

// Options configures New. The zero value works.
type Options struct {
	Wait time.Duration // 0: DefaultWait
	Cut  time.Duration // 0: DefaultCut
}

// Failure is why there is no program, or not the one of the current source.
type Failure struct {
	Title string // one line
	Text  string // output of the compiler or the program
	Note  string // one line: what that means for the user; may be empty
}

// Front is an http.Handler that forwards requests to a program. It is safe for concurrent use.
type Front struct {
	o     Options
	proxy *httputil.ReverseProxy
	dial  *http.Transport

	mu      sync.Mutex // guards what follows
	target  *url.URL   // nil: away
	broken  *Failure
	crashed *Failure
	name    string        // of the program being built
	since   time.Time     // zero: no build is running
	seen    uint64        // counts changes of the fields above
	changed chan struct{} // closed at the next change
	waiting int
	flights map[*flight]struct{}
}

// flight is a request that was forwarded.
type flight struct {
	cancel context.CancelFunc
	sent   bool // to a program; guarded by Front.mu
	stream bool // does not end by itself; guarded by Front.mu
}

// flightKey is the context key of a request's flight.
type flightKey struct{}

// errAway means that there was no program for as long as a request waits.
var errAway = errors.New("the program is away")

// New returns a Front without a program: requests wait.
func New(o Options) *Front {
	o.Wait, o.Cut = cmp.Or(o.Wait, DefaultWait), cmp.Or(o.Cut, DefaultCut)
	// Each request gets its own connection. A reused one might have just been closed by the previous program,
	// and the request be lost.
	f := &Front{o: o, changed: make(chan struct{}), flights: map[*flight]struct{}{}, dial: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	f.proxy = &httputil.ReverseProxy{
		// Keep the Host of the request; RoundTrip knows the target.
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetXForwarded() },
		Transport:      f,
		FlushInterval:  -1,
		ModifyResponse: f.answered,
		ErrorHandler:   f.refuse,
	}
	return f
}

// change calls fn, which changes the state, and wakes all waiters.
func (f *Front) change(fn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn()
	f.seen++
	close(f.changed)
	f.changed = make(chan struct{})
}

// Open sets the program's address, target, an http URL without a path.
func (f *Front) Open(target *url.URL) {
	f.change(func() { f.target, f.crashed = target, nil })
}

// Hold announces that the program is about to end or has ended: requests wait from now on. Streams, which
// would keep the program from ending, are cut at once, other unfinished requests after Options.Cut.
func (f *Front) Hold() {
	var rest []*flight
	f.change(func() {
		f.target = nil
		for fl := range f.flights {
			switch {
			case fl.stream:
				fl.cancel()
			case fl.sent:
				rest = append(rest, fl)
			}
		}
	})
	time.AfterFunc(f.o.Cut, func() {
		for _, fl := range rest {
			fl.cancel()
		}
	})
}

// Broken shows browsers a failure instead of the program's pages, until it is called with nil. Requests that
// are not for pages still go to the program if there is one.
func (f *Front) Broken(why *Failure) {
	f.change(func() {
		f.broken = why
		for fl := range f.flights {
			if fl.stream { // its browser reconnects and sees the failure
				fl.cancel()
			}
		}
	})
}

// Crashed sets why there is no program; Open clears it.
func (f *Front) Crashed(why Failure) {
	f.change(func() { f.target, f.crashed = nil, &why })
}

// Building sets when a build of the program name began, for requests that time out waiting; the zero time
// clears it.
func (f *Front) Building(name string, since time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.name, f.since = name, since
}

// ServeHTTP implements http.Handler.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	trusted := hostname.Trusted(r.Host, nil)
	if trusted && r.URL.Path == SeenPath {
		f.serveSeen(w, r)
		return
	}
	f.mu.Lock()
	why, seen, away := f.broken, f.seen, f.target == nil
	if why == nil {
		why = f.crashed
	}
	f.mu.Unlock()
	if !trusted { // a foreign web page must not read compiler output
		why = nil
	}
	if why != nil && r.URL.Path == ReloadPath {
		serveReload(w, seen)
		return
	}
	if why != nil && (away || isPage(r)) {
		showFailure(w, r, why, seen)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	fl := &flight{cancel: cancel}
	f.mu.Lock()
	f.flights[fl] = struct{}{}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.flights, fl)
		f.mu.Unlock()
	}()
	f.proxy.ServeHTTP(w, r.WithContext(context.WithValue(ctx, flightKey{}, fl)))
}

// isPage reports whether a browser requests a page that it will show.
func isPage(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}

// RoundTrip implements http.RoundTripper. It waits for the program, and again if the program ended before it
// accepted the request.
func (f *Front) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(r.Context(), f.o.Wait)
	defer cancel()
	for {
		target, changed, err := f.await(ctx)
		if err != nil {
			return nil, err
		}
		out := r.Clone(r.Context())
		out.URL.Scheme, out.URL.Host = target.Scheme, target.Host
		if r.Body != nil {
			out.Body = io.NopCloser(r.Body) // may be needed again
		}
		f.mark(r, true)
		resp, err := f.dial.RoundTrip(out)
		if at, ok := errors.AsType[*net.OpError](err); !ok || at.Op != "dial" || r.Context().Err() != nil {
			return resp, err
		}
		f.mark(r, false)
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, errAway
		}
	}
}

// mark records whether a program has a request.
func (f *Front) mark(r *http.Request, sent bool) {
	if fl, ok := r.Context().Value(flightKey{}).(*flight); ok {
		f.mu.Lock()
		fl.sent = sent
		f.mu.Unlock()
	}
}

// await waits until there is a program. changed is closed when that may have changed.
func (f *Front) await(ctx context.Context) (target *url.URL, changed chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.target == nil {
		if f.waiting >= MaxWaiting || f.crashed != nil {
			return nil, nil, errAway
		}
		f.waiting++
		changed := f.changed
		f.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			err = errAway
		}
		f.mu.Lock()
		if f.waiting--; err != nil {
			return nil, nil, err
		}
	}
	return f.target, f.changed, nil
}

// answered recognises responses that do not end by themselves.
func (f *Front) answered(resp *http.Response) error {
	fl, _ := resp.Request.Context().Value(flightKey{}).(*flight)
	media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if fl == nil || media != "text/event-stream" && resp.StatusCode != http.StatusSwitchingProtocols {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	fl.stream = true
	if f.target == nil || resp.Request.URL.Host != f.target.Host {
		fl.cancel() // Hold was called meanwhile
	}
	return nil
}

// refuse responds to a request that could not be forwarded or got no response.
func (f *Front) refuse(w http.ResponseWriter, r *http.Request, err error) {
	f.mu.Lock()
	why, seen, name, since := f.crashed, f.seen, f.name, f.since
	f.mu.Unlock()
	switch {
	case errors.Is(err, errAway) && why == nil && !since.IsZero():
		why = &Failure{
			Title: fmt.Sprintf("%s is still being built after %v", name, time.Since(since).Round(time.Second)),
			Note:  "The first build compiles everything, later ones only what has changed.",
		}
	case errors.Is(err, errAway) && why == nil:
		why = &Failure{Title: "The program does not respond", Text: "There was no response within " + f.o.Wait.String() + "."}
	case !errors.Is(err, errAway):
		why = &Failure{Title: "The program exited before it responded", Text: err.Error(), Note: "The request may have been carried out."}
	}
	showFailure(w, r, why, seen)
}

// serveSeen responds with the count of changes, once it differs from the one that the page has seen, or after a
// while.
func (f *Front) serveSeen(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	seen, changed := f.seen, f.changed
	f.mu.Unlock()
	if r.URL.Query().Get("seen") == strconv.FormatUint(seen, 10) {
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		case <-time.After(longPoll):
		}
		f.mu.Lock()
		seen = f.seen
		f.mu.Unlock()
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, strconv.FormatUint(seen, 10)) // an error means that the client is gone
}

// serveReload makes a page of the program reload itself, and become the page of the failure.
func serveReload(w http.ResponseWriter, seen uint64) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprintf(w, "event: state\ndata: failure-%d\n\n", seen) // an error means that the client is gone
}

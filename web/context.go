package web

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/session"
)

// Context is one request with its response, for a Handler. It is valid until the handler returns, and must not
// be kept or used by other goroutines after that. It is a context.Context, the request's.
type Context struct {
	// Request is the request as the middleware around this handler has left it.
	Request *http.Request
	// Writer is the response, through the middleware around this handler.
	Writer http.ResponseWriter

	x *exchange
}

var _ context.Context = (*Context)(nil)

// Deadline implements context.Context.
func (c *Context) Deadline() (time.Time, bool) { return c.Request.Context().Deadline() }

// Done implements context.Context; the channel is closed when the client goes away.
func (c *Context) Done() <-chan struct{} { return c.Request.Context().Done() }

// Err implements context.Context.
func (c *Context) Err() error { return c.Request.Context().Err() }

// Value implements context.Context.
func (c *Context) Value(key any) any { return c.Request.Context().Value(key) }

// From returns the Context of a request that an App serves, for handlers and middleware of other packages,
// which pass the w and r that they received.
func From(w http.ResponseWriter, r *http.Request) *Context {
	return &Context{Request: r, Writer: w, x: of(w)}
}

// RequestID returns the id of the request. It is also in the response's X-Request-Id and in every log line
// about the request.
func (c *Context) RequestID() string { return c.x.requestID() }

// Logger returns a logger that names the request in each line.
func (c *Context) Logger() *slog.Logger {
	return c.x.app.o.Logger.With(slog.String("request_id", c.RequestID()))
}

// Route returns the pattern that matched, "" if none did.
func (c *Context) Route() string {
	if c.x.route == nil {
		return ""
	}
	return c.x.route.pattern
}

// Debug reports whether the application runs in debug mode.
func (c *Context) Debug() bool { return c.x.app.o.Debug }

// Session returns the browser's session. If there was none it is an anonymous one, of which nothing is written
// until something is put into it. It is saved when the response begins, before anything is sent. Session
// panics if the application has no sessions.
func (c *Context) Session() *session.Session {
	x := c.x
	x.personal = true
	if x.session == nil {
		if x.app.o.Sessions == nil {
			panic("web: Context.Session: this application has no sessions (Options.Sessions)")
		}
		x.session = x.app.o.Sessions.New()
	}
	return x.session
}

// IsJSON reports whether the client prefers JSON to a page: its Accept says so, or it is not a browser.
func (c *Context) IsJSON() bool { return !wantsHTML(c.Request) }

// Header returns the headers of the response.
func (c *Context) Header() http.Header { return c.Writer.Header() }

// Text responds with plain text.
func (c *Context) Text(status int, text string) error {
	return c.send(status, textType, text)
}

// HTML responds with text, which must be safe HTML. Text from users must be escaped, as Render does.
func (c *Context) HTML(status int, text string) error {
	return c.send(status, htmlType, text)
}

func (c *Context) send(status int, mediaType []string, text string) error {
	c.Header()["Content-Type"] = mediaType
	c.Writer.WriteHeader(status)
	_, _ = io.WriteString(c.Writer, text) // an error means that the client is gone
	return nil
}

// Redirect sends the browser to a path of this application with 303 See Other, which it requests with GET. Any
// other address is engine.CodeInvalid, as it may come from a user; RedirectTo accepts any address.
func (c *Context) Redirect(path string) error {
	if !localPath(path) {
		return engine.Errorf(engine.CodeInvalid, "%.100q is not a path of this application to redirect to", path)
	}
	return c.RedirectTo(http.StatusSeeOther, path)
}

// RedirectOr is Redirect to a path that may come from a user, for example from the parameter next. If it is
// not a path of this application, the browser is sent to otherwise.
func (c *Context) RedirectOr(path, otherwise string) error {
	if !localPath(path) {
		path = otherwise
	}
	return c.Redirect(path)
}

// RedirectTo sends the browser to any address, with a status of 301, 302, 303, 307 or 308. Another status is
// engine.CodeInternal. An address that is empty or has control characters, which could begin another header,
// is engine.CodeInvalid.
func (c *Context) RedirectTo(status int, url string) error {
	switch status {
	case 301, 302, 303, 307, 308:
	default:
		return engine.Errorf(engine.CodeInternal, "web: RedirectTo with status %d", status)
	}
	if url == "" || !oneLine(url) {
		return engine.Errorf(engine.CodeInvalid, "%.100q is not an address to redirect to", url)
	}
	http.Redirect(c.Writer, c.Request, url, status)
	return nil
}

// localPath reports whether a browser takes p for a path of the current origin, even after net/http has
// cleaned it: not //host or /\host, and not /./\host, which becomes that.
func localPath(p string) bool {
	path, _, _ := strings.Cut(p, "?")
	return strings.HasPrefix(p, "/") && !strings.HasPrefix(p, "//") && !strings.Contains(path, `\`) &&
		oneLine(p) && !strings.Contains(p, "\t")
}

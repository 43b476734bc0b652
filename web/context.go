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

// Context is one request with its answer, for a Handler. It is the handler's until
// that returns, and must not be kept or used by other goroutines afterwards. It is
// a context.Context: the request's.
type Context struct {
	// Request is the request as the middleware before this handler has left it.
	Request *http.Request
	// Writer is where the answer goes, through the middleware before this handler.
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

// From returns the Context of a request that an App serves, for handlers and
// middleware that are not of this package: w and r are what they got.
func From(w http.ResponseWriter, r *http.Request) *Context {
	return &Context{Request: r, Writer: w, x: of(w)}
}

// RequestID returns the id of the request, which is also in the answer's
// X-Request-Id and in every line that is logged of it.
func (c *Context) RequestID() string { return c.x.requestID() }

// Logger returns a logger that names the request in each line.
func (c *Context) Logger() *slog.Logger {
	return c.x.app.o.Logger.With(slog.String("request_id", c.RequestID()))
}

// Route returns the pattern that was found, "" if none was.
func (c *Context) Route() string {
	if c.x.route == nil {
		return ""
	}
	return c.x.route.pattern
}

// Debug reports whether the application runs in debug mode.
func (c *Context) Debug() bool { return c.x.app.o.Debug }

// Session returns the browser's session: an anonymous one, of which nothing is
// written until something is put into it, if there was none. It is saved when the
// answer begins, before anything of it is sent. It panics if the application has
// no sessions.
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

// IsJSON reports whether the client would rather have JSON than a page: its Accept
// says so, or it is no browser.
func (c *Context) IsJSON() bool { return !wantsHTML(c.Request) }

// Header returns the headers of the answer.
func (c *Context) Header() http.Header { return c.Writer.Header() }

// Text answers with plain text.
func (c *Context) Text(status int, text string) error {
	return c.send(status, textType, text)
}

// HTML answers with text that is HTML as it stands. What comes from users must have
// been escaped: Render does that.
func (c *Context) HTML(status int, text string) error {
	return c.send(status, htmlType, text)
}

func (c *Context) send(status int, mediaType []string, text string) error {
	c.Header()["Content-Type"] = mediaType
	c.Writer.WriteHeader(status)
	_, _ = io.WriteString(c.Writer, text) // an error means that the client is gone
	return nil
}

// Redirect sends the browser to another address with 303 See Other: it asks for it
// with GET. The address must be of this application: a path. Another one is
// engine.CodeInvalid, as a user may have chosen it. RedirectTo takes any.
func (c *Context) Redirect(path string) error {
	if !localPath(path) {
		return engine.Errorf(engine.CodeInvalid, "%.100q is not a path of this application to go on to", path)
	}
	return c.RedirectTo(http.StatusSeeOther, path)
}

// RedirectOr is Redirect to a path that may come from a user, as from the parameter
// next; if it is not of this application the browser is sent to otherwise.
func (c *Context) RedirectOr(path, otherwise string) error {
	if !localPath(path) {
		path = otherwise
	}
	return c.Redirect(path)
}

// RedirectTo sends the browser to any address, with a status of 301, 302, 303, 307
// or 308. Another status is engine.CodeInternal, and an address that is empty or has
// control characters, which could begin another header, engine.CodeInvalid.
func (c *Context) RedirectTo(status int, url string) error {
	switch status {
	case 301, 302, 303, 307, 308:
	default:
		return engine.Errorf(engine.CodeInternal, "web: RedirectTo with status %d", status)
	}
	if url == "" || !oneLine(url) {
		return engine.Errorf(engine.CodeInvalid, "%.100q is not an address to go on to", url)
	}
	http.Redirect(c.Writer, c.Request, url, status)
	return nil
}

// localPath reports whether a browser takes p for a path of the origin that it is
// on, also after net/http has cleaned it: //host and /\host it does not, and /./\host
// becomes that.
func localPath(p string) bool {
	path, _, _ := strings.Cut(p, "?")
	return strings.HasPrefix(p, "/") && !strings.HasPrefix(p, "//") && !strings.Contains(path, `\`) &&
		oneLine(p) && !strings.Contains(p, "\t")
}

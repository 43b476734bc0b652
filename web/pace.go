package web

import (
	"fmt"
	"io"
	"net/http"
	"time"
)

// deadlines extend the deadlines of an exchange while it makes progress; a server's own limits are for a whole
// request and a whole response.
type deadlines struct {
	rc  *http.ResponseController
	srv *http.Server // nil: unknown
}

func (x *exchange) deadlines() deadlines {
	srv, _ := x.r.Context().Value(http.ServerContextKey).(*http.Server)
	return deadlines{http.NewResponseController(x.w), srv}
}

// read sets the time within which more of the body must arrive. A writer without deadlines, such as one of a
// test, is not an error.
func (d deadlines) read(within time.Duration) { _ = d.rc.SetReadDeadline(time.Now().Add(within)) }

// write sets the time within which the next write must be sent.
func (d deadlines) write(within time.Duration) { _ = d.rc.SetWriteDeadline(time.Now().Add(within)) }

// unlimitedWrite removes the deadline until the next write: over HTTP/2 a deadline ends the response, whether
// anything is being written or not.
func (d deadlines) unlimitedWrite() { _ = d.rc.SetWriteDeadline(time.Time{}) }

// unlimitedRead lets the connection wait for the client to close it without a limit: an expired deadline would
// look like a client that has gone away.
func (d deadlines) unlimitedRead() { _ = d.rc.SetReadDeadline(time.Time{}) }

// endWrite is called after the last write, because the server sets the next request's deadline only if it has
// one.
func (d deadlines) endWrite() {
	if d.srv != nil && d.srv.WriteTimeout > 0 {
		d.write(d.srv.WriteTimeout)
		return
	}
	_ = d.rc.SetWriteDeadline(time.Time{})
}

// paceBody lets a body arrive for as long as it takes, but no slower than UploadPace bytes per UploadStall.
// end gives the response its own time.
func (c *Context) paceBody() (end func()) {
	if c.Request.Body == nil {
		return func() {}
	}
	d, body := c.x.deadlines(), c.Request.Body
	d.read(UploadStall)
	d.unlimitedWrite()
	paced := &pacedBody{ReadCloser: body, d: d}
	c.Request.Body = paced
	return func() {
		c.Request.Body = body
		if !paced.over {
			d.read(UploadStall) // for the rest that the server skips
		}
		d.endWrite()
	}
}

// pacedBody extends the deadline as a body arrives. After the end of the body it sets none, because the server
// then waits for the client to close the connection and an expired deadline would look like that.
type pacedBody struct {
	io.ReadCloser
	d    deadlines
	n    int
	over bool
}

// Read implements io.Reader.
func (b *pacedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.over = err == io.EOF
	if b.n += n; b.n >= UploadPace && err == nil {
		b.n = 0
		b.d.read(UploadStall)
	}
	return n, err
}

// pacedWriter bounds the time of each write, not the time between two. Its user calls endWrite after the last
// one.
type pacedWriter struct {
	http.ResponseWriter
	d deadlines
}

// Write implements io.Writer.
func (w *pacedWriter) Write(p []byte) (int, error) {
	w.d.write(StreamStall)
	defer w.d.unlimitedWrite()
	return w.ResponseWriter.Write(p)
}

// FlushError is what http.ResponseController calls.
func (w *pacedWriter) FlushError() error {
	w.d.write(StreamStall)
	defer w.d.unlimitedWrite()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap implements the method that http.ResponseController looks for.
func (w *pacedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// bytesText formats a number of bytes for people.
func bytesText(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

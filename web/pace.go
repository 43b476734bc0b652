package web

import (
	"fmt"
	"io"
	"net/http"
	"time"
)

// deadlines give an exchange more time as long as it goes on: a server's limits are
// those of a whole request and a whole answer.
type deadlines struct {
	rc  *http.ResponseController
	srv *http.Server // nil: not known
}

func (x *exchange) deadlines() deadlines {
	srv, _ := x.r.Context().Value(http.ServerContextKey).(*http.Server)
	return deadlines{http.NewResponseController(x.w), srv}
}

// read bounds the time until more of the body must have come. What a writer cannot
// do, as one of a test, is no fault.
func (d deadlines) read(within time.Duration) { _ = d.rc.SetReadDeadline(time.Now().Add(within)) }

// write bounds the time until what is written next must have gone.
func (d deadlines) write(within time.Duration) { _ = d.rc.SetWriteDeadline(time.Now().Add(within)) }

// unlimitedWrite lets as much time pass as it takes until the next write: over HTTP/2
// a deadline that passes ends the answer, whether anything is being written or not.
func (d deadlines) unlimitedWrite() { _ = d.rc.SetWriteDeadline(time.Time{}) }

// unlimitedRead lets the connection wait for the client's end without a limit: a
// deadline that passes would be taken for the client's going away.
func (d deadlines) unlimitedRead() { _ = d.rc.SetReadDeadline(time.Time{}) }

// endWrite is called after the last write: the server sets the next request's
// deadline only if it has one.
func (d deadlines) endWrite() {
	if d.srv != nil && d.srv.WriteTimeout > 0 {
		d.write(d.srv.WriteTimeout)
		return
	}
	_ = d.rc.SetWriteDeadline(time.Time{})
}

// paceBody lets a body arrive for as long as it takes, but not slower than UploadPace
// in UploadStall. end gives the answer its own time.
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
			d.read(UploadStall) // for what the server skips of it
		}
		d.endWrite()
	}
}

// pacedBody moves the deadline on as a body arrives. Once that is over, the server
// waits for the client's end, and would take a deadline for it.
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

// pacedWriter bounds each write, and not the time between two. Its user calls endWrite
// after the last one.
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

// Unwrap is what http.ResponseController asks for.
func (w *pacedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// bytesText writes a number of bytes for people.
func bytesText(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

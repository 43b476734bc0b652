package lane

import (
	"context"
	"crypto/tls"
	"net/http"
	"strconv"
)

// Fast is a request that a Route's Fast function may answer, which costs less than a handler. It is valid until
// that function returns.
type Fast struct {
	Method, Path, Host string
	Body               []byte // of a PUT or POST; the connection's

	c     *conn
	tried error
}

// Context returns the context of the connection, which does not end: to notice a client that goes away would cost
// more than what the request needs. So a Fast function must not wait for long.
func (x *Fast) Context() context.Context { return x.c.ctx }

// TLS returns the state of the connection, nil if it is not over TLS.
func (x *Fast) TLS() *tls.ConnectionState { return x.c.tls }

// Header returns the value of a header field that every route allows ("Authorization"), "" if the request has
// none.
func (x *Fast) Header(name string) string {
	for _, f := range x.c.head.fields[:x.c.head.n] {
		if x.c.s.routes.names[f.place] == name {
			return f.value
		}
	}
	return ""
}

// Tried leaves the request to the handler, which finds err with Tried. It is for a write that was tried, and
// must not be tried again as if it had not been.
func (x *Fast) Tried(err error) { x.tried = err }

// triedKey is where a request's context has the error of Fast.Tried.
type triedKey struct{}

// Tried returns the error of an attempt to answer a request without its handler, nil if there was none.
func Tried(ctx context.Context) error {
	err, _ := ctx.Value(triedKey{}).(error)
	return err
}

// Begin begins the response. Header fields and then End must follow, and no error can be returned any more.
func (x *Fast) Begin(status int) {
	c := x.c
	c.out = appendStatus(c.out, status)
	c.out = append(append(append(c.out, "Date: "...), c.s.dates.now()...), "\r\n"...)
	if c.s.stopping.Load() {
		c.last = true
		c.out = append(c.out, "Connection: close\r\n"...)
	}
}

// Field adds a header field. Neither part has line breaks.
func (x *Fast) Field(name, value string) {
	x.c.out = append(append(append(append(x.c.out, name...), ": "...), value...), "\r\n"...)
}

// Line is Field for bytes.
func (x *Fast) Line(name string, value []byte) {
	x.c.out = append(append(append(append(x.c.out, name...), ": "...), value...), "\r\n"...)
}

// Tag adds the ETag of two parts, in quotation marks.
func (x *Fast) Tag(tag []byte, suffix string) {
	x.c.out = append(append(append(append(x.c.out, `Etag: "`...), tag...), suffix...), "\"\r\n"...)
}

// Number adds a header field whose value is a number.
func (x *Fast) Number(name string, n uint64) {
	x.c.out = append(append(x.c.out, name...), ": "...)
	x.c.out = append(strconv.AppendUint(x.c.out, n, 10), "\r\n"...)
}

// Fields adds whole lines, each of which ends with CR LF.
func (x *Fast) Fields(lines string) { x.c.out = append(x.c.out, lines...) }

// End ends the header fields, and adds the body, which is none for HEAD. The Content-Length must be among the
// fields unless the status has no body.
func (x *Fast) End(body []byte) {
	c := x.c
	c.out = append(c.out, "\r\n"...)
	if x.Method != "HEAD" {
		c.hold(len(body))
		c.out = append(c.out, body...)
	}
	if len(c.out) >= MaxHeld {
		c.flush()
	}
}

// fast reports whether the route's Fast function has answered the request. Otherwise it returns the error of
// what that has tried.
func (c *conn) fast(body []byte) (answered bool, tried error) {
	h := &c.head
	if c.admission != nil {
		if !c.admission.Enter() {
			panic(http.ErrAbortHandler)
		}
		defer c.admission.Leave()
	}
	x := Fast{Method: h.method, Path: h.path, Host: h.host, Body: body, c: c}
	answered = h.route.fast(&x)
	return answered, x.tried
}

package lane

import (
	"context"
	"io"
	"net/http"
	"net/url"
)

// exchange is one request with its response. It is not reused: a handler may keep parts of it.
type exchange struct {
	r    http.Request
	url  url.URL
	ctx  requestContext
	w    writer
	body body
}

func newExchange(c *conn, content []byte, tried error) *exchange {
	h := &c.head
	x := &exchange{url: url.URL{Path: h.path}, body: body{content}}
	x.ctx.Context, x.ctx.c = c.ctx, c
	if tried != nil {
		x.ctx.Context = context.WithValue(c.ctx, triedKey{}, tried)
	}
	header := make(http.Header, h.n)
	values := make([]string, h.n)
	for i, f := range h.fields[:h.n] {
		values[i] = f.value
		header[c.s.routes.names[f.place]] = values[i : i+1 : i+1]
	}
	r := http.Request{
		Method: h.method, URL: &x.url, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header,
		Body: http.NoBody, ContentLength: int64(h.length), Host: h.host, RemoteAddr: c.remote, RequestURI: h.path, TLS: c.tls,
	}
	if h.length > 0 {
		r.Body = &x.body
	}
	x.r = *r.WithContext(&x.ctx)
	x.w = writer{c: c, ctx: &x.ctx, head: h.method == http.MethodHead, header: make(http.Header, 8), declared: -1}
	return x
}

// body is that of a request. It has arrived.
type body struct{ rest []byte }

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.rest)
	if b.rest = b.rest[n:]; len(b.rest) == 0 {
		return n, io.EOF
	}
	return n, nil
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.rest = nil
	return nil
}

package lane

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"
)

// chunkAfter is how many bytes of a body wait until its length is known. A longer body of no declared length
// is sent in chunks. It is what net/http uses.
const chunkAfter = 2048

// writer is the http.ResponseWriter of a request. It sends what net/http would.
type writer struct {
	c        *conn
	ctx      *requestContext
	header   http.Header
	status   int   // 0: none yet
	declared int64 // the Content-Length from the handler, -1: none
	written  int64
	waiting  []byte // of the body, before the head is written
	head     bool   // the request is HEAD
	typed    bool   // the handler has set a Content-Type
	encoded  bool   // the handler has set a Content-Encoding
	begun    bool   // the whole head is in c.out, or was sent
	chunked  bool
	trailers []string // names of the fields after the body, as the head announces them
	trailing bool     // there may be fields after the body
	done     bool     // the handler has returned
}

// Header implements http.ResponseWriter.
func (w *writer) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	switch {
	case w.c.gone:
		return
	case w.status != 0 || w.done:
		w.c.s.log.Debug("superfluous WriteHeader", "status", status)
		return
	case status < 100 || status > 999:
		panic(fmt.Sprintf("invalid WriteHeader code %v", status))
	case status < 200 && status != http.StatusSwitchingProtocols:
		w.inform(status)
		return
	}
	w.status = status
	if text := first(w.header, "Content-Length"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err == nil && n >= 0 {
			w.declared = n
		} else {
			w.header.Del("Content-Length")
		}
	}
	w.fields()
	if !bodyAllowed(status) || w.typed && w.declared >= 0 {
		w.begin(nil)
	}
}

// inform sends an informational response.
func (w *writer) inform(status int) {
	c := w.c
	c.out = appendStatus(c.out, status)
	for name, values := range w.header {
		if name != "Content-Length" && name != "Transfer-Encoding" {
			c.out = appendField(c.out, name, values)
		}
	}
	c.out = append(c.out, "\r\n"...)
	c.flush()
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	if w.c.gone {
		return 0, http.ErrHijacked
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	switch {
	case len(p) == 0:
		return 0, nil
	case !bodyAllowed(w.status):
		return 0, http.ErrBodyNotAllowed
	}
	w.written += int64(len(p))
	if w.declared >= 0 && w.written > w.declared {
		return 0, http.ErrContentLength
	}
	if !w.begun && w.declared < 0 && len(w.waiting)+len(p) <= chunkAfter {
		w.waiting = append(w.waiting, p...)
		return len(p), nil
	}
	if !w.begun {
		some := w.waiting
		if len(some) == 0 {
			some = p
		}
		w.begin(some)
		w.send(w.waiting)
		w.waiting = nil
	}
	w.send(p)
	return len(p), w.c.failed
}

// WriteString implements io.StringWriter.
func (w *writer) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

// send puts a part of the body after the head.
func (w *writer) send(p []byte) {
	c := w.c
	if w.head || len(p) == 0 || c.failed != nil || c.gone {
		return
	}
	c.hold(len(p))
	switch {
	case w.chunked:
		c.out = strconv.AppendInt(c.out, int64(len(p)), 16)
		c.out = append(c.out, "\r\n"...)
		c.out = append(append(c.out, p...), "\r\n"...)
	default:
		c.out = append(c.out, p...)
	}
	if len(c.out) >= MaxHeld {
		c.flush()
	}
}

// FlushError is what http.ResponseController calls.
func (w *writer) FlushError() error {
	if w.c.gone {
		return http.ErrHijacked
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if !w.begun {
		w.begin(w.waiting)
		w.send(w.waiting)
		w.waiting = nil
	}
	w.c.flush()
	return w.c.failed
}

// Flush implements http.Flusher.
func (w *writer) Flush() { _ = w.FlushError() }

// SetReadDeadline is what http.ResponseController calls. The body has arrived, so it does nothing.
func (w *writer) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline is what http.ResponseController calls. The zero time is the limit of the server: the lane
// sends a response later than the handler writes it.
func (w *writer) SetWriteDeadline(by time.Time) error {
	w.c.writeBy = by
	return nil
}

// Hijack is what http.ResponseController calls. The connection then belongs to the caller.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c := w.c
	switch {
	case w.done:
		return nil, nil, errors.New("lane: Hijack after the handler has returned")
	case c.gone:
		return nil, nil, http.ErrHijacked
	}
	if w.status != 0 {
		_ = w.FlushError()
	}
	c.flush()
	w.ctx.release()
	_ = c.nc.SetDeadline(time.Time{})
	c.gone = true
	rest := append([]byte(nil), c.buf[c.r:c.w]...)
	in := bufio.NewReaderSize(io.MultiReader(bytes.NewReader(rest), c.nc), max(len(rest), hijackBuffer))
	_, _ = in.Peek(len(rest)) // as with net/http, Buffered says how much was received
	return c.nc, bufio.NewReadWriter(in, bufio.NewWriter(c.nc)), nil
}

// hijackBuffer is the size of the buffer of a hijacked connection. It is what net/http uses.
const hijackBuffer = 4 << 10

// EnableFullDuplex is what http.ResponseController calls.
func (w *writer) EnableFullDuplex() error { return nil }

// finish ends the response when the handler has returned.
func (w *writer) finish() {
	if w.c.gone {
		return
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.done = true
	if !w.begun {
		w.begin(w.waiting)
		w.send(w.waiting)
	}
	if w.chunked {
		w.c.out = append(w.appendTrailers(append(w.c.out, "0\r\n"...)), "\r\n"...)
	}
	if w.declared >= 0 && w.declared != w.written && !w.head && bodyAllowed(w.status) {
		w.c.last = true // the client must not take the next response for the rest of this one
	}
	if len(w.c.out) >= MaxHeld {
		w.c.flush()
	}
}

// announce notes the trailers that the header fields announce.
func (w *writer) announce() {
	for _, line := range w.header["Trailer"] {
		for name := range strings.SplitSeq(line, ",") {
			name = http.CanonicalHeaderKey(textproto.TrimString(name))
			if name != "Transfer-Encoding" && name != "Content-Length" && name != "Trailer" { // RFC 9110 section 6.5.1
				w.trailers = append(w.trailers, name)
			}
		}
		w.trailing = true
	}
	for name := range w.header {
		w.trailing = w.trailing || strings.HasPrefix(name, http.TrailerPrefix)
	}
}

// appendTrailers appends the fields after a body in chunks.
func (w *writer) appendTrailers(b []byte) []byte {
	for _, name := range w.trailers {
		b = appendField(b, name, w.header[name])
	}
	for name, values := range w.header {
		if after, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			b = appendField(b, http.CanonicalHeaderKey(after), values)
		}
	}
	return b
}

// fields writes the fields of the handler, which can be changed no more.
func (w *writer) fields() {
	w.announce()
	c := w.c
	stopping := c.s.stopping.Load()
	if stopping || first(w.header, "Connection") == "close" {
		c.last = true
	}
	out := appendStatus(c.out, w.status)
	for name, values := range w.header {
		if w.keeps(name, stopping) {
			out = appendField(out, name, values)
		}
	}
	if _, dated := w.header["Date"]; !dated {
		out = append(append(append(out, "Date: "...), c.s.dates.now()...), "\r\n"...)
	}
	if stopping {
		out = append(out, "Connection: close\r\n"...)
	}
	c.out = out
	_, w.typed = w.header["Content-Type"]
	w.encoded = first(w.header, "Content-Encoding") != ""
}

// begin ends the head. p is the beginning of the body, or all of it if the handler has returned.
func (w *writer) begin(p []byte) {
	w.begun = true
	out, allowed := w.c.out, bodyAllowed(w.status)
	if allowed && !w.typed && len(p) > 0 && !w.encoded {
		out = append(append(append(out, "Content-Type: "...), http.DetectContentType(p)...), "\r\n"...)
	}
	switch {
	case !allowed || w.declared >= 0:
	case w.done && !w.trailing && (!w.head || len(p) > 0):
		out = append(strconv.AppendInt(append(out, "Content-Length: "...), int64(len(p)), 10), "\r\n"...)
	case !w.head:
		w.chunked = true
		out = append(out, "Transfer-Encoding: chunked\r\n"...)
	}
	w.c.out = append(out, "\r\n"...)
}

// keeps reports whether the head has a field of the handler.
func (w *writer) keeps(name string, stopping bool) bool {
	switch name {
	case "Transfer-Encoding":
		return false
	case "Connection":
		return !stopping
	case "Content-Length":
		return bodyAllowed(w.status)
	case "Content-Type":
		return w.status != http.StatusNotModified
	}
	return !strings.HasPrefix(name, http.TrailerPrefix)
}

// bodyAllowed reports whether responses of that status have a body.
func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// first returns the first value of a field.
func first(h http.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

func appendStatus(b []byte, status int) []byte {
	if status == http.StatusOK {
		return append(b, "HTTP/1.1 200 OK\r\n"...)
	}
	b = strconv.AppendInt(append(b, "HTTP/1.1 "...), int64(status), 10)
	text := http.StatusText(status)
	if text == "" {
		text = "status code " + strconv.Itoa(status)
	}
	return append(append(append(b, ' '), text...), "\r\n"...)
}

// appendField appends a header field. Values have no line breaks afterwards.
func appendField(b []byte, name string, values []string) []byte {
	for i := range len(name) {
		if c := name[i]; classes[c]&inName == 0 && !strings.ContainsRune("!#$%&'*+.^_`|~", rune(c)) {
			return b
		}
	}
	for _, v := range values {
		b = append(append(b, name...), ": "...)
		if strings.ContainsAny(v, "\r\n") {
			v = strings.NewReplacer("\r", " ", "\n", " ").Replace(v)
		}
		b = append(append(b, textproto.TrimString(v)...), "\r\n"...)
	}
	return b
}

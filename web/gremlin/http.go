package gremlin

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/graph/graphson"
	"github.com/skerrydb/skerry/graph/message"
	"github.com/skerrydb/skerry/graph/value"
)

// holdBytes is how large a result gets before it is sent: until then, the status
// of HTTP can say how the request ended.
const holdBytes = 64 << 10

// post answers one request over plain HTTP.
func (h *Handler) post(w http.ResponseWriter, r *http.Request) {
	to := &httpSink{h: h, w: w, format: graphson.Typed, mime: graphson.MimeTyped}
	_, _ = rand.Read(to.id[:]) // never fails
	to.id[6], to.id[8] = to.id[6]&0x0f|0x40, to.id[8]&0x3f|0x80
	if err := h.protect.Check(r); err != nil {
		_ = to.fail(&Error{Status: http.StatusForbidden, Msg: err.Error()})
		return
	}
	args, raw, bad := h.body(w, r)
	if bad == nil {
		bad = to.negotiate(r, args)
	}
	user := ""
	if bad == nil {
		user, bad = h.basic(w, r)
	}
	if bad != nil {
		_ = to.fail(bad)
		return
	}
	wk, bad := httpWork(&h.o, args)
	if bad != nil {
		_ = to.fail(bad)
		return
	}
	wk.req.User, wk.body = user, raw
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.stop, cancel)()
	s := &stream{codec: jsonCodec(to.format), to: to}
	wk.form = s.codec.form | formHTTP
	h.run(ctx, wk, s, func(ctx context.Context) error {
		return h.submit(ctx, wk, s)
	})
}

// httpWork checks the arguments of a request over HTTP, which are those of text.
func httpWork(o *Options, args *value.Map) (*work, *Error) {
	a, w := &arguments{m: args}, &work{args: args}
	a.common(o, w)
	a.script(w)
	if p := a.mapping("parameters"); p != nil && w.bindings == nil {
		w.bindings = p
	}
	if g := a.string("g"); g != "" {
		w.aliases = value.MapOf("g", g)
	}
	a.bool("bulkResults") // which JSON cannot show
	return w, a.err
}

// body reads the request's arguments, and returns their text too.
func (h *Handler) body(w http.ResponseWriter, r *http.Request) (*value.Map, []byte, *Error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != graphson.MimeJSON && !strings.HasPrefix(kind, "application/vnd.gremlin-v") {
		return nil, nil, errorf(http.StatusUnsupportedMediaType, "expected a body of %s", graphson.MimeJSON)
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.o.MaxMessageBytes))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, nil, errorf(http.StatusRequestEntityTooLarge, "expected a body of at most %d bytes", large.Limit)
	case err != nil:
		return nil, nil, errorf(StatusMalformed, "the body ended early")
	}
	v, err := graphson.Decode(b)
	if err != nil {
		return nil, nil, errorf(StatusMalformed, "malformed request: %v", err)
	}
	m, ok := v.(*value.Map)
	if !ok {
		return nil, nil, errorf(StatusMalformed, "malformed request: expected an object")
	}
	return m, b, nil
}

// basic checks the user of HTTP's Basic authentication.
func (h *Handler) basic(w http.ResponseWriter, r *http.Request) (string, *Error) {
	if h.o.Authenticate == nil {
		return "", nil
	}
	user, password, ok := r.BasicAuth()
	bad := errorf(StatusUnauthorized, "authentication is required")
	if ok {
		user, bad = h.authenticate(r.Context(), Login{user, password, r.RemoteAddr})
	}
	if bad != nil {
		w.Header().Set("WWW-Authenticate", `Basic realm="gremlin", charset="UTF-8"`)
	}
	return user, bad
}

// httpSink writes a result as one JSON text. Once it is too large to be held back,
// it is written as it comes, and its end has the status.
type httpSink struct {
	h      *Handler
	w      http.ResponseWriter
	id     value.UUID
	format graphson.Format
	mime   string
	items  []byte
	n      int
	begun  bool
}

// negotiate chooses the format of the answer: by Accept, or by how the request
// names its source, which only drivers of TinkerPop 4 do.
func (s *httpSink) negotiate(r *http.Request, args *value.Map) *Error {
	_, four := args.Get("g")
	accepts := r.Header.Values("Accept")
	if len(accepts) == 0 {
		accepts = []string{"*/*"}
	}
	for _, one := range strings.Split(strings.Join(accepts, ","), ",") {
		kind, params, err := mime.ParseMediaType(one)
		if err != nil {
			continue
		}
		untyped := params["types"] == "false"
		switch {
		case kind == "application/vnd.gremlin-v4.0+json", four && (kind == graphson.MimeJSON || kind == "*/*" || kind == "application/*"):
			s.format, s.mime = graphson.Untyped4, graphson.MimeUntyped4
			if kind != "application/vnd.gremlin-v4.0+json" {
				s.mime = graphson.MimeJSON
			}
		case kind == graphson.MimeTyped && untyped:
			s.format, s.mime = graphson.Untyped, graphson.MimeUntyped
		case kind == graphson.MimeTyped:
			s.mime = graphson.MimeTyped
		case kind == graphson.MimeJSON, kind == "*/*", kind == "application/*":
			s.mime = graphson.MimeJSON
			if untyped {
				s.format = graphson.Untyped
			}
		default:
			continue
		}
		return nil
	}
	return errorf(http.StatusNotAcceptable, "expected Accept with %s, %s or %s", graphson.MimeJSON, graphson.MimeTyped, graphson.MimeUntyped4)
}

// httpStatus returns the status of HTTP for one of drivers.
func httpStatus(status int) int {
	switch status {
	case StatusOK, StatusNoContent, StatusPartial:
		return http.StatusOK
	case StatusMalformed, StatusInvalid, StatusEvaluation:
		return http.StatusBadRequest
	case StatusTimeout:
		return http.StatusGatewayTimeout
	case StatusSerialization:
		return http.StatusInternalServerError
	}
	if http.StatusText(status) == "" || status < 400 {
		return http.StatusInternalServerError
	}
	return status
}

func (s *httpSink) head(status int) {
	s.w.Header().Set("Content-Type", s.mime)
	s.w.Header().Set("X-Content-Type-Options", "nosniff")
	s.w.WriteHeader(status)
	s.begun = true
}

// write writes to the client, which has to read in time.
func (s *httpSink) write(b []byte, more bool) error {
	c := http.NewResponseController(s.w)
	_ = c.SetWriteDeadline(time.Now().Add(s.h.o.WriteTimeout)) // not all writers have one
	if _, err := s.w.Write(b); err != nil {
		return err
	}
	if !more {
		return nil
	}
	if err := c.Flush(); !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

func (s *httpSink) send(status int, items []byte, n int) error {
	if s.n > 0 && n > 0 {
		s.items = append(s.items, ',')
	}
	s.items = append(s.items, items...)
	s.n += n
	if status != StatusPartial {
		return s.finish(&Error{Status: StatusOK})
	}
	if len(s.items) < holdBytes {
		return nil
	}
	if !s.begun {
		s.head(http.StatusOK)
		s.items = append([]byte(s.opening()), s.items...)
	}
	err := s.write(s.items, true)
	s.items = s.items[:0]
	return err
}

func (s *httpSink) fail(e *Error) error {
	if !s.begun {
		s.items, s.n = nil, 0
	}
	return s.finish(e)
}

// opening is what comes before the values of a result that is not held back.
func (s *httpSink) opening() string {
	if s.format == graphson.Typed {
		return `{"result":{"data":{"@type":"g:List","@value":[`
	}
	return `{"result":{"data":[`
}

// finish writes what is left and how the request ended.
func (s *httpSink) finish(e *Error) error {
	if !s.begun {
		s.head(httpStatus(e.Status))
		if s.format != graphson.Untyped4 {
			p := &message.Response{ID: s.id, Status: e.Status, Message: e.Msg, Attributes: e.Attributes}
			b, err := s.format.AppendItems(nil, p, s.items, s.n)
			if err != nil {
				return err
			}
			return s.write(b, false)
		}
		s.items = append([]byte(s.opening()), s.items...)
	}
	b, err := s.closing(append(s.items, ']'), e)
	if err != nil {
		return err
	}
	return s.write(b, false)
}

// closing appends what comes after the values of a result that is not held back.
func (s *httpSink) closing(b []byte, e *Error) ([]byte, error) {
	if s.format == graphson.Typed {
		b = append(b, '}')
	}
	if s.format == graphson.Untyped4 {
		b, err := s.format.Append(append(b, `},"status":`...), value.MapOf("code", int32(e.Status), "message", e.Msg))
		return append(b, '}'), err
	}
	attributes := e.Attributes
	if attributes == nil {
		attributes = &value.Map{}
	}
	b, err := s.format.Append(append(b, `,"meta":`...), &value.Map{})
	if err != nil {
		return nil, err
	}
	b = append(b, `},"requestId":"`+s.id.String()+`","status":{"code":`...)
	b = append(strconv.AppendInt(b, int64(e.Status), 10), `,"message":`...)
	if b, err = s.format.Append(b, e.Msg); err != nil {
		return nil, err
	}
	b, err = s.format.Append(append(b, `,"attributes":`...), attributes)
	return append(b, `}}`...), err
}

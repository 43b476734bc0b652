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

	"github.com/skerrydb/skerry/graph/graphbinary"
	"github.com/skerrydb/skerry/graph/graphson"
	lang "github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/message"
	"github.com/skerrydb/skerry/graph/value"
)

// holdBytes is how large a result gets before it is sent: until then, the status
// of HTTP can say how the request ended.
const holdBytes = 64 << 10

// post answers one request over plain HTTP.
func (h *Handler) post(w http.ResponseWriter, r *http.Request) {
	to := &httpSink{h: h, w: w, id: randomUUID(), format: graphson.Typed, mime: graphson.MimeTyped}
	if err := h.protect.Check(r); err != nil {
		_ = to.fail(&Error{Status: http.StatusForbidden, Msg: err.Error()})
		return
	}
	q, bad := h.body(w, r)
	if other := to.negotiate(r, q); bad == nil {
		bad = other
	}
	user := ""
	if bad == nil {
		user, bad = h.basic(w, r)
	}
	s := &stream{codec: jsonCodec(to.format), to: to}
	if to.binary {
		s.codec = binaryCodec4()
	}
	var wk *work
	if bad == nil {
		wk, bad = httpWork(&h.o, q.args, s.codec.form|formHTTP)
	}
	if bad != nil {
		_ = to.fail(bad)
		return
	}
	wk.req.User, wk.body, to.bulked = user, q.raw, wk.traversers
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.stop, cancel)()
	if wk.session != "" {
		h.resume(ctx, wk, s)
		return
	}
	h.run(ctx, wk, s, func(ctx context.Context) error {
		if wk.tx == "begin" {
			s.traversers, to.bulked = false, false
			return h.open(ctx, wk, s)
		}
		return h.submit(ctx, wk, s)
	})
}

func randomUUID() (id value.UUID) {
	_, _ = rand.Read(id[:]) // never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}

// httpWork checks the arguments of a request over HTTP, which are those of text.
func httpWork(o *Options, args *value.Map, form byte) (*work, *Error) {
	a, w := &arguments{m: args}, &work{args: args, form: form, posted: true}
	a.common(o, w)
	a.script(w)
	if p := a.parameters(); p != nil && w.bindings == nil {
		w.bindings = p
	}
	if g := a.string("g"); g != "" {
		w.aliases = value.MapOf("g", g)
	}
	// JSON has no bulks.
	w.traversers = a.bool("bulkResults") && form == formHTTP|formBinary4
	if w.session = a.string("transactionId"); len(w.session) > MaxSessionID {
		a.fail("transactionId", "an id of at most 256 bytes", w.session)
	}
	return w, a.err
}

// parameters returns the values of names in the text. Drivers of TinkerPop 4 send
// the text of a map.
func (a *arguments) parameters() *value.Map {
	v, _ := a.m.Get("parameters")
	text, ok := v.(string)
	if !ok {
		return a.mapping("parameters")
	}
	m, err := lang.ParseMap(text)
	if err != nil && a.err == nil {
		a.err = errorf(StatusInvalid, "argument parameters: %v", err)
	}
	return m
}

// posted is the body of a request.
type posted struct {
	args   *value.Map
	raw    []byte // args in GraphSON, for the leader
	binary bool   // in GraphBinary
}

// body reads the arguments of a request, and adds those that headers have.
func (h *Handler) body(w http.ResponseWriter, r *http.Request) (q posted, bad *Error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	q.binary = kind == graphbinary.Mime4
	if err != nil || !q.binary && kind != graphson.MimeJSON && !strings.HasPrefix(kind, "application/vnd.gremlin-v") {
		return q, errorf(http.StatusUnsupportedMediaType, "expected a body of %s or %s", graphson.MimeJSON, graphbinary.Mime4)
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.o.MaxMessageBytes))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return q, errorf(http.StatusRequestEntityTooLarge, "expected a body of at most %d bytes", large.Limit)
	case err != nil:
		return q, errorf(StatusMalformed, "the body ended early")
	}
	args, err := decodeBody(b, q.binary)
	if err != nil {
		return q, errorf(StatusMalformed, "malformed request: %v", err)
	}
	if args == nil {
		return q, errorf(StatusMalformed, "malformed request: expected an object")
	}
	added, bad := addHeaders(args, r.Header)
	if bad != nil {
		return q, bad
	}
	if q.args, q.raw = args, b; added || q.binary {
		if q.raw, err = graphson.Typed.Append(nil, args); err != nil {
			return q, errorf(StatusMalformed, "malformed request: %v", err)
		}
	}
	return q, nil
}

// decodeBody returns the arguments of a request; nil if it is not an object.
func decodeBody(b []byte, binary bool) (*value.Map, error) {
	if binary {
		q, err := graphbinary.DecodeRequest4(b)
		return q.Args, err
	}
	v, err := graphson.Decode(b)
	m, _ := v.(*value.Map)
	return m, err
}

// addHeaders adds the arguments that headers of drivers of TinkerPop 4 have, and
// reports whether there are any that were not there.
func addHeaders(args *value.Map, h http.Header) (added bool, bad *Error) {
	if _, ok := args.Get("bulkResults"); !ok && h.Get("bulkResults") == "true" {
		args.Set("bulkResults", true)
		added = true
	}
	id := h.Get("X-Transaction-Id")
	if id == "" {
		return added, nil
	}
	switch own, _ := args.Get("transactionId"); own {
	case id:
		return added, nil
	case nil:
		args.Set("transactionId", id)
		return true, nil
	}
	return added, errorf(StatusInvalid, "argument transactionId: expected the id of the header X-Transaction-Id")
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

// httpSink writes a result as one JSON text, or in GraphBinary 4. Once it is too large
// to be held back, it is written as it comes, and its end has the status.
type httpSink struct {
	h      *Handler
	w      http.ResponseWriter
	id     value.UUID
	format graphson.Format
	binary bool // GraphBinary 4, instead of format
	bulked bool // with how often each value occurs
	mime   string
	items  []byte
	n      int
	begun  bool
}

// negotiate chooses the format of the answer: by Accept, or by how the request
// names its source, which only drivers of TinkerPop 4 do. Without Accept, a request in
// GraphBinary is answered in the same.
func (s *httpSink) negotiate(r *http.Request, q posted) *Error {
	four := false
	if q.args != nil {
		_, four = q.args.Get("g")
	}
	accepts := r.Header.Values("Accept")
	if len(accepts) == 0 {
		accepts = []string{"*/*"}
	}
	for _, one := range strings.Split(strings.Join(accepts, ","), ",") {
		kind, params, err := mime.ParseMediaType(one)
		if err != nil {
			continue
		}
		untyped, every := params["types"] == "false", kind == "*/*" || kind == "application/*"
		switch {
		case kind == graphbinary.Mime4, q.binary && every:
			s.binary, s.mime = true, graphbinary.Mime4
		case kind == "application/vnd.gremlin-v4.0+json", four && (kind == graphson.MimeJSON || every):
			s.format, s.mime = graphson.Untyped4, graphson.MimeUntyped4
			if kind != "application/vnd.gremlin-v4.0+json" {
				s.mime = graphson.MimeJSON
			}
		case kind == graphson.MimeTyped && untyped:
			s.format, s.mime = graphson.Untyped, graphson.MimeUntyped
		case kind == graphson.MimeTyped:
			s.mime = graphson.MimeTyped
		case kind == graphson.MimeJSON, every:
			s.mime = graphson.MimeJSON
			if untyped {
				s.format = graphson.Untyped
			}
		default:
			continue
		}
		return nil
	}
	return errorf(http.StatusNotAcceptable, "expected Accept with %s, %s, %s or %s", graphson.MimeJSON, graphson.MimeTyped, graphson.MimeUntyped4, graphbinary.Mime4)
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
	if s.n > 0 && n > 0 && !s.binary {
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
	if s.binary {
		return string(graphbinary.AppendHead4(nil, s.bulked))
	}
	if s.format == graphson.Typed {
		return `{"result":{"data":{"@type":"g:List","@value":[`
	}
	return `{"result":{"data":[`
}

// finish writes what is left and how the request ended.
func (s *httpSink) finish(e *Error) error {
	if !s.begun {
		s.head(httpStatus(e.Status))
		if s.format != graphson.Untyped4 && !s.binary {
			p := &message.Response{ID: s.id, Status: e.Status, Message: e.Msg, Attributes: e.Attributes}
			b, err := s.format.AppendItems(nil, p, s.items, s.n)
			if err != nil {
				return err
			}
			return s.write(b, false)
		}
		s.items = append([]byte(s.opening()), s.items...)
	}
	if s.binary {
		return s.write(s.closing4(e), false)
	}
	b, err := s.closing(append(s.items, ']'), e)
	if err != nil {
		return err
	}
	return s.write(b, false)
}

// closing4 returns what is left of a result in GraphBinary. Drivers of TinkerPop 4 know
// the statuses of HTTP only; the exception is the code.
func (s *httpSink) closing4(e *Error) []byte {
	code := ""
	if e.Attributes != nil {
		v, _ := e.Attributes.Get("code")
		code, _ = v.(string)
	}
	return graphbinary.AppendEnd4(s.items, httpStatus(e.Status), e.Msg, code)
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

// Package problem defines errors over HTTP: the one map from codes to statuses, and the body of an error
// response (RFC 9457).
//
// It knows codes, statuses and what a client may know; it must not know routes, requests, or how an error
// looks in a browser.
package problem

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/skerrydb/skerry/engine"
)

// Codes of failures that only HTTP has. They are as stable as the engine's.
const (
	CodeBodyIncomplete   engine.Code = "body_incomplete"
	CodeBodyTimeout      engine.Code = "body_timeout"
	CodeBodyTooLarge     engine.Code = "body_too_large"
	CodeCanceled         engine.Code = "canceled"
	CodeCrossOrigin      engine.Code = "cross_origin"
	CodeForbidden        engine.Code = "forbidden"
	CodeHostRefused      engine.Code = "host_refused"
	CodeLengthRequired   engine.Code = "length_required"
	CodeMediaType        engine.Code = "media_type"
	CodeMethodNotAllowed engine.Code = "method_not_allowed"
	CodeNoRoute          engine.Code = "no_route"
	CodeRateLimited      engine.Code = "rate_limited"
	CodeTimeout          engine.Code = "timeout"
)

// Catalog returns the codes that this package adds to engine.Catalog, sorted.
func Catalog() []engine.Meaning {
	return []engine.Meaning{
		{Code: CodeBodyIncomplete, Kind: engine.KindInvalid, Retryable: true, Text: "the request's body is malformed or ended early; nothing was written"},
		{Code: CodeBodyTimeout, Kind: engine.KindInvalid, Retryable: true, Text: "the request's body did not arrive in time; nothing was written"},
		{Code: CodeBodyTooLarge, Kind: engine.KindTooLarge, Text: "the request's body is over its limit; nothing was written"},
		{Code: CodeCanceled, Kind: engine.KindInvalid, Retryable: true, Text: "the client gave up before the call began; nothing was written"},
		{Code: CodeCrossOrigin, Kind: engine.KindForbidden, Text: "a browser sent the request for a page of another origin"},
		{Code: CodeForbidden, Kind: engine.KindForbidden, Text: "the client may not do that"},
		{Code: CodeHostRefused, Kind: engine.KindInvalid, Text: "without a password, or in debug mode, the server does not accept that host name"},
		{Code: CodeLengthRequired, Kind: engine.KindInvalid, Text: "a write has neither Content-Length nor a chunked body"},
		{Code: CodeMediaType, Kind: engine.KindInvalid, Text: "the body's Content-Encoding or Content-Type is not supported here"},
		{Code: CodeMethodNotAllowed, Kind: engine.KindInvalid, Text: "the resource does not support that method; Allow lists those it does"},
		{Code: CodeNoRoute, Kind: engine.KindNotFound, Text: "there is no such resource"},
		{Code: CodeRateLimited, Kind: engine.KindRateLimited, Retryable: true, Text: "too many requests or attempts; Retry-After gives the time to wait"},
		{Code: CodeTimeout, Kind: engine.KindUnavailable, Text: "the response took too long; what the request had done by then stays done"},
	}
}

// statusClientGone is nginx's status for a client that closed its request. It appears in logs and metrics,
// rarely at a client.
const statusClientGone = 499

// statusOf is the one map from codes to HTTP. The kind of a code decides, except for codes of this package for
// which HTTP has a specific status. An unknown kind is 500.
func statusOf(m engine.Meaning) int {
	switch m.Code {
	case CodeBodyTimeout:
		return http.StatusRequestTimeout
	case CodeCanceled:
		return statusClientGone
	case CodeHostRefused:
		return http.StatusMisdirectedRequest
	case CodeLengthRequired:
		return http.StatusLengthRequired
	case CodeMediaType:
		return http.StatusUnsupportedMediaType
	case CodeMethodNotAllowed:
		return http.StatusMethodNotAllowed
	}
	if status, ok := statuses()[m.Kind]; ok {
		return status
	}
	return http.StatusInternalServerError
}

// statuses maps kinds to HTTP. An unknown outcome is 500 because many clients repeat 502 to 504 on their own,
// and only the caller can decide to repeat such a request.
func statuses() map[engine.Kind]int {
	return map[engine.Kind]int{
		engine.KindInternal:        http.StatusInternalServerError,
		engine.KindInvalid:         http.StatusBadRequest,
		engine.KindUnauthenticated: http.StatusUnauthorized,
		engine.KindCredentials:     http.StatusUnauthorized,
		engine.KindForbidden:       http.StatusForbidden,
		engine.KindReadOnly:        http.StatusForbidden,
		engine.KindNotFound:        http.StatusNotFound,
		engine.KindConflict:        http.StatusConflict,
		engine.KindContention:      http.StatusConflict,
		engine.KindGone:            http.StatusGone,
		engine.KindPrecondition:    http.StatusPreconditionFailed,
		engine.KindTooLarge:        http.StatusRequestEntityTooLarge,
		engine.KindRefused:         http.StatusUnprocessableEntity,
		engine.KindRateLimited:     http.StatusTooManyRequests,
		engine.KindUnknownOutcome:  http.StatusInternalServerError,
		engine.KindUnsupported:     http.StatusNotImplemented,
		engine.KindUpstream:        http.StatusBadGateway,
		engine.KindUnavailable:     http.StatusServiceUnavailable,
		engine.KindBusy:            http.StatusServiceUnavailable,
		engine.KindBehind:          http.StatusServiceUnavailable,
		engine.KindNoLeader:        http.StatusServiceUnavailable,
		engine.KindStopped:         http.StatusServiceUnavailable,
		engine.KindMemoryFull:      http.StatusInsufficientStorage,
		engine.KindDiskFull:        http.StatusInsufficientStorage,
	}
}

// Outcome is the HTTP response to an error with a code.
type Outcome struct {
	engine.Meaning
	Status int
}

// Outcomes are the outcomes of all codes that a handler knows. They are complete before the first request, and
// read-only then.
type Outcomes map[engine.Code]Outcome

// All returns the outcomes of the codes of engine, of this package, and of the given catalogs: those of the
// packages whose errors a handler may return.
func All(catalogs ...[]engine.Meaning) Outcomes {
	all := Outcomes{}
	for _, catalog := range append([][]engine.Meaning{engine.Catalog(), Catalog()}, catalogs...) {
		all.Add(catalog)
	}
	return all
}

// Add adds the codes of a catalog.
func (all Outcomes) Add(catalog []engine.Meaning) {
	for _, m := range catalog {
		all[m.Code] = Outcome{m, statusOf(m)}
	}
}

// Of returns the outcome of a code; an unknown code is internal.
func (all Outcomes) Of(code engine.Code) Outcome {
	if o, ok := all[code]; ok {
		return o
	}
	return all[engine.CodeInternal]
}

// Type is the Content-Type of a Problem.
const Type = "application/problem+json"

// Problem is the body of an error response, RFC 9457 as application/problem+json.
type Problem struct {
	Title     string      `json:"title"`  // the status in words
	Status    int         `json:"status"` // as in the status line
	Code      engine.Code `json:"code"`   // stable; for programs
	Detail    string      `json:"detail"` // for people; may change
	Retryable bool        `json:"retryable"`
	RequestID string      `json:"request_id"`
	Errors    []Fault     `json:"errors,omitempty"`
	// Cause is the full text of the error, which users must not see. Only applications in debug mode set it,
	// for their developers.
	Cause string `json:"cause,omitempty"`
	// Message and Error repeat Detail for clients that read only these; see ForInfluxDB.
	Message string `json:"message,omitempty"`
	Error   string `json:"error,omitempty"`
}

// Repeat sets Message and Error.
func (p *Problem) Repeat() { p.Message, p.Error = p.Detail, p.Detail }

// forInfluxDB is an error whose response has Message and Error.
type forInfluxDB struct{ error }

func (e forInfluxDB) Unwrap() error { return e.error }

// ForInfluxDB returns err, if it is not nil, for a response whose text InfluxDB's clients find: those of version 1 read
// it from the member error, those of version 2 from message.
func ForInfluxDB(err error) error {
	if err == nil {
		return nil
	}
	return forInfluxDB{err}
}

// Fault is one thing that is wrong with a request. At most one of Pointer (into a body), Parameter (of the
// query or the path) and Header is set; if none is, the fault concerns the whole body.
type Fault struct {
	Pointer   string      `json:"pointer,omitempty"`
	Parameter string      `json:"parameter,omitempty"`
	Header    string      `json:"header,omitempty"`
	Code      engine.Code `json:"code"`
	Detail    string      `json:"detail"`
}

// Faults is an error about the named parts of a request; there is at least one. Its code is that of the first.
type Faults []Fault

// Error implements error.
func (f Faults) Error() string { return f.Unwrap().Error() }

// Unwrap exposes the first fault to engine.CodeOf.
func (f Faults) Unwrap() error {
	text := f[0].Detail
	if where := f[0].Pointer + f[0].Parameter + f[0].Header; where != "" {
		text = where + ": " + text
	}
	return &engine.Error{Code: f[0].Code, Msg: text}
}

// Hidden reports whether the message of an error is for the log only, because it can name files.
func (o Outcome) Hidden() bool {
	return o.Status == http.StatusInternalServerError || o.Status == http.StatusInsufficientStorage ||
		o.Code == engine.CodeStopped
}

// Describe returns what a client may know of err. It leaves the request's id empty.
func (all Outcomes) Describe(err error) Problem {
	code := engine.CodeOf(err)
	coded, ok := errors.AsType[*engine.Error](err)
	if !ok && errors.Is(err, context.Canceled) {
		code = CodeCanceled
	}
	o := all.Of(code)
	own, is := errors.AsType[WithStatus](err)
	if is = is && own.HTTPStatus() >= 400 && own.HTTPStatus() <= 599; is {
		o = all.outcomeOf(own.HTTPStatus(), code, ok)
	}
	p := o.Problem()
	if is && !ok && !o.Hidden() {
		p.Detail = own.Error()
	}
	if ok && !o.Hidden() {
		p.Detail = coded.Msg
	}
	if d, ok := errors.AsType[WithDetail](err); ok {
		p.Detail = d.PublicDetail()
	}
	if f, ok := errors.AsType[Faults](err); ok {
		p.Errors = f
	}
	p.clean()
	if _, ok := errors.AsType[forInfluxDB](err); ok {
		p.Repeat()
	}
	return p
}

// Problem returns the response for a code if nothing more is known.
func (o Outcome) Problem() Problem {
	p := Problem{Code: o.Code, Status: o.Status, Detail: o.Text, Retryable: o.Retryable}
	p.Title = titleOf(p.Status)
	return p
}

// Write responds with p. It removes headers that were set for another response. If a write fails, the client
// is gone.
func (p Problem) Write(w http.ResponseWriter) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(p); err != nil {
		panic("BUG: encode problem: " + err.Error())
	}
	h := w.Header()
	p.Headers(h)
	h.Set("Content-Type", Type)
	w.WriteHeader(p.Status)
	_, _ = w.Write(body.Bytes())
}

// Headers turns h into the headers of an error response, except for its Content-Type.
func (p Problem) Headers(h http.Header) {
	for _, name := range []string{"Content-Disposition", "Content-Encoding", "Content-Length", "ETag", "Last-Modified", "Trailer"} {
		h.Del(name) // of the response that was not sent
	}
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if p.Retryable && p.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
}

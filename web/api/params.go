package api

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/web/problem"
)

// Skerry's own headers, in net/http's spelling.
const (
	nodeHeader     = "X-Skerry-Node"     // id of the node that responded
	positionHeader = "X-Skerry-Position" // position of the response's state; in a request: the least
	expiresHeader  = "X-Skerry-Expires"  // when the key expires, RFC 3339 in UTC
	ttlHeader      = "X-Skerry-Ttl"      // like the parameter ttl
)

// query parses the parameters of r. Only those in allowed may be given, each once. A misspelt parameter must
// not be ignored: ?tll=30s would keep a key forever.
func query(r *http.Request, allowed ...string) (url.Values, error) {
	if r.URL.RawQuery == "" {
		return nil, nil
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, engine.Errorf(engine.CodeInvalid, "the query is malformed: %w", err)
	}
	var wrong problem.Faults
	for name, vals := range q {
		switch {
		case !slices.Contains(allowed, name):
			detail := "there is no such parameter here"
			if len(allowed) > 0 {
				detail += ", only " + strings.Join(allowed, ", ")
			}
			wrong = append(wrong, problem.Fault{Parameter: name, Code: engine.CodeInvalid, Detail: detail})
		case len(vals) > 1:
			wrong = append(wrong, problem.Fault{Parameter: name, Code: engine.CodeInvalid, Detail: "the parameter is repeated"})
		}
	}
	if wrong != nil {
		slices.SortFunc(wrong, func(a, b problem.Fault) int { return strings.Compare(a.Parameter, b.Parameter) })
		return nil, wrong
	}
	return q, nil
}

// keyQuery parses the parameters of a request for keys. Operators may give their space; for a forwarded
// request, the other node has checked that.
func (x *operation) keyQuery(r *http.Request, allowed ...string) (url.Values, error) {
	if x.space = 0; r.URL.RawQuery == "" {
		return nil, nil
	}
	if x.fromNode || operator(x.c) {
		allowed = append(allowed, "space")
	}
	q, err := query(r, allowed...)
	if err != nil || !q.Has("space") {
		return q, err
	}
	n, err := strconv.ParseUint(q.Get("space"), 10, 8)
	if err != nil || n > uint64(MaxSpace) {
		return nil, badParameter("space", engine.CodeInvalid, "must be a whole number from 0 to "+strconv.Itoa(MaxSpace))
	}
	x.space = uint8(n)
	return q, nil
}

func badParameter(name string, code engine.Code, detail string) error {
	return problem.Faults{{Parameter: name, Code: code, Detail: detail}}
}

func badHeader(name string, code engine.Code, detail string) error {
	return problem.Faults{{Header: name, Code: code, Detail: detail}}
}

// single returns the value of a header that may be given once. name is in net/http's spelling.
func single(h http.Header, name string) (val string, ok bool, err error) {
	switch vals := h[name]; len(vals) {
	case 0:
		return "", false, nil
	case 1:
		return vals[0], true, nil
	}
	return "", false, badHeader(name, engine.CodeInvalid, "the header is repeated")
}

// readOf returns how new the response to r must be.
func readOf(r *http.Request, q url.Values) (engine.Read, error) {
	var read engine.Read
	if q.Has("read") {
		switch q.Get("read") {
		case "linearizable":
		case "session":
			read.Level = engine.Session
		case "local":
			read.Level = engine.Local
		default:
			return read, badParameter("read", engine.CodeInvalid, "must be linearizable, session or local")
		}
	}
	if q.Has("max_stale") {
		var err error
		if read.MaxStale, err = maxStaleOf(q.Get("max_stale")); err != nil {
			return read, err
		}
		if read.Level != engine.Local {
			return read, badParameter("max_stale", engine.CodeInvalid, "requires read=local")
		}
	}
	text, ok, err := single(r.Header, positionHeader)
	if err != nil || !ok {
		return read, err
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return read, badHeader(positionHeader, engine.CodeInvalid, "must be a whole number, such as this header in a response")
	}
	read.AtLeast = engine.Position(n)
	return read, nil
}

// maxStaleOf parses how old a local read may be.
func maxStaleOf(text string) (time.Duration, error) {
	d, err := duration(text)
	switch {
	case errors.Is(err, strconv.ErrRange) || d > MaxStaleness:
		return 0, badParameter("max_stale", engine.CodeLimit, "must be at most "+MaxStaleness.String())
	case err != nil || d <= 0:
		return 0, badParameter("max_stale", engine.CodeInvalid, "must be a duration greater than zero such as 500ms or 5s, or a whole number of seconds")
	}
	return d, nil
}

// duration parses a duration in Go's syntax, or a whole number of seconds. One that is too long for a
// time.Duration is strconv.ErrRange.
func duration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil {
		return d, nil
	}
	// Not ParseDuration of text+"s": that would accept 1e3 and 1h30.
	s, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return 0, strconv.ErrSyntax
	case s > int64(maxTTL/time.Second):
		return 0, strconv.ErrRange
	}
	return time.Duration(max(s, -1)) * time.Second, nil
}

// expiryOf returns the lifetime of the key that r sets: from the parameter ttl or the header, not both. "keep"
// keeps the expiry; otherwise it is a duration in Go's syntax (1h30m, 500ms) or a whole number of seconds.
func expiryOf(r *http.Request, q url.Values) (kv.SetOptions, error) {
	o := kv.SetOptions{SkipOld: true}
	text, ok, err := single(r.Header, ttlHeader)
	if err != nil {
		return o, err
	}
	bad := func(code engine.Code, detail string) error { return badHeader(ttlHeader, code, detail) }
	if q.Has("ttl") {
		if ok {
			return o, badHeader(ttlHeader, engine.CodeInvalid, "the parameter ttl and this header exclude each other")
		}
		text, ok = q.Get("ttl"), true
		bad = func(code engine.Code, detail string) error { return badParameter("ttl", code, detail) }
	}
	switch {
	case !ok:
		return o, nil
	case text == "keep":
		o.KeepTTL = true
		return o, nil
	}
	o.TTL, err = duration(text)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return o, bad(engine.CodeLimit, "a time to live must be at most about 292 years")
	case err != nil:
		return o, bad(engine.CodeInvalid, "a time to live must be a duration such as 90s or 1h30m, a whole number of seconds, or keep; at most about 292 years")
	case o.TTL <= 0:
		return o, bad(engine.CodeInvalid, "a time to live must be greater than zero; DELETE deletes a key")
	}
	return o, nil
}

// maxTTL is the longest time.Duration.
const maxTTL = time.Duration(1<<63 - 1)

// Package transfers serves the data of a running server to `skerry move` on another machine, which reads it as a
// transfer.Source with Client.
//
// It knows the encoding of a Source's calls over HTTP; it must not know what is moved, or where to.
package transfers

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/gob"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/transfer"
	"github.com/skerrydb/skerry/web"
)

// Paths of the routes.
const (
	AboutPath   = "/transfer"
	RangePath   = "/transfer/range"
	SumPath     = "/transfer/sum"
	ChangesPath = "/transfer/changes"
	MarkPath    = "/transfer/mark"
)

// maxBody bounds a response: one step of a move, with the longest value.
const maxBody = 64 << 20

// Face serves one engine.
type Face struct{ src transfer.Source }

// New returns a Face on eng.
func New(eng engine.Engine) *Face { return &Face{transfer.Of(eng)} }

// marked is the response to a mark.
type marked struct {
	Pos engine.Position
	At  time.Time
}

// About serves Source.About.
func (f *Face) About(c *web.Context) error {
	a, err := f.src.About(c)
	return respond(c, a, err)
}

// Range serves Source.Range.
func (f *Face) Range(c *web.Context) error {
	q, err := parse(c.Request.URL.Query())
	if err != nil {
		return err
	}
	r, err := f.src.Range(c, q.lo, q.hi, q.at)
	return respond(c, r, err)
}

// Sum serves Source.Sum.
func (f *Face) Sum(c *web.Context) error {
	q, err := parse(c.Request.URL.Query())
	if err != nil {
		return err
	}
	s, err := f.src.Sum(c, q.lo, q.hi, q.at)
	return respond(c, s, err)
}

// Changes serves Source.Changes.
func (f *Face) Changes(c *web.Context) error {
	q, err := parse(c.Request.URL.Query())
	if err != nil {
		return err
	}
	list, err := f.src.Changes(c, q.after, q.at)
	return respond(c, list, err)
}

// Mark serves Source.Mark.
func (f *Face) Mark(c *web.Context) error {
	q := c.Request.URL.Query()
	run, err := strconv.Atoi(q.Get("run"))
	if err != nil {
		return engine.Errorf(engine.CodeInvalid, "the parameter run is malformed: %w", err)
	}
	var m marked
	m.Pos, m.At, err = f.src.Mark(c, transfer.Mark{Move: q.Get("move"), To: q.Get("to"), Run: run, Fenced: q.Get("fenced") == "1", Ended: q.Get("ended") == "1"})
	return respond(c, m, err)
}

// respond sends v, or returns err.
func respond(c *web.Context, v any, err error) error {
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(v); err != nil {
		return err
	}
	h := c.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(b.Len()))
	c.Writer.WriteHeader(http.StatusOK)
	_, _ = c.Writer.Write(b.Bytes()) // an error means that the client is gone
	return nil
}

// query has the parameters of reads.
type query struct {
	lo, hi    []byte
	at, after engine.Position
}

func (q query) encode() string {
	v := url.Values{"lo": {base64.RawURLEncoding.EncodeToString(q.lo)}, "at": {text(q.at)}, "after": {text(q.after)}}
	if q.hi != nil {
		v.Set("hi", base64.RawURLEncoding.EncodeToString(q.hi))
	}
	return "?" + v.Encode()
}

func text(p engine.Position) string { return strconv.FormatUint(uint64(p), 10) }

func parse(v url.Values) (q query, err error) {
	bad := func(name string, err error) error {
		return engine.Errorf(engine.CodeInvalid, "the parameter %s is malformed: %w", name, err)
	}
	for name, to := range map[string]*[]byte{"lo": &q.lo, "hi": &q.hi} {
		if !v.Has(name) {
			continue
		}
		if *to, err = base64.RawURLEncoding.DecodeString(v.Get(name)); err != nil {
			return q, bad(name, err)
		}
	}
	for name, to := range map[string]*engine.Position{"at": &q.at, "after": &q.after} {
		if !v.Has(name) {
			continue
		}
		n, err := strconv.ParseUint(v.Get(name), 10, 64)
		if err != nil {
			return q, bad(name, err)
		}
		*to = engine.Position(n)
	}
	return q, nil
}

// Client is the Source that a Face on another machine serves. Its Ask sends one request and returns the body of
// the response, or the server's error with its code.
type Client struct {
	Ask func(ctx context.Context, method, path string) (io.ReadCloser, error)
}

func get[T any](ctx context.Context, c Client, method, path string) (v T, err error) {
	body, err := c.Ask(ctx, method, path)
	if err != nil {
		return v, err
	}
	defer body.Close()
	if err := gob.NewDecoder(io.LimitReader(body, maxBody)).Decode(&v); err != nil {
		return v, engine.Errorf(engine.CodeUnavailable, "the server's response to %s was cut off or is not of this version: %w", path, err)
	}
	return v, nil
}

// About implements transfer.Source.
func (c Client) About(ctx context.Context) (transfer.About, error) {
	return get[transfer.About](ctx, c, http.MethodGet, AboutPath)
}

// Range implements transfer.Source.
func (c Client) Range(ctx context.Context, lo, hi []byte, atLeast engine.Position) (transfer.Range, error) {
	return get[transfer.Range](ctx, c, http.MethodGet, RangePath+query{lo: lo, hi: hi, at: atLeast}.encode())
}

// Sum implements transfer.Source.
func (c Client) Sum(ctx context.Context, lo, hi []byte, atLeast engine.Position) (transfer.Sum, error) {
	return get[transfer.Sum](ctx, c, http.MethodGet, SumPath+query{lo: lo, hi: hi, at: atLeast}.encode())
}

// Changes implements transfer.Source.
func (c Client) Changes(ctx context.Context, after, to engine.Position) ([]engine.Change, error) {
	return get[[]engine.Change](ctx, c, http.MethodGet, ChangesPath+query{after: after, at: to}.encode())
}

// Mark implements transfer.Source.
func (c Client) Mark(ctx context.Context, m transfer.Mark) (engine.Position, time.Time, error) {
	v := url.Values{"move": {m.Move}, "to": {m.To}, "run": {strconv.Itoa(m.Run)}}
	for name, set := range map[string]bool{"fenced": m.Fenced, "ended": m.Ended} {
		if set {
			v.Set(name, "1")
		}
	}
	r, err := get[marked](ctx, c, http.MethodPost, MarkPath+"?"+v.Encode())
	return r.Pos, r.At, err
}

package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/conditions"
	"github.com/skerrydb/skerry/web/lane"
	"github.com/skerrydb/skerry/web/problem"
)

// onKey returns a handler for the key in the path, which may be any bytes. h runs on this node, or the leader
// serves the request. h may be called again after it returned ErrNotLeader, or ErrOutcomeUnknown if the
// request is repeatable.
func (a *app) onKey(h func(x *operation, r *http.Request) error) web.Handler {
	return a.operation(func(x *operation, r *http.Request) error {
		key := r.URL.Path[len(dbPath):]
		if len(key) > kv.MaxKeyBytes {
			return engine.Errorf(engine.CodeKeyTooLarge, "key of %d bytes is over the limit of %d", len(key), kv.MaxKeyBytes)
		}
		x.key = append(x.key[:0], key...)
		return x.here(r, h)
	})
}

func (x *operation) getKey(r *http.Request) error {
	q, err := x.keyQuery(r, "read", "max_stale")
	if err != nil {
		return err
	}
	read, err := readOf(r, q)
	if err != nil {
		return err
	}
	if x.cond, err = conditions.Of(r.Header); err != nil {
		return err
	}
	x.head = r.Method == http.MethodHead
	pos, err := x.view(r, read, x.getFn)
	if err != nil {
		x.kept = true
		return err
	}
	if !x.found {
		x.setPosition(pos)
		return engine.ErrNotFound
	}
	h := x.Header()
	h["Cache-Control"] = x.app.noCache // revalidate with If-None-Match
	if x.unchanged {
		x.stamp(pos, -1)
		x.WriteHeader(http.StatusNotModified)
		return nil
	}
	x.stamp(pos, len(x.entry.Val))
	h["Content-Type"] = x.app.octets
	h["X-Content-Type-Options"] = x.app.noSniff
	x.WriteHeader(http.StatusOK)
	if !x.head {
		_, _ = x.Write(x.val) // an error means that the client is gone
	}
	return nil
}

// view runs fn on a snapshot that is as new as read requires, and waits a bounded time for it.
func (x *operation) view(r *http.Request, read engine.Read, fn func(*kv.Tx) error) (engine.Position, error) {
	ctx := r.Context()
	if read.AtLeast != 0 {
		bounded, cancel := context.WithTimeout(ctx, PositionWait)
		defer cancel()
		ctx = bounded
	}
	pos, err := x.app.store.View(ctx, read, x.space, fn)
	if err != nil && ctx != r.Context() && errors.Is(err, context.DeadlineExceeded) {
		err = engine.Errorf(engine.CodePositionTimeout, "this server did not reach position %d within %v", read.AtLeast, PositionWait)
	}
	return pos, err
}

// get is getKey's transaction. It leaves a copy of the value in x.val, unless it is not needed.
func (x *operation) get(t *kv.Tx) (err error) {
	if x.entry, x.found, err = t.Get(x.key); err != nil || !x.found {
		return err
	}
	if x.unchanged, err = x.cond.AllowRead("key", uint64(x.entry.Rev)); err != nil || x.unchanged || x.head {
		return err
	}
	if n := int64(len(x.entry.Val)); n > smallBody && x.reserved < n {
		if err := x.reserve(n - x.reserved); err != nil {
			return err
		}
	}
	x.val = append(x.val[:0], x.entry.Val...)
	return nil
}

func (x *operation) setKey(r *http.Request) error {
	q, err := x.keyQuery(r, "ttl")
	if err != nil {
		return err
	}
	if x.set, err = expiryOf(r, q); err != nil {
		return err
	}
	if err := x.writeConditions(r); err != nil {
		return err
	}
	if len(x.key) == 0 {
		return engine.ErrKeyEmpty
	}
	if !x.gathered {
		if err := x.readBody(r, bodyLimit{kv.MaxValBytes, engine.CodeValueTooLarge, "the value is"}); err != nil {
			return err
		}
		x.gathered = true
	}
	x.deleting, x.writeFn = false, x.setFn
	pos, err := x.write(r)
	if err != nil {
		return err
	}
	x.stamp(pos, -1)
	if x.replaced {
		x.WriteHeader(http.StatusNoContent)
		return nil
	}
	x.Header()["Content-Length"] = x.app.zero
	x.WriteHeader(http.StatusCreated)
	return nil
}

// write runs x.writeFn as a transaction if this node may, and only once if the request has an Idempotency-Key.
func (x *operation) write(r *http.Request) (engine.Position, error) {
	if err := lane.Tried(r.Context()); err != nil && !x.tried {
		x.tried = true // by fastSet; a repetition runs here
		return 0, err
	}
	if x.othersLead() {
		return 0, engine.ErrNotLeader
	}
	fn := x.writeFn
	if x.once.key != nil {
		x.sumUp(r)
		fn = x.onceFn
	}
	pos, err := x.app.store.Update(r.Context(), x.space, fn)
	if err != nil {
		// The call may have been abandoned while it waited to run: then the engine still has x.
		x.kept = true
		return 0, err
	}
	if x.once.replayed {
		x.Header()[conditions.ReplayedHeader] = []string{"true"}
	}
	if x.once.verdict != nil {
		x.setPosition(pos)
	}
	return pos, x.once.verdict
}

// put is setKey's transaction.
func (x *operation) put(t *kv.Tx) error {
	if x.cond.Given() {
		e, _, err := t.Get(x.key)
		if err != nil {
			return err
		}
		if err := x.cond.AllowWrite("key", uint64(e.Rev)); err != nil {
			return err
		}
	}
	res, err := t.Set(x.key, x.val, x.set)
	if err != nil {
		return err
	}
	x.replaced, x.entry = res.HadOld, kv.Entry{Rev: res.Rev}
	if x.set.TTL != 0 || x.set.KeepTTL {
		x.entry, _, err = t.Get(x.key) // for its expiry
		x.entry.Val = nil
	}
	return err
}

func (x *operation) deleteKey(r *http.Request) error {
	if _, err := x.keyQuery(r); err != nil {
		return err
	}
	if err := x.writeConditions(r); err != nil {
		return err
	}
	if len(x.key) == 0 {
		return engine.ErrKeyEmpty
	}
	x.deleting, x.writeFn = true, x.deleteFn
	pos, err := x.write(r)
	if err != nil {
		return err
	}
	x.setPosition(pos)
	if !x.found {
		return engine.ErrNotFound
	}
	x.WriteHeader(http.StatusNoContent)
	return nil
}

// del is deleteKey's transaction.
func (x *operation) del(t *kv.Tx) (err error) {
	if !x.cond.Given() {
		x.found, err = t.Delete(x.key)
		return err
	}
	e, ok, err := t.Get(x.key)
	if x.found = ok; err != nil || !ok {
		return err // a missing key is 404, whatever the condition
	}
	if err := x.cond.AllowWrite("key", uint64(e.Rev)); err != nil {
		return err
	}
	_, err = t.Delete(x.key)
	return err
}

// writeConditions reads the conditions of a write. It refuses headers that would silently be ignored.
func (x *operation) writeConditions(r *http.Request) (err error) {
	h := r.Header
	switch {
	case h["If-Unmodified-Since"] != nil:
		return badHeader("If-Unmodified-Since", engine.CodeInvalid, "times are too coarse to guard a write; use If-Match with the ETag")
	case h["Content-Range"] != nil:
		return badHeader("Content-Range", engine.CodeInvalid, "not supported: a value must be written as a whole")
	case h["Content-Encoding"] != nil && !slices.Equal(h["Content-Encoding"], []string{"identity"}):
		return badHeader("Content-Encoding", problem.CodeMediaType, "a value is stored without its encoding: send it unencoded, or leave the header out")
	}
	if x.once.key, err = conditions.Once(h); err != nil {
		return err
	}
	x.cond, err = conditions.Of(r.Header)
	return err
}

// stamp sets the headers that describe x.entry at pos: ETag, position, expiry, and Content-Length unless
// length is negative. All their text shares one string, and all their slices one array.
func (x *operation) stamp(pos engine.Position, length int) {
	b := append(x.text[:0], '"')
	b = strconv.AppendUint(b, uint64(x.entry.Rev), 10)
	b = append(b, '"')
	etag := len(b)
	b = strconv.AppendUint(b, uint64(pos), 10)
	position := len(b)
	if length >= 0 {
		b = strconv.AppendInt(b, int64(length), 10)
	}
	size := len(b)
	if !x.entry.Expires.IsZero() {
		b = appendTime(b, x.entry.Expires)
	}
	x.text = b
	text, vals, h := string(b), make([]string, 4), x.Header()
	vals[0], vals[1], vals[2], vals[3] = text[:etag], text[etag:position], text[position:size], text[size:]
	h["Etag"] = vals[0:1:1]
	h[positionHeader] = vals[1:2:2]
	if length >= 0 {
		h["Content-Length"] = vals[2:3:3]
	}
	if vals[3] != "" {
		h[expiresHeader] = vals[3:4:4]
	}
}

func (x *operation) setPosition(pos engine.Position) {
	x.Header()[positionHeader] = []string{strconv.FormatUint(uint64(pos), 10)}
}

// appendTime appends t in UTC with milliseconds, the format of expiries.
func appendTime(b []byte, t time.Time) []byte {
	return t.UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z")
}

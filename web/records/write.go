package records

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/conditions"
)

// DefaultRememberFor is the default of Options.RememberFor.
const DefaultRememberFor = 24 * time.Hour

// answer is the response to a write, as an Idempotency-Key stores it. In the data: do not change.
type answer struct {
	Status   int             `json:"status"`
	Rev      uint64          `json:"rev,omitempty"`
	Location string          `json:"location,omitempty"`
	Body     json.RawMessage `json:"body,omitempty"`  // nil: none
	Short    json.RawMessage `json:"short,omitempty"` // instead of a Body that is too long to be stored
}

// set sets the answer to a record, which is valid only within its transaction.
func (a *answer) set(status int, r *record.Record) {
	a.Status, a.Rev, a.Body = status, r.Rev, r.AppendJSON(a.Body[:0])
	a.Short = append(strconv.AppendQuote([]byte(`{"id":`), r.ID), '}')
}

// send responds.
func (a *answer) send(c *web.Context) error {
	if a.Rev != 0 {
		c.Header()["Etag"] = []string{etag(a.Rev)}
	}
	if a.Location != "" {
		c.Header()["Location"] = []string{a.Location}
	}
	if a.Body == nil {
		return c.NoContent()
	}
	return respond(c, a.Status, a.Body)
}

func etag(rev uint64) string { return strconv.Quote(strconv.FormatUint(rev, 10)) }

// once is the Idempotency-Key of a request.
type once struct {
	key []byte            // nil: there is none
	sum [sha256.Size]byte // of the request
}

// onceOf returns the Idempotency-Key of a request, which consists of its method, address, conditions and parts. Each
// user has separate keys.
func onceOf(c *web.Context, a record.Actor, parts ...[]byte) (o once, err error) {
	h := c.Request.Header
	given, err := conditions.Once(h)
	if given == nil || err != nil {
		return o, err
	}
	u := c.Request.URL
	o.sum = digest(append([][]byte{[]byte(c.Request.Method), []byte(u.Path), []byte(u.RawQuery),
		[]byte(strings.Join(h["If-Match"], ",")), []byte(strings.Join(h["If-None-Match"], ","))}, parts...)...)
	key := digest([]byte("records"), []byte(a.ID), strconv.AppendBool(nil, a.System), given)
	o.key = key[:]
	return o, nil
}

func digest(parts ...[]byte) [sha256.Size]byte {
	var b []byte
	for _, p := range parts {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(p))), p...)
	}
	return sha256.Sum256(b)
}

// recall reads the stored answer to the request and reports whether there is one.
func (o *once) recall(tx *kv.Tx, to *answer) (bool, error) {
	was, ok, err := tx.Recall(o.key)
	if !ok || err != nil {
		return false, err
	}
	if was.Sum != o.sum {
		return false, engine.Errorf(engine.CodeKeyReused, "the %s was used before with another request; nothing was written", conditions.OnceHeader)
	}
	*to = answer{}
	if err := json.Unmarshal(was.Answer, to); err != nil {
		return false, engine.Errorf(engine.CodeCorrupt, "read a stored response: %w", err)
	}
	if to.Short != nil {
		to.Body, to.Short = to.Short, nil
	}
	return true, nil
}

// remember stores the answer to the request.
func (o *once) remember(tx *kv.Tx, a answer, ttl time.Duration) error {
	if len(a.Body) > kv.MaxOnceAnswerBytes-2<<10 {
		a.Body = nil
	} else {
		a.Short = nil
	}
	b, err := json.Marshal(a)
	if err != nil {
		return engine.Errorf(engine.CodeInternal, "encode a response: %w", err)
	}
	return tx.Remember(o.key, kv.Answered{Sum: o.sum, Answer: b}, ttl)
}

// write runs fn, which sets the answer, in a transaction on behalf of the client, and responds. With an
// Idempotency-Key, the transaction runs only once; parts are the parts of the request's body.
func (f *Face) write(c *web.Context, fn func(tx *record.Tx, a *answer) error, parts ...[]byte) error {
	actor, err := f.actor(c)
	if err != nil {
		return err
	}
	o, err := onceOf(c, actor, parts...)
	if err != nil {
		return err
	}
	if o.key != nil {
		if err := f.db.Alone("the header " + conditions.OnceHeader); err != nil {
			return err
		}
	}
	var a answer
	var replayed bool
	_, err = f.db.Update(c, actor, func(tx *record.Tx) error {
		if o.key == nil {
			return fn(tx, &a)
		}
		var err error
		keys := kv.In(tx.Engine(), 0)
		if replayed, err = o.recall(keys, &a); replayed || err != nil {
			return err
		}
		if err := fn(tx, &a); err != nil {
			return err
		}
		return o.remember(keys, a, f.o.RememberFor)
	})
	if err != nil {
		return err
	}
	if replayed {
		c.Header()[conditions.ReplayedHeader] = []string{"true"}
	}
	return a.send(c)
}

// writeOne carries out op under the conditions of the request. If the path names a record, op applies to it.
func (f *Face) writeOne(c *web.Context, status int, op record.Op, parts ...[]byte) error {
	cond, err := conditions.Of(c.Request.Header)
	if err != nil {
		return err
	}
	if cond.Given() {
		op.Check = func(rev uint64) error { return cond.AllowWrite("record", rev) }
	}
	op.Collection = name(c)
	return f.write(c, func(tx *record.Tx, a *answer) error {
		all, err := tx.Do(op)
		if e, ok := errors.AsType[*record.OpError](err); ok {
			return e.Err
		} else if err != nil {
			return err
		}
		*a = answer{Status: status, Body: a.Body}
		if status == http.StatusNoContent {
			a.Body = nil
			return nil
		}
		a.set(status, all[0])
		if status == http.StatusCreated {
			a.Location = f.o.Prefix + "/" + op.Collection + "/" + url.PathEscape(all[0].ID)
		}
		return nil
	}, parts...)
}

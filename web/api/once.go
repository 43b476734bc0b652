package api

import (
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/web/conditions"
)

// DefaultRememberFor is Options.RememberFor if that is 0.
const DefaultRememberFor = 24 * time.Hour

// once is the state of a request with an Idempotency-Key.
type once struct {
	key      []byte // nil: the request has none
	sum      [sha256.Size]byte
	replayed bool  // the response is that of an earlier request
	verdict  error // the write was refused permanently: the response
}

// Values of the first byte of a stored response; do not change.
const (
	answeredCreated  = 1
	answeredReplaced = 2
	answeredDeleted  = 3
	answeredAbsent   = 4
	answeredRefused  = 5 // a condition did not hold; the text follows
)

// sumUp stores in x.once.sum the hash that identifies this request: method, key, body, expiry, conditions and
// space. It is stored with the response; do not change.
func (x *operation) sumUp(r *http.Request) {
	b := []byte{1}
	field := func(s string) {
		b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	field(r.Method)
	field(string(x.key))
	if r.Method != http.MethodDelete {
		keep := byte(0)
		if x.set.KeepTTL {
			keep = 1
		}
		b = append(binary.BigEndian.AppendUint64(b, uint64(x.set.TTL)), keep)
		body := sha256.Sum256(x.val)
		b = append(b, body[:]...)
	}
	field(strings.Join(r.Header["If-Match"], ","))
	field(strings.Join(r.Header["If-None-Match"], ","))
	if x.space != 0 {
		b = append(b, x.space)
	}
	x.once.sum = sha256.Sum256(b)
}

// doOnce is the transaction of a write with an Idempotency-Key. It repeats the stored response, or runs
// x.writeFn and stores the response.
func (x *operation) doOnce(t *kv.Tx) error {
	x.once.replayed, x.once.verdict = false, nil
	was, ok, err := t.Recall(x.once.key)
	if err != nil {
		return err
	}
	if ok {
		if was.Sum != x.once.sum {
			return engine.Errorf(engine.CodeKeyReused, "the %s was used before with another method, key, body, time to live, condition or space; nothing was written", conditions.OnceHeader)
		}
		x.once.replayed = true
		return x.recall(was.Answer)
	}
	err = x.writeFn(t)
	if err != nil && engine.CodeOf(err) != engine.CodePreconditionFailed {
		return err // nothing was decided: the same key may try again
	}
	x.once.verdict = err
	return t.Remember(x.once.key, kv.Answered{Sum: x.once.sum, Answer: x.answered()}, x.app.o.RememberFor)
}

// answered returns the response of x in the form that recall reads.
func (x *operation) answered() []byte {
	b := make([]byte, 1, 64)
	switch {
	case x.once.verdict != nil:
		b[0] = answeredRefused
		text := x.c.Detail(x.once.verdict)
		return append(b, text[:min(len(text), kv.MaxOnceAnswerBytes-1)]...)
	case x.deleting && !x.found:
		b[0] = answeredAbsent
		return b
	case x.deleting:
		b[0] = answeredDeleted
		return b
	case x.replaced:
		b[0] = answeredReplaced
	default:
		b[0] = answeredCreated
	}
	ms := int64(0)
	if !x.entry.Expires.IsZero() {
		ms = x.entry.Expires.UnixMilli()
	}
	b = binary.BigEndian.AppendUint64(b, uint64(x.entry.Rev))
	return binary.BigEndian.AppendUint64(b, uint64(ms))
}

// recall makes x respond as it did when answered returned b.
func (x *operation) recall(b []byte) error {
	if len(b) == 0 {
		return engine.Errorf(engine.CodeCorrupt, "read a stored response: it is empty")
	}
	kind, b := b[0], b[1:]
	switch kind {
	case answeredRefused:
		x.once.verdict = engine.Errorf(engine.CodePreconditionFailed, "%s", b)
		return nil
	case answeredAbsent, answeredDeleted:
		x.found = kind == answeredDeleted
		return nil
	case answeredCreated, answeredReplaced:
	default:
		return engine.Errorf(engine.CodeFormatNewer, "read a stored response: unknown kind %d", kind)
	}
	if len(b) != 16 {
		return engine.Errorf(engine.CodeCorrupt, "read a stored response: %d bytes, not 16", len(b))
	}
	x.replaced = kind == answeredReplaced
	x.entry = kv.Entry{Rev: kv.Revision(binary.BigEndian.Uint64(b))}
	if ms := int64(binary.BigEndian.Uint64(b[8:])); ms != 0 {
		x.entry.Expires = time.UnixMilli(ms).UTC()
	}
	return nil
}

package proc

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// onceCall is the additional state of a call with a key.
type onceCall struct {
	key      []byte
	sum      [sha256.Size]byte
	buf      []byte        // input of the checksum
	answer   []byte        // in its remembered form
	verdict  *engine.Error // the error, if the answer is one
	replayed bool
}

// First byte of a remembered answer; do not change.
const (
	answerResult = 'r' // then the result as JSON
	answerError  = 'e' // followed by the length of the code as a uvarint, the code and the text
)

// maxErrorText is the maximum number of bytes of an error's text that are remembered.
const maxErrorText = 4096

// forget clears the answer but not the request.
func (o *onceCall) forget() {
	o.answer, o.verdict, o.replayed = o.answer[:0], nil, false
}

func (o *onceCall) reset() {
	o.forget()
	o.key = o.key[:0]
	if cap(o.buf) > keepScratch {
		o.buf = nil
	}
	if cap(o.answer) > keepScratch {
		o.answer = nil
	}
}

// result returns the JSON of a remembered result.
func (o *onceCall) result() []byte { return o.answer[1:] }

// Once makes c run at most once under key. The answer, which is the result or the error of
// the procedure, is stored in the same transaction as its effects. A later call with the
// same key, procedure and arguments returns that answer and changes nothing. Once must be
// called after the arguments are set. key is not retained. A key that is empty or longer
// than kv.MaxOnceKeyBytes is CodeInvalid.
//
// Run then returns CodeKeyReused if the key was used with another procedure or other
// arguments, and CodeLimit if the result is too large to be remembered (its JSON may have
// up to kv.MaxOnceAnswerBytes less one). In both cases nothing is written. A call that only
// reads is not remembered.
//
// An error is remembered if the procedure decided on it: any error that is not an
// engine.Error, one with a code of the program, or procedure_failed, invalid, not_found,
// precondition_failed, not_integer and overflow. All other errors (a limit, out of memory,
// a panic) decide nothing, so a call with the same key may try again. The same applies if
// the engine cannot undo the writes of a failed procedure; see engine.Savepointer.
func (c *Call) Once(key []byte) error {
	if len(key) == 0 || len(key) > kv.MaxOnceKeyBytes {
		return engine.Errorf(engine.CodeInvalid, "an idempotency key must have 1 to %d bytes", kv.MaxOnceKeyBytes)
	}
	c.once.key = append(c.once.key[:0], key...)
	if c.ReadOnly() {
		return nil
	}
	s := sum{b: append(c.once.buf[:0], sumFormat...)}
	s.BulkString(c.proc.schema.Name)
	if err := s.arguments(c); err != nil {
		return engine.Errorf(engine.CodeInvalid, "hash the arguments of %s: %w", c.proc.schema.Name, err)
	}
	c.once.buf = s.b
	c.once.sum = sha256.Sum256(s.b)
	return nil
}

// Replayed reports whether Run returned the answer of an earlier call.
func (c *Call) Replayed() bool { return c.once.replayed }

// runOnce runs c, or recalls its earlier answer.
func (c *Call) runOnce(t *Tx) error {
	was, ok, err := t.KV(0).Recall(c.once.key)
	switch {
	case err != nil:
		return err
	case ok && was.Sum != c.once.sum:
		return engine.Errorf(engine.CodeKeyReused, "the key was used before with another procedure or other arguments; nothing was written")
	case ok:
		err := c.recall(was.Answer)
		t.replayed = err == nil
		return err
	}
	sp := t.savepoint()
	err = t.outcome(c.frame.run(t))
	switch {
	case err == nil:
		c.once.answer = append(c.once.answer[:0], answerResult)
		if c.once.answer, err = c.appendJSON(c.once.answer, min(kv.MaxOnceAnswerBytes-1, c.set.o.MaxResult)); err != nil {
			return err
		}
	case !isVerdict(err) || t.rollback(sp) != nil:
		return err
	default:
		t.verdict = true
		c.once.verdict = verdictOf(err)
		c.once.answer = appendError(c.once.answer[:0], c.once.verdict)
	}
	return t.KV(0).Remember(c.once.key, kv.Answered{Sum: c.once.sum, Answer: c.once.answer}, c.set.o.RememberFor)
}

// recall sets the answer of c to the remembered one.
func (c *Call) recall(answer []byte) error {
	c.once.answer = append(c.once.answer[:0], answer...)
	if len(answer) > 0 {
		switch answer[0] {
		case answerResult:
			c.once.replayed = true
			return nil
		case answerError:
			n, size := binary.Uvarint(answer[1:])
			if rest := answer[1+max(size, 0):]; size > 0 && n <= uint64(len(rest)) {
				c.once.verdict = &engine.Error{Code: engine.Code(rest[:n]), Msg: string(rest[n:])}
				c.once.replayed = true
				return nil
			}
		}
	}
	return engine.Errorf(engine.CodeCorrupt, "read the remembered answer of a call: it is not from a procedure")
}

// isVerdict reports whether err is the procedure's decision and not a failure to decide.
func isVerdict(err error) bool {
	switch code := engine.CodeOf(err); code {
	case engine.CodeProcedureFailed, engine.CodeInvalid, engine.CodeNotFound, engine.CodePreconditionFailed, engine.CodeNotInteger, engine.CodeOverflow:
		return true
	default:
		for _, m := range engine.Catalog() {
			if m.Code == code {
				return false
			}
		}
		return true
	}
}

// verdictOf returns err as it will be remembered, with code and text, so that the first and
// later calls return the same.
func verdictOf(err error) *engine.Error {
	code := engine.CodeOf(err)
	text := strings.TrimSuffix(err.Error(), " ["+string(code)+"]")
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText], "") + "…"
	}
	return &engine.Error{Code: code, Msg: text, Err: err}
}

func appendError(b []byte, e *engine.Error) []byte {
	b = append(b, answerError)
	b = binary.AppendUvarint(b, uint64(len(e.Code)))
	return append(append(b, e.Code...), e.Msg...)
}

// sum is a Sink that collects the input of the checksum that identifies a request: the
// procedure and the parsed arguments, so that positional text and JSON of the same call
// match. The checksum is stored with the answer: do not change.
type sum struct {
	b []byte
	w writer
}

// sumFormat is the beginning of the checksum's input. Other users of kv.Tx.Remember begin
// differently.
const sumFormat = "procedure\x00\x01"

// arguments adds all arguments except optional ones that are missing, so that a new version
// of the program may add optional arguments.
func (s *sum) arguments(c *Call) error {
	in := c.frame.in()
	s.w = writer{sink: s, left: math.MaxInt}
	for i := range c.proc.args.fields {
		f := &c.proc.args.fields[i]
		v, ok := f.of(in)
		if !ok || f.optional && v.IsZero() {
			continue
		}
		s.BulkString(f.name)
		if err := s.w.value(f.plan, v); err != nil {
			return err
		}
	}
	return nil
}

// Null implements Sink.
func (s *sum) Null() { s.b = append(s.b, 'n') }

// Bool implements Sink.
func (s *sum) Bool(v bool) {
	if v {
		s.b = append(s.b, 't')
	} else {
		s.b = append(s.b, 'f')
	}
}

// Int implements Sink.
func (s *sum) Int(v int64) { s.b = binary.BigEndian.AppendUint64(append(s.b, 'i'), uint64(v)) }

// Double implements Sink.
func (s *sum) Double(v float64) {
	s.b = binary.BigEndian.AppendUint64(append(s.b, 'd'), math.Float64bits(v))
}

// Bulk implements Sink.
func (s *sum) Bulk(v []byte) {
	s.b = append(binary.AppendUvarint(append(s.b, 's'), uint64(len(v))), v...)
}

// BulkString implements Sink.
func (s *sum) BulkString(v string) {
	s.b = append(binary.AppendUvarint(append(s.b, 's'), uint64(len(v))), v...)
}

// Array implements Sink.
func (s *sum) Array(n int) { s.b = binary.AppendUvarint(append(s.b, 'a'), uint64(n)) }

// Map implements Sink.
func (s *sum) Map(n int) { s.b = binary.AppendUvarint(append(s.b, 'm'), uint64(n)) }

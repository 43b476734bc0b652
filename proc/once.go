package proc

import (
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// Once makes c a call that is carried out once under key: the answer, its result
// or the error that it returned, is kept with its effects, and the same key with
// the same procedure and arguments gets that answer and changes nothing. It is
// called after the arguments are set. key is not kept. The same key with another
// procedure or arguments is CodeKeyReused; a result that is too large to be
// remembered (kv.MaxOnceAnswerBytes) is CodeLimit and nothing is written. A call
// that only reads is not remembered.
func (c *Call) Once(key []byte) error {
	if len(key) == 0 || len(key) > kv.MaxOnceKeyBytes {
		return engine.Errorf(engine.CodeInvalid, "a key of a call has 1 to %d bytes", kv.MaxOnceKeyBytes)
	}
	c.once.key = append(c.once.key[:0], key...)
	return nil
}

// Replayed reports whether Run gave the answer of an earlier call.
func (c *Call) Replayed() bool { return false }

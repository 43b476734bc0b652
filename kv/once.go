package kv

import (
	"crypto/sha256"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/keyspace"
)

// OnceSpace is the space in which Remember stores the responses of requests that must run
// only once, under one key per request. The keys are those of the requests, and they
// expire. No face exposes the space to clients.
const OnceSpace = keyspace.Once

// Limits of what is remembered. Going over one is CodeLimit.
const (
	// MaxOnceKeyBytes is the longest idempotency key, in bytes.
	MaxOnceKeyBytes = 255
	// MaxOnceAnswerBytes is the longest result, in bytes, that is remembered.
	MaxOnceAnswerBytes = 64 << 10
)

// onceFormat is the first byte of every remembered response; do not change.
const onceFormat = 1

// Answered is the remembered result of a request that has run.
type Answered struct {
	Sum    [sha256.Size]byte // of the request, to detect a different one under the same key
	Answer []byte            // the response that was passed to Remember; valid as long as Entry.Val
}

// Recall returns what Remember stored under key, and whether it exists and has not expired.
// It uses OnceSpace, whatever space t is in.
func (t *Tx) Recall(key []byte) (Answered, bool, error) {
	if err := checkOnceKey(key); err != nil {
		return Answered{}, false, err
	}
	back := t.space
	t.space = OnceSpace
	e, ok, err := t.Get(key)
	t.space = back
	if err != nil || !ok {
		return Answered{}, false, err
	}
	switch {
	case len(e.Val) < 1+sha256.Size:
		return Answered{}, false, engine.Errorf(engine.CodeCorrupt, "read a stored response: %d bytes are too few", len(e.Val))
	case e.Val[0] != onceFormat:
		return Answered{}, false, engine.Errorf(engine.CodeFormatNewer, "read a stored response: unknown format %d", e.Val[0])
	}
	return Answered{Sum: [sha256.Size]byte(e.Val[1:]), Answer: e.Val[1+sha256.Size:]}, true, nil
}

// Remember stores a under key for ttl, in the same transaction as the effects of the
// request: either both are committed or neither is. It replaces an earlier value. ttl must
// be greater than zero.
func (t *Tx) Remember(key []byte, a Answered, ttl time.Duration) error {
	if err := checkOnceKey(key); err != nil {
		return err
	}
	switch {
	case ttl <= 0:
		return engine.Errorf(engine.CodeInvalid, "a response must be stored for more than 0s, not for %v", ttl)
	case len(a.Answer) > MaxOnceAnswerBytes:
		return engine.Errorf(engine.CodeLimit, "a response of %d bytes is over the limit of %d for stored responses", len(a.Answer), MaxOnceAnswerBytes)
	}
	val := make([]byte, 0, 1+len(a.Sum)+len(a.Answer))
	val = append(append(append(val, onceFormat), a.Sum[:]...), a.Answer...)
	back := t.space
	t.space = OnceSpace
	_, err := t.Set(key, val, SetOptions{TTL: ttl, SkipOld: true})
	t.space = back
	return err
}

func checkOnceKey(key []byte) error {
	switch {
	case len(key) == 0:
		return engine.Errorf(engine.CodeInvalid, "an idempotency key must have at least one byte")
	case len(key) > MaxOnceKeyBytes:
		return engine.Errorf(engine.CodeLimit, "an idempotency key of %d bytes is over the limit of %d", len(key), MaxOnceKeyBytes)
	}
	return nil
}

package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/records"
)

// maxAttempts is how often a part of an import is sent without a response that settles it. firstPause is the pause after the
// first attempt; each further one is twice as long, 8 s together.
const (
	maxAttempts = 6
	firstPause  = 250 * time.Millisecond
)

func newKey() string { return "import-" + rand.Text() }

// send sends a part, again if the connection was lost or the server cannot respond for now. A part that is written has an
// Idempotency-Key, so it is written once. An error is an uncertain one if the part may have been written nevertheless.
func (o *importOptions) send(ctx context.Context, path string, header http.Header, body []byte) (records.Imported, error) {
	pause, lost := firstPause, false
	for i := 1; ; i++ {
		in, err := o.sendOnce(ctx, path, header, body)
		no, refused := errors.AsType[*refusal](err)
		switch {
		case err == nil:
			return in, nil
		case refused && !no.Retryable && no.Code != engine.CodeOutcomeUnknown:
			return in, err // also if a response was lost: one that was written would be repeated
		case !refused && !reached(err) && i == 1:
			return in, err // no server is there, rather than one that restarts
		}
		lost = lost || refused && no.Code == engine.CodeOutcomeUnknown || !refused && reached(err)
		if lost {
			err = uncertain{err}
		}
		if i == maxAttempts {
			return in, err
		}
		select {
		case <-ctx.Done():
			return in, err
		case <-time.After(pause):
			pause *= 2
		}
	}
}

// uncertain is the error of a request that may have been carried out.
type uncertain struct{ error }

func (u uncertain) Unwrap() error { return u.error }

// reached reports whether a request that failed with err may have reached a server.
func reached(err error) bool {
	at, ok := errors.AsType[*net.OpError](err)
	return !ok || at.Op != "dial"
}

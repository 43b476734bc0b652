// Package requestid identifies requests, for responses and logs.
//
// It knows the format of ids and makes new ones; it must not know requests, or where an id is written.
package requestid

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"sync/atomic"
)

// MaxBytes is the longest id that is accepted from a client.
const MaxBytes = 64

// Source makes ids that are unique across runs of the program. It is safe for concurrent use.
type Source struct {
	run string
	n   atomic.Uint64
}

// New returns a Source for a new run.
func New() *Source {
	var b [6]byte
	rand.Read(b[:]) // never fails
	return &Source{run: hex.EncodeToString(b[:]) + "-"}
}

// Run returns the prefix of all ids of this Source.
func (s *Source) Run() string { return s.run }

// Next returns a new id.
func (s *Source) Next() string { return s.run + strconv.FormatUint(s.n.Add(1), 10) }

// Good reports whether a client's id may appear in responses and logs: letters, digits and any of "-_.", up to
// MaxBytes.
func Good(id string) bool {
	if id == "" || len(id) > MaxBytes {
		return false
	}
	for _, c := range []byte(id) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}

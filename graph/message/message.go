// Package message has the requests and responses of Gremlin drivers.
//
// It knows what a message has in it, and the bounds of what is read. It must not
// know how messages are encoded, transported or answered.
package message

import (
	"fmt"

	"github.com/skerrydb/skerry/graph/value"
)

// Bounds of a message that is read. Each bounds work or memory that a short
// message could ask for.
const (
	// MaxDepth is how deeply values may be nested.
	MaxDepth = 128
	// MaxValues is how many values a message may have, counting those within others.
	MaxValues = 1 << 20
	// MaxKeyDepth is how deeply keys of maps and items of sets may be nested in each
	// other. Each of them is hashed with all that is in it.
	MaxKeyDepth = 16
	// MaxBigBytes is the largest size of an integer of any size, and of a decimal
	// number without its scale.
	MaxBigBytes = 4096
	// MaxScale is the largest scale of a decimal number, positive or negative.
	MaxScale = value.MaxDigits
	// MaxYear is the largest year, positive or negative, as in Java.
	MaxYear = 999_999_999
	// MaxZone is the largest offset from UTC in seconds, as in Java.
	MaxZone = 18 * 60 * 60
)

// Request is what a driver asks for.
type Request struct {
	ID        value.UUID
	Op        string // eval, bytecode, authentication, close
	Processor string // "", traversal, session
	// Args are by name. A traversal in bytecode is a *gremlin.Traversal. Args is nil
	// if the request could not be read so far.
	Args *value.Map
}

// Response is one of the responses to a request. All but the last have status
// 206.
type Response struct {
	ID         value.UUID
	Status     int
	Message    string
	Attributes *value.Map // of the status; may be nil
	Meta       *value.Map // of the result; may be nil
	Result     any        // a value.List; nil: none
}

// Traverser is a value that occurs Bulk times in a result.
type Traverser struct {
	Bulk int64
	Val  any
}

// Error is why a message could not be read.
type Error struct {
	Offset int // in bytes, from the message's beginning
	Msg    string
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("at byte %d: %s", e.Offset, e.Msg) }

package schema

import (
	"fmt"
	"strings"
)

// Problem is an error in a description or in data.
type Problem struct {
	Pointer string // to the faulty value (RFC 6901): /fields/2/max, /title
	Code    string // a stable name, one of those below
	Detail  string // for people
}

// Codes of problems. They are part of the public API and do not change.
const (
	CodeRequired = "required"  // a value is missing
	CodeType     = "type"      // a value of another type
	CodeTooSmall = "too_small" // below Min
	CodeTooLarge = "too_large" // above Max, or above a limit
	CodePattern  = "pattern"   // does not match Pattern, or the form of the type
	CodeOption   = "option"    // none of Options
	CodeUnknown  = "unknown"   // a name that nothing has
	CodeRepeated = "repeated"  // what may be there only once
	CodeInvalid  = "invalid"   // anything else
)

// Problems is an error that lists up to MaxProblems problems. It is never empty.
type Problems []Problem

// Error returns the first problem and the number of the others.
func (p Problems) Error() string {
	text := strings.TrimPrefix(p[0].Pointer+": "+p[0].Detail, ": ")
	if more := len(p) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// add appends a problem unless there are MaxProblems already.
func (p *Problems) add(pointer, code, format string, args ...any) {
	if len(*p) < MaxProblems {
		*p = append(*p, Problem{pointer, code, fmt.Sprintf(format, args...)})
	}
}

// err returns p as an error, nil if it is empty.
func (p Problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return p
}

// Pointer returns the JSON Pointer (RFC 6901) to a member of an object.
func Pointer(name string) string {
	if !strings.ContainsAny(name, "~/") {
		return "/" + name
	}
	return "/" + strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

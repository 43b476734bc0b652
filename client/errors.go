package client

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// Codes of errors that the client itself detects. Errors of the server have the codes of
// its catalog, or codes that the procedure chose.
const (
	CodeClosed          = "client_closed"
	CodeOutcomeUnknown  = "outcome_unknown"
	CodeTooManyInFlight = "too_many_in_flight"
	CodeUnavailable     = "unavailable"
	CodeTimeout         = "timeout"
	CodeCancelled       = "cancelled"
	CodeInvalid         = "invalid"
	CodeLimit           = "limit"
	CodeInCallback      = "in_callback"
	CodeNotLeader       = "not_leader"
	CodeWrongType       = "wrong_type"
)

// Server codes that the client handles.
const (
	codeUnauthenticated = "unauthenticated"
	codeReadOnly        = "read_only"
)

// Error is a failed call. Under errors.Is, two Errors match if their codes are equal, so
// the variables below match any message.
type Error struct {
	Code string // stable: from the catalog, the procedure, or one of the above
	Kind string // first word of a server's error, for example ERR; "" for the client's own errors
	Msg  string // human-readable, without kind and code
	Node string // address of the node that returned the error or was asked; may be ""
	Err  error  // cause for errors.Is and errors.As, or nil; its text is in Msg
}

// Sentinels for errors.Is.
var (
	// ErrOutcomeUnknown: the call was sent and may or may not have run.
	ErrOutcomeUnknown = &Error{Code: CodeOutcomeUnknown, Msg: "outcome unknown"}
	// ErrClosed: the client was closed. A call that was sent before matches
	// ErrOutcomeUnknown too.
	ErrClosed = &Error{Code: CodeClosed, Msg: "the client is closed"}
	// ErrTooManyInFlight: Options.MaxInFlight calls are in flight; nothing was sent.
	ErrTooManyInFlight = &Error{Code: CodeTooManyInFlight, Msg: "too many calls are in flight"}
	// ErrUnavailable: no node could be reached in time. Nothing was sent, except possibly a
	// call that only reads and has broken MaxBrokenSends connections.
	ErrUnavailable = &Error{Code: CodeUnavailable, Msg: "no node can be reached"}
	// ErrTimeout: the call timed out; nothing was changed.
	ErrTimeout = &Error{Code: CodeTimeout, Msg: "the call timed out"}
	// ErrCancelled: the context of the call was cancelled; nothing was changed.
	ErrCancelled = &Error{Code: CodeCancelled, Msg: "the call was cancelled"}
	// ErrInvalid: an argument, an option or a URL is malformed.
	ErrInvalid = &Error{Code: CodeInvalid, Msg: "invalid argument"}
	// ErrLimit: a command or a reply exceeds a limit.
	ErrLimit = &Error{Code: CodeLimit, Msg: "over a limit"}
	// ErrInCallback: a blocking call was made in a callback, where it could wait for
	// itself.
	ErrInCallback = &Error{Code: CodeInCallback, Msg: "a blocking call in a callback would wait for itself"}
	// ErrWrongType: a result is not of the requested type.
	ErrWrongType = &Error{Code: CodeWrongType, Msg: "the result has a different type"}
)

// Error returns kind, message and code in the server's format.
func (e *Error) Error() string {
	s := e.Msg
	if e.Kind != "" {
		s = e.Kind + " " + s
	}
	if e.Code != "" {
		s += " [" + e.Code + "]"
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is an Error with the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// errorf returns an Error. An error wrapped with %w becomes its cause. If the cause has the
// same code or one of the client's own, its code is left out of the text.
func errorf(code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	e := &Error{Code: code, Msg: err.Error(), Err: errors.Unwrap(err)}
	if in, ok := errors.AsType[*Error](e.Err); ok && in.Code != "" && (in.Kind == "" || in.Code == code) {
		whole := in.Error()
		e.Msg = strings.Replace(e.Msg, whole, strings.TrimSuffix(whole, " ["+in.Code+"]"), 1)
	}
	return e
}

// writesFlag is the prefix of a server's error when a read-only call names a procedure that
// may write.
const writesFlag = "Can not execute a script with write flag"

// mayWrite rewrites the error to say that CallRead is only for procedures that read. A
// server's note about a node that runs another program is kept.
func (e *Error) mayWrite(name string) {
	if !strings.HasPrefix(e.Msg, writesFlag) {
		return
	}
	_, other, found := strings.Cut(e.Msg, " (node ")
	if name == rest {
		name = "the procedure"
	}
	e.Kind, e.Code, e.Msg = "", codeReadOnly, name+" may write: use Call"
	if found {
		e.Msg += " (node " + other
	}
}

// kindCode returns the code for an error that carries none, given its first word. It covers
// Redis's errors and those of servers that reject a client before authentication.
func kindCode(kind string) string {
	switch kind {
	case "NOAUTH", "WRONGPASS":
		return codeUnauthenticated
	case "NOPERM":
		return "forbidden"
	case "WRONGTYPE":
		return CodeWrongType
	case "OOM":
		return "memory_full"
	case "READONLY":
		return codeReadOnly
	case "BUSY", "LOADING", "MASTERDOWN", "TRYAGAIN":
		return "busy"
	case "MISCONF":
		return "stopped"
	case "CLUSTERDOWN":
		return CodeNotLeader
	case "MOVED", "ASK":
		return "moved"
	case "EXECABORT":
		return "aborted"
	}
	return "error"
}

// replyError makes an Error from the text of an error reply.
func replyError(text []byte, node string) *Error {
	e := &Error{Node: node}
	text = bytes.TrimRight(text, "\r\n")
	if word, rest, ok := bytes.Cut(text, []byte(" ")); ok && isKind(word) {
		e.Kind, text = string(word), rest
	}
	if n := len(text); n > 2 && text[n-1] == ']' {
		if i := bytes.LastIndexByte(text, '['); i >= 0 && i < n-2 && isCode(text[i+1:n-1]) {
			e.Code = string(text[i+1 : n-1])
			text = bytes.TrimRight(text[:i], " ")
		}
	}
	if e.Code == "" {
		e.Code = kindCode(e.Kind)
	}
	e.Msg = string(text)
	return e
}

// isKind reports whether word is in capitals, as the kind of an error is.
func isKind(word []byte) bool {
	for _, c := range word {
		if c < 'A' || c > 'Z' {
			return false
		}
	}
	return len(word) > 0
}

// isCode reports whether text can be a code: it has no spaces or brackets.
func isCode(text []byte) bool {
	for _, c := range text {
		if c <= ' ' || c == '[' || c == ']' || c > '~' {
			return false
		}
	}
	return len(text) <= 64
}

// saysNotLeader reports whether an error reply means that nothing was done and that another
// node, or the same one later, can run the call.
func saysNotLeader(text []byte) bool {
	return bytes.HasSuffix(text, []byte("[not_leader]")) ||
		bytes.HasPrefix(text, []byte("CLUSTERDOWN ")) || bytes.HasPrefix(text, []byte("MOVED "))
}

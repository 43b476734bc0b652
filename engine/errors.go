package engine

import (
	"errors"
	"fmt"
)

// Code is the stable name of a failure. Codes are part of the public API: a code is
// never renamed or given another meaning. Its Kind decides how the faces report it.
type Code string

// The codes of this package. Catalog explains each one and reports whether to try
// again.
const (
	CodeClosed             Code = "closed"
	CodeConflict           Code = "conflict"
	CodeCorrupt            Code = "corrupt"
	CodeCrossPartition     Code = "cross_partition"
	CodeDiskFull           Code = "disk_full"
	CodeFenced             Code = "fenced"
	CodeFilesFull          Code = "files_full"
	CodeFormatNewer        Code = "format_newer"
	CodeInternal           Code = "internal"
	CodeInvalid            Code = "invalid"
	CodeKeyReused          Code = "idempotency_key_reused"
	CodeKeyEmpty           Code = "key_empty"
	CodeKeyTooLarge        Code = "key_too_large"
	CodeLimit              Code = "limit"
	CodeLocked             Code = "locked"
	CodeMemoryFull         Code = "memory_full"
	CodeNotFound           Code = "not_found"
	CodeNotInteger         Code = "not_integer"
	CodeNotLeader          Code = "not_leader"
	CodeOutcomeUnknown     Code = "outcome_unknown"
	CodeOverflow           Code = "overflow"
	CodePositionTimeout    Code = "position_timeout"
	CodePreconditionFailed Code = "precondition_failed"
	CodeProcedureFailed    Code = "procedure_failed"
	CodeQueueFull          Code = "queue_full"
	CodeReadOnly           Code = "read_only"
	CodeStopped            Code = "stopped"
	CodeTruncated          Code = "truncated"
	CodeTxTooLarge         Code = "tx_too_large"
	CodeUnauthenticated    Code = "unauthenticated"
	CodeUnavailable        Code = "unavailable"
	CodeUnknownProcedure   Code = "unknown_procedure"
	CodeUnsupported        Code = "unsupported"
	CodeValueTooLarge      Code = "value_too_large"
)

// Kind is a class of failures. Each face maps kinds to its own protocol once: HTTP to a
// status, RESP to the first word of an error.
type Kind string

// The kinds. A package that declares a code gives it one of them in its Catalog.
const (
	KindInternal        Kind = "internal"        // a fault of the program or of its data
	KindInvalid         Kind = "invalid"         // the request is malformed or exceeds a limit
	KindUnauthenticated Kind = "unauthenticated" // the request does not prove who sent it
	KindCredentials     Kind = "credentials"     // the proof is wrong, incomplete or no longer valid
	KindForbidden       Kind = "forbidden"       // the caller is known and may not do that
	KindReadOnly        Kind = "read_only"       // a write where only reads are allowed
	KindNotFound        Kind = "not_found"       // what the request names does not exist
	KindConflict        Kind = "conflict"        // what the request would create exists
	KindContention      Kind = "contention"      // lost to concurrent calls; the same call may win later
	KindGone            Kind = "gone"            // it existed, and is no longer kept
	KindPrecondition    Kind = "precondition"    // a condition of the request does not hold
	KindTooLarge        Kind = "too_large"       // the request, or what it would store, is too large
	KindRefused         Kind = "refused"         // well formed, but not possible on this data
	KindRateLimited     Kind = "rate_limited"    // the caller has sent too many requests
	KindUnknownOutcome  Kind = "unknown_outcome" // the call may or may not have been carried out
	KindUnsupported     Kind = "unsupported"     // this server cannot do that
	KindUpstream        Kind = "upstream"        // another server failed or refused
	KindUnavailable     Kind = "unavailable"     // not possible at the moment
	KindBusy            Kind = "busy"            // too much is under way
	KindBehind          Kind = "behind"          // this node does not have data that new yet
	KindNoLeader        Kind = "no_leader"       // this node does not lead
	KindStopped         Kind = "stopped"         // this node has stopped and needs an operator
	KindMemoryFull      Kind = "memory_full"     // no memory left for the write
	KindDiskFull        Kind = "disk_full"       // no disk space left for the write
)

// Meaning explains one code.
type Meaning struct {
	Code      Code
	Kind      Kind
	Retryable bool   // the same call may succeed later; nothing was written
	Text      string // what happened, for docs and for people
}

// Catalog returns every code, sorted. docs/errors.md is printed from it.
func Catalog() []Meaning {
	return []Meaning{
		{CodeClosed, KindUnavailable, true, "the engine is shutting down; nothing was written"},
		{CodeConflict, KindContention, true, "the transaction conflicted with concurrent ones after all retries; nothing was written"},
		{CodeCorrupt, KindInternal, false, "stored data failed its checksum; the message names file and offset"},
		{CodeCrossPartition, KindUnsupported, false, "the transaction uses keys that this engine cannot change together; nothing was written"},
		{CodeDiskFull, KindDiskFull, true, "the disk has no room for the write; nothing was written"},
		{CodeFenced, KindUnavailable, true, "writes are stopped because the data is being moved to another engine, or has moved; nothing was written"},
		{CodeFilesFull, KindBusy, true, "too many files are open in the process or on the machine; nothing was written"},
		{CodeFormatNewer, KindInternal, false, "the data was written by a newer version of the program"},
		{CodeKeyReused, KindRefused, false, "the idempotency key was used before with another request; nothing was written"},
		{CodeInternal, KindInternal, false, "a fault in the program; details are in the server's log"},
		{CodeInvalid, KindInvalid, false, "an argument is malformed"},
		{CodeKeyEmpty, KindInvalid, false, "a key must have at least one byte"},
		{CodeKeyTooLarge, KindInvalid, false, "the key is longer than the engine's limit"},
		{CodeLimit, KindInvalid, false, "the request asks for more than a stated limit"},
		{CodeLocked, KindInternal, false, "another process has the data folder open"},
		{CodeMemoryFull, KindMemoryFull, true, "the write would grow the data beyond the memory limit; nothing was written"},
		{CodeNotFound, KindNotFound, false, "there is no such key"},
		{CodeNotInteger, KindRefused, false, "the value is not a number of the required kind"},
		{CodeNotLeader, KindNoLeader, true, "this node does not lead; nothing was written"},
		{CodeOutcomeUnknown, KindUnknownOutcome, false, "the call was cut off after it began: it may or may not have been committed"},
		{CodeOverflow, KindRefused, false, "the number would leave its range"},
		{CodePositionTimeout, KindBehind, true, "the requested position was not reached in time"},
		{CodePreconditionFailed, KindPrecondition, false, "the key's revision is not the expected one; nothing was written"},
		{CodeProcedureFailed, KindRefused, false, "the procedure returned an error; nothing was written"},
		{CodeQueueFull, KindBusy, true, "too many calls are waiting; nothing was written"},
		{CodeReadOnly, KindReadOnly, false, "a write inside a read-only view"},
		{CodeStopped, KindStopped, false, "the disk failed while committing; the node has stopped and must be restarted"},
		{CodeTruncated, KindGone, false, "the change history after that position is no longer kept; read everything again"},
		{CodeTxTooLarge, KindTooLarge, false, "one transaction writes or reads more than the engine's limit; nothing was written"},
		{CodeUnauthenticated, KindUnauthenticated, false, "the request has no valid credentials"},
		{CodeUnavailable, KindUnavailable, true, "the database behind the engine cannot be reached, or refuses work for now; nothing was written"},
		{CodeUnknownProcedure, KindNotFound, false, "the program has no procedure of that name"},
		{CodeUnsupported, KindUnsupported, false, "the engine does not make the required promise"},
		{CodeValueTooLarge, KindTooLarge, false, "the value is longer than the engine's limit"},
	}
}

// Error is a failure with a stable code. Two Errors match under errors.Is when
// their codes are equal, so the sentinels below work for any message. A nil one
// that has become an error is an error without a code: its methods say so.
type Error struct {
	Code Code
	Msg  string // for people, whole: begins in lower case, no full stop
	Err  error  // cause for errors.Is and errors.As, or nil; its text is in Msg
}

// Error returns the message followed by the code in brackets.
func (e *Error) Error() string {
	if e == nil {
		return "a nil *engine.Error"
	}
	return e.Msg + " [" + string(e.Code) + "]"
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// Is reports whether target is an Error of the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t != nil && e != nil && t.Code == e.Code
}

// Errorf returns a new Error. An error wrapped with %w in format becomes its cause.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Msg: err.Error(), Err: errors.Unwrap(err)}
}

// CodeOf returns the code of the first Error in err's tree, "" for nil and
// CodeInternal for any other error.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok && e != nil {
		return e.Code
	}
	return CodeInternal
}

// Retryable reports whether the call that returned err may be tried again.
func Retryable(err error) bool {
	code := CodeOf(err)
	for _, m := range Catalog() {
		if m.Code == code {
			return m.Retryable
		}
	}
	return false
}

// Passes reports whether background work that failed with err goes on when it is repeated: the call may be tried again, or nobody knows
// whether it was committed, as when the leader of a cluster is deposed. The work must look itself at what has been done. An engine that
// is closed does not open again.
func Passes(err error) bool {
	return (Retryable(err) || errors.Is(err, ErrOutcomeUnknown)) && !errors.Is(err, ErrClosed)
}

// Sentinels for errors.Is.
var (
	ErrClosed             = &Error{Code: CodeClosed, Msg: "the engine is closed"}
	ErrConflict           = &Error{Code: CodeConflict, Msg: "conflict with concurrent transactions"}
	ErrCorrupt            = &Error{Code: CodeCorrupt, Msg: "data is damaged"}
	ErrCrossPartition     = &Error{Code: CodeCrossPartition, Msg: "the transaction crosses partitions"}
	ErrDiskFull           = &Error{Code: CodeDiskFull, Msg: "the disk is full"}
	ErrFenced             = &Error{Code: CodeFenced, Msg: "writes are stopped: the data is being moved to another engine, or has moved"}
	ErrFilesFull          = &Error{Code: CodeFilesFull, Msg: "too many open files"}
	ErrFormatNewer        = &Error{Code: CodeFormatNewer, Msg: "data of a newer version"}
	ErrInvalid            = &Error{Code: CodeInvalid, Msg: "invalid argument"}
	ErrKeyEmpty           = &Error{Code: CodeKeyEmpty, Msg: "a key must have at least one byte"}
	ErrKeyTooLarge        = &Error{Code: CodeKeyTooLarge, Msg: "key too large"}
	ErrKeyReused          = &Error{Code: CodeKeyReused, Msg: "idempotency key used before with another request"}
	ErrLimit              = &Error{Code: CodeLimit, Msg: "over a limit"}
	ErrLocked             = &Error{Code: CodeLocked, Msg: "the data folder is in use"}
	ErrMemoryFull         = &Error{Code: CodeMemoryFull, Msg: "memory limit reached"}
	ErrNotFound           = &Error{Code: CodeNotFound, Msg: "no such key"}
	ErrNotInteger         = &Error{Code: CodeNotInteger, Msg: "value is not an integer or out of range"}
	ErrNotLeader          = &Error{Code: CodeNotLeader, Msg: "this node does not lead"}
	ErrOutcomeUnknown     = &Error{Code: CodeOutcomeUnknown, Msg: "outcome unknown"}
	ErrOverflow           = &Error{Code: CodeOverflow, Msg: "increment or decrement would overflow"}
	ErrPositionTimeout    = &Error{Code: CodePositionTimeout, Msg: "position not reached in time"}
	ErrPreconditionFailed = &Error{Code: CodePreconditionFailed, Msg: "revision does not match"}
	ErrProcedureFailed    = &Error{Code: CodeProcedureFailed, Msg: "the procedure returned an error"}
	ErrQueueFull          = &Error{Code: CodeQueueFull, Msg: "too many calls are waiting"}
	ErrReadOnly           = &Error{Code: CodeReadOnly, Msg: "write in a read-only view"}
	ErrStopped            = &Error{Code: CodeStopped, Msg: "the node has stopped after a disk failure"}
	ErrTruncated          = &Error{Code: CodeTruncated, Msg: "change history truncated"}
	ErrTxTooLarge         = &Error{Code: CodeTxTooLarge, Msg: "transaction too large"}
	ErrUnauthenticated    = &Error{Code: CodeUnauthenticated, Msg: "authentication required"}
	ErrUnavailable        = &Error{Code: CodeUnavailable, Msg: "the database is not available"}
	ErrUnknownProcedure   = &Error{Code: CodeUnknownProcedure, Msg: "no such procedure"}
	ErrUnsupported        = &Error{Code: CodeUnsupported, Msg: "not supported by this engine"}
	ErrValueTooLarge      = &Error{Code: CodeValueTooLarge, Msg: "value too large"}
)

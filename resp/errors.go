package resp

import (
	"errors"
	"unicode/utf8"

	"github.com/skerrydb/skerry/engine"
)

// replyError is an error whose text is the whole reply, as Redis words it. A
// command that returns one has written nothing.
type replyError string

// Error returns the reply without its leading "-".
func (e replyError) Error() string { return string(e) }

// Replies that more than one command gives.
const (
	errSyntax      replyError = "ERR syntax error"
	errNotInteger  replyError = "ERR value is not an integer or out of range"
	errNotFloat    replyError = "ERR value is not a valid float"
	errOverflow    replyError = "ERR increment or decrement would overflow"
	errNoKey       replyError = "ERR no such key"
	errOutOfRange  replyError = "ERR index out of range"
	errTooBig      replyError = "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
	errNaN         replyError = "ERR increment would produce NaN or Infinity"
	errWrongType   replyError = "WRONGTYPE Operation against a key holding the wrong kind of value"
	errNoAuth      replyError = "NOAUTH Authentication required."
	errWrongPass   replyError = "WRONGPASS invalid username-password pair or user is disabled."
	errNoTxn       replyError = "ERR Command not allowed inside a transaction"
	errExecAbort   replyError = "EXECABORT Transaction discarded because of previous errors."
	errReplyTooBig replyError = "ERR the reply would be over the limit of 256 MiB [limit]"
	errSameObject  replyError = "ERR source and destination objects are the same"
	errDBRange     replyError = "ERR DB index is out of range"
)

// wordOf maps kinds of errors to RESP once: to the first word of the reply, which clients
// switch on. Redis has words for some; the others are ERR.
func wordOf(k engine.Kind) string {
	switch k {
	case engine.KindMemoryFull:
		return "OOM"
	case engine.KindReadOnly:
		return "READONLY"
	case engine.KindBusy:
		return "BUSY"
	case engine.KindDiskFull, engine.KindStopped:
		return "MISCONF"
	case engine.KindNoLeader:
		return "CLUSTERDOWN"
	case engine.KindContention, engine.KindBehind:
		return "TRYAGAIN"
	case engine.KindUnknownOutcome:
		return "UNKNOWN" // clients know by it that the node is still alive
	case engine.KindUnauthenticated:
		return "NOAUTH"
	}
	return "ERR"
}

// kindsOf returns the kinds of the engine's codes and of those in the given catalogs.
func kindsOf(catalogs [][]engine.Meaning) map[engine.Code]engine.Kind {
	kinds := map[engine.Code]engine.Kind{}
	for _, catalog := range append([][]engine.Meaning{engine.Catalog()}, catalogs...) {
		for _, m := range catalog {
			kinds[m.Code] = m.Kind
		}
	}
	return kinds
}

// callError is the error of a procedure's call. Its reply always has the error's
// own text and code, as both are what the procedure says.
type callError struct {
	err    error
	undone bool // the call has written nothing, or what it wrote is undone
	plain  bool // the reply begins with ERR, whatever the code

	refused bool   // the reply to another node begins with refusedWord
	by      uint64 // the node that leads, if its reply says so to one of an earlier version
}

// code is the code of the reply. What only a node can say of a transaction is not
// a procedure's to say of its own, which is undone: the call would be sent again.
func (e *callError) code() engine.Code {
	switch code := engine.CodeOf(e.err); code {
	case engine.CodeNotLeader, engine.CodeOutcomeUnknown, "":
		return engine.CodeProcedureFailed
	default:
		return code
	}
}

// word is what the reply begins with.
func (e *callError) word(kinds map[engine.Code]engine.Kind) string {
	word := wordOf(kinds[e.code()])
	if e.plain {
		word = "ERR"
	}
	if e.refused {
		word = refusedWord + word
	}
	return word
}

// Error returns the text of the reply behind its first word.
func (e *callError) Error() string {
	text, tail := e.err.Error(), " ["+cut(string(e.code()), MaxCodeBytes)+"]"
	if c, ok := errors.AsType[*engine.Error](e.err); ok {
		text = c.Msg
	}
	if len(text) > MaxErrorBytes {
		text = cut(text, MaxErrorBytes) + "…"
	}
	if e.by != 0 {
		text += otherProgram(e.by)
	}
	return text + tail
}

// cut returns at most n bytes of s, and no part of a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	end := n
	for end > n-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// Unwrap returns what the call returned, by which an engine knows that it may try
// again.
func (e *callError) Unwrap() error { return e.err }

// replyText turns any error into the text of a RESP error.
func (s *Server) replyText(err error) string {
	if e, ok := errors.AsType[replyError](err); ok {
		return string(e)
	}
	if e, ok := errors.AsType[*callError](err); ok {
		return e.word(s.kinds) + " " + e.Error()
	}
	switch code := engine.CodeOf(err); code {
	case engine.CodeNotInteger:
		return string(errNotInteger)
	case engine.CodeOverflow:
		return string(errOverflow)
	case engine.CodeInternal:
		s.opts.Logger.Error("a command failed", "err", err)
		return "ERR internal error [internal]"
	default:
		if e, ok := errors.AsType[*engine.Error](err); ok {
			return wordOf(s.kinds[code]) + " " + e.Error()
		}
		return wordOf(s.kinds[code]) + " " + err.Error()
	}
}

// spoils reports whether err ends a whole transaction: the engine refused a
// write that may be one of several of its command. An error of the command
// itself came before its first write and spoils nothing.
func spoils(err error) bool {
	if _, ok := errors.AsType[replyError](err); ok {
		return false
	}
	if e, ok := errors.AsType[*callError](err); ok {
		return !e.undone
	}
	switch engine.CodeOf(err) {
	case engine.CodeNotInteger, engine.CodeOverflow, engine.CodeKeyEmpty, engine.CodeKeyTooLarge:
		return false
	}
	return true
}

package resp

import (
	"errors"
	"unicode/utf8"

	"github.com/skerrydb/skerry/engine"
)

// replyError is an error whose text is the whole reply, worded as in Redis. A command that
// returns one has written nothing.
type replyError string

// Error returns the reply without its leading "-".
func (e replyError) Error() string { return string(e) }

// Replies of more than one command.
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

// wordOf returns the first word of an error reply for a kind of error. Clients switch on
// it. Redis has words for some kinds; the others are ERR.
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
		return "UNKNOWN" // clients conclude from it that the node is still running
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

// callError is the error of a procedure call. Its reply always has the error's own text and
// code, because the procedure chooses both.
type callError struct {
	err    error
	undone bool // the call has written nothing, or its writes were undone
	plain  bool // the reply begins with ERR, whatever the code

	refused bool   // the reply to another node begins with refusedWord
	by      uint64 // the leader, if the reply to a node of an earlier version names it
}

// code returns the code of the reply. A procedure may not return the codes with which a
// node reports the fate of a transaction: its own is undone, and the call would be sent
// again.
func (e *callError) code() engine.Code {
	switch code := engine.CodeOf(e.err); code {
	case engine.CodeNotLeader, engine.CodeOutcomeUnknown, "":
		return engine.CodeProcedureFailed
	default:
		return code
	}
}

// word returns the first word of the reply.
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

// Error returns the text of the reply after its first word.
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

// cut returns at most n bytes of s without splitting a character.
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

// Unwrap returns the error of the call, from which an engine determines whether it may
// retry.
func (e *callError) Unwrap() error { return e.err }

// replyText converts any error to the text of a RESP error.
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

// spoils reports whether err ends a whole transaction: the engine rejected a write that may
// be one of several of its command. An error of the command itself precedes its first write
// and spoils nothing.
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

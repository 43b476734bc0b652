package procvet

import (
	"go/types"
	"strings"
)

// Kind is which rule a finding is about; it is the category of a diagnostic.
type Kind string

// Kinds.
const (
	KindClock     Kind = "clock"     // time.Now and its like
	KindWait      Kind = "wait"      // timers, locks, channels: something that waits
	KindGoroutine Kind = "goroutine" // a go statement
	KindIO        Kind = "io"        // files, network, programs, databases
	KindLog       Kind = "log"       // lines that are printed or logged
	KindRandom    Kind = "random"    // random numbers that are not the transaction's
	KindWrite     Kind = "write"     // a write to something outside
	KindEscape    Kind = "escape"    // the Tx is kept or handed to another goroutine
	KindNested    Kind = "nested"    // another transaction inside this one
	KindReadOnly  Kind = "read_only" // a write in a procedure that only reads
	KindKeys      Kind = "keys"      // a write to the engine's own keys
	KindLoop      Kind = "loop"      // a loop that nothing ends
	KindAllow     Kind = "allow"     // a comment that allows nothing, or without a reason
)

// advice says why a thing has no place in a procedure, and what to do instead.
func (k Kind) advice() string {
	switch k {
	case KindClock:
		return "the time is another one when the function runs again; use tx.Now()"
	case KindWait:
		return "every other write waits for as long as this procedure does; do it before or after the call, and keep shared state in tx"
	case KindGoroutine:
		return "it outlives the transaction and is started again when the function runs again; start it after the call"
	case KindIO:
		return "it is not undone with the transaction, is repeated when the function runs again, and every other write waits for it; " +
			"do it before the call and pass the outcome as an argument, or after the call"
	case KindLog:
		return "the line stays if the transaction is undone, and is repeated when the function runs again; log after the call"
	case KindRandom:
		return "use tx.Rand(), or make secrets before the call and pass them as an argument"
	case KindWrite:
		return "it is not undone with the transaction and is repeated when the function runs again; keep it in tx, or return it"
	case KindEscape:
		return "a Tx is valid until the procedure returns, and only in its goroutine; pass on what was read from it"
	case KindNested:
		return "that is another transaction, which waits for the procedure that waits for it: a deadlock; use tx: tx.KV(n), or Run(tx, in) of the other procedure"
	case KindReadOnly:
		return "a write in a procedure that only reads always fails; make it with proc.Define"
	case KindKeys:
		return "the engine's keys belong to the capabilities: use tx.KV"
	case KindLoop:
		return "nothing can end it, and every other write waits; give it a bound, or use tx in it, which fails after proc.Options.MaxRun"
	}
	return ""
}

// note reports whether a finding of the kind is the lesser sort.
func (k Kind) note() bool { return k == KindLog }

// Paths of the packages that the rules are about.
const (
	modulePath = "github.com/skerrydb/skerry"
	procPath   = modulePath + "/proc"
	kvPath     = modulePath + "/kv"
	enginePath = modulePath + "/engine"
)

// ownPackage reports whether a package is Skerry itself. What its functions do
// inside is not looked at: they are made to be called in a transaction, or take a
// context and so are a matter of KindNested.
func ownPackage(pkg string) bool {
	rest, ok := strings.CutPrefix(pkg, modulePath)
	if !ok || rest == "" {
		return ok
	}
	first, below, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	switch first {
	case "archive", "btree", "cache", "client", "engine", "feed", "graph", "journal", "kv",
		"peer", "raft", "record", "resp", "series", "session", "web":
		return true
	case "proc":
		return below == ""
	}
	return false
}

// ownRule is the rule that a function of Skerry's own breaks when it is called in
// a procedure.
func ownRule(fn *types.Func) (Kind, bool) {
	if p := fn.Signature().Params(); p.Len() > 0 && isContext(p.At(0).Type()) {
		return KindNested, true
	}
	switch fn.Pkg().Path() + " " + receiverName(fn) + "." + fn.Name() {
	case enginePath + " Tx.Put", enginePath + " Tx.Delete",
		kvPath + " Tx.Set", kvPath + " Tx.Add", kvPath + " Tx.Delete", kvPath + " Tx.DeleteIf", kvPath + " Tx.SetExpiry", kvPath + " Tx.Remember":
		return KindReadOnly, true
	}
	return "", false
}

func isContext(t types.Type) bool {
	n := named(t)
	return n != nil && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == "context" && n.Obj().Name() == "Context"
}

// isTx reports whether values of t are a transaction: proc.Tx, engine.Tx, kv.Tx
// or that of another capability.
func isTx(t types.Type) bool {
	n := named(t)
	return n != nil && n.Obj().Name() == "Tx" && n.Obj().Pkg() != nil && ownPackage(n.Obj().Pkg().Path())
}

// carriesTx reports whether a value of t is a transaction or a struct that holds
// one, at most depth structs deep.
func carriesTx(t types.Type, depth int) bool {
	if t == nil {
		return false
	}
	if isTx(t) {
		return true
	}
	if p, ok := types.Unalias(t).Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	st, ok := t.Underlying().(*types.Struct)
	if !ok || depth == 0 {
		return false
	}
	for f := range st.Fields() {
		if carriesTx(f.Type(), depth-1) {
			return true
		}
	}
	return false
}

// standardPath reports whether a path could be one of the standard library: its
// first element has no dot. A program's own module may be named so too; see
// standard.
func standardPath(pkg string) bool {
	first, _, _ := strings.Cut(pkg, "/")
	return !strings.Contains(first, ".") && first != "command-line-arguments"
}

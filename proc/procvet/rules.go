package procvet

import (
	"go/types"
	"strings"
)

// Kind is the rule that a finding is about; it is the category of a diagnostic.
type Kind string

// Kinds.
const (
	KindClock     Kind = "clock"     // time.Now and similar functions
	KindWait      Kind = "wait"      // timers, locks, channels: something that blocks
	KindGoroutine Kind = "goroutine" // a go statement
	KindIO        Kind = "io"        // files, network, programs, databases
	KindLog       Kind = "log"       // output that is printed or logged
	KindRandom    Kind = "random"    // random numbers from outside the transaction
	KindWrite     Kind = "write"     // a write to memory outside the procedure
	KindEscape    Kind = "escape"    // the Tx is kept or passed to another goroutine
	KindNested    Kind = "nested"    // another transaction inside this one
	KindReadOnly  Kind = "read_only" // a write in a read-only procedure
	KindKeys      Kind = "keys"      // a write to the engine's own keys
	KindLoop      Kind = "loop"      // a loop that never ends
	KindAllow     Kind = "allow"     // a comment that allows nothing, or has no reason
)

// advice explains why procedures must not do this, and what to do instead.
func (k Kind) advice() string {
	switch k {
	case KindClock:
		return "the time differs when the function runs again; use tx.Now()"
	case KindWait:
		return "every other write waits with it; do it before or after the call, and keep shared state in tx"
	case KindGoroutine:
		return "it outlives the transaction, and starts again when the function runs again; start it after the call"
	case KindIO:
		return "it is not undone with the transaction, repeats when the function runs again, and delays every other write; " +
			"do it before the call and pass the outcome as an argument, or after the call"
	case KindLog:
		return "the line stays when the transaction is undone, and repeats when the function runs again; log after the call"
	case KindRandom:
		return "use tx.Rand(), or make secrets before the call and pass them as an argument"
	case KindWrite:
		return "it is not undone with the transaction, and repeats when the function runs again; keep it in tx, or return it"
	case KindEscape:
		return "a Tx is valid until the procedure returns, and only in its goroutine; pass on what was read from it"
	case KindNested:
		return "that is another transaction, which waits for this one: a deadlock; use tx: tx.KV(n), or Run(tx, in) of the other procedure"
	case KindReadOnly:
		return "a write in a procedure that only reads always fails; make it with proc.Define"
	case KindKeys:
		return "the engine's keys belong to the capabilities: use tx.KV"
	case KindLoop:
		return "nothing can end it, and every other write waits; bound it, or use tx in it, which fails after proc.Options.MaxRun"
	}
	return ""
}

// note reports whether a finding of the kind is of lower severity.
func (k Kind) note() bool { return k == KindLog }

// Import paths of the packages that the rules are about.
const (
	modulePath = "github.com/skerrydb/skerry"
	procPath   = modulePath + "/proc"
	kvPath     = modulePath + "/kv"
	enginePath = modulePath + "/engine"
)

// ownPackage reports whether a package belongs to Skerry. Its functions are not analyzed:
// they are designed to be called in a transaction, or take a context and so are covered by
// KindNested.
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

// ownRule returns the rule that a function of Skerry breaks when a procedure calls it.
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

// isTx reports whether t is a transaction type: proc.Tx, engine.Tx, kv.Tx or that of
// another capability.
func isTx(t types.Type) bool {
	n := named(t)
	return n != nil && n.Obj().Name() == "Tx" && n.Obj().Pkg() != nil && ownPackage(n.Obj().Pkg().Path())
}

// carriesTx reports whether a value of t is a transaction, or a struct that contains one at
// most depth structs deep.
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

// standardPath reports whether a path could belong to the standard library: its first
// element has no dot. The program's own module may have such a path too; see standard.
func standardPath(pkg string) bool {
	first, _, _ := strings.Cut(pkg, "/")
	return !strings.Contains(first, ".") && first != "command-line-arguments"
}

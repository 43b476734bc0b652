// Package history records and checks histories of operations. It has a file format that
// any program can write (docs/histories.md), a Recorder for programs in Go, and Check.
// Check decides whether the results are possible for a store that executes one operation
// at a time (strict serialisability), and whether weaker reads showed the state at the
// position that they named.
//
// It knows what the operations mean to a map of strings, lists and sets; it must
// not know any engine, face or clock: times are numbers that the recorder gives.
package history

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// Kind is the kind of an operation. The words are used in files: do not change.
type Kind string

// Kinds. Key, Value and so on are fields of Step; results are in the fields after the
// arrow. Every kind is atomic over all the keys that it names.
const (
	Get      Kind = "get"      // Key -> Got
	Set      Kind = "set"      // Key, Value
	Delete   Kind = "delete"   // Key -> Done: it was there
	CAS      Kind = "cas"      // Key, Expect, Value (absent: delete) -> Done: it was as expected, and is now Value
	Add      Kind = "add"      // Key, Delta -> Sum; an absent key counts as 0
	Append   Kind = "append"   // Key, Value: add an element to a list
	List     Kind = "list"     // Key -> List, in order; absent is empty
	SetAdd   Kind = "set-add"  // Key, Value -> Done: it is new
	SetRead  Kind = "set-read" // Key -> List, in any order; absent is empty
	MGet     Kind = "mget"     // Keys -> Values, in the order of Keys
	MSet     Kind = "mset"     // Pairs (absent: delete)
	Scan     Kind = "scan"     // Prefix, Limit (0: none) -> Pairs of string keys, ascending by bytes
	Transfer Kind = "transfer" // Key, To, Delta >= 0 -> Done: Key had that much, and it was moved
	Txn      Kind = "txn"      // Op.Steps, one after another, as one transaction
)

// Outcome is how an operation ended. The words are used in files: do not change.
type Outcome string

// Outcomes. An operation that never returned is Unknown.
const (
	OK      Outcome = "ok"
	Fail    Outcome = "fail"    // certainly not done, now and later
	Unknown Outcome = "unknown" // done at some time after the call, or never
)

// Level is the freshness that a read required. Writes are always linearizable.
type Level string

// Levels, as engine.Level. The empty Level is Linearizable.
const (
	Linearizable Level = "linearizable"
	Session      Level = "session"
	Local        Level = "local"
)

// Limits of one operation and of a file.
const (
	MaxLineBytes  = 4 << 20   // bytes of one line of a file
	MaxSteps      = 1_000     // steps of one transaction
	MaxKeys       = 10_000    // keys, pairs or elements that one step names or returns
	MaxOperations = 1_000_000 // operations of one history
	MaxPending    = 100_000   // calls in a file or a Recorder that have not returned yet
	MaxTime       = 1 << 60   // of a call or return; the lower limit is its negative
	MaxPosition   = 1 << 60   // of Pos and Asked
)

// Value is a string, or no value, which is the zero Value. In JSON it is a string or null.
type Value struct {
	Text    string
	Present bool
}

// Some returns the Value with the given text.
func Some(text string) Value { return Value{text, true} }

// String returns the text in quotes, or "nothing".
func (v Value) String() string {
	if !v.Present {
		return "nothing"
	}
	return fmt.Sprintf("%q", v.Text)
}

// Pair is a key and its value.
type Pair struct {
	Key   string
	Value Value
}

// Step is one action of an operation. The comment at its Kind lists the fields that it
// uses. Texts are UTF-8: a program with other bytes has to encode them.
type Step struct {
	Kind   Kind
	Key    string
	To     string
	Value  Value
	Expect Value
	Delta  int64
	Keys   []string
	Prefix string
	Limit  int
	Pairs  []Pair // argument of MSet, result of Scan

	// Results, of operations that ended with OK.
	Got    Value
	Done   bool
	Sum    int64
	List   []string
	Values []Value
	// Blind means that Done or Sum is unknown although the operation is done.
	Blind bool
}

// Op is one operation of a history.
type Op struct {
	// Client is the caller. Operations of one client may overlap.
	Client int64
	// Step is the operation itself; of a Txn only its Kind counts.
	Step
	Steps []Step // of a Txn; none of them is a Txn

	// Level may be Session or Local for operations that only read.
	Level Level
	// Asked is the least position that a Session read asked for. 0: the highest
	// position that its client had received when it called.
	Asked uint64
	// Pos is the position of the transaction of a write that changed something, or
	// the position of the state that a read showed. 0: not recorded.
	Pos uint64

	// Call and Return are times of one clock, in nanoseconds or any other unit. Two
	// operations may have been concurrent unless one's Return is less than the
	// other's Call. Return of Unknown operations is ignored.
	Call, Return int64
	Outcome      Outcome
}

// weak reports whether the operation is a read that may be older than the newest state.
func (o *Op) weak() bool { return o.Level == Session || o.Level == Local }

// all returns the steps of any operation, even if it is not a Txn.
func (o *Op) all() []Step {
	if o.Kind == Txn {
		return o.Steps
	}
	return []Step{o.Step}
}

// reads reports whether a kind never changes anything.
func (k Kind) reads() bool {
	switch k {
	case Get, List, SetRead, MGet, Scan:
		return true
	}
	return false
}

// readOnly reports whether no step can change anything.
func (o *Op) readOnly() bool {
	if o.Kind != Txn {
		return o.Kind.reads()
	}
	for i := range o.Steps {
		if !o.Steps[i].Kind.reads() {
			return false
		}
	}
	return true
}

// changed reports whether the result of a step, of an operation that ended with OK, shows
// that it wrote something.
func (s *Step) changed() bool {
	switch s.Kind {
	case Delete, CAS, SetAdd, Transfer:
		return s.Done && !s.Blind
	}
	return !s.Kind.reads()
}

// changed reports whether the operation is certain to have written something, so
// that its position is its own.
func (o *Op) changed() bool {
	if o.Outcome != OK {
		return false
	}
	if o.Kind != Txn {
		return o.Step.changed()
	}
	for i := range o.Steps {
		if o.Steps[i].changed() {
			return true
		}
	}
	return false
}

// Validate returns an error if the operation is invalid: a result is missing or must not
// be there for its outcome, it exceeds a limit, a write has the level of a read, or a text
// is not UTF-8.
func (o *Op) Validate() error {
	for _, t := range [...]int64{o.Call, o.Return} {
		if t < -MaxTime || t > MaxTime {
			return fmt.Errorf("time %d is beyond %d", t, int64(MaxTime))
		}
	}
	if o.Pos > MaxPosition || o.Asked > MaxPosition {
		return fmt.Errorf("position %d is beyond %d", max(o.Pos, o.Asked), int64(MaxPosition))
	}
	switch o.Outcome {
	case OK, Fail:
		if o.Return < o.Call {
			return fmt.Errorf("returned at %d, before its call at %d", o.Return, o.Call)
		}
	case Unknown:
	default:
		return fmt.Errorf("outcome %q is not one of ok, fail, unknown", o.Outcome)
	}
	switch o.Level {
	case "", Linearizable:
		if o.Asked != 0 {
			return errors.New("asked is for session reads")
		}
	case Session, Local:
		if err := o.validateWeak(); err != nil {
			return err
		}
	default:
		return fmt.Errorf("level %q is not one of linearizable, session, local", o.Level)
	}
	if o.Kind != Txn {
		if len(o.Steps) > 0 {
			return fmt.Errorf("%s has no steps", o.Kind)
		}
		return o.Step.validate(o.Outcome)
	}
	if len(o.Steps) == 0 || len(o.Steps) > MaxSteps {
		return fmt.Errorf("txn has %d steps, must be 1 to %d", len(o.Steps), MaxSteps)
	}
	for i := range o.Steps {
		s := &o.Steps[i]
		if s.Kind == Txn {
			return fmt.Errorf("step %d: a txn within a txn", i+1)
		}
		if err := s.validate(o.Outcome); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return nil
}

func (o *Op) validateWeak() error {
	if !o.readOnly() {
		return fmt.Errorf("level %s is for reads", o.Level)
	}
	if o.Level == Local && o.Asked != 0 {
		return errors.New("asked is for session reads")
	}
	if o.Level == Session && o.Outcome == OK && o.Pos == 0 {
		return errors.New("a session read needs pos, the position that it was shown")
	}
	return nil
}

func (s *Step) validate(out Outcome) error {
	needsValue := false
	switch s.Kind {
	case Get, List, SetRead, Delete, CAS, Add, MGet, MSet, Scan, Transfer:
	case Set, Append, SetAdd:
		needsValue = true
	default:
		return fmt.Errorf("unknown operation %q", s.Kind)
	}
	if needsValue && !s.Value.Present {
		return fmt.Errorf("%s needs a value", s.Kind)
	}
	if s.Kind == Transfer && s.Delta < 0 {
		return fmt.Errorf("transfer of %d: must not be negative", s.Delta)
	}
	if s.Limit < 0 {
		return fmt.Errorf("limit %d: must not be negative", s.Limit)
	}
	if s.Kind == MGet && out == OK && len(s.Values) != len(s.Keys) {
		return fmt.Errorf("mget of %d keys has %d results", len(s.Keys), len(s.Values))
	}
	if n := max(len(s.Keys), len(s.Pairs), len(s.List)); n > MaxKeys {
		return fmt.Errorf("%s has %d keys or elements, at most %d", s.Kind, n, MaxKeys)
	}
	if s.Kind == MSet {
		seen := make(map[string]bool, len(s.Pairs))
		for _, p := range s.Pairs {
			if seen[p.Key] {
				return fmt.Errorf("mset names %q twice", p.Key)
			}
			seen[p.Key] = true
		}
	}
	return s.validateTexts()
}

func (s *Step) validateTexts() error {
	ok := utf8.ValidString(s.Key) && utf8.ValidString(s.To) && utf8.ValidString(s.Prefix)
	for _, v := range [...]Value{s.Value, s.Expect, s.Got} {
		ok = ok && utf8.ValidString(v.Text)
	}
	for _, v := range s.Values {
		ok = ok && utf8.ValidString(v.Text)
	}
	for _, p := range s.Pairs {
		ok = ok && utf8.ValidString(p.Key) && utf8.ValidString(p.Value.Text)
	}
	for _, list := range [...][]string{s.Keys, s.List} {
		for _, text := range list {
			ok = ok && utf8.ValidString(text)
		}
	}
	if !ok {
		return fmt.Errorf("%s has a text that is not UTF-8", s.Kind)
	}
	return nil
}

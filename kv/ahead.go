package kv

import "github.com/skerrydb/skerry/engine"

// MaxExpected is how many keys are announced together. More would fill the processor's
// caches before they are used.
const MaxExpected = 64

// ahead are the engine keys that Expect has gathered. Its memory is reused.
type ahead struct {
	buf  []byte // with all of keys
	keys [][]byte
}

// Expects reports whether the engine can use announced keys; see Expect.
func (t *Tx) Expects() bool {
	e, ok := t.tx.(engine.Expecter)
	return ok && e.Expects()
}

// Expect adds a key of space to those that Announce is about. It reports whether there was
// room for it.
func (t *Tx) Expect(space uint8, key []byte) bool {
	a := &t.ahead
	if len(a.keys) == MaxExpected || len(a.buf) > keepScratch {
		return false
	}
	if checkKey(key) == nil {
		from := len(a.buf)
		a.buf = appendDataKey(a.buf, space, key)
		a.keys = append(a.keys, a.buf[from:])
	}
	return true
}

// Expected returns the engine's keys of the calls of Expect, for engine.Preparer, and forgets
// them. They are valid until the next call of Expect.
func (t *Tx) Expected() [][]byte {
	a := &t.ahead
	keys := a.keys
	a.buf, a.keys = a.buf[:0], a.keys[:0]
	return keys
}

// Announce tells the engine that the keys of the calls of Expect will be used soon, in this
// transaction or in the next ones of the same UpdateEach, so that it can prepare for them
// together. It is only a hint, without which the same happens; see engine.Expecter.
func (t *Tx) Announce() {
	a := &t.ahead
	if e, ok := t.tx.(engine.Expecter); ok && len(a.keys) > 1 {
		e.Expect(a.keys)
	}
	a.buf, a.keys = a.buf[:0], a.keys[:0]
}

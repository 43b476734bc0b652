package postgres

import (
	"bytes"

	"github.com/skerrydb/skerry/engine"
)

// knownBytes bounds the memory of known.
const knownBytes = 16 << 20

// known is what the executor has read and written. It is still what table kv has as long as no
// other process has committed.
type known struct {
	pos   engine.Position
	vals  map[string][]byte // nil: there is no such key
	bytes int
}

// at returns the values at a position: none if another process has committed since.
func (k *known) at(pos engine.Position) map[string][]byte {
	if k.vals == nil || k.pos != pos || k.bytes > knownBytes {
		*k = known{pos: pos, vals: map[string][]byte{}}
	}
	return k.vals
}

// set notes the value of a key, nil if there is none.
func (k *known) set(key string, val []byte) {
	k.vals[key] = val
	k.bytes += len(key) + len(val) + 64 // too much if the key was known: then it is forgotten sooner
}

// keep takes over what a batch has committed.
func (k *known) keep(b *batch) {
	if k.vals == nil {
		return // the session was lost meanwhile
	}
	k.pos = b.pos
	for key, v := range b.over.Ascend(nil, nil) {
		if v.Marked {
			k.set(string(key), nil)
		} else {
			k.set(string(key), notNil(bytes.Clone(v.Bytes)))
		}
	}
}

// expected returns the keys that the pending calls will probably use and that are not known, and
// that of the fence, at which every writer looks.
func (x *executor) expected() (ask [][]byte) {
	seen := map[string]bool{}
	add := func(key []byte) {
		_, has := x.known.vals[string(key)]
		if !has && !seen[string(key)] && len(key) > 0 && len(key) <= MaxKeyBytes && len(ask) < maxAhead {
			seen[string(key)] = true
			ask = append(ask, key)
		}
	}
	add([]byte(engine.FenceKey))
	for _, c := range x.pending {
		for _, key := range c.keys {
			add(key)
		}
	}
	return ask
}

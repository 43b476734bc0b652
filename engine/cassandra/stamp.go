package cassandra

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
)

// A stamp names the last commits of a partition, the newest last. It is the partition's revision: a
// commit is applied only if the stamp is still the one that its transaction has read. Its length in
// Cassandra is part of the format; do not change it.
const (
	idBytes  = 8
	stampIDs = 16
)

// newID returns the name of a commit.
func newID() []byte { return binary.BigEndian.AppendUint64(nil, rand.Uint64()) }

// follow returns the stamp after base for a commit.
func follow(base, id []byte) []byte {
	base = base[max(0, len(base)-(stampIDs-1)*idBytes):]
	return append(bytes.Clone(base), id...)
}

// names reports whether a stamp names a commit.
func names(stamp, id []byte) bool {
	for ; len(stamp) >= idBytes; stamp = stamp[idBytes:] {
		if bytes.Equal(stamp[:idBytes], id) {
			return true
		}
	}
	return false
}

// outcome is what a stamp says about a commit.
type outcome uint8

const (
	committed outcome = iota
	lost              // it was not applied, and never will be
	pending           // it was not applied, and may still be
	forgotten         // too many commits have followed
)

// settle returns what the stamp now says about the commit id, which was to follow base.
func settle(now, base, id []byte) outcome {
	switch {
	case names(now, id):
		return committed
	case bytes.Equal(now, base):
		return pending
	case len(base) > 0 && names(now, base[len(base)-idBytes:]):
		return lost // another commit follows base
	case len(base) == 0 && len(now) < stampIDs*idBytes:
		return lost // the first commit is another one
	}
	return forgotten
}

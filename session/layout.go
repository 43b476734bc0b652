package session

import (
	"encoding/binary"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// The layout in kv. Do not change it: sessions on disk depend on it. DESIGN.md has it as a
// table.
const (
	sessionPrefix = 's' // 's' namespace id(32)           → a record
	userPrefix    = 'u' // 'u' namespace user handle(16)  → version id(32)
	scsPrefix     = 'c' // 'c' namespace id(32)           → version data

	// In a parted Store; part is base64 of 16 bytes:
	partedPrefix = 'p' // 'p' namespace '{' part '}' id(32) → a record
	rollPrefix   = 'l' // 'l' namespace '{' part '}'        → version (handle(16) id(32) absolute(8))…

	version = 1 // first byte of every value

	secretBytes = 32 // the random bytes of a token
	idBytes     = 32 // SHA-256 of a token's random bytes
	partBytes   = 16
	handleBytes = 16

	recordHead = 1 + 3*8 + handleBytes + 1 + 1 // of an empty record
)

type (
	id     [idBytes]byte
	handle [handleBytes]byte
)

// record is one session in its stored form. Times are milliseconds since 1970.
type record struct {
	created  int64
	absolute int64 // the session ends at this time at the latest
	seen     int64 // last recorded use
	handle   handle
	user     []byte // empty: anonymous
	label    []byte
	values   []byte // see nextValue
	raw      []byte // the whole record as it was parsed
}

// appendRecord appends the encoded form of r, without its values, to b.
func appendRecord(b []byte, r *record) []byte {
	b = append(b, version)
	b = binary.BigEndian.AppendUint64(b, uint64(r.created))
	b = binary.BigEndian.AppendUint64(b, uint64(r.absolute))
	b = binary.BigEndian.AppendUint64(b, uint64(r.seen))
	b = append(b, r.handle[:]...)
	b = append(append(b, byte(len(r.user))), r.user...)
	return append(append(b, byte(len(r.label))), r.label...)
}

// parseRecord parses what appendRecord and appendValue wrote; r aliases b.
func parseRecord(r *record, b []byte) error {
	if err := checkVersion(b); err != nil {
		return err
	}
	if len(b) < recordHead {
		return damaged("%d bytes are too few", len(b))
	}
	r.raw = b
	r.created = int64(binary.BigEndian.Uint64(b[1:]))
	r.absolute = int64(binary.BigEndian.Uint64(b[9:]))
	r.seen = int64(binary.BigEndian.Uint64(b[17:]))
	r.handle = handle(b[25:])
	b = b[25+handleBytes:]
	var ok bool
	if r.user, b, ok = cutShort(b); !ok {
		return damaged("its user is cut off")
	}
	if r.label, b, ok = cutShort(b); !ok {
		return damaged("its label is cut off")
	}
	r.values = b
	for len(b) > 0 {
		if _, _, b, ok = nextValue(b); !ok {
			return damaged("its values are cut off")
		}
	}
	return nil
}

func checkVersion(b []byte) error {
	if len(b) == 0 {
		return damaged("it is empty")
	}
	if b[0] != version {
		return engine.Errorf(engine.CodeFormatNewer, "read session: unknown version %d; it was written by another version of the program", b[0])
	}
	return nil
}

func damaged(format string, args ...any) error {
	return engine.Errorf(engine.CodeCorrupt, "read session: "+format, args...)
}

// cutShort splits off a string whose length is in the first byte.
func cutShort(b []byte) (s, rest []byte, ok bool) {
	if len(b) == 0 || len(b) < 1+int(b[0]) {
		return nil, nil, false
	}
	n := 1 + int(b[0])
	return b[1:n:n], b[n:], true
}

// appendValue appends a named value: length of the name (1), name, length of the
// value (uvarint), value.
func appendValue(b []byte, name string, raw []byte) []byte {
	b = append(append(b, byte(len(name))), name...)
	return append(binary.AppendUvarint(b, uint64(len(raw))), raw...)
}

// nextValue splits off the first value.
func nextValue(b []byte) (name, raw, rest []byte, ok bool) {
	name, b, ok = cutShort(b)
	if !ok {
		return nil, nil, nil, false
	}
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)-w) {
		return nil, nil, nil, false
	}
	end := w + int(n)
	return name, b[w:end:end], b[end:], true
}

// value returns the value with the given name in values.
func value(values []byte, name string) (raw []byte, ok bool) {
	for len(values) > 0 {
		n, raw, rest, ok := nextValue(values)
		if !ok {
			return nil, false
		}
		if string(n) == name {
			return raw, true
		}
		values = rest
	}
	return nil, false
}

// appendNamespace appends the prefix of all keys of a namespace.
func appendNamespace(b []byte, prefix byte, ns string) []byte {
	return append(append(b, prefix, byte(len(ns))), ns...)
}

// appendUserPrefix appends the prefix of the keys of a user's sessions.
func appendUserPrefix(b []byte, ns string, user []byte) []byte {
	b = appendNamespace(b, userPrefix, ns)
	return append(append(b, byte(len(user))), user...)
}

// userKey returns the key that lists a session under its user.
func userKey(ns string, user []byte, h handle) []byte {
	b := make([]byte, 0, 3+len(ns)+len(user)+handleBytes)
	return append(appendUserPrefix(b, ns, user), h[:]...)
}

func timeOf(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

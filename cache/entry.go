package cache

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Limits of an entry; over one, the load fails with CodeInternal, as the source is at fault.
const (
	MaxType     = 255 // bytes of Entry.Type
	MaxETag     = 128 // bytes of Entry.ETag
	MaxVariants = 8   // of Entry.Variants
	MaxEncoding = 32  // bytes of Variant.Encoding
)

// Entry is one value as it is sent to clients: finished bytes. Its bytes may be shared and must not be changed.
type Entry struct {
	Body []byte
	Type string // media type

	// ETag identifies the body: visible ASCII without quotes. "" makes the cache compute it from the body.
	ETag string

	// Variants are the same body in other content encodings.
	Variants []Variant

	// Missing says that the key does not exist. The other fields except TTL mean nothing then.
	Missing bool

	// Private says that the value is for one user and must not be kept by shared caches on its way.
	Private bool

	// TTL is how long the entry may live, if that is shorter than the cache's own TTL; 0 adds no limit.
	TTL time.Duration
}

// Variant is a body in a content encoding such as gzip or zstd.
type Variant struct {
	Encoding string
	Body     []byte
}

func (e *Entry) size() int {
	n := len(e.Body)
	for _, v := range e.Variants {
		n += len(v.Body)
	}
	return n
}

// check refuses what a source must not return, and completes e.
func (e *Entry) check(key string) error {
	bad := func(format string, args ...any) error {
		return engine.Errorf(engine.CodeInternal, "the source returned for key %q "+format, append([]any{key}, args...)...)
	}
	if e.Missing {
		*e = Entry{Missing: true, TTL: e.TTL}
		return nil
	}
	if n := e.size(); n > MaxBody {
		return engine.Errorf(engine.CodeValueTooLarge, "the source returned %d bytes for key %q; the limit is %d", n, key, MaxBody)
	}
	if len(e.Type) > MaxType || strings.ContainsFunc(e.Type, func(r rune) bool { return r < ' ' || r > '~' }) {
		return bad("a media type that is too long or not printable ASCII")
	}
	if len(e.ETag) > MaxETag || strings.ContainsFunc(e.ETag, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' }) {
		return bad("an ETag that is too long or has quotes, spaces or other characters than visible ASCII")
	}
	if len(e.Variants) > MaxVariants {
		return bad("%d variants; the limit is %d", len(e.Variants), MaxVariants)
	}
	for _, v := range e.Variants {
		if v.Encoding == "" || len(v.Encoding) > MaxEncoding {
			return bad("a variant whose encoding has no name or a long one")
		}
	}
	if e.TTL < 0 {
		return bad("a negative TTL")
	}
	if e.ETag == "" {
		sum := sha256.Sum256(e.Body)
		e.ETag = base64.RawURLEncoding.EncodeToString(sum[:16])
	}
	return nil
}

// The encoding of an entry, in the memory tier and on disk (do not change; the format is part of the disk
// tier's identity): flags; if it has a deadline, when it was written and the deadline, in nanoseconds of the
// Unix time; the type and the ETag, each after its length in a byte; the number of variants; the length of the
// body; for each variant, its encoding after its length, and the length of its body; the bodies in that order.
const (
	flagMissing = 1 << iota
	flagPrivate
	flagDeadline
)

// append appends the encoding of e, written at now, which ends at deadline; 0 is never.
func (e *Entry) append(dst []byte, now, deadline int64) []byte {
	var flags byte
	if e.Missing {
		flags |= flagMissing
	}
	if e.Private {
		flags |= flagPrivate
	}
	if deadline != 0 {
		flags |= flagDeadline
	}
	dst = slices.Grow(dst, 64+len(e.Type)+len(e.ETag)+e.size())
	dst = append(dst, flags)
	if deadline != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(now))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(deadline))
	}
	dst = append(append(dst, byte(len(e.Type))), e.Type...)
	dst = append(append(dst, byte(len(e.ETag))), e.ETag...)
	dst = append(dst, byte(len(e.Variants)))
	dst = binary.AppendUvarint(dst, uint64(len(e.Body)))
	for _, v := range e.Variants {
		dst = append(append(dst, byte(len(v.Encoding))), v.Encoding...)
		dst = binary.AppendUvarint(dst, uint64(len(v.Body)))
	}
	dst = append(dst, e.Body...)
	for _, v := range e.Variants {
		dst = append(dst, v.Body...)
	}
	return dst
}

// View is an entry in its encoding. It is valid as long as the memory that it was read into.
type View struct {
	Body, Type, ETag []byte
	Missing, Private bool

	variants, bodies  []byte // encodings and lengths of the variants, and all bodies
	written, deadline int64
	raw               []byte
}

// decode returns the entry that raw encodes, or false if raw is not an encoding.
func decode(raw []byte) (v View, ok bool) {
	r := reader{b: raw}
	v.raw = raw
	flags := r.byte()
	v.Missing, v.Private = flags&flagMissing != 0, flags&flagPrivate != 0
	if flags&flagDeadline != 0 {
		v.written, v.deadline = int64(r.uint64()), int64(r.uint64())
	}
	v.Type = r.take(int(r.byte()))
	v.ETag = r.take(int(r.byte()))
	n := int(r.byte())
	size := r.length()
	all, start := size, r.b
	for range n {
		r.take(int(r.byte()))
		all += r.length()
	}
	v.variants = start[:len(start)-len(r.b)]
	if r.bad || flags >= flagDeadline<<1 || n > MaxVariants || all != len(r.b) {
		return View{}, false
	}
	v.Body, v.bodies = r.b[:size:size], r.b
	return v, true
}

// Variant returns the body in a content encoding, or nil if the entry does not have it.
func (v *View) Variant(encoding string) []byte {
	at := len(v.Body)
	for r := (reader{b: v.variants}); len(r.b) > 0; {
		name := r.take(int(r.byte()))
		n := r.length()
		if string(name) == encoding {
			return v.bodies[at : at+n : at+n]
		}
		at += n
	}
	return nil
}

// HasVariants reports whether the entry has variants.
func (v *View) HasVariants() bool { return len(v.variants) > 0 }

// Raw returns the memory of the view, to be used again once the view is not.
func (v *View) Raw() []byte { return v.raw }

// expired reports whether the entry's time is over. A time before it was written means that the clock was set
// back between two runs of the program: how old the entry is cannot be known.
func (v *View) expired(now int64) bool {
	return v.deadline != 0 && (now >= v.deadline || now < v.written)
}

// Entry returns v as an Entry whose bodies are those of the view. It is valid as long.
func (v *View) Entry() Entry {
	e := Entry{Body: v.Body, Type: string(v.Type), ETag: string(v.ETag), Missing: v.Missing, Private: v.Private}
	at := len(v.Body)
	for r := (reader{b: v.variants}); len(r.b) > 0; {
		name := string(r.take(int(r.byte())))
		n := r.length()
		e.Variants = append(e.Variants, Variant{name, v.bodies[at : at+n : at+n]})
		at += n
	}
	return e
}

// reader takes an encoding apart. After the first mistake it is bad and returns zeros.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.b, r.bad = nil, true
		return nil
	}
	taken := r.b[:n:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *reader) length() int {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || n > MaxBody {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[size:]
	return int(n)
}

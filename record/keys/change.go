package keys

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry/jsonscan"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/record/value"
)

// Op is what a change does to a record.
type Op byte

// The operations. In the data: do not change.
const (
	Create  Op = 1
	Update  Op = 2
	Delete  Op = 3 // into the trash
	Restore Op = 4 // from the trash
	Purge   Op = 5 // for good; the bodies of all changes of the record are redacted
)

var ops = [...]string{Create: "create", Update: "update", Delete: "delete", Restore: "restore", Purge: "purge"}

// String returns the name of the operation.
func (o Op) String() string {
	if int(o) < len(ops) && o > 0 {
		return ops[o]
	}
	return fmt.Sprintf("operation %d", byte(o))
}

// Change is one entry of the history of a collection.
type Change struct {
	ID      string
	Rev     uint64 // of the record after the change
	Seq     uint64 // of the change in the collection, from 1
	Op      Op
	At      time.Time // UTC, microseconds
	By      string    // id of the user; "": the program
	Request string    // id of the request; may be ""

	// Body is a JSON Patch (RFC 6902) from the data before to the data after, whose operations have the value before as
	// "old". It is nil if it was redacted.
	Body []byte

	// Full is the data after the change, which some changes have so that older data is found in few steps; else nil.
	Full []byte

	sum [sha256.Size]byte // of the body if it was redacted
}

// Redacted reports whether the change has lost its body.
func (c *Change) Redacted() bool { return c.Body == nil }

// The first byte of a stored change, and its flags. In the data: do not change.
const (
	changeFormat = 1

	flagFull     = 1
	flagRedacted = 2
)

// appendChange appends the change as it is stored, without its id and rev:
//
//	format, flags, op, uvarint seq, varint time in microseconds, then by, request, body, full, each after its uvarint
//	length; if redacted, the SHA-256 of the body instead of body and full
func appendChange(dst []byte, c *Change) []byte {
	flags := byte(0)
	switch {
	case c.Redacted():
		flags = flagRedacted
	case c.Full != nil:
		flags = flagFull
	}
	dst = append(dst, changeFormat, flags)
	dst = c.appendHeader(dst)
	if c.Redacted() {
		return append(dst, c.sum[:]...)
	}
	dst = appendBytes(dst, c.Body)
	if c.Full != nil {
		dst = appendBytes(dst, c.Full)
	}
	return dst
}

func appendBytes[T string | []byte](dst []byte, b T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

func (c *Change) appendHeader(dst []byte) []byte {
	dst = append(dst, byte(c.Op))
	dst = binary.AppendUvarint(dst, c.Seq)
	dst = binary.AppendVarint(dst, c.At.UnixMicro())
	dst = appendBytes(dst, c.By)
	return appendBytes(dst, c.Request)
}

// readChange reads what appendChange has written. The result does not alias b.
func readChange(id string, rev uint64, b []byte) (*Change, error) {
	c := &Change{ID: id, Rev: rev}
	if len(b) < 3 || b[0] != changeFormat || b[1]&^(flagFull|flagRedacted) != 0 {
		return nil, fmt.Errorf("change %d of record %s: unknown format", rev, id)
	}
	flags := b[1]
	c.Op = Op(b[2])
	r := reader{b: b[3:]}
	c.Seq = r.uvarint()
	c.At = time.UnixMicro(r.varint()).UTC()
	c.By, c.Request = r.text(), r.text()
	switch {
	case flags&flagRedacted != 0:
		if r.bad = r.bad || len(r.b) != len(c.sum); !r.bad {
			r.b = r.b[copy(c.sum[:], r.b):]
		}
	default:
		c.Body = []byte(r.text())
		if flags&flagFull != 0 {
			c.Full = []byte(r.text())
		}
	}
	if r.bad || len(r.b) > 0 {
		return nil, fmt.Errorf("change %d of record %s: damaged", rev, id)
	}
	return c, nil
}

// hash returns the hash of the change in the chain of its collection: of the hash before it, what it is about, and the
// hash of its body. So a redaction leaves it as it is.
func (c *Change) hash(before [sha256.Size]byte) [sha256.Size]byte {
	sum := c.sum
	if !c.Redacted() {
		sum = sha256.Sum256(c.Body)
	}
	b := append(before[:], sum[:]...)
	b = binary.AppendUvarint(appendBytes(b, c.ID), c.Rev)
	return sha256.Sum256(c.appendHeader(b))
}

// redact removes the body.
func (c *Change) redact() {
	if !c.Redacted() {
		c.sum = sha256.Sum256(c.Body)
		c.Body, c.Full = nil, nil
	}
}

// diff returns the body of the change from one data to another: an operation for each field and each other member that
// differs. Either may be nil, for a record that does not exist.
func diff(k *schema.Compiled, before, after []byte) []byte {
	was, is := members(before), members(after)
	body := []byte{'['}
	add := func(op, name string, now, old []byte) {
		if len(body) > 1 {
			body = append(body, ',')
		}
		body = append(append(body, `{"op":"`...), op...)
		body = value.AppendText(append(body, `","path":`...), schema.Pointer(name))
		if now != nil {
			body = append(append(body, `,"value":`...), now...)
		}
		if old != nil {
			body = append(append(body, `,"old":`...), old...)
		}
		body = append(body, '}')
	}
	for _, m := range was.list {
		now, ok := is.byName[m.name]
		switch {
		case !ok:
			add("remove", m.name, nil, m.raw)
		case !bytes.Equal(now, m.raw):
			add("replace", m.name, now, m.raw)
		}
	}
	for _, m := range is.list {
		if _, ok := was.byName[m.name]; !ok {
			add("add", m.name, m.raw, nil)
		}
	}
	return append(body, ']')
}

// object is a JSON object taken apart.
type object struct {
	list   []member
	byName map[string][]byte
}

type member struct {
	name string
	raw  []byte
}

// members takes the JSON object apart. No text has no members.
func members(text []byte) object {
	o := object{byName: map[string][]byte{}}
	if len(text) == 0 {
		return o
	}
	s := jsonscan.New(text)
	for s.Open(); s.More('}'); {
		name, _ := s.Text()
		m := member{string(name), s.Raw()}
		o.list = append(o.list, m)
		o.byName[m.name] = m.raw
	}
	return o
}

// step is one operation of a body.
type step struct {
	name     string
	now, old []byte // nil: not there
}

// steps reads the operations of a body that diff has made.
func steps(body []byte) (all []step, err error) {
	if !json.Valid(body) || body[0] != '[' {
		return nil, fmt.Errorf("a body that is not a JSON Patch")
	}
	s := jsonscan.New(body)
	for s.Open(); s.More(']'); {
		if s.Peek() != '{' {
			return nil, fmt.Errorf("a body that is not a JSON Patch")
		}
		m := members(s.Raw()).byName
		var path string
		if json.Unmarshal(m["path"], &path) != nil || path == "" || path[0] != '/' {
			return nil, fmt.Errorf("an operation without a path")
		}
		all = append(all, step{strings.ReplaceAll(strings.ReplaceAll(path[1:], "~1", "/"), "~0", "~"), m["value"], m["old"]})
	}
	return all, nil
}

// walk returns the data on the other side of a change: from the data after it, back to the data before it, or forward.
func walk(data, body []byte, back bool) ([]byte, error) {
	all, err := steps(body)
	if err != nil {
		return nil, err
	}
	o := members(data)
	for _, x := range all {
		to := x.now
		if back {
			to = x.old
		}
		at := slices.IndexFunc(o.list, func(m member) bool { return m.name == x.name })
		switch {
		case to == nil && at >= 0:
			o.list = slices.Delete(o.list, at, at+1)
		case to == nil:
		case at >= 0:
			o.list[at].raw = to
		default:
			o.list = append(o.list, member{x.name, to})
		}
	}
	text := []byte{'{'}
	for i, m := range o.list {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(value.AppendText(text, m.name), ':'), m.raw...)
	}
	return append(text, '}'), nil
}

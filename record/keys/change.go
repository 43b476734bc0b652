package keys

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
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
	// "old". Of a creation it is the data, an object. Passwords have the form of fingerprint in it. It is nil if it was
	// redacted. Edits reads it.
	Body []byte

	// Full is the stored record after the change, without passwords. Only some changes have it, so that older states
	// can be built in few steps; otherwise it is nil.
	Full []byte

	// Redaction says when and by whom the body was redacted.
	Redaction Mark

	Sum [sha256.Size]byte // of Body and Full if they were redacted
}

// Redacted reports whether the body was redacted.
func (c *Change) Redacted() bool { return c.Body == nil }

// bodySum returns what the chain has of body and Full.
func (c *Change) bodySum() [sha256.Size]byte {
	switch {
	case c.Redacted():
		return c.Sum
	case c.Full == nil:
		return sha256.Sum256(c.Body)
	}
	body, full := sha256.Sum256(c.Body), sha256.Sum256(c.Full)
	return sha256.Sum256(append(body[:], full[:]...))
}

// The first byte of a stored change, and its flags. In the data: do not change.
const (
	changeFormat = 1

	flagFull     = 1
	flagRedacted = 2
)

// appendChange appends the change as it is stored, without its id and rev:
//
//	format, flags, op, uvarint seq, varint time in microseconds, then by, request, body, full, each after its uvarint
//	length; if redacted, instead of body and full: the sum of them, varint time and actor of the redaction
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
		dst = binary.AppendVarint(append(dst, c.Sum[:]...), c.Redaction.At.UnixMicro())
		return appendBytes(dst, c.Redaction.By)
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
		c.Sum = r.hash()
		c.Redaction = Mark{time.UnixMicro(r.varint()).UTC(), r.text()}
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
// sum of its body. So a redaction leaves it as it is.
func (c *Change) hash(before [sha256.Size]byte) [sha256.Size]byte {
	sum := c.bodySum()
	b := append(before[:], sum[:]...)
	b = binary.AppendUvarint(appendBytes(b, c.ID), c.Rev)
	return sha256.Sum256(c.appendHeader(b))
}

// redact removes the body.
func (c *Change) redact(m Mark) {
	if !c.Redacted() {
		c.Sum, c.Redaction = c.bodySum(), m
		c.Body, c.Full = nil, nil
	}
}

// diff returns the body of the change from one data to another: an operation for each member that differs.
func diff(was, is object) []byte {
	body := []byte{'['}
	add := func(x Edit) {
		if len(body) > 1 {
			body = append(body, ',')
		}
		body = appendEdit(body, x, x.op())
	}
	for _, m := range was.list {
		now, ok := is.byName[m.name]
		switch {
		case !ok:
			add(Edit{m.name, nil, m.raw})
		case !bytes.Equal(now, m.raw):
			add(Edit{m.name, now, m.raw})
		}
	}
	for _, m := range is.list {
		if _, ok := was.byName[m.name]; !ok {
			add(Edit{m.name, m.raw, nil})
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

// hide replaces the passwords in data by what the history has of them.
func hide(k *schema.Compiled, o object) object {
	for _, name := range k.Secrets() {
		if raw, ok := o.byName[name]; ok {
			raw = fingerprint(raw)
			o.byName[name] = raw
			o.list[slices.IndexFunc(o.list, func(m member) bool { return m.name == name })].raw = raw
		}
	}
	return o
}

// fingerprintPrefix begins what the history has of a password.
const fingerprintPrefix = `"sha256:`

// fingerprint returns a text by which one sees that a password has changed. It is made of the salted hash of the
// password, so that it does not help to guess it.
func fingerprint(hash []byte) []byte {
	if bytes.HasPrefix(hash, []byte(fingerprintPrefix)) {
		return hash
	}
	sum := sha256.Sum256(hash)
	return append(hex.AppendEncode([]byte(fingerprintPrefix), sum[:16]), '"')
}

// Edit is one operation of a body: a member, with its values before and after.
type Edit struct {
	Name     string
	Now, Old []byte // JSON; nil: not there
}

// Edits reads the operations of a Body.
func Edits(body []byte) (all []Edit, err error) {
	if !jsonscan.Valid(body) || body[0] != '[' && body[0] != '{' {
		return nil, fmt.Errorf("the body is not a JSON Patch")
	}
	if body[0] == '{' {
		for _, m := range members(body).list {
			all = append(all, Edit{m.name, m.raw, nil})
		}
		return all, nil
	}
	s := jsonscan.New(body)
	for s.Open(); s.More(']'); {
		if s.Peek() != '{' {
			return nil, fmt.Errorf("the body is not a JSON Patch")
		}
		m := members(s.Raw()).byName
		var path string
		if json.Unmarshal(m["path"], &path) != nil || path == "" || path[0] != '/' {
			return nil, fmt.Errorf("an operation has no path")
		}
		all = append(all, Edit{strings.ReplaceAll(strings.ReplaceAll(path[1:], "~1", "/"), "~0", "~"), m["value"], m["old"]})
	}
	return all, nil
}

// Public returns the body for users: of a password, it shows only that it changed. It is nil if the body was redacted.
func (c *Change) Public(k *schema.Compiled) []byte {
	secret := func(name string) bool { return slices.Contains(k.Secrets(), name) }
	all, err := Edits(c.Body)
	if err != nil || c.Body[0] == '[' && !slices.ContainsFunc(all, func(x Edit) bool { return secret(x.Name) }) {
		return c.Body
	}
	body := []byte{'['}
	for _, x := range all {
		if len(body) > 1 {
			body = append(body, ',')
		}
		if secret(x.Name) {
			body = appendEdit(body, Edit{Name: x.Name}, x.op())
		} else {
			body = appendEdit(body, x, x.op())
		}
	}
	return append(body, ']')
}

// op returns the name of the operation.
func (x *Edit) op() string {
	switch {
	case x.Old == nil:
		return "add"
	case x.Now == nil:
		return "remove"
	}
	return "replace"
}

func appendEdit(dst []byte, x Edit, op string) []byte {
	dst = append(append(append(dst, `{"op":"`...), op...), `","path":`...)
	dst = value.AppendText(dst, schema.Pointer(x.Name))
	if x.Now != nil {
		dst = append(append(dst, `,"value":`...), x.Now...)
	}
	if x.Old != nil {
		dst = append(append(dst, `,"old":`...), x.Old...)
	}
	return append(dst, '}')
}

// walk applies a body to data: forward, from the data before to the data after, or back.
func (o *object) walk(body []byte, back bool) error {
	all, err := Edits(body)
	if err != nil {
		return err
	}
	for _, x := range all {
		to := x.Now
		if back {
			to = x.Old
		}
		o.set(x.Name, to)
	}
	return nil
}

// walk returns the data on the other side of a change.
func walk(data, body []byte, back bool) ([]byte, error) {
	o := members(data)
	err := o.walk(body, back)
	return o.text(), err
}

// set sets a member; nil removes it.
func (o *object) set(name string, to []byte) {
	at := slices.IndexFunc(o.list, func(m member) bool { return m.name == name })
	switch {
	case to == nil && at >= 0:
		o.list = slices.Delete(o.list, at, at+1)
		delete(o.byName, name)
		return
	case to == nil:
		return
	case at >= 0:
		o.list[at].raw = to
	default:
		o.list = append(o.list, member{name, to})
	}
	o.byName[name] = to
}

// text returns the object as JSON.
func (o *object) text() []byte {
	text := []byte{'{'}
	for i, m := range o.list {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(value.AppendText(text, m.name), ':'), m.raw...)
	}
	return append(text, '}')
}

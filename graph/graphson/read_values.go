package graphson

import (
	"encoding/base64"
	"time"
	"unicode/utf8"

	"github.com/skerrydb/skerry/graph/message"
	"github.com/skerrydb/skerry/graph/value"
)

func (r *reader) scalar(name string, v *node) (any, bool) {
	switch name {
	case "g:UUID":
		return r.uuid(v), true
	case "g:Date", "g:Timestamp":
		return time.UnixMilli(r.integer(v, 64)).UTC(), true
	case "gx:Instant", "gx:OffsetDateTime", "gx:ZonedDateTime":
		t, err := parseTime(r.string(v, "a date"))
		if err != nil {
			r.failf(v, "expected a date: %v", err)
		}
		return t, true
	case "gx:Duration":
		d, ok := parseDuration(r.string(v, "a duration"))
		if !ok {
			r.failf(v, "expected a duration as PT1H2M3.5S")
		}
		return d, true
	case "gx:Char":
		c, n := utf8.DecodeRuneInString(r.string(v, "a character"))
		if v == nil || n == 0 || n != len(v.text) {
			r.failf(v, "expected one character")
		}
		return value.Char(c), true
	case "gx:ByteBuffer":
		b, err := base64.StdEncoding.DecodeString(r.string(v, "bytes"))
		if err != nil {
			r.failf(v, "expected bytes in base64")
		}
		return b, true
	}
	if kind := kindOf(name); kind != "" {
		e := value.Enum{Kind: kind, Name: r.string(v, "a constant")}
		if !message.Known(e) {
			r.failf(v, "expected a constant of %s, found %q", kind, e.Name)
		}
		return e, true
	}
	return nil, false
}

func (r *reader) uuid(v *node) value.UUID {
	u, err := value.ParseUUID(r.string(v, "a UUID"))
	if err != nil {
		r.failf(v, "expected a UUID")
	}
	return u
}

func (r *reader) collection(name string, v *node) (any, bool) {
	switch name {
	case "g:List":
		return value.List(r.list(v, "a list")), true
	case "g:Set":
		s := &value.Set{}
		if r.want(v, array, "a set") {
			for _, item := range v.items {
				if x := r.key(item); r.err == nil {
					s.Add(x)
				}
			}
		}
		return s, true
	case "g:Map":
		return r.pairs(v), true
	case "g:BulkSet":
		return r.bulkSet(v), true
	case "g:Tree":
		return r.tree(v, &value.Tree{}), true
	case "g:Traverser":
		if !r.want(v, object, "a traverser") {
			return nil, true
		}
		t := message.Traverser{Val: r.value(v.field("value"))}
		t.Bulk, _ = r.value(v.field("bulk")).(int64)
		return t, r.hashed == 0
	}
	return nil, false
}

// list returns the items of an array; none after a failure.
func (r *reader) list(v *node, what string) []any {
	if !r.want(v, array, what) {
		return nil
	}
	items := r.items(v)
	if r.err != nil {
		return nil
	}
	return items
}

// pairs reads an array in which keys and values alternate.
func (r *reader) pairs(v *node) *value.Map {
	m := &value.Map{}
	if !r.want(v, array, "a map") {
		return m
	}
	if len(v.items)%2 != 0 {
		r.failf(v, "expected a value for each key")
	}
	for i := 0; i+1 < len(v.items) && r.err == nil; i += 2 {
		key := r.key(v.items[i])
		if val := r.value(v.items[i+1]); r.err == nil {
			m.Set(key, val)
		}
	}
	return m
}

// bulkSet reads an array in which values and how often they occur alternate. The
// sum is bounded, as a BulkSet may be written out as a list.
func (r *reader) bulkSet(v *node) any {
	s, sum := &value.BulkSet{}, int64(0)
	if !r.want(v, array, "a bulk set") {
		return s
	}
	if len(v.items)%2 != 0 {
		r.failf(v, "expected a bulk for each value")
	}
	for i := 0; i+1 < len(v.items) && r.err == nil; i += 2 {
		item := r.key(v.items[i])
		bulk, ok := value.Int(r.value(v.items[i+1]))
		if !ok || bulk < 0 || bulk > message.MaxValues-sum {
			r.failf(v.items[i+1], "expected a bulk from 0 to %d", message.MaxValues-sum)
		}
		if r.err == nil {
			s.Add(item, bulk)
			sum += bulk
		}
	}
	return s
}

// tree reads an array of keys with the trees below them, and adds them to t.
func (r *reader) tree(v *node, t *value.Tree) *value.Tree {
	if !r.want(v, array, "a tree") {
		return t
	}
	if r.depth++; r.depth > message.MaxDepth {
		r.failf(v, "expected values nested at most %d deep", message.MaxDepth)
		return t
	}
	for _, item := range v.items {
		key := r.key(item.field("key"))
		below := item.field("value")
		if below != nil && below.kind == object {
			below = below.field("@value")
		}
		if r.err == nil {
			r.tree(below, t.Child(key))
		}
	}
	r.depth--
	return t
}

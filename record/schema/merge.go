package schema

import (
	"github.com/skerrydb/skerry/jsonscan"
	"github.com/skerrydb/skerry/record/value"
)

// merge applies a JSON merge patch (RFC 7396) to a value.
func merge(v value.Value, patch []byte) (value.Value, error) {
	text := appendMerged(nil, v.AppendJSON(nil), patch)
	return value.Parse(text)
}

// appendMerged appends what a merge patch makes of a JSON text. Both must be valid and are not nested more deeply than
// value.MaxJSONDepth, or value.Parse refuses the result.
func appendMerged(dst, target, patch []byte) []byte {
	p := jsonscan.New(patch)
	if p.Peek() != '{' {
		return append(dst, p.Raw()...)
	}
	type change struct {
		raw  []byte
		used bool
	}
	changes := map[string]*change{}
	var order []string
	for p.Open(); p.More('}'); {
		name, _ := p.Text()
		key := string(name)
		if changes[key] == nil {
			changes[key] = &change{}
			order = append(order, key)
		}
		changes[key].raw = p.Raw()
	}
	from := len(dst)
	member := func(name string, was, now []byte) {
		if now[0] == 'n' {
			return
		}
		if len(dst) == from {
			dst = append(dst, '{')
		} else {
			dst = append(dst, ',')
		}
		dst = append(value.AppendText(dst, name), ':')
		dst = appendMerged(dst, was, now)
	}
	t := jsonscan.New(target)
	if t.Peek() == '{' {
		for t.Open(); t.More('}'); {
			name, _ := t.Text()
			key, was := string(name), t.Raw()
			if c := changes[key]; c != nil {
				c.used = true
				member(key, was, c.raw)
			} else {
				keep(&dst, from, key, was)
			}
		}
	}
	for _, key := range order {
		if !changes[key].used {
			member(key, []byte("null"), changes[key].raw)
		}
	}
	if len(dst) == from {
		dst = append(dst, '{')
	}
	return append(dst, '}')
}

// keep appends a member that the patch does not name.
func keep(dst *[]byte, from int, name string, raw []byte) {
	sep := byte(',')
	if len(*dst) == from {
		sep = '{'
	}
	*dst = append(append(value.AppendText(append(*dst, sep), name), ':'), raw...)
}

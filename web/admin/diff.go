package admin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of a comparison.
const (
	maxMembers    = 200     // fields of a record that a page shows, those that differ first
	maxPart       = 2_000   // bytes of one part of a value
	maxContext    = 160     // bytes of what is the same before and after a difference
	maxDiffTokens = 400     // words of each side that are compared one by one
	maxExpand     = 1 << 20 // bytes of a JSON value that is indented
)

// diffPart is a piece of a value.
type diffPart struct {
	Kind string `json:"kind"` // same, del or ins
	Text string `json:"text"`
}

// pastMember is one field of a record, compared with that of another revision.
type pastMember struct {
	Name    string     `json:"name"`
	Changed bool       `json:"changed"`
	None    bool       `json:"none"` // it has no value
	Parts   []diffPart `json:"parts"`
}

// pastField is a member of the data of a record, in its order.
type pastField struct {
	name string
	raw  json.RawMessage
}

var errNoObject = errors.New("no JSON object")

// membersOf returns the members of a JSON object.
func membersOf(data []byte) ([]pastField, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, cmp.Or(err, errNoObject)
	}
	var all []pastField
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		f := pastField{name: name.(string)} // Token checks that
		if err := d.Decode(&f.raw); err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

// compareMembers returns the fields of a record, with how they differ from those of another; before is nil if there is none to compare
// with. more is how many were left out.
func compareMembers(before, now []pastField, alone bool) (all []pastMember, more int) {
	old := map[string]json.RawMessage{}
	for _, f := range before {
		old[f.name] = f.raw
	}
	for _, f := range now {
		was, ok := old[f.name]
		delete(old, f.name)
		if alone {
			was, ok = f.raw, true
		}
		m := pastMember{Name: f.name, Changed: !ok || !bytes.Equal(was, f.raw)}
		if m.Changed {
			m.Parts = diffOf(valueText(was), valueText(f.raw))
		} else {
			m.Parts = []diffPart{{"same", shorten(valueText(f.raw), maxPart)}}
		}
		all = append(all, m)
	}
	for _, f := range before {
		if raw, gone := old[f.name]; gone && !alone {
			all = append(all, pastMember{Name: f.name, Changed: true, None: true, Parts: diffOf(valueText(raw), "")})
		}
	}
	if len(all) > maxMembers {
		slices.SortStableFunc(all, func(a, b pastMember) int {
			switch {
			case a.Changed == b.Changed:
				return 0
			case a.Changed:
				return -1
			}
			return 1
		})
		more = len(all) - maxMembers
		all = all[:maxMembers]
	}
	return all, more
}

// valueText returns a JSON value as people read it: texts without quotes, objects and arrays in lines.
func valueText(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	switch raw[0] {
	case '"':
		var s string
		if json.Unmarshal(raw, &s) == nil {
			return s
		}
	case '{', '[':
		var b bytes.Buffer
		if len(raw) <= maxExpand && json.Indent(&b, raw, "", "  ") == nil {
			return b.String()
		}
	}
	return string(raw)
}

// diffOf returns the parts in which two texts differ, and what is around them.
func diffOf(a, b string) []diffPart {
	head, tail := shared(a, b)
	before, after := a[:head], a[len(a)-tail:]
	del, ins := a[head:len(a)-tail], b[head:len(b)-tail]
	all := []diffPart{{"same", lastOf(before, maxContext)}}
	from, to := wordsIn(del), wordsIn(ins)
	if from != nil && to != nil {
		all = append(all, byWord(from, to)...)
	} else {
		all = append(all, diffPart{"del", shorten(del, maxPart)}, diffPart{"ins", shorten(ins, maxPart)})
	}
	all = append(all, diffPart{"same", shorten(after, maxContext)})
	return slices.DeleteFunc(all, func(p diffPart) bool { return p.Text == "" })
}

// shared returns how many bytes two texts have in common at their beginnings and ends. Words are not cut, unless they are long.
func shared(a, b string) (head, tail int) {
	most := min(len(a), len(b))
	for head < most && a[head] == b[head] {
		head++
	}
	for head > 0 && (inRune(a, head) || inRune(b, head)) {
		head--
	}
	if inWord(a, head) || inWord(b, head) {
		start := strings.LastIndexFunc(a[:head], func(r rune) bool { return !isWord(r) })
		if start >= 0 {
			_, n := utf8.DecodeRuneInString(a[start:])
			start += n
		}
		if start = max(start, 0); head-start <= maxContext {
			head = start
		}
	}
	for tail < most-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	for tail > 0 && inRune(a, len(a)-tail) {
		tail--
	}
	if inWord(a, len(a)-tail) || inWord(b, len(b)-tail) {
		n := strings.IndexFunc(a[len(a)-tail:], func(r rune) bool { return !isWord(r) })
		if n < 0 {
			n = tail
		}
		if n <= maxContext {
			tail -= n
		}
	}
	return head, tail
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }

// inRune reports whether an index is within a character.
func inRune(s string, i int) bool { return i < len(s) && !utf8.RuneStart(s[i]) }

// inWord reports whether an index is within a word.
func inWord(s string, i int) bool {
	before, _ := utf8.DecodeLastRuneInString(s[:i])
	after, _ := utf8.DecodeRuneInString(s[i:])
	return isWord(before) && isWord(after)
}

// lastOf returns the end of a text.
func lastOf(s string, n int) string {
	if len(s) <= n {
		return s
	}
	i := len(s) - n
	for i < len(s) && !utf8.RuneStart(s[i]) {
		i++
	}
	return "…" + s[i:]
}

// wordsIn splits a text into words and what is between them; nil if there are too many.
func wordsIn(s string) []string {
	if len(s) > maxPart*4 {
		return nil
	}
	all := []string{}
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if isWord(r) {
			if n = strings.IndexFunc(s, func(r rune) bool { return !isWord(r) }); n < 0 {
				n = len(s)
			}
		}
		if all = append(all, s[:n]); len(all) > maxDiffTokens {
			return nil
		}
		s = s[n:]
	}
	return all
}

// byWord compares words.
func byWord(a, b []string) []diffPart {
	var all []diffPart
	var del, ins strings.Builder
	flush := func() {
		all = append(all, diffPart{"del", shorten(del.String(), maxPart)}, diffPart{"ins", shorten(ins.String(), maxPart)})
		del.Reset()
		ins.Reset()
	}
	align(a, b, func(kind, text string) {
		n := len(all)
		switch {
		case kind == "del":
			del.WriteString(text)
		case kind == "ins":
			ins.WriteString(text)
		case n > 0 && all[n-1].Kind == "same" && del.Len() == 0 && ins.Len() == 0:
			all[n-1].Text += text
		default:
			flush()
			all = append(all, diffPart{"same", text})
		}
	})
	flush()
	return all
}

// align calls each for the elements of the shortest difference of two lists, in order: "same" for those of their longest common
// subsequence, "del" and "ins" for the others of a and b. Its memory is the product of their lengths.
func align(a, b []string, each func(kind, text string)) {
	long := make([][]int, len(a)+1)
	for i := range long {
		long[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				long[i][j] = long[i+1][j+1] + 1
			} else {
				long[i][j] = max(long[i+1][j], long[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			each("same", a[i])
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && long[i+1][j] >= long[i][j+1]:
			each("del", a[i])
			i++
		default:
			each("ins", b[j])
			j++
		}
	}
}

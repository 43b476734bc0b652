package series

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/skerrydb/skerry/engine"
)

// NameLabel is the label that has the name of a series.
const NameLabel = "__name__"

// Label is one name and value. A label with an empty value is the same as none.
type Label struct{ Name, Value string }

// Labels identify a series. They are sorted by name, each name once, without empty values; NewLabels makes them so.
type Labels []Label

// NewLabels returns the labels of a series with a name, from labels in any order. It sorts and changes the slice.
// The errors are CodeLabels: an empty name, a name twice, text that is not UTF-8, or more than the limits.
func NewLabels(name string, labels ...Label) (Labels, error) {
	l := Labels(append(labels, Label{NameLabel, name}))
	return l, l.normalize()
}

func (l *Labels) normalize() error {
	s := *l
	for _, x := range s {
		if err := x.check(); err != nil {
			return err
		}
	}
	s = slices.DeleteFunc(s, func(x Label) bool { return x.Value == "" })
	slices.SortFunc(s, func(a, b Label) int { return cmp.Compare(a.Name, b.Name) })
	size := 0
	for i, x := range s {
		if i > 0 && s[i-1].Name == x.Name {
			if x.Name == NameLabel {
				return engine.Errorf(CodeLabels, "the label %s comes twice: it is also the name of the series", NameLabel)
			}
			return engine.Errorf(CodeLabels, "the label %s comes twice", show(x.Name))
		}
		size += len(x.Name) + len(x.Value) + 4
	}
	switch {
	case len(s) == 0:
		return engine.Errorf(CodeLabels, "a series needs a name or a label")
	case len(s) > MaxLabels:
		return engine.Errorf(CodeLabels, "%d labels are over the limit of %d", len(s), MaxLabels)
	case size > MaxLabelsBytes:
		return engine.Errorf(CodeLabels, "labels of %d bytes in all are over the limit of %d", size, MaxLabelsBytes)
	}
	*l = s
	return nil
}

func (x Label) check() error {
	switch {
	case x.Name == "":
		return engine.Errorf(CodeLabels, "a label has no name")
	case len(x.Name) > MaxNameBytes:
		return engine.Errorf(CodeLabels, "the label name %s of %d bytes is over the limit of %d", show(x.Name), len(x.Name), MaxNameBytes)
	case len(x.Value) > MaxValueBytes:
		return engine.Errorf(CodeLabels, "the value of label %s has %d bytes, over the limit of %d", show(x.Name), len(x.Value), MaxValueBytes)
	case !utf8.ValidString(x.Name) || !utf8.ValidString(x.Value):
		return engine.Errorf(CodeLabels, "the label %s is not UTF-8", show(x.Name))
	}
	return nil
}

// show quotes the beginning of a text for an error message.
func show(s string) string {
	const most = 40
	if len(s) > most {
		return strconv.Quote(s[:most]) + "…"
	}
	return strconv.Quote(s)
}

// Get returns the value of a label, "" if there is none.
func (l Labels) Get(name string) string {
	for _, x := range l {
		if x.Name == name {
			return x.Value
		}
	}
	return ""
}

// String returns the labels in Prometheus's notation: name{label="value"}.
func (l Labels) String() string {
	var b strings.Builder
	b.WriteString(l.Get(NameLabel))
	sep := byte('{')
	for _, x := range l {
		if x.Name == NameLabel {
			continue
		}
		b.WriteByte(sep)
		sep = ','
		b.WriteString(x.Name + "=" + strconv.Quote(x.Value))
	}
	if sep == ',' {
		b.WriteByte('}')
	} else if b.Len() == 0 {
		return "{}"
	}
	return b.String()
}

// encode returns the labels as stored. On disk: do not change.
func (l Labels) encode() []byte {
	var b []byte
	for _, x := range l {
		b = appendText(appendText(b, x.Name), x.Value)
	}
	return b
}

// decodeLabels calls label with each label of an encoding, and reports whether it is whole.
func decodeLabels(b []byte, label func(name, value []byte)) bool {
	for len(b) > 0 {
		name, rest, ok := text(b)
		if !ok {
			return false
		}
		value, rest, ok := text(rest)
		if !ok {
			return false
		}
		label(name, value)
		b = rest
	}
	return true
}

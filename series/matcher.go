package series

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/engine"
)

// Op is how a Matcher compares.
type Op uint8

// The operators of matchers, as in Prometheus.
const (
	Equal     Op = iota // =
	NotEqual            // !=
	Regexp              // =~
	NotRegexp           // !~
)

var ops = [...]string{"=", "!=", "=~", "!~"}

// String returns the operator as it is written.
func (o Op) String() string { return ops[o] }

// Matcher selects series by one label. A series without the label has the value "". A regular expression has
// Go's syntax (RE2) and must match the whole value.
type Matcher struct {
	Name, Value string
	Op          Op

	re  *regexp.Regexp
	set []string // if not nil: the only values that the expression matches
}

// NewMatcher returns a matcher, or CodeMatcher.
func NewMatcher(name string, op Op, value string) (Matcher, error) {
	m := Matcher{Name: name, Op: op, Value: value}
	switch {
	case name == "":
		return m, engine.Errorf(CodeMatcher, "a matcher has no label")
	case op > NotRegexp:
		return m, engine.Errorf(CodeMatcher, "the operator %d of the matcher of %s does not exist", op, show(name))
	case op < Regexp:
		return m, nil
	case len(value) > MaxRegexpBytes:
		return m, engine.Errorf(CodeMatcher, "the regular expression of %s has %d bytes, over the limit of %d", show(name), len(value), MaxRegexpBytes)
	}
	_, err := syntax.Parse(value, syntax.Perl) // by itself, as "a)|(b" is one only in the group below
	var re *regexp.Regexp
	if err == nil {
		re, err = regexp.Compile(`^(?s:` + value + `)$`)
	}
	if err != nil {
		return m, engine.Errorf(CodeMatcher, "the regular expression of %s: %v", show(name), err)
	}
	m.re, m.set = re, alternatives(value)
	return m, nil
}

// alternatives returns the values of an expression like a|b|c, nil for any other one.
func alternatives(value string) []string {
	parsed, err := syntax.Parse(value, syntax.Perl)
	if err != nil || strings.ContainsAny(value, `\.+*?()[]{}^$`) || parsed.Op == syntax.OpEmptyMatch {
		return nil
	}
	set := strings.Split(value, "|")
	slices.Sort(set)
	return slices.Compact(set)
}

// Matches reports whether a value matches.
func (m Matcher) Matches(value string) bool {
	switch m.Op {
	case Equal:
		return value == m.Value
	case NotEqual:
		return value != m.Value
	}
	matched := false
	if m.set != nil {
		_, matched = slices.BinarySearch(m.set, value)
	} else {
		matched = m.re.MatchString(value)
	}
	return matched == (m.Op == Regexp)
}

// String returns the matcher as it is written.
func (m Matcher) String() string { return m.Name + m.Op.String() + `"` + m.Value + `"` }

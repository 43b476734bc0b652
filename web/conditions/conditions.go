// Package conditions reads what requests ask of the state that they meet: If-Match and If-None-Match, which compare
// revisions, and Idempotency-Key, which makes a write safe to repeat.
//
// It knows these headers. It must not know routes, or what has a revision.
package conditions

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/problem"
)

// MaxTags is the maximum number of entity tags in one If-Match or If-None-Match; more is engine.CodeLimit.
const MaxTags = 64

// Conditions are If-Match and If-None-Match of one request, RFC 9110 section 13. The zero value is always met.
type Conditions struct {
	match, noneMatch tagList
}

// tagList is the value of one of the two headers.
type tagList struct {
	given bool
	any   bool // *
	tags  []tag
}

// tag is one entity tag. A tag that Skerry never issued has rev 0, which nothing has.
type tag struct {
	rev  uint64
	weak bool
}

// Of reads the conditions of a request. A malformed condition is an error: ignoring it would allow a write
// that the client meant to be conditional.
func Of(h http.Header) (Conditions, error) {
	var c Conditions
	var err error
	// Checked first: nearly all requests have neither.
	if lines := h["If-Match"]; lines != nil {
		if c.match, err = parseTags("If-Match", lines); err != nil {
			return c, err
		}
	}
	if lines := h["If-None-Match"]; lines != nil {
		c.noneMatch, err = parseTags("If-None-Match", lines)
	}
	return c, err
}

// Given reports whether there is any condition.
func (c *Conditions) Given() bool { return c.match.given || c.noneMatch.given }

// AllowWrite decides on a write to what, such as "key", which has revision rev, 0 if it is absent.
func (c *Conditions) AllowWrite(what string, rev uint64) error {
	if c.match.given && !c.match.holds(rev, false) {
		if rev == 0 {
			return engine.Errorf(engine.CodePreconditionFailed, "If-Match: the %s does not exist; nothing was written", what)
		}
		return engine.Errorf(engine.CodePreconditionFailed, "If-Match: the %s is at revision %d; nothing was written", what, rev)
	}
	if c.noneMatch.given && c.noneMatch.holds(rev, true) {
		return engine.Errorf(engine.CodePreconditionFailed, "If-None-Match: the %s exists, at revision %d; nothing was written", what, rev)
	}
	return nil
}

// AllowRead decides on a read of what, such as "key", at revision rev. unchanged means that the client already has it.
func (c *Conditions) AllowRead(what string, rev uint64) (unchanged bool, err error) {
	if c.match.given && !c.match.holds(rev, false) {
		return false, engine.Errorf(engine.CodePreconditionFailed, "If-Match: the %s is at revision %d", what, rev)
	}
	return c.noneMatch.given && c.noneMatch.holds(rev, true), nil
}

// holds reports whether the list names rev. Weak tags count only if weak is set.
func (l *tagList) holds(rev uint64, weak bool) bool {
	if rev == 0 {
		return false
	}
	if l.any {
		return true
	}
	for _, t := range l.tags {
		if t.rev == rev && (weak || !t.weak) {
			return true
		}
	}
	return false
}

// parseTags parses the lines of one header: * or a list of entity tags.
func parseTags(name string, lines []string) (tagList, error) {
	l := tagList{given: true}
	bad := func() error {
		return badHeader(name, engine.CodeInvalid, `expected * or entity tags in double quotes, such as the ETag of a response`)
	}
	rest := lines[0]
	if len(lines) > 1 {
		rest = strings.Join(lines, ",")
	}
	if strings.Trim(rest, " \t") == "*" {
		l.any = true
		return l, nil
	}
	for rest = strings.TrimLeft(rest, " \t,"); rest != ""; rest = strings.TrimLeft(rest, " \t,") {
		var t tag
		rest, t.weak = strings.CutPrefix(rest, "W/")
		if rest == "" || rest[0] != '"' {
			return l, bad()
		}
		text, after, ok := strings.Cut(rest[1:], `"`)
		after = strings.TrimLeft(after, " \t")
		if !ok || after != "" && after[0] != ',' {
			return l, bad()
		}
		if rev, err := strconv.ParseUint(text, 10, 64); err == nil && text[0] != '0' {
			t.rev = rev
		}
		if len(l.tags) == MaxTags {
			return l, badHeader(name, engine.CodeLimit, "more than "+strconv.Itoa(MaxTags)+" entity tags")
		}
		l.tags, rest = append(l.tags, t), after
	}
	if l.tags == nil {
		return l, bad()
	}
	return l, nil
}

func badHeader(name string, code engine.Code, detail string) error {
	return problem.Faults{{Header: name, Code: code, Detail: detail}}
}

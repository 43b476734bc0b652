package series

import (
	"strconv"
	"strings"

	"github.com/skerrydb/skerry/engine"
)

// ParseSelector reads a selector in Prometheus's notation: name{label="value",other=~"a|b"}. The name or the braces may
// be missing, but not both. Values are quoted as in Go, with ", ' or `.
func ParseSelector(text string) ([]Matcher, error) {
	p := selectorParser{rest: strings.TrimSpace(text), all: len(text)}
	var match []Matcher
	if name := p.name(); name != "" {
		match = append(match, Matcher{Name: NameLabel, Value: name})
	}
	p.space()
	if p.rest == "" && len(match) > 0 {
		return match, nil
	}
	if !p.take("{") {
		return nil, p.fault("expected a name or {")
	}
	for !p.take("}") {
		m, err := p.matcher()
		if err != nil {
			return nil, err
		}
		match = append(match, m)
		if len(match) > MaxMatchers {
			return nil, engine.Errorf(engine.CodeLimit, "a selector has more than %d matchers", MaxMatchers)
		}
		if !p.take(",") && !strings.HasPrefix(p.rest, "}") {
			return nil, p.fault("expected , or }")
		}
	}
	if p.rest != "" {
		return nil, p.fault("expected nothing more")
	}
	return match, nil
}

type selectorParser struct {
	rest string
	all  int
}

func (p *selectorParser) fault(what string) error {
	at := "the end"
	if p.rest != "" {
		at = show(p.rest)
	}
	return engine.Errorf(CodeMatcher, "the selector is malformed: %s at %s", what, at)
}

func (p *selectorParser) space() { p.rest = strings.TrimLeft(p.rest, " \t\n\r") }

// take takes a token and the space around it.
func (p *selectorParser) take(token string) bool {
	p.space()
	rest, ok := strings.CutPrefix(p.rest, token)
	if ok {
		p.rest = rest
		p.space()
	}
	return ok
}

// name takes an unquoted name, "" if there is none.
func (p *selectorParser) name() string {
	n := 0
	for n < len(p.rest) {
		c := p.rest[n]
		if !(c == '_' || c == ':' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || n > 0 && (c >= '0' && c <= '9' || c == '.' || c == '-')) {
			break
		}
		n++
	}
	name := p.rest[:n]
	p.rest = p.rest[n:]
	return name
}

// quoted takes a quoted text.
func (p *selectorParser) quoted() (string, error) {
	p.space()
	raw, err := strconv.QuotedPrefix(p.rest)
	if err == nil && raw[0] == '\'' {
		err = strconv.ErrSyntax // in Go it is one character
	}
	if err != nil {
		return p.singleQuoted()
	}
	p.rest = p.rest[len(raw):]
	return strconv.Unquote(raw)
}

// singleQuoted takes a text in single quotes.
func (p *selectorParser) singleQuoted() (string, error) {
	if !strings.HasPrefix(p.rest, "'") {
		return "", p.fault("expected a quoted value")
	}
	for i := 1; i < len(p.rest); i++ {
		switch p.rest[i] {
		case '\\':
			i++
		case '\'':
			inner := strings.ReplaceAll(strings.ReplaceAll(p.rest[1:i], `\'`, `'`), `"`, `\"`)
			s, err := strconv.Unquote(`"` + inner + `"`)
			if err != nil {
				return "", p.fault("expected a quoted value")
			}
			p.rest = p.rest[i+1:]
			return s, nil
		}
	}
	return "", p.fault("the quote is not closed")
}

func (p *selectorParser) matcher() (m Matcher, err error) {
	name := p.name()
	if name == "" {
		if name, err = p.quoted(); err != nil {
			return m, p.fault("expected a label")
		}
	}
	p.space()
	op := Equal
	switch {
	case p.take("=~"):
		op = Regexp
	case p.take("!~"):
		op = NotRegexp
	case p.take("!="):
		op = NotEqual
	case p.take("="):
	default:
		return m, p.fault("expected =, !=, =~ or !~")
	}
	value, err := p.quoted()
	if err != nil {
		return m, err
	}
	return NewMatcher(name, op, value)
}

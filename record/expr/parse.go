package expr

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/skerrydb/skerry/record/value"
)

// Parse parses an expression. Errors are *Error with the position. An empty text is an error.
func Parse(text string) (Expr, error) {
	if len(text) > MaxTextBytes {
		return nil, &Error{Text: fmt.Sprintf("the expression is too long (%d bytes, limit %d)", len(text), MaxTextBytes)}
	}
	if !utf8.ValidString(text) {
		return nil, &Error{Text: "the expression is not valid UTF-8"}
	}
	p := &parser{lexer: lexer{text: text}}
	if err := p.step(); err != nil {
		return nil, err
	}
	x, err := p.or()
	if err != nil {
		return nil, err
	}
	if p.token.kind != end {
		return nil, p.unexpected("&&, || or the end")
	}
	return x, nil
}

// parser reads by recursive descent with one token ahead.
type parser struct {
	lexer
	token
	last  int // where the token before ends
	depth int
	terms int
}

func (p *parser) step() (err error) {
	p.last = p.token.End
	p.token, err = p.lexer.next()
	return err
}

func (p *parser) unexpected(want string) error {
	return p.fail(p.token.Pos, "found %v instead of %s", p.token, want)
}

// is reports whether the current token is one of signs, or a keyword that means the first of them.
func (p *parser) is(sign_, keyword string) bool {
	return p.kind == sign && p.token.text == sign_ || p.kind == name && keyword != "" && p.token.text == keyword
}

// keywords cannot name fields at the beginning of a path.
var keywords = []string{"and", "or", "not", "in", "true", "false", "null"}

// Reserved reports whether name is a keyword of the language, which cannot name a field.
func Reserved(name string) bool { return slices.Contains(keywords, name) }

func (p *parser) or() (Expr, error) {
	terms, err := p.chain("||", "or", p.and)
	if err != nil || len(terms) == 1 {
		return first(terms), err
	}
	return &Or{around(terms), flat(terms, func(x Expr) []Expr {
		if o, ok := x.(*Or); ok {
			return o.Terms
		}
		return nil
	})}, nil
}

func (p *parser) and() (Expr, error) {
	terms, err := p.chain("&&", "and", p.not)
	if err != nil || len(terms) == 1 {
		return first(terms), err
	}
	return &And{around(terms), flat(terms, func(x Expr) []Expr {
		if a, ok := x.(*And); ok {
			return a.Terms
		}
		return nil
	})}, nil
}

// chain reads terms between which sign stands.
func (p *parser) chain(sign, keyword string, term func() (Expr, error)) (terms []Expr, err error) {
	for {
		x, err := term()
		if err != nil {
			return nil, err
		}
		if terms = append(terms, x); !p.is(sign, keyword) {
			return terms, nil
		}
		if err := p.step(); err != nil {
			return nil, err
		}
	}
}

func first(terms []Expr) Expr {
	if len(terms) == 0 {
		return nil
	}
	return terms[0]
}

func around(terms []Expr) Span {
	return Span{terms[0].At().Pos, terms[len(terms)-1].At().End}
}

// flat replaces each term that has terms of its own of the same kind by those.
func flat(terms []Expr, within func(Expr) []Expr) (all []Expr) {
	for _, x := range terms {
		if more := within(x); more != nil {
			all = append(all, more...)
		} else {
			all = append(all, x)
		}
	}
	return all
}

// deeper counts a level of nesting until the function that it returns is called.
func (p *parser) deeper() error {
	if p.depth++; p.depth > MaxDepth {
		return p.fail(p.token.Pos, "nested more than %d levels deep", MaxDepth)
	}
	return nil
}

func (p *parser) not() (Expr, error) {
	if !p.is("!", "not") {
		return p.primary()
	}
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	pos := p.token.Pos
	if err := p.step(); err != nil {
		return nil, err
	}
	x, err := p.not()
	if err != nil {
		return nil, err
	}
	return &Not{Span{pos, p.last}, x}, nil
}

func (p *parser) primary() (Expr, error) {
	if !p.is("(", "") {
		return p.comparison()
	}
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	if err := p.step(); err != nil {
		return nil, err
	}
	x, err := p.or()
	if err != nil {
		return nil, err
	}
	if !p.is(")", "") {
		return nil, p.unexpected("a closing parenthesis")
	}
	return x, p.step()
}

func (p *parser) comparison() (Expr, error) {
	if err := p.term(); err != nil {
		return nil, err
	}
	left, err := p.operand()
	if err != nil {
		return nil, err
	}
	if p.is("", "in") {
		return p.in(left)
	}
	negated := p.is("", "not") // x not in (…)
	if negated {
		return p.notIn(left)
	}
	op := Op(0)
	if p.kind == sign {
		op = Op(max(0, slices.Index(ops[:], p.token.text)))
	}
	if op == 0 {
		return &Compare{left.At(), Equal, left, &Literal{left.At(), value.OfBool(true)}}, nil
	}
	if err := p.step(); err != nil {
		return nil, err
	}
	right, err := p.operand()
	if err != nil {
		return nil, err
	}
	return &Compare{Span{left.At().Pos, p.last}, op, left, right}, nil
}

func (p *parser) notIn(left Operand) (Expr, error) {
	if err := p.step(); err != nil {
		return nil, err
	}
	if !p.is("", "in") {
		return nil, p.unexpected("in")
	}
	x, err := p.in(left)
	if err != nil {
		return nil, err
	}
	return &Not{x.At(), x}, nil
}

func (p *parser) in(left Operand) (Expr, error) {
	if err := p.step(); err != nil {
		return nil, err
	}
	if !p.is("(", "") {
		return nil, p.unexpected("a list in parentheses")
	}
	in := &In{Span{Pos: left.At().Pos}, left, nil}
	for {
		if err := p.step(); err != nil {
			return nil, err
		}
		if len(in.List) == 0 && p.is(")", "") {
			break
		}
		if err := p.term(); err != nil {
			return nil, err
		}
		v, err := p.operand()
		if err != nil {
			return nil, err
		}
		if in.List = append(in.List, v); !p.is(",", "") {
			break
		}
	}
	if !p.is(")", "") {
		return nil, p.unexpected("a comma or a closing parenthesis")
	}
	err := p.step()
	in.End = p.last
	return in, err
}

// term counts a comparison or a value of a list.
func (p *parser) term() error {
	if p.terms++; p.terms > MaxTerms {
		return p.fail(p.token.Pos, "more than %d comparisons and values", MaxTerms)
	}
	return nil
}

func (p *parser) operand() (Operand, error) {
	x, err := p.simple()
	if err != nil {
		return nil, err
	}
	for {
		by, found, err := p.shift()
		if !found || err != nil {
			return x, err
		}
		if s, ok := x.(*Shift); ok {
			if by += s.By; by > maxShift || by < -maxShift {
				return nil, p.fail(s.Pos, "a shift of more than 100 years")
			}
			x = s.X
		}
		x = &Shift{Span{x.At().Pos, p.last}, x, by}
	}
}

// shift reads a sign and a duration, if they follow.
func (p *parser) shift() (by time.Duration, found bool, err error) {
	by = p.token.shift
	if p.kind == duration && p.token.text[0] == '-' { // -7d is one token
		return by, true, p.step()
	}
	minus := p.is("-", "")
	if !minus && !p.is("+", "") {
		return 0, false, nil
	}
	if err := p.step(); err != nil {
		return 0, false, err
	}
	if by = p.token.shift; p.kind != duration || p.token.text[0] == '-' {
		return 0, false, p.unexpected("a duration such as 7d")
	}
	if minus {
		by = -by
	}
	return by, true, p.step()
}

func (p *parser) simple() (Operand, error) {
	t := p.token
	switch t.kind {
	case literal:
		return &Literal{t.Span, t.value}, p.step()
	case name:
		switch t.text {
		case "true", "false":
			return &Literal{t.Span, value.OfBool(t.text == "true")}, p.step()
		case "null":
			return &Literal{t.Span, value.Value{}}, p.step()
		}
		if Reserved(t.text) {
			return nil, p.unexpected("a field or a value")
		}
		names, err := p.names()
		return &Path{Span{t.Pos, p.last}, names}, err
	case variable:
		names, err := p.names()
		return &Var{Span{t.Pos, p.last}, names}, err
	}
	return nil, p.unexpected("a field or a value")
}

// names reads the current name and those that follow it after points.
func (p *parser) names() (names []string, err error) {
	names = []string{p.token.text}
	for {
		if err = p.step(); err != nil || !p.is(".", "") {
			return names, err
		}
		if err = p.step(); err != nil {
			return names, err
		}
		if p.kind != name {
			return names, p.unexpected("a name after the point")
		}
		if names = append(names, p.token.text); len(names) > MaxNames {
			return names, p.fail(p.token.Pos, "a path of more than %d names", MaxNames)
		}
	}
}

package expr

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/skerrydb/skerry/record/value"
)

// ParseJSON reads an expression from JSON. It returns nil for an empty object, which everything matches. The members
// of an object must all be true:
//
//	{"and": [FILTER, …]}, {"or": [FILTER, …]}, {"not": FILTER}
//	{"total": 5}                      equals; null equals an absent value
//	{"total": [5, 6]}                 is one of
//	{"total": {">": 5, "!=": 7}}      the comparisons of the language, and "in" with a list
//	{"total": ">5"}                   the same as {">": "5"}, as GotRo writes it
//
// The left side may be any operand of the language. The right side is a value, or {"expr": OPERAND} for any other
// operand, such as {"expr": "@now - 7d"}.
func ParseJSON(text []byte) (Expr, error) {
	if len(text) > MaxTextBytes {
		return nil, &Error{Text: fmt.Sprintf("the expression is too long (%d bytes, limit %d)", len(text), MaxTextBytes)}
	}
	if !utf8.Valid(text) {
		return nil, &Error{Text: "the expression is not valid UTF-8"}
	}
	r := &reader{dec: json.NewDecoder(bytes.NewReader(text))}
	r.dec.UseNumber()
	t, err := r.token()
	if err != nil {
		return nil, err
	}
	x, err := r.filter(t)
	if err != nil {
		return nil, err
	}
	if _, err := r.dec.Token(); err != io.EOF {
		return nil, r.fail("unexpected text after the expression")
	}
	return x, nil
}

// reader reads the tokens of a JSON text.
type reader struct {
	dec   *json.Decoder
	depth int
	terms int
}

func (r *reader) fail(format string, args ...any) error {
	return &Error{Pos: int(r.dec.InputOffset()), Text: fmt.Sprintf(format, args...)}
}

func (r *reader) token() (json.Token, error) {
	t, err := r.dec.Token()
	if err != nil {
		return nil, r.fail("invalid JSON (%v)", strings.TrimPrefix(err.Error(), "invalid "))
	}
	return t, nil
}

// object calls member for each member of the object that t opens.
func (r *reader) object(t json.Token, want string, member func(name string, v json.Token) error) error {
	return r.nested(t, '{', want, func() error {
		name, err := r.token()
		if err != nil {
			return err
		}
		v, err := r.token()
		if err != nil {
			return err
		}
		return member(name.(string), v)
	})
}

// array calls element for each element of the array that t opens.
func (r *reader) array(t json.Token, want string, element func(v json.Token) error) error {
	return r.nested(t, '[', want, func() error {
		v, err := r.token()
		if err != nil {
			return err
		}
		return element(v)
	})
}

func (r *reader) nested(t json.Token, open json.Delim, want string, next func() error) error {
	if t != open {
		return r.fail("%s is required here", want)
	}
	if r.depth++; r.depth > MaxDepth {
		return r.fail("nested more than %d levels deep", MaxDepth)
	}
	for r.dec.More() {
		if err := next(); err != nil {
			return err
		}
	}
	r.depth--
	_, err := r.token()
	return err
}

func (r *reader) span(from int64) Span { return Span{int(from), int(r.dec.InputOffset())} }

// filter reads the object that t opens. It returns nil if that is empty.
func (r *reader) filter(t json.Token) (Expr, error) {
	from := r.dec.InputOffset() - 1
	var terms []Expr
	err := r.object(t, "an object", func(name string, v json.Token) error {
		x, err := r.member(name, v)
		if err == nil && x != nil {
			terms = append(terms, x)
		}
		return err
	})
	return conjunction(terms, r.span(from)), err
}

// conjunction returns the expression that all of terms are true, nil for none.
func conjunction(terms []Expr, at Span) Expr {
	if len(terms) < 2 {
		return first(terms)
	}
	return &And{at, flat(terms, func(x Expr) []Expr {
		if a, ok := x.(*And); ok {
			return a.Terms
		}
		return nil
	})}
}

func (r *reader) member(name string, v json.Token) (Expr, error) {
	from := r.dec.InputOffset()
	switch name {
	case "and", "or":
		terms, err := r.filters(v)
		if err != nil {
			return nil, err
		}
		if name == "and" {
			return conjunction(terms, r.span(from)), nil
		}
		return r.disjunction(terms, r.span(from))
	case "not":
		x, err := r.filter(v)
		if err == nil && x == nil {
			err = r.fail("not needs a condition")
		}
		return &Not{r.span(from), x}, err
	}
	left, err := r.operand(name)
	if err != nil {
		return nil, err
	}
	return r.condition(left, v)
}

func (r *reader) filters(t json.Token) (all []Expr, err error) {
	err = r.array(t, "an array of objects", func(v json.Token) error {
		x, err := r.filter(v)
		all = append(all, x)
		return err
	})
	return all, err
}

func (r *reader) disjunction(terms []Expr, at Span) (Expr, error) {
	if len(terms) == 0 || slices.Contains(terms, nil) {
		return nil, r.fail("or needs conditions")
	}
	if len(terms) == 1 {
		return terms[0], nil
	}
	return &Or{at, flat(terms, func(x Expr) []Expr {
		if o, ok := x.(*Or); ok {
			return o.Terms
		}
		return nil
	})}, nil
}

// operand reads an operand of the language.
func (r *reader) operand(text string) (Operand, error) {
	p := &parser{lexer: lexer{text: text}}
	err := p.step()
	var x Operand
	if err == nil {
		x, err = p.operand()
	}
	if err == nil && p.kind != end {
		err = p.unexpected("the end of the operand")
	}
	if err != nil {
		return nil, r.fail("%.100q: %v,", text, err)
	}
	return x, nil
}

// condition reads what an operand must meet.
func (r *reader) condition(left Operand, v json.Token) (Expr, error) {
	from := r.dec.InputOffset()
	switch v {
	case json.Delim('['):
		return r.in(left, v)
	case json.Delim('{'):
		var terms []Expr
		err := r.object(v, "an object", func(name string, v json.Token) error {
			x, err := r.comparison(left, name, v)
			terms = append(terms, x)
			return err
		})
		if err == nil && len(terms) == 0 {
			err = r.fail("a comparison is missing")
		}
		return conjunction(terms, r.span(from)), err
	}
	op := Equal
	if s, ok := v.(string); ok {
		op, v = prefixed(s)
	}
	right, err := r.value(v)
	return &Compare{r.span(from), op, left, right}, err
}

// prefixed returns the comparison that GotRo writes before a text, and the rest of the text.
func prefixed(s string) (Op, string) {
	for _, op := range []Op{NotEqual, GreaterEqual, LessEqual, NotMatch, Greater, Less, Match} {
		if rest, ok := strings.CutPrefix(s, op.String()); ok {
			return op, rest
		}
	}
	return Equal, s
}

func (r *reader) comparison(left Operand, name string, v json.Token) (Expr, error) {
	from := r.dec.InputOffset()
	if name == "in" {
		return r.in(left, v)
	}
	op := Op(max(0, slices.Index(ops[:], name)))
	if op == 0 {
		return nil, r.fail("unknown comparison %.40q; use one of %s in", name, strings.Join(ops[1:], " "))
	}
	right, err := r.value(v)
	return &Compare{r.span(from), op, left, right}, err
}

func (r *reader) in(left Operand, v json.Token) (Expr, error) {
	in := &In{X: left}
	from := r.dec.InputOffset()
	err := r.array(v, "an array of values", func(v json.Token) error {
		x, err := r.value(v)
		in.List = append(in.List, x)
		return err
	})
	in.Span = r.span(from)
	if err == nil {
		r.terms++
	}
	return in, err
}

// value reads the right side of a comparison.
func (r *reader) value(t json.Token) (Operand, error) {
	if r.terms++; r.terms > MaxTerms {
		return nil, r.fail("more than %d comparisons and values", MaxTerms)
	}
	at := r.span(r.dec.InputOffset())
	var v value.Value
	var err error
	switch t := t.(type) {
	case json.Delim:
		return r.expr(t)
	case bool:
		v = value.OfBool(t)
	case string:
		v, err = value.OfText(t)
	case json.Number:
		v, err = value.Parse([]byte(t))
	}
	if err != nil {
		return nil, r.fail("%v", err)
	}
	return &Literal{at, v}, nil
}

// expr reads an object with an operand of the language.
func (r *reader) expr(t json.Token) (x Operand, err error) {
	err = r.object(t, "a value", func(name string, v json.Token) error {
		text, ok := v.(string)
		if name != "expr" || x != nil || !ok {
			return r.fail(`a value, or {"expr": "…"}, is required here`)
		}
		x, err = r.operand(text)
		return err
	})
	if err == nil && x == nil {
		err = r.fail(`a value, or {"expr": "…"}, is required here`)
	}
	return x, err
}

// AppendJSON appends x in the form that ParseJSON reads, and returns the extended slice.
func AppendJSON(dst []byte, x Expr) []byte {
	switch x := x.(type) {
	case nil:
		return append(dst, "{}"...)
	case *And:
		return appendJSONTerms(append(dst, `{"and":[`...), x.Terms)
	case *Or:
		return appendJSONTerms(append(dst, `{"or":[`...), x.Terms)
	case *Not:
		return append(AppendJSON(append(dst, `{"not":`...), x.X), '}')
	case *Compare:
		dst = value.AppendText(append(dst, '{'), OperandString(x.Left))
		dst = value.AppendText(append(dst, ":{"...), x.Op.String())
		return append(appendJSONOperand(append(dst, ':'), x.Right), "}}"...)
	case *In:
		dst = value.AppendText(append(dst, '{'), OperandString(x.X))
		dst = append(dst, `:{"in":[`...)
		for i, v := range x.List {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendJSONOperand(dst, v)
		}
		return append(dst, "]}}"...)
	}
	panic("BUG: unknown kind of expression")
}

func appendJSONTerms(dst []byte, terms []Expr) []byte {
	for i, x := range terms {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendJSON(dst, x)
	}
	return append(dst, "]}"...)
}

func appendJSONOperand(dst []byte, x Operand) []byte {
	if l, ok := x.(*Literal); ok {
		return appendLiteral(dst, l.Value)
	}
	return append(value.AppendText(append(dst, `{"expr":`...), OperandString(x)), '}')
}

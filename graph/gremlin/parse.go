package gremlin

import (
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skerrydb/skerry/graph/value"
)

// Parse reads a text of the Gremlin language. A name that is neither a constant
// nor a call stands for its value in bindings, which may be nil; values are never
// read as text. The error is a *SyntaxError.
func Parse(text string, bindings *value.Map) (*Query, error) {
	p, err := begin(text, bindings)
	if err != nil {
		return nil, err
	}
	return p.query()
}

// ParseMap reads the text of a map, as [x:1, y:['a']], in which no calls but those
// that make values may be. The error is a *SyntaxError.
func ParseMap(text string) (*value.Map, error) {
	p, err := begin(text, nil)
	if err != nil {
		return nil, err
	}
	var v any
	if p.is("[") {
		if v, err = p.arg(false); err != nil {
			return nil, err
		}
	}
	m, ok := v.(*value.Map)
	if !ok || !plain(m) {
		return nil, p.fail(0, "expected a map of values, as [x:1]")
	}
	return m, p.endOfText()
}

// begin returns a parser before the first token of a text.
func begin(text string, bindings *value.Map) (*parser, error) {
	p := &parser{scan: scanner{text: text}, bindings: bindings, now: time.Now, rand: rand.Reader}
	if len(text) > MaxTextBytes {
		return nil, p.fail(0, "the text has %d bytes, and the most is %d", len(text), MaxTextBytes)
	}
	for i, r := range text {
		if r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)) {
			return nil, p.fail(i, "the text is not UTF-8")
		}
	}
	return p, p.advance()
}

// parser reads a text from left to right, one token ahead.
type parser struct {
	scan     scanner
	tok      token // not yet read
	last     token // read before tok
	bindings *value.Map
	now      func() time.Time
	rand     io.Reader

	source string // of the query
	depth  int    // of the argument being read
	reach  int    // the greatest depth so far; see measure
	keys   int    // the most sets and keys inside each other so far; see countKeys
	calls  int
	ranged int // items of ranges
}

func (p *parser) fail(pos int, format string, args ...any) error {
	return syntaxError(p.scan.text, pos, fmt.Sprintf(format, args...))
}

func (p *parser) advance() error {
	t, err := p.scan.next()
	if err != nil {
		return err
	}
	p.last, p.tok = p.tok, t
	return nil
}

// peek returns the token after p.tok, or eof if it is faulty.
func (p *parser) peek() token {
	ahead := p.scan
	t, err := ahead.next()
	if err != nil {
		return token{kind: eof, pos: p.scan.at}
	}
	return t
}

// is reports whether the next token is the punctuation s.
func (p *parser) is(s string) bool { return p.tok.kind == punct && p.tok.text == s }

// found describes the next token.
func (p *parser) found() string {
	if p.tok.kind == eof {
		return "the end of the text"
	}
	return short(p.tok.text)
}

func (p *parser) expect(s, where string) error {
	if !p.is(s) {
		if err := p.groovy(); err != nil && (s != "(" || !p.is(".")) {
			return err
		}
		return p.fail(p.tok.pos, "found %s, expected %s %s", p.found(), s, where)
	}
	return p.advance()
}

// name reads an identifier.
func (p *parser) name(what string) (token, error) {
	if p.tok.kind != ident {
		return token{}, p.fail(p.tok.pos, "found %s, expected %s", p.found(), what)
	}
	t := p.tok
	return t, p.advance()
}

// query reads the whole text.
func (p *parser) query() (*Query, error) {
	if p.tok.kind == eof {
		return nil, p.fail(p.tok.pos, "the text is empty: expected a traversal, such as g.V()")
	}
	if err := p.statement(); err != nil {
		return nil, err
	}
	source, err := p.name("a source of traversals, such as g")
	if err != nil {
		return nil, err
	}
	p.source = source.text
	q := &Query{Source: source.text, Traversal: &Traversal{}, N: -1}
	for p.is(".") {
		if q.End != "" || q.Tx != "" {
			return nil, p.fail(p.tok.pos, "nothing can follow %s(), which ends the traversal", q.End+q.Tx)
		}
		if err := p.link(q); err != nil {
			return nil, err
		}
	}
	if p.is(";") {
		if err := p.advance(); err != nil {
			return nil, err
		}
		if p.tok.kind != eof {
			return nil, p.fail(p.last.pos, "several statements in one text are not supported: send one traversal at a time")
		}
	}
	return q, p.endOfText()
}

// link reads a dot and the call after it, and adds it to q.
func (p *parser) link(q *Query) error {
	if err := p.advance(); err != nil {
		return err
	}
	at := p.tok
	c, err := p.call()
	if err != nil {
		return err
	}
	t := q.Traversal
	switch {
	case isEnd(c.Name):
		if len(t.Steps) == 0 {
			return p.fail(at.pos, "%s() needs a traversal before it, such as %s.V()", c.Name, q.Source)
		}
		q.End = c.Name
		return p.checkEnd(q, c)
	case c.Name == "tx" && len(t.Steps) == 0:
		return p.transaction(q)
	case len(t.Steps) == 0 && strings.HasPrefix(c.Name, "with"):
		t.Source = append(t.Source, c)
	default:
		t.Steps = append(t.Steps, c)
	}
	return nil
}

// isEnd reports whether a method ends a traversal instead of being a step.
func isEnd(name string) bool {
	switch name {
	case "iterate", "next", "toList", "toSet", "toBulkSet", "hasNext", "tryNext", "explain":
		return true
	}
	return false
}

// checkEnd checks the arguments of the call that ends q.
func (p *parser) checkEnd(q *Query, c Call) error {
	if len(c.Args) == 0 {
		return nil
	}
	n, ok := value.Int(c.Args[0])
	if c.Name != "next" || len(c.Args) != 1 {
		return p.fail(c.Pos, "%s() has too many arguments", c.Name)
	}
	if !ok || n < 0 {
		return p.fail(c.Pos, "next(n) needs an integer of at least 0")
	}
	q.N = n
	return nil
}

// transaction reads what follows g.tx().
func (p *parser) transaction(q *Query) error {
	if err := p.expect(".", "and begin(), commit() or rollback() after tx()"); err != nil {
		return err
	}
	name := p.tok
	switch {
	case name.kind == ident && (name.text == "begin" || name.text == "commit" || name.text == "rollback"):
	default:
		return p.fail(name.pos, "found %s, expected begin(), commit() or rollback() after tx()", p.found())
	}
	c, err := p.call()
	if err != nil {
		return err
	}
	if len(c.Args) > 0 {
		return p.fail(c.Pos, "%s() has no arguments", c.Name)
	}
	q.Tx, q.Traversal = c.Name, nil
	return nil
}

// chain reads an anonymous traversal from the name of its first call on.
func (p *parser) chain() (*Traversal, error) {
	t := &Traversal{}
	for {
		if p.tok.kind == ident && isEnd(p.tok.text) {
			return nil, p.fail(p.tok.pos, "%s() cannot be in an anonymous traversal", p.tok.text)
		}
		c, err := p.call()
		if err != nil {
			return nil, err
		}
		t.Steps = append(t.Steps, c)
		if !p.is(".") {
			return t, nil
		}
		if err := p.advance(); err != nil {
			return nil, err
		}
	}
}

// call reads a name and its arguments.
func (p *parser) call() (Call, error) {
	name, err := p.name("the name of a step")
	if err != nil {
		return Call{}, err
	}
	args, err := p.args(name)
	return Call{Name: name.text, Args: args, Pos: name.pos}, err
}

// args reads the arguments, with their parentheses, of the call of name.
func (p *parser) args(name token) ([]any, error) {
	if p.calls++; p.calls > MaxCalls {
		return nil, p.fail(name.pos, "the text has more than %d calls", MaxCalls)
	}
	if err := p.expect("(", "after "+short(name.text)); err != nil {
		return nil, err
	}
	classes := name.text == "withStrategies" || name.text == "withoutStrategies"
	var args []any
	for !p.is(")") {
		if len(args) > 0 {
			if err := p.expect(",", "or ) after an argument of "+short(name.text)); err != nil {
				return nil, err
			}
		}
		a, err := p.arg(classes)
		if err != nil {
			return nil, err
		}
		args = append(args, a)
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	if p.is("{") {
		return nil, p.fail(p.tok.pos, closure)
	}
	return args, nil
}

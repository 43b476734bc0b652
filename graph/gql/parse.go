package gql

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/skerrydb/skerry/graph/value"
)

// Parse reads a query. Its errors are *SyntaxError.
func Parse(text string) (q *Query, err error) {
	if len(text) > MaxTextBytes {
		return nil, &SyntaxError{MaxTextBytes, fmt.Sprintf("a query has at most %d bytes (MaxTextBytes)", MaxTextBytes)}
	}
	tokens, err := scan(text)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	defer func() {
		if v := recover(); v != nil {
			own, ok := v.(*SyntaxError)
			if !ok {
				panic(v)
			}
			q, err = nil, own
		}
	}()
	q = p.query()
	p.check(q)
	return q, nil
}

// parser reads tokens. It panics with a *SyntaxError, which Parse returns.
type parser struct {
	tokens   []token
	at       int
	depth    int
	elements int
}

func (p *parser) now() token { return p.tokens[p.at] }

func (p *parser) failAt(pos int, format string, args ...any) {
	panic(&SyntaxError{pos, fmt.Sprintf(format, args...)})
}

// unexpected fails at the token where the parser is.
func (p *parser) unexpected(want string) {
	t := p.now()
	found := strconv.Quote(t.text)
	if t.kind == 0 {
		found = "the end of the text"
	}
	p.failAt(t.pos, "expected %s, found %s", want, found)
}

// word takes a keyword, in any case of letters.
func (p *parser) word(words ...string) bool {
	for i, w := range words {
		t := p.tokens[min(p.at+i, len(p.tokens)-1)]
		if t.kind != 'w' || !strings.EqualFold(t.text, w) {
			return false
		}
	}
	p.at += len(words)
	return true
}

func (p *parser) sign(text string) bool {
	if t := p.now(); t.kind == 'p' && t.text == text {
		p.at++
		return true
	}
	return false
}

func (p *parser) need(text string) {
	if !p.sign(text) {
		p.unexpected(strconv.Quote(text))
	}
}

// name takes a name, if there is one.
func (p *parser) name() (string, bool) {
	t := p.now()
	if t.kind == 'q' || t.kind == 'w' && !reserved(t.text) {
		p.at++
		return t.text, true
	}
	return "", false
}

func (p *parser) needName(what string) string {
	s, ok := p.name()
	if !ok {
		p.unexpected(what)
	}
	return s
}

func reserved(word string) bool {
	return slices.Contains([]string{"MATCH", "WHERE", "RETURN", "AND", "OR", "NOT", "ORDER", "SKIP", "OFFSET", "LIMIT", "AS", "IN", "IS", "NULL", "TRUE", "FALSE", "DISTINCT"}, strings.ToUpper(word))
}

func (p *parser) query() *Query {
	q := &Query{Limit: -1}
	for _, w := range []string{"CREATE", "INSERT", "MERGE", "SET", "DELETE", "DETACH", "REMOVE"} {
		if p.word(w) {
			p.failAt(p.tokens[p.at-1].pos, "%s is not supported: queries only read", w)
		}
	}
	if p.word("OPTIONAL", "MATCH") {
		p.failAt(p.tokens[p.at-2].pos, "OPTIONAL MATCH is not supported")
	}
	if !p.word("MATCH") {
		p.unexpected("MATCH")
	}
	for more := true; more; more = p.sign(",") || p.word("MATCH") {
		q.Patterns = append(q.Patterns, p.pattern())
	}
	if p.word("WHERE") {
		q.Where = p.or()
	}
	if p.word("RETURN") {
		p.returns(q)
	}
	for _, w := range []string{"WITH", "UNWIND", "UNION", "CALL", "OPTIONAL", "SET", "DELETE", "CREATE", "MERGE", "FOREACH"} {
		if p.word(w) {
			p.failAt(p.tokens[p.at-1].pos, "%s is not supported", w)
		}
	}
	if p.now().kind != 0 {
		p.unexpected("the end of the text")
	}
	return q
}

func (p *parser) count() {
	if p.elements++; p.elements > MaxElements {
		p.failAt(p.now().pos, "the patterns have more than %d nodes and edges (MaxElements)", MaxElements)
	}
}

func (p *parser) pattern() Pattern {
	if t := p.now(); t.kind == 'w' && p.tokens[p.at+1].text == "=" {
		p.failAt(t.pos, "names of paths are not supported")
	}
	out := Pattern{Nodes: []Node{p.node()}}
	for {
		t := p.now()
		if t.kind != 'p' || t.text != "-" && t.text != "<-" && t.text != "->" {
			return out
		}
		out.Edges = append(out.Edges, p.edge())
		out.Nodes = append(out.Nodes, p.node())
	}
}

func (p *parser) node() (n Node) {
	p.count()
	p.need("(")
	n.Var, _ = p.name()
	n.Labels = p.labels()
	n.Props = p.props()
	p.need(")")
	return n
}

// labels reads :A, :A|B and what follows as another label, which is refused.
func (p *parser) labels() (out []string) {
	if !p.sign(":") {
		return nil
	}
	out = append(out, p.needName("a label"))
	for p.sign("|") {
		p.sign(":")
		out = append(out, p.needName("a label"))
	}
	if t := p.now(); t.text == ":" || t.text == "&" || t.text == "!" {
		p.failAt(t.pos, "only alternatives of labels are supported, as :A|B")
	}
	return out
}

func (p *parser) props() (out []Prop) {
	if !p.sign("{") {
		return nil
	}
	for more := !p.sign("}"); more; more = p.sign(",") {
		key := p.needName("a property")
		p.need(":")
		pos := p.now().pos
		val := p.operand()
		if val.Var != "" {
			p.failAt(pos, "the value of a property in a pattern is a literal or a parameter; use WHERE")
		}
		out = append(out, Prop{key, val})
		if p.now().text != "," {
			p.need("}")
			break
		}
	}
	return out
}

func (p *parser) edge() (e Edge) {
	p.count()
	left := p.sign("<-")
	if !left && !p.sign("-") {
		p.need("->") // (a)->(b)
		return Edge{Out: true}
	}
	right := false
	if p.sign("[") {
		e.Var, _ = p.name()
		e.Labels = p.labels()
		if t := p.now(); t.text == "*" {
			p.failAt(t.pos, "paths of several edges, as [*1..3], are not supported; use repeat()")
		}
		e.Props = p.props()
		p.need("]")
		if right = p.sign("->"); !right {
			p.need("-")
		}
	} else if right = p.sign("->"); !right && !left {
		p.need("-") // (a)--(b)
	} else if left {
		p.sign("-")
	}
	e.Out, e.In = right || !left, left || !right
	if left && right {
		e.Out, e.In = true, true
	}
	return e
}

func (p *parser) nest() func() {
	if p.depth++; p.depth > MaxDepth {
		p.failAt(p.now().pos, "the query is nested more than %d deep (MaxDepth)", MaxDepth)
	}
	return func() { p.depth-- }
}

func (p *parser) or() *Expr  { return p.joined("or", "OR", p.and) }
func (p *parser) and() *Expr { return p.joined("and", "AND", p.not) }

func (p *parser) joined(op, word string, part func() *Expr) *Expr {
	defer p.nest()()
	out := part()
	for p.word(word) {
		if out.Op != op {
			out = &Expr{Op: op, Parts: []*Expr{out}}
		}
		out.Parts = append(out.Parts, part())
	}
	return out
}

func (p *parser) not() *Expr {
	defer p.nest()()
	if p.word("NOT") {
		return &Expr{Op: "not", Parts: []*Expr{p.not()}}
	}
	if p.sign("(") {
		e := p.or()
		p.need(")")
		return &Expr{Op: "and", Parts: []*Expr{e}}
	}
	return p.comparison()
}

func (p *parser) comparison() *Expr {
	e := &Expr{Left: p.operand()}
	switch {
	case p.word("IS", "NOT", "NULL"):
		e.Op = "is not null"
		return e
	case p.word("IS", "NULL"):
		e.Op = "is null"
		return e
	case p.word("IN"):
		e.Op = "in"
	case p.word("STARTS", "WITH"):
		e.Op = "starts with"
	case p.word("ENDS", "WITH"):
		e.Op = "ends with"
	case p.word("CONTAINS"):
		e.Op = "contains"
	default:
		t := p.now()
		if t.kind != 'p' || !slices.Contains([]string{"=", "<>", "<", "<=", ">", ">="}, t.text) {
			p.unexpected("a comparison")
		}
		e.Op = t.text
		p.at++
	}
	e.Right = p.operand()
	return e
}

func (p *parser) operand() Operand {
	defer p.nest()()
	t := p.now()
	switch {
	case t.kind == 's':
		p.at++
		return Operand{Val: t.text}
	case t.kind == 'n', t.text == "-":
		return Operand{Val: p.number()}
	case p.word("TRUE"):
		return Operand{Val: true}
	case p.word("FALSE"):
		return Operand{Val: false}
	case p.word("NULL"):
		return Operand{}
	case p.sign("$"):
		return Operand{Param: p.needName("the name of a parameter")}
	case p.sign("["):
		list := value.List{}
		for more := !p.sign("]"); more; {
			pos := p.now().pos
			o := p.operand()
			if o.Var != "" || o.Param != "" {
				p.failAt(pos, "a list has literals only")
			}
			list = append(list, o.Val)
			if more = p.sign(","); !more {
				p.need("]")
			}
		}
		return Operand{Val: list}
	}
	name := p.needName("a value")
	o := Operand{Var: name, pos: t.pos}
	if p.sign(".") {
		o.Key = p.needName("a property")
	} else if t := p.now(); t.text == "(" {
		p.failAt(t.pos, "there is no function %q in a condition", name)
	}
	return o
}

func (p *parser) number() any {
	negative := p.sign("-")
	t := p.now()
	if t.kind != 'n' {
		p.unexpected("a number")
	}
	p.at++
	text := t.text
	if negative {
		text = "-" + text
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) {
		p.failAt(t.pos, "%s is too large", text)
	}
	return f
}

func (p *parser) returns(q *Query) {
	q.Distinct = p.word("DISTINCT")
	if p.sign("*") {
		for _, name := range q.Vars() {
			q.Return = append(q.Return, Item{Name: name, Operand: Operand{Var: name}})
		}
	} else {
		for more := true; more; more = p.sign(",") {
			q.Return = append(q.Return, p.item())
		}
	}
	if p.word("ORDER", "BY") {
		for more := true; more; more = p.sign(",") {
			o := Order{pos: p.now().pos}
			o.Name = p.needName("a returned name")
			if p.sign(".") {
				o.Name += "." + p.needName("a property")
			}
			if p.word("DESC") || p.word("DESCENDING") {
				o.Desc = true
			} else if !p.word("ASC") {
				p.word("ASCENDING")
			}
			q.Order = append(q.Order, o)
		}
	}
	if p.word("SKIP") || p.word("OFFSET") {
		q.Skip = p.whole()
	}
	if p.word("LIMIT") {
		q.Limit = p.whole()
	}
}

func (p *parser) whole() int64 {
	pos := p.now().pos
	n, ok := p.number().(int64)
	if !ok || n < 0 {
		p.failAt(pos, "expected a whole number that is not negative")
	}
	return n
}

func (p *parser) item() (out Item) {
	t := p.now()
	if t.kind == 'w' && p.tokens[p.at+1].text == "(" {
		out.Func = strings.ToLower(t.text)
		if !slices.Contains([]string{"count", "sum", "avg", "min", "max", "collect"}, out.Func) {
			p.failAt(t.pos, "there is no function %q; count, sum, avg, min, max and collect are", t.text)
		}
		p.at += 2
		if out.All = out.Func == "count" && p.sign("*"); !out.All {
			out.Operand = p.operand()
		}
		p.need(")")
		out.Name = out.Func + "(" + out.Operand.name() + ")"
		if out.All {
			out.Name = "count(*)"
		}
	} else {
		out.Operand = p.operand()
		out.Name = out.Operand.name()
	}
	if p.word("AS") {
		out.Name = p.needName("a name")
	}
	return out
}

// name returns what a value is called that has no other name.
func (o Operand) name() string {
	switch {
	case o.Param != "":
		return "$" + o.Param
	case o.Var == "":
		return value.Text(o.Val)
	case o.Key != "":
		return o.Var + "." + o.Key
	}
	return o.Var
}

// check refuses names that nothing in the query has.
func (p *parser) check(q *Query) {
	vars := q.Vars()
	known := func(o Operand) {
		if o.Var != "" && !slices.Contains(vars, o.Var) {
			p.failAt(o.pos, "no pattern has the variable %q", o.Var)
		}
	}
	var look func(e *Expr)
	look = func(e *Expr) {
		known(e.Left)
		known(e.Right)
		for _, part := range e.Parts {
			look(part)
		}
	}
	if q.Where != nil {
		look(q.Where)
	}
	names := map[string]bool{}
	for _, item := range q.Return {
		known(item.Operand)
		if names[item.Name] {
			p.failAt(item.Operand.pos, "two returned values have the name %q; use AS", item.Name)
		}
		names[item.Name] = true
	}
	for _, o := range q.Order {
		if !names[o.Name] {
			p.failAt(o.pos, "results are sorted by what is returned, and %q is not", o.Name)
		}
	}
}

package traversal

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/skerrydb/skerry/graph/value"
)

// MaxFormula bounds the bytes of the formula of math, and maxFormulaDepth how deep
// it is nested.
const (
	MaxFormula      = 4096
	maxFormulaDepth = 100
)

// formula is a formula of floats, as math has it: operators, functions, variables.
type formula func(vars map[string]float64) float64

// parser reads a formula. Its err is set by the first fault.
type parser struct {
	text  string
	at    int
	depth int
	names []string // of variables, in the order of their first use
	err   error
}

func makeMath(b *builder, c *callInfo) (kernel, traits, error) {
	text, err := c.string(0)
	if err != nil {
		return nil, traits{}, err
	}
	f, names, err := parseFormula(text)
	if err != nil {
		return nil, traits{}, err
	}
	bys, err := b.bys(c)
	b.used.any = true
	return mapping(func(r *run, t traverser) (any, bool, error) {
		vars := map[string]float64{}
		for i, name := range names {
			n, ok, err := r.variable(t, name, bys, i)
			if err != nil || !ok {
				return nil, false, err
			}
			vars[name] = n
		}
		return f(vars), true, nil
	}), traits{}, err
}

// variable returns the value of the i-th variable of a formula.
func (r *run) variable(t traverser, name string, bys []*by, i int) (n float64, ok bool, err error) {
	if name != "_" {
		if t.val, ok, err = r.selected(t, name, value.PopLast); err != nil {
			return 0, false, err
		} else if !ok {
			return 0, false, fmt.Errorf("nothing has the label %q", name)
		}
	}
	if len(bys) > 0 {
		if t.val, ok, err = bys[i%len(bys)].value(r, t); err != nil || !ok {
			return 0, false, err
		}
	}
	if n, ok = value.Float(t.val); !ok {
		return 0, false, fmt.Errorf("the variable %q must be a number, not %s", name, value.Describe(t.val))
	}
	return n, true, nil
}

func parseFormula(text string) (formula, []string, error) {
	if len(text) > MaxFormula {
		return nil, nil, fmt.Errorf("a formula has at most %d bytes (MaxFormula)", MaxFormula)
	}
	p := &parser{text: text}
	f := p.sum()
	if p.skip(); p.err == nil && p.at < len(p.text) {
		p.failf("%q is unexpected", p.text[p.at:p.at+1])
	}
	return f, p.names, p.err
}

func (p *parser) failf(format string, args ...any) formula {
	if p.err == nil {
		p.err = fmt.Errorf("at character %d of the formula: %s", p.at+1, fmt.Sprintf(format, args...))
	}
	p.at = len(p.text)
	return func(map[string]float64) float64 { return 0 }
}

func (p *parser) skip() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

// take takes one of some characters, and returns 0 if another one stands there.
func (p *parser) take(any string) byte {
	if p.skip(); p.at < len(p.text) && strings.IndexByte(any, p.text[p.at]) >= 0 {
		p.at++
		return p.text[p.at-1]
	}
	return 0
}

func (p *parser) sum() formula {
	if p.depth++; p.depth > maxFormulaDepth {
		return p.failf("it is nested more than %d deep", maxFormulaDepth)
	}
	defer func() { p.depth-- }()
	left := p.product()
	for {
		a, op := left, p.take("+-")
		if op == 0 {
			return left
		}
		b := p.product()
		if op == '+' {
			left = func(v map[string]float64) float64 { return a(v) + b(v) }
		} else {
			left = func(v map[string]float64) float64 { return a(v) - b(v) }
		}
	}
}

func (p *parser) product() formula {
	left := p.signed()
	for {
		a := left
		switch op := p.take("*/%"); op {
		case 0:
			return left
		default:
			b := p.signed()
			left = map[byte]formula{
				'*': func(v map[string]float64) float64 { return a(v) * b(v) },
				'/': func(v map[string]float64) float64 { return a(v) / b(v) },
				'%': func(v map[string]float64) float64 { return math.Mod(a(v), b(v)) },
			}[op]
		}
	}
}

func (p *parser) signed() formula {
	if p.depth++; p.depth > maxFormulaDepth {
		return p.failf("it is nested more than %d deep", maxFormulaDepth)
	}
	defer func() { p.depth-- }()
	switch p.take("+-") {
	case '-':
		f := p.signed()
		return func(v map[string]float64) float64 { return -f(v) }
	case '+':
		return p.signed()
	}
	return p.power()
}

func (p *parser) power() formula {
	a := p.operand()
	if p.take("^") == 0 {
		return a
	}
	b := p.signed()
	return func(v map[string]float64) float64 { return math.Pow(a(v), b(v)) }
}

func (p *parser) operand() formula {
	p.skip()
	switch {
	case p.at == len(p.text):
		return p.failf("a number, a variable or a function is missing")
	case p.take("(") != 0:
		f := p.sum()
		if p.take(")") == 0 {
			return p.failf("a closing parenthesis is missing")
		}
		return f
	}
	rest := p.text[p.at:]
	if c := rest[0]; c >= '0' && c <= '9' || c == '.' {
		return p.number(rest)
	}
	n := 0
	for n < len(rest) && (rest[n] == '_' || rest[n] >= '0' && rest[n] <= '9' || rest[n]|0x20 >= 'a' && rest[n]|0x20 <= 'z') {
		n++
	}
	if n == 0 {
		return p.failf("%q is unexpected", rest[:1])
	}
	name := rest[:n]
	p.at += n
	if f, ok := functions()[name]; ok {
		arg := p.argument()
		return func(v map[string]float64) float64 { return f(arg(v)) }
	}
	switch name {
	case "pi", "π":
		return func(map[string]float64) float64 { return math.Pi }
	case "e":
		return func(map[string]float64) float64 { return math.E }
	}
	known := false
	for _, other := range p.names {
		known = known || other == name
	}
	if !known {
		p.names = append(p.names, name)
	}
	return func(v map[string]float64) float64 { return v[name] }
}

func (p *parser) number(rest string) formula {
	n := 0
	for n < len(rest) && (rest[n] >= '0' && rest[n] <= '9' || rest[n] == '.') {
		n++
	}
	if n < len(rest) && rest[n]|0x20 == 'e' {
		end := n + 1
		if end < len(rest) && (rest[end] == '+' || rest[end] == '-') {
			end++
		}
		for end < len(rest) && rest[end] >= '0' && rest[end] <= '9' {
			if end++; end > n+1 {
				n = end
			}
		}
	}
	x, err := strconv.ParseFloat(rest[:n], 64)
	if err != nil {
		return p.failf("%q is not a number", rest[:n])
	}
	p.at += n
	return func(map[string]float64) float64 { return x }
}

// argument reads what a function is of: in parentheses, or what follows.
func (p *parser) argument() formula { return p.power() }

func functions() map[string]func(float64) float64 {
	return map[string]func(float64) float64{
		"abs": math.Abs, "acos": math.Acos, "asin": math.Asin, "atan": math.Atan, "cbrt": math.Cbrt, "ceil": math.Ceil, "cos": math.Cos,
		"cosh": math.Cosh, "exp": math.Exp, "expm1": math.Expm1, "floor": math.Floor, "log": math.Log, "log10": math.Log10,
		"log1p": math.Log1p, "log2": math.Log2, "sin": math.Sin, "sinh": math.Sinh, "sqrt": math.Sqrt, "tan": math.Tan, "tanh": math.Tanh,
		"signum": func(x float64) float64 {
			switch {
			case x > 0:
				return 1
			case x < 0:
				return -1
			}
			return x
		},
	}
}

package gremlin

import (
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/skerrydb/skerry/graph/value"
)

// function reads an argument that begins with a name and a parenthesis.
func (p *parser) function(classes bool) (any, error) {
	switch name := p.tok.text; {
	case name == "not":
		return p.not()
	case arity(name) != 0:
		return p.predicateChain()
	case isCardinality(name):
		return p.cardinal()
	case name == "datetime" || name == "DateTime":
		return p.datetime()
	case name == "UUID":
		return p.uuid()
	case name == "Duration":
		return p.duration()
	case name == "Binary":
		return p.binary()
	case name == "Vertex" || name == "ReferenceVertex":
		return p.vertex()
	case classes || strings.HasSuffix(name, "Strategy"):
		return p.strategy()
	}
	return p.chain()
}

// not reads not(…): the predicate if its argument is one, or else the step.
func (p *parser) not() (any, error) {
	defer p.measure()()
	c, err := p.call()
	if err != nil {
		return nil, err
	}
	if len(c.Args) == 1 {
		if _, ok := c.Args[0].(*P); ok {
			return p.predicateRest(&P{"not", c.Args})
		}
	}
	if !p.is(".") {
		return &Traversal{Steps: []Call{c}}, nil
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	t, err := p.chain()
	if err != nil {
		return nil, err
	}
	t.Steps = append([]Call{c}, t.Steps...)
	return t, nil
}

// arity returns how many arguments the predicate name takes, -1 for any number,
// and 0 if there is no predicate of this name.
func arity(name string) int {
	switch name {
	case "eq", "neq", "gt", "gte", "lt", "lte", "typeOf", "regex", "notRegex",
		"startingWith", "notStartingWith", "endingWith", "notEndingWith", "containing", "notContaining":
		return 1
	case "inside", "outside", "between":
		return 2
	case "within", "without":
		return -1
	}
	return 0
}

// predicateChain reads gt(1).and(lt(5)) from its first name on.
func (p *parser) predicateChain() (any, error) {
	name := p.tok
	n := arity(name.text)
	if name.text == "not" {
		n = 1
	}
	if n == 0 {
		return nil, p.fail(name.pos, "there is no predicate %s", short(name.text))
	}
	defer p.measure()()
	c, err := p.call()
	if err != nil {
		return nil, err
	}
	switch {
	case n > 0 && len(c.Args) != n:
		return nil, p.fail(name.pos, "%s() needs %s, and has %d", c.Name, plural(n), len(c.Args))
	case name.text == "not":
		if _, ok := c.Args[0].(*P); !ok {
			return nil, p.fail(name.pos, "P.not() needs a predicate")
		}
	case n < 0 && len(c.Args) == 1:
		switch items := c.Args[0].(type) {
		case value.List:
			c.Args = items
		case *value.Set:
			c.Args = items.Items()
		}
	}
	return p.predicateRest(&P{c.Name, c.Args})
}

func plural(n int) string {
	if n == 1 {
		return "one argument"
	}
	return fmt.Sprintf("%d arguments", n)
}

// measure starts to measure how deep an argument reaches. The function that it
// returns ends that.
func (p *parser) measure() func() {
	outside := p.reach
	p.reach = p.depth
	return func() { p.reach = max(p.reach, outside) }
}

// predicateRest reads the calls of and, or and negate that follow a predicate.
// Each but an and after an and, or an or after an or, puts what is before it one
// level deeper, which p.reach keeps track of.
func (p *parser) predicateRest(v *P) (any, error) {
	for p.is(".") {
		if err := p.advance(); err != nil {
			return nil, err
		}
		at, before := p.tok, p.reach
		p.reach = p.depth
		if at.text != "and" && at.text != "or" && at.text != "negate" {
			return nil, p.fail(at.pos, "found %s, expected and, or or negate after a predicate", p.found())
		}
		c, err := p.call()
		if err != nil {
			return nil, err
		}
		join := at.text != "negate"
		if join != (len(c.Args) == 1) || len(c.Args) > 1 {
			return nil, p.fail(at.pos, "%s() has the wrong number of arguments", at.text)
		}
		if !join {
			v = &P{"not", []any{v}}
		} else if other, ok := c.Args[0].(*P); !ok {
			return nil, p.fail(at.pos, "%s() needs a predicate", at.text)
		} else if v.Name == at.text {
			v.Args = append(v.Args, operands(at.text, other)...)
			before--
		} else {
			v = &P{at.text, append(operands(at.text, v), operands(at.text, other)...)}
		}
		if p.reach = max(p.reach, before+1); p.reach > MaxDepth {
			return nil, p.fail(at.pos, "the text is nested deeper than %d levels", MaxDepth)
		}
	}
	return v, nil
}

// operands returns what v joins by the connective, or v.
func operands(connective string, v *P) []any {
	if v.Name == connective {
		return append([]any(nil), v.Args...)
	}
	return []any{v}
}

// one reads a call of exactly one argument.
func (p *parser) one() (Call, error) {
	c, err := p.call()
	if err == nil && len(c.Args) != 1 {
		err = p.fail(c.Pos, "%s() needs one argument", c.Name)
	}
	return c, err
}

func (p *parser) cardinal() (any, error) {
	c, err := p.one()
	if err != nil {
		return nil, err
	}
	return Cardinal{value.Enum{Kind: value.KindCardinality, Name: c.Name}, c.Args[0]}, nil
}

// stringCall reads a call whose one argument is a string. ok is false if there is
// no argument.
func (p *parser) stringCall() (s string, pos int, ok bool, err error) {
	c, err := p.call()
	if err != nil || len(c.Args) == 0 {
		return "", c.Pos, false, err
	}
	s, ok = c.Args[0].(string)
	if !ok || len(c.Args) > 1 {
		return "", c.Pos, false, p.fail(c.Pos, "%s() needs one string", c.Name)
	}
	return s, c.Pos, true, nil
}

func (p *parser) datetime() (any, error) {
	s, pos, ok, err := p.stringCall()
	if err != nil {
		return nil, err
	}
	if !ok {
		return p.now().UTC().Truncate(time.Millisecond), nil
	}
	t, err := value.ParseDate(s)
	if err != nil {
		return nil, p.fail(pos, "%s", err)
	}
	return t, nil
}

func (p *parser) uuid() (any, error) {
	s, pos, ok, err := p.stringCall()
	if err != nil {
		return nil, err
	}
	if !ok {
		var u value.UUID
		if _, err := p.rand.Read(u[:]); err != nil {
			return nil, p.fail(pos, "make a UUID: %s", err)
		}
		u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
		return u, nil
	}
	u, err := value.ParseUUID(s)
	if err != nil {
		return nil, p.fail(pos, "%s", err)
	}
	return u, nil
}

// duration reads Duration(seconds, nanoseconds, positive), of which the last two may
// lack. Drivers of TinkerPop 4 send the length of a negative duration and false.
func (p *parser) duration() (any, error) {
	c, err := p.call()
	if err != nil {
		return nil, err
	}
	nums, positive := [2]int64{}, true
	ok := len(c.Args) >= 1 && len(c.Args) <= 3
	if ok && len(c.Args) == 3 {
		positive, ok = c.Args[2].(bool)
		c.Args = c.Args[:2]
	}
	for i := 0; ok && i < len(c.Args); i++ {
		nums[i], ok = value.Int(c.Args[i])
	}
	if !ok || nums[1] < 0 || nums[1] >= int64(time.Second) {
		return nil, p.fail(c.Pos, "Duration() needs seconds and nanoseconds from 0 to 999,999,999")
	}
	if !positive {
		if nums[0] < 0 {
			return nil, p.fail(c.Pos, "Duration() needs seconds of at least 0 if it is not positive")
		}
		if nums[0] = -nums[0]; nums[1] > 0 {
			nums[0], nums[1] = nums[0]-1, int64(time.Second)-nums[1]
		}
	}
	return value.Duration{Seconds: nums[0], Nanos: int32(nums[1])}, nil
}

func (p *parser) binary() (any, error) {
	s, pos, ok, err := p.stringCall()
	if err != nil {
		return nil, err
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if !ok || err != nil {
		return nil, p.fail(pos, "Binary() needs a string in base64")
	}
	return b, nil
}

func (p *parser) vertex() (any, error) {
	c, err := p.call()
	if err != nil {
		return nil, err
	}
	if len(c.Args) == 2 {
		if label, ok := c.Args[1].(string); ok {
			return &value.Vertex{ID: c.Args[0], Label: label}, nil
		}
	}
	return nil, p.fail(c.Pos, "%s() needs an id and a label, which is a string", c.Name)
}

// construct reads new and what it makes.
func (p *parser) construct(classes bool) (any, error) {
	start := p.tok
	if err := p.advance(); err != nil {
		return nil, err
	}
	name, next := p.tok, p.peek()
	switch {
	case name.kind != ident:
		return nil, p.fail(name.pos, "found %s, expected the name of a class after new", p.found())
	case next.text == ".":
	case name.text == "Vertex" || name.text == "ReferenceVertex":
		return p.vertex()
	case classes || strings.HasSuffix(name.text, "Strategy"):
		return p.strategy()
	}
	return nil, p.fail(start.pos, "new %s is not supported: only strategies and vertices can be constructed", short(name.text))
}

// strategy reads a strategy's name and its options, if it has any.
func (p *parser) strategy() (any, error) {
	s := Strategy{Name: p.tok.text}
	if err := p.advance(); err != nil {
		return nil, err
	}
	if !p.is("(") {
		return s, nil
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	for !p.is(")") {
		if s.Config == nil {
			s.Config = &value.Map{}
		} else if err := p.expect(",", "or ) after an option of "+short(s.Name)); err != nil {
			return nil, err
		}
		if err := p.option(s); err != nil {
			return nil, err
		}
	}
	return s, p.advance()
}

// option reads one option of s: its name, a colon and its value.
func (p *parser) option(s Strategy) error {
	key, err := p.tok.text, error(nil)
	if p.tok.kind == str {
		key, err = p.text("an option")
	} else {
		_, err = p.name("the name of an option of " + short(s.Name))
	}
	if err != nil {
		return err
	}
	if err := p.expect(":", "after the option "+short(key)); err != nil {
		return err
	}
	v, err := p.arg(false)
	if err != nil {
		return err
	}
	s.Config.Set(key, v)
	return nil
}

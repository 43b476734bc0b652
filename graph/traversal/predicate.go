package traversal

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/value"
)

// truth is the result of a comparison: some values cannot be compared, which is
// neither true nor false until a step asks. TinkerPop's documentation of its
// semantics has the tables.
type truth int8

const (
	no truth = iota
	unclear
	yes
)

func of(ok bool) truth {
	if ok {
		return yes
	}
	return no
}

// predicate tests a value against the values of a P, which resolve may replace:
// where(P) has labels in their place.
type predicate struct {
	name  string
	args  []any
	parts []*predicate // of and, or and not
	test  func(v any, args []any) truth
}

// MaxRegexp bounds the bytes of a regular expression.
const MaxRegexp = 4096

// newPredicate checks a P.
func newPredicate(p *gremlin.P) (*predicate, error) {
	out := &predicate{name: p.Name, args: p.Args}
	switch p.Name {
	case "and", "or", "not":
		for _, a := range p.Args {
			sub, ok := a.(*gremlin.P)
			if !ok {
				return nil, fmt.Errorf("%s needs predicates, not %s", p.Name, describe(a))
			}
			part, err := newPredicate(sub)
			if err != nil {
				return nil, err
			}
			out.parts = append(out.parts, part)
		}
		if len(out.parts) == 0 {
			return nil, fmt.Errorf("%s needs predicates", p.Name)
		}
		return out, nil
	case "within", "without":
		out.args = flat(p.Args)
		out.test = func(v any, args []any) truth {
			for _, a := range args {
				if value.Equal(v, a) {
					return of(p.Name == "within")
				}
			}
			return of(p.Name == "without")
		}
		return out, nil
	case "inside", "outside", "between":
		if len(p.Args) != 2 {
			return nil, fmt.Errorf("%s needs 2 values, not %d", p.Name, len(p.Args))
		}
		out.test = ranges()[p.Name]
		return out, nil
	}
	if len(p.Args) != 1 {
		return nil, fmt.Errorf("%s needs 1 value, not %d", p.Name, len(p.Args))
	}
	return out, out.single(p.Args[0])
}

// single sets the test of a predicate with one value.
func (p *predicate) single(arg any) error {
	var ok bool
	if p.test, ok = comparisons()[p.name]; ok {
		return nil
	}
	if text, ok := texts()[p.name]; ok {
		if _, isText := arg.(string); !isText {
			return fmt.Errorf("%s needs a string, not %s", p.name, describe(arg))
		}
		p.test = func(v any, args []any) truth {
			s, ok := v.(string)
			if !ok {
				return unclear
			}
			want, ok := args[0].(string)
			if !ok {
				return unclear
			}
			return of(text(s, want))
		}
		return nil
	}
	switch p.name {
	case "regex", "notRegex":
		return p.regexp(arg)
	case "typeOf":
		return p.typeOf(arg)
	}
	return fmt.Errorf("there is no predicate %s", p.name)
}

func comparisons() map[string]func(v any, args []any) truth {
	compared := func(accept func(c int) bool) func(v any, args []any) truth {
		return func(v any, args []any) truth {
			c, ok := value.Compare(v, args[0])
			if !ok {
				if value.IsNaN(v) || value.IsNaN(args[0]) {
					return no
				}
				return unclear
			}
			return of(accept(c))
		}
	}
	return map[string]func(v any, args []any) truth{
		"eq":  func(v any, args []any) truth { return of(value.Equal(v, args[0])) },
		"neq": func(v any, args []any) truth { return of(!value.Equal(v, args[0])) },
		"gt":  compared(func(c int) bool { return c > 0 }),
		"gte": compared(func(c int) bool { return c >= 0 }),
		"lt":  compared(func(c int) bool { return c < 0 }),
		"lte": compared(func(c int) bool { return c <= 0 }),
	}
}

func ranges() map[string]func(v any, args []any) truth {
	cmp := comparisons()
	return map[string]func(v any, args []any) truth{
		"inside":  func(v any, args []any) truth { return min(cmp["gt"](v, args[:1]), cmp["lt"](v, args[1:])) },
		"outside": func(v any, args []any) truth { return max(cmp["lt"](v, args[:1]), cmp["gt"](v, args[1:])) },
		"between": func(v any, args []any) truth { return min(cmp["gte"](v, args[:1]), cmp["lt"](v, args[1:])) },
	}
}

func texts() map[string]func(s, want string) bool {
	return map[string]func(s, want string) bool{
		"startingWith":    strings.HasPrefix,
		"endingWith":      strings.HasSuffix,
		"containing":      strings.Contains,
		"notStartingWith": func(s, want string) bool { return !strings.HasPrefix(s, want) },
		"notEndingWith":   func(s, want string) bool { return !strings.HasSuffix(s, want) },
		"notContaining":   func(s, want string) bool { return !strings.Contains(s, want) },
	}
}

func (p *predicate) regexp(arg any) error {
	s, ok := arg.(string)
	if !ok {
		return fmt.Errorf("%s needs a string, not %s", p.name, describe(arg))
	}
	if len(s) > MaxRegexp {
		return fmt.Errorf("a regular expression has at most %d bytes (MaxRegexp)", MaxRegexp)
	}
	re, err := regexp.Compile(s)
	if err != nil {
		return fmt.Errorf("%q is not a regular expression: %v", s, err)
	}
	p.test = func(v any, _ []any) truth {
		s, ok := v.(string)
		if !ok {
			return unclear
		}
		return of(re.MatchString(s) == (p.name == "regex"))
	}
	return nil
}

func (p *predicate) typeOf(arg any) error {
	name, ok := "", false
	switch x := arg.(type) {
	case value.Enum:
		name, ok = x.Name, x.Kind == value.KindGType
	case string:
		if name, ok = value.TypeNamed(x); !ok {
			return fmt.Errorf("%q is not a registered type", x)
		}
	case gremlin.Class:
		name, ok = value.TypeNamed(string(x))
	}
	if !ok {
		return fmt.Errorf("typeOf needs a type, not %s", describe(arg))
	}
	p.test = func(v any, _ []any) truth { return of(value.IsOf(v, name)) }
	return nil
}

// eval tests v. resolve returns the value that stands for an argument; nil: itself.
func (p *predicate) eval(v any, resolve func(any) (any, error)) (truth, error) {
	switch p.name {
	case "and", "or":
		out := yes
		if p.name == "or" {
			out = no
		}
		for _, part := range p.parts {
			t, err := part.eval(v, resolve)
			if err != nil {
				return no, err
			}
			if p.name == "and" {
				out = min(out, t)
			} else {
				out = max(out, t)
			}
		}
		return out, nil
	case "not":
		t, err := p.parts[0].eval(v, resolve)
		return yes - t, err
	}
	args := p.args
	if resolve != nil {
		args = make([]any, len(p.args))
		for i, a := range p.args {
			var err error
			if args[i], err = resolve(a); err != nil {
				return no, err
			}
		}
		if p.name == "within" || p.name == "without" {
			args = flat(args) // a label may stand for several values
		}
	}
	return p.test(v, args), nil
}

// accepts reports whether the predicate is true of v.
func (p *predicate) accepts(v any) bool {
	t, _ := p.eval(v, nil) // only resolve can fail
	return t == yes
}

// predicateOf returns the predicate of an argument: of a P, or that a value equals
// it.
func predicateOf(arg any) (*predicate, error) {
	if p, ok := arg.(*gremlin.P); ok {
		return newPredicate(p)
	}
	if _, ok := arg.(*gremlin.Traversal); ok {
		return nil, fmt.Errorf("it needs a value or a predicate, not a traversal")
	}
	return newPredicate(&gremlin.P{Name: "eq", Args: []any{arg}})
}

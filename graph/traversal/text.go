package traversal

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/skerrydb/skerry/graph/value"
)

// textSteps has the makers of the steps that work on strings.
func textSteps() map[string]maker {
	out := map[string]maker{"asString": makeAsString, "concat": makeConcat, "format": makeFormat}
	for name := range stringSteps() {
		out[name] = makeText
	}
	return out
}

// stringSteps has what the steps of one string do, with their arguments.
func stringSteps() map[string]func(s string, args []any) any {
	simple := func(f func(string) string) func(string, []any) any {
		return func(s string, _ []any) any { return f(s) }
	}
	space := func(r rune) bool { // as Java's strip: not those that do not break
		return r <= ' ' && (r >= 0x1c || unicode.IsSpace(r)) || r > ' ' && unicode.IsSpace(r) && r != 0xa0 && r != 0x2007 && r != 0x202f && r != 0x85
	}
	return map[string]func(s string, args []any) any{
		"length":  func(s string, _ []any) any { return int32(utf8.RuneCountInString(s)) },
		"toUpper": simple(strings.ToUpper),
		"toLower": simple(strings.ToLower),
		"trim":    simple(func(s string) string { return strings.TrimFunc(s, space) }),
		"lTrim":   simple(func(s string) string { return strings.TrimLeftFunc(s, space) }),
		"rTrim":   simple(func(s string) string { return strings.TrimRightFunc(s, space) }),
		"replace": func(s string, args []any) any {
			from, ok := args[0].(string)
			to, also := args[1].(string)
			if !ok || !also || from == "" {
				return s
			}
			return strings.ReplaceAll(s, from, to)
		},
		"split":     split,
		"substring": substring,
	}
}

func split(s string, args []any) any {
	sep, ok := args[0].(string)
	var parts []string
	switch {
	case !ok:
		parts = strings.Fields(s)
	case s != "":
		parts = strings.Split(s, sep)
	}
	out := value.List{}
	for i, p := range parts {
		if p != "" || i == len(parts)-1 { // TinkerPop keeps only the last of those that are empty
			out = append(out, p)
		}
	}
	return out
}

// substring counts characters; a negative index counts from the end.
func substring(s string, args []any) any {
	runes := []rune(s)
	at := func(i int, otherwise int) int {
		if i >= len(args) {
			return otherwise
		}
		n, _ := value.Int(args[i])
		if n < 0 {
			n += int64(len(runes))
		}
		return int(min(max(n, 0), int64(len(runes))))
	}
	from, to := at(0, 0), at(1, len(runes))
	if to <= from {
		return ""
	}
	return string(runes[from:to])
}

// makeText makes a step of one string, or with Scope.local of each in a collection.
func makeText(_ *builder, c *callInfo) (kernel, traits, error) {
	local := c.scope()
	do := stringSteps()[c.Name]
	if err := c.checkText(); err != nil {
		return nil, traits{}, err
	}
	one := func(v any) (any, error) {
		switch x := v.(type) {
		case nil:
			return nil, nil
		case string:
			return do(x, c.Args), nil
		}
		if local {
			return nil, known("The %s(local) step can only take string or list of strings, encountered %s", c.Name, javaName(v))
		}
		return nil, known("The %s() step can only take string as argument, encountered %s", c.Name, javaName(v))
	}
	return mapEach(local, one), traits{}, nil
}

// mapEach makes a step of a function of one value, or, if local is set, of each item of a
// collection.
func mapEach(local bool, one func(any) (any, error)) mapping {
	return func(_ *run, t traverser) (any, bool, error) {
		items, ok := iterable(t.val)
		if !local || !ok {
			v, err := one(t.val)
			return v, err == nil, err
		}
		out := value.List{}
		for _, item := range items {
			v, err := one(item)
			if err != nil {
				return nil, false, err
			}
			out = append(out, v)
		}
		return out, true, nil
	}
}

func (c *callInfo) checkText() error {
	switch c.Name {
	case "replace":
		return c.arity(2, 2)
	case "split":
		return c.arity(1, 1)
	case "substring":
		if err := c.arity(1, 2); err != nil {
			return err
		}
		for i := range c.Args {
			if _, err := c.int(i); err != nil {
				return err
			}
		}
		return nil
	}
	return c.arity(0, 0)
}

func makeAsString(_ *builder, c *callInfo) (kernel, traits, error) {
	local := c.scope()
	one := func(v any) (any, error) {
		if v == nil {
			return nil, known("Can't parse null as String.")
		}
		return value.Text(v), nil
	}
	return mapEach(local, one), traits{}, c.arity(0, 0)
}

// makeConcat makes concat(strings or traversals…). null counts for nothing, unless
// there is nothing else.
func makeConcat(b *builder, c *callInfo) (kernel, traits, error) {
	var operands []operand
	for i, a := range c.Args {
		o, err := b.operand(a)
		if err != nil {
			return nil, traits{}, err
		}
		if _, ok := a.(string); !ok && o.plan == nil && a != nil {
			return nil, traits{}, wrong(i, "a string or a traversal", a)
		}
		operands = append(operands, o)
	}
	return mapping(func(r *run, t traverser) (any, bool, error) {
		var out strings.Builder
		any := false
		add := func(v interface{}) error {
			s, ok := v.(string)
			if !ok && v != nil {
				return known("String concat() can only take string as argument, encountered %s", javaName(v))
			}
			if any = any || ok; out.Len()+len(s) > MaxString {
				return fmt.Errorf("the text has more than %d bytes (MaxString)", MaxString)
			}
			out.WriteString(s)
			return nil
		}
		if err := add(t.val); err != nil {
			return nil, false, err
		}
		for _, o := range operands {
			v, ok, err := o.get(r, t)
			if err == nil && ok {
				err = add(v)
			}
			if err != nil {
				return nil, false, err
			}
		}
		if !any {
			return nil, true, nil
		}
		return out.String(), true, nil
	}), traits{}, nil
}

// makeFormat makes format, whose text has %{name}, of a property or a label, and
// %{_}, of the next by().
func makeFormat(b *builder, c *callInfo) (kernel, traits, error) {
	if err := c.arity(1, 1); err != nil {
		return nil, traits{}, err
	}
	text, err := c.string(0)
	if err != nil {
		return nil, traits{}, err
	}
	bys, err := b.bys(c)
	if err != nil {
		return nil, traits{}, err
	}
	b.used.any = true
	var fixed, names []string
	for rest := text; ; {
		before, after, found := strings.Cut(rest, "%{")
		name, tail, closed := strings.Cut(after, "}")
		if !found || !closed {
			fixed = append(fixed, rest)
			break
		}
		fixed, names, rest = append(fixed, before), append(names, name), tail
	}
	return mapping(func(r *run, t traverser) (any, bool, error) {
		var out strings.Builder
		used := 0
		for i, name := range names {
			out.WriteString(fixed[i])
			v, ok, err := r.formatted(t, name, bys, &used)
			if err != nil || !ok {
				return nil, false, err
			}
			if out.WriteString(value.Text(v)); out.Len() > MaxString {
				return nil, false, fmt.Errorf("the text has more than %d bytes (MaxString)", MaxString)
			}
		}
		out.WriteString(fixed[len(names)])
		return out.String(), true, nil
	}), traits{}, nil
}

func (r *run) formatted(t traverser, name string, bys []*by, used *int) (any, bool, error) {
	if name == "_" {
		if len(bys) == 0 {
			return t.val, true, nil
		}
		m := bys[*used%len(bys)]
		*used++
		return m.value(r, t)
	}
	if e, ok := t.val.(value.Element); ok {
		if v, ok, err := r.keyed(e, name); ok || err != nil {
			return v, ok, err
		}
	}
	return r.selected(t, name, value.PopLast)
}

package traversal

import (
	"fmt"
	"slices"

	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/value"
)

// MaxDepth bounds how deep traversals are nested.
const MaxDepth = 250

// callInfo is a call of a step with the modulators after it, by their names.
type callInfo struct {
	gremlin.Call
	mods   []gremlin.Call // by, from, to, with, option, times, until, emit
	before []gremlin.Call // times, until and emit that stand before a repeat
	first  bool           // it begins a traversal that was spawned from a source
	start  bool           // it begins any traversal
	comes  bool           // it is not written, but stands for what comes to an as()
	of     string         // addV or addE, if it is that or a property of it
}

// builder makes plans.
type builder struct {
	config  *config
	count   int // of the plans so far
	depth   int
	writes  string      // the first step that writes
	writers []StepError // all of them, as far as an error names its step
	used    labelUse

	computer, noComputer bool // a source asks for a graph computer, or forbids it
	plainConnectives     bool // and() and or() without arguments do not join what is around them

	labelledEdges bool  // steps along edges must have labels
	reserved      []any // keys that no property may have
}

// maker makes the kernel of a step.
type maker func(b *builder, c *callInfo) (kernel, traits, error)

// plan makes a plan of calls. spawned: they follow a source.
func (b *builder) plan(calls []gremlin.Call, spawned bool) (*plan, error) {
	if b.depth++; b.depth > MaxDepth {
		return nil, &StepError{Step: "__", Msg: fmt.Sprintf("traversals are nested more than %d deep (MaxDepth)", MaxDepth), Pos: gremlin.NoPos}
	}
	defer func() { b.depth-- }()
	infos, labels, err := groupCalls(calls)
	if err != nil {
		return nil, err
	}
	p := &plan{id: b.count}
	b.count++
	if infos, labels, err = b.connect(infos, labels); err != nil {
		return nil, err
	}
	for i, c := range infos {
		c.start, c.first = i == 0, i == 0 && spawned
		s, err := b.step(c)
		if err != nil {
			return nil, err
		}
		s.labels = labels[i]
		if i == 0 && spawned && !s.traits.source {
			return nil, s.failf("it cannot be the first step of a traversal")
		}
		p.steps = append(p.steps, s)
		p.stateful = p.stateful || s.traits.stateful
	}
	p.steps = foldProperties(p.steps)
	foldCounts(p.steps)
	return p, nil
}

// groupCalls joins steps with their modulators and labels.
func groupCalls(calls []gremlin.Call) (infos []*callInfo, labels [][]string, err error) {
	infos, labels = make([]*callInfo, 0, len(calls)), make([][]string, 0, len(calls))
	var ahead []gremlin.Call
	own := -1 // the last step in calls
	for i, c := range calls {
		last := len(infos) - 1
		switch {
		case c.Name == "as":
			if last < 0 { // it labels what comes in
				infos, labels = append(infos, &callInfo{Call: gremlin.Call{Name: "identity", Pos: c.Pos}, comes: true}), append(labels, nil)
				last++
			}
			for _, arg := range c.Args {
				name, ok := arg.(string)
				if !ok {
					return nil, nil, &StepError{Step: "as", Msg: "a label must be a string, not " + value.Describe(arg), Pos: c.Pos}
				}
				labels[last] = append(labels[last], name)
			}
		case isLoopModulator(c.Name):
			if last >= 0 && infos[last].Name == "repeat" && len(ahead) == 0 {
				infos[last].mods = append(infos[last].mods, c)
				continue
			}
			ahead = append(ahead, c)
		case last >= 0 && modulates(c, infos[last]):
			at := last
			for infos[at].Name == "property" {
				at--
			}
			if mods := &infos[at].mods; at == last && own+len(*mods)+1 == i {
				*mods = calls[own+1 : i+1 : i+1] // they follow their step: no copy
			} else {
				*mods = append(*mods, c)
			}
		case slices.Contains([]string{"by", "from", "to", "with", "option", "read", "write"}, c.Name) && !(c.Name == "to" && len(c.Args) > 0 && isDirection(c.Args[0])):
			return nil, nil, &StepError{Step: c.Name, Msg: "there is no step before it that it could modulate", Pos: c.Pos}
		default:
			info := &callInfo{Call: c, before: ahead}
			switch {
			case c.Name == "addV" || c.Name == "addE":
				info.of = c.Name
			case c.Name == "property" && last >= 0:
				info.of = infos[last].of
			}
			infos, labels, own = append(infos, info), append(labels, nil), i
			if len(ahead) > 0 && c.Name != "repeat" {
				return nil, nil, &StepError{Step: ahead[0].Name, Msg: "The repeat()-traversal was not defined", Pos: ahead[0].Pos}
			}
			ahead = nil
		}
	}
	if len(ahead) > 0 {
		return nil, nil, &StepError{Step: ahead[0].Name, Msg: "The repeat()-traversal was not defined", Pos: ahead[0].Pos}
	}
	return infos, labels, nil
}

func isLoopModulator(name string) bool { return name == "times" || name == "until" || name == "emit" }

func isDirection(v any) bool {
	e, ok := v.(value.Enum)
	return ok && e.Kind == value.KindDirection
}

// modulates reports whether a call changes the step before it.
func modulates(c gremlin.Call, last *callInfo) bool {
	switch c.Name {
	case "by":
		return slices.Contains([]string{
			"aggregate", "cyclicPath", "dedup", "format", "group", "groupCount", "math", "order", "pageRank", "path", "peerPressure",
			"project", "propertyMap", "sack", "sample", "select", "simplePath", "store", "tree", "valueMap", "where",
		}, last.Name)
	case "from", "to":
		if c.Name == "to" && len(c.Args) > 0 && isDirection(c.Args[0]) {
			return false
		}
		if last.Name == "property" && last.of == "addE" {
			return true
		}
		return slices.Contains([]string{"addE", "cyclicPath", "path", "simplePath", "tree"}, last.Name)
	case "with":
		if last.of != "" {
			return true
		}
		return slices.Contains([]string{
			"call", "connectedComponent", "index", "io", "pageRank", "peerPressure", "shortestPath", "valueMap",
		}, last.Name)
	case "option":
		return slices.Contains([]string{"branch", "choose", "mergeE", "mergeV"}, last.Name)
	case "read", "write":
		return last.Name == "io"
	}
	return false
}

func (b *builder) step(c *callInfo) (*step, error) {
	s := &step{call: *c}
	make, ok := makers()[c.Name]
	if !ok {
		return nil, &StepError{Step: c.Name, Msg: "there is no such step", Pos: c.Pos}
	}
	var err error
	if s.kernel, s.traits, err = make(b, c); err != nil {
		return nil, s.fail(err)
	}
	return s, nil
}

// connect makes infix and() and or() out of the calls around them: a.and().b means
// and(a, b); and binds stronger.
func (b *builder) connect(infos []*callInfo, labels [][]string) ([]*callInfo, [][]string, error) {
	if b.plainConnectives {
		return infos, labels, nil
	}
	begin := 0 // what brings traversers is not part of it
	for begin < len(infos) && slices.Contains([]string{"V", "E", "addV", "addE", "inject", "mergeV", "mergeE"}, infos[begin].Name) {
		begin++
	}
	infos, before := infos[begin:], infos[:begin]
	labels, labelsBefore := labels[begin:], labels[:begin]
	for _, name := range []string{"or", "and"} {
		at := slices.IndexFunc(infos, func(c *callInfo) bool { return c.Name == name && len(c.Args) == 0 })
		if at < 0 {
			continue
		}
		var parts []any
		from := 0
		for i := 0; i <= len(infos); i++ {
			if i == len(infos) || infos[i].Name == name && len(infos[i].Args) == 0 {
				part := &gremlin.Traversal{}
				if from > 0 && len(labels[from-1]) > 0 { // an as() that follows the connective
					part.Steps = ungroup(&callInfo{comes: true}, labels[from-1])
				}
				for j := from; j < i; j++ {
					part.Steps = append(part.Steps, ungroup(infos[j], labels[j])...)
				}
				parts, from = append(parts, part), i+1
			}
		}
		infos, labels = []*callInfo{{Call: gremlin.Call{Name: name, Args: parts, Pos: infos[at].Pos}}}, [][]string{nil}
		break
	}
	return append(before[:begin:begin], infos...), append(labelsBefore[:begin:begin], labels...), nil
}

// ungroup returns the calls that groupCalls made a step of.
func ungroup(c *callInfo, labels []string) []gremlin.Call {
	var out []gremlin.Call
	if !c.comes {
		out = append(append(append(out, c.before...), c.Call), c.mods...)
	}
	if len(labels) > 0 {
		as := gremlin.Call{Name: "as", Pos: gremlin.NoPos}
		for _, l := range labels {
			as.Args = append(as.Args, l)
		}
		out = append(out, as)
	}
	return out
}

// Arguments.

func (c *callInfo) arity(least, most int) error {
	switch n := len(c.Args); {
	case n < least && least == most:
		return fmt.Errorf("it needs %s, not %d", arguments(least), n)
	case n < least:
		return fmt.Errorf("it needs at least %s, not %d", arguments(least), n)
	case most >= 0 && n > most:
		return fmt.Errorf("it takes at most %s, not %d", arguments(most), n)
	}
	return nil
}

func arguments(n int) string {
	if n == 1 {
		return "1 argument"
	}
	return fmt.Sprintf("%d arguments", n)
}

func wrong(i int, want string, got any) error {
	return fmt.Errorf("argument %d must be %s, not %s", i+1, want, describe(got))
}

func describe(v any) string {
	switch v.(type) {
	case *gremlin.Traversal:
		return "a traversal"
	case *gremlin.P:
		return "a predicate"
	case gremlin.Cardinal:
		return "a value with a cardinality"
	case gremlin.Strategy, gremlin.Class:
		return "a strategy"
	}
	return value.Describe(v)
}

// strings returns the arguments from i on, which must be strings. null becomes nothing.
func (c *callInfo) strings(i int) (out []string, err error) {
	for ; i < len(c.Args); i++ {
		switch x := c.Args[i].(type) {
		case nil:
			out = append(out, nothing)
		case string:
			out = append(out, x)
		case value.List: // several at once
			for _, item := range x {
				s, ok := item.(string)
				if !ok {
					return nil, wrong(i, "a list of strings", item)
				}
				out = append(out, s)
			}
		default:
			return nil, wrong(i, "a string", x)
		}
	}
	return out, nil
}

// nothing is a name that no element has.
const nothing = "\x00"

func (c *callInfo) string(i int) (string, error) {
	if i < len(c.Args) {
		if s, ok := c.Args[i].(string); ok {
			return s, nil
		}
		return "", wrong(i, "a string", c.Args[i])
	}
	return "", c.arity(i+1, -1)
}

func (c *callInfo) int(i int) (int64, error) {
	if i < len(c.Args) {
		if n, ok := value.Int(c.Args[i]); ok {
			return n, nil
		}
		return 0, wrong(i, "a whole number", c.Args[i])
	}
	return 0, c.arity(i+1, -1)
}

// child makes a plan of an argument, which must be a traversal.
func (b *builder) child(v any) (*plan, error) {
	t, ok := v.(*gremlin.Traversal)
	if !ok {
		return nil, fmt.Errorf("it needs a traversal, not %s", describe(v))
	}
	return b.plan(t.Steps, false)
}

func (b *builder) children(args []any) ([]*plan, error) { return b.plans(args, false) }

// plans makes plans of arguments. spawned: nothing comes to them.
func (b *builder) plans(args []any, spawned bool) (out []*plan, err error) {
	for i, a := range args {
		t, ok := a.(*gremlin.Traversal)
		if !ok {
			return nil, wrong(i, "a traversal", a)
		}
		p, err := b.plan(t.Steps, spawned)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// scope takes a Scope from the arguments' front, or from their end.
func (c *callInfo) scope() (local bool) {
	c.Args = slices.DeleteFunc(slices.Clone(c.Args), func(a any) bool {
		e, ok := a.(value.Enum)
		if ok && e.Kind == value.KindScope {
			local = e == value.Local
			return true
		}
		return false
	})
	return local
}

// flat returns arguments with lists and sets unfolded.
func flat(args []any) (out []any) {
	for _, a := range args {
		switch a.(type) {
		case value.List, *value.Set:
			out = append(out, value.Items(a)...)
		default:
			out = append(out, a)
		}
	}
	return out
}

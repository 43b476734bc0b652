// Package exec executes templates of html/template faster than html/template does.
//
// It knows the trees of html/template after its escapers were added, and writes byte for byte what
// html/template would. It must not know where templates come from, or what their values mean. It leaves
// everything that it is not sure of to html/template: at Compile a whole template, at Execute one execution.
package exec

import (
	"bytes"
	"html/template"
	"reflect"
	"sync"
	"text/template/parse"
)

// maxDepth is how deeply templates may call each other here; deeper calls are left to html/template.
const maxDepth = 200

// Compiler makes programs. It is safe for concurrent use.
type Compiler struct{ escapers map[string]*prototype }

// NewCompiler returns a Compiler. It costs a few milliseconds.
func NewCompiler() *Compiler { return &Compiler{prototypes()} }

// Program is a compiled template. It is safe for concurrent use.
type Program struct {
	main  *routine
	pools sync.Pool // of *machine
}

// routine is one template of a set.
type routine struct {
	steps []step
	slots int // number of variables
}

// signal is how a step ended.
type signal uint8

const (
	next signal = iota
	leave
	again
	unsure // only html/template knows what comes next
)

type step func(m *machine) signal

// expr evaluates a value of a template; ok is false if only html/template can.
type expr func(m *machine) (v reflect.Value, ok bool)

// machine is one execution.
type machine struct {
	buf   *bytes.Buffer
	dot   reflect.Value
	vars  []reflect.Value // of all running routines
	base  int             // where those of the innermost routine begin
	depth int
	text  []byte // for numbers
	most  int    // bytes that buf may have
}

// Compile returns the program of t, or nil if only html/template can execute it. html/template must have
// escaped t, as it does when t is first executed. funcs are the functions that t was given. t must not have
// the option missingkey.
func (c *Compiler) Compile(t *template.Template, funcs template.FuncMap) *Program {
	b := &builder{set: t, funcs: funcs, escapers: c.escapers, routines: map[string]*routine{}}
	main := b.routine(t.Name())
	if b.failed {
		return nil
	}
	p := &Program{main: main}
	p.pools.New = func() any { return new(machine) }
	return p
}

// Execute appends to buf what the template's Execute would write, and reports whether it could. If it could
// not, or buf would exceed limit bytes, it leaves buf unchanged, and the caller must execute the template.
// That produces the output or the error, and repeats calls of functions and methods.
func (p *Program) Execute(buf *bytes.Buffer, data any, limit int) (done bool) {
	m := p.pools.Get().(*machine)
	before := buf.Len()
	m.buf, m.base, m.depth, m.most = buf, 0, 0, limit
	m.dot = reflect.ValueOf(data)
	if m.dot.IsValid() && m.dot.Type() == valueType {
		return false
	}
	defer func() {
		if !done {
			_ = recover() // html/template turns a function's panic into an error
			buf.Truncate(before)
			return
		}
		clear(m.vars[:cap(m.vars)]) // drop references that the pool would keep
		*m = machine{vars: m.vars[:0], text: m.text}
		p.pools.Put(m)
	}()
	return m.call(p.main, m.dot) && buf.Len() <= limit
}

// call executes a routine on dot.
func (m *machine) call(r *routine, dot reflect.Value) bool {
	if m.depth++; m.depth > maxDepth {
		return false
	}
	outerDot, outerBase := m.dot, m.base
	m.dot, m.base = dot, len(m.vars)
	for range r.slots {
		m.vars = append(m.vars, reflect.Value{})
	}
	m.vars[m.base] = dot // $
	ok := m.run(r.steps) == next
	m.vars = m.vars[:m.base]
	m.dot, m.base = outerDot, outerBase
	m.depth--
	return ok
}

func (m *machine) run(steps []step) signal {
	for _, s := range steps {
		if sig := s(m); sig != next {
			return sig
		}
	}
	return next
}

// builder makes the routines of one program.
type builder struct {
	set      *template.Template
	funcs    template.FuncMap
	escapers map[string]*prototype
	routines map[string]*routine
	scope    []variable // of the routine that is being made
	slots    int
	failed   bool
}

type variable struct {
	name string
	slot int
}

// fail marks the template as one that only html/template can execute.
func (b *builder) fail() { b.failed = true }

// routine returns the routine of a template, which may still be incomplete.
func (b *builder) routine(name string) *routine {
	if r := b.routines[name]; r != nil {
		return r
	}
	r := new(routine)
	b.routines[name] = r
	t := b.set.Lookup(name)
	if t == nil || t.Tree == nil || t.Tree.Root == nil {
		b.fail() // html/template has made a variant of it that it does not expose
		return r
	}
	scope, slots := b.scope, b.slots
	b.scope, b.slots = []variable{{"$", 0}}, 1
	r.steps = b.list(t.Tree.Root)
	r.slots = b.slots
	b.scope, b.slots = scope, slots
	return r
}

// declare assigns a slot to a variable until the scope ends.
func (b *builder) declare(name string) int {
	b.scope = append(b.scope, variable{name, b.slots})
	b.slots++
	return b.slots - 1
}

func (b *builder) lookup(name string) int {
	for i := len(b.scope) - 1; i >= 0; i-- {
		if b.scope[i].name == name {
			return b.scope[i].slot
		}
	}
	b.fail()
	return 0
}

func (b *builder) list(l *parse.ListNode) (steps []step) {
	if l == nil {
		return nil
	}
	for _, n := range l.Nodes {
		if s := b.node(n); s != nil {
			steps = append(steps, s)
		}
		if b.failed {
			return nil
		}
	}
	return steps
}

func (b *builder) node(n parse.Node) step {
	switch n := n.(type) {
	case *parse.TextNode:
		text := n.Text
		return func(m *machine) signal {
			if m.buf.Len()+len(text) > m.most {
				return unsure
			}
			m.buf.Write(text)
			return next
		}
	case *parse.CommentNode:
		return nil
	case *parse.ActionNode:
		return b.action(n)
	case *parse.IfNode:
		return b.branch(&n.BranchNode, false)
	case *parse.WithNode:
		return b.branch(&n.BranchNode, true)
	case *parse.RangeNode:
		return b.rangeOver(n)
	case *parse.TemplateNode:
		return b.call(n)
	case *parse.BreakNode:
		return func(*machine) signal { return leave }
	case *parse.ContinueNode:
		return func(*machine) signal { return again }
	}
	b.fail()
	return nil
}

// action writes a value, or sets variables to it.
func (b *builder) action(n *parse.ActionNode) step {
	if len(n.Pipe.Decl) > 0 {
		return b.assign(n.Pipe)
	}
	value, chain := splitEscapers(n.Pipe)
	escape := b.escaper(chain)
	if escape == nil || len(value) == 0 {
		b.fail()
		return nil
	}
	of := b.commands(value)
	return func(m *machine) signal {
		v, ok := of(m)
		if ok && escape(m, v) {
			return next
		}
		return unsure
	}
}

func (b *builder) assign(p *parse.PipeNode) step {
	if len(p.Decl) != 1 || len(p.Decl[0].Ident) != 1 {
		b.fail()
		return nil
	}
	of := b.commands(p.Cmds)
	var slot int
	if p.IsAssign {
		slot = b.lookup(p.Decl[0].Ident[0])
	} else {
		slot = b.declare(p.Decl[0].Ident[0])
	}
	return func(m *machine) signal {
		v, ok := of(m)
		if !ok {
			return unsure
		}
		m.vars[m.base+slot] = v
		return next
	}
}

// condition evaluates a pipe that may declare variables.
func (b *builder) condition(p *parse.PipeNode) expr {
	of := b.commands(p.Cmds)
	if len(p.Decl) == 0 {
		return of
	}
	if p.IsAssign || len(p.Decl) != 1 {
		b.fail()
		return nil
	}
	slot := b.declare(p.Decl[0].Ident[0])
	return func(m *machine) (reflect.Value, bool) {
		v, ok := of(m)
		m.vars[m.base+slot] = v
		return v, ok
	}
}

func (b *builder) branch(n *parse.BranchNode, with bool) step {
	defer func(scope []variable) { b.scope = scope }(b.scope)
	of := b.condition(n.Pipe)
	inner := b.scope
	then := b.list(n.List)
	b.scope = inner
	otherwise := b.list(n.ElseList)
	return func(m *machine) signal {
		v, ok := of(m)
		if !ok {
			return unsure
		}
		v = concrete(v)
		truth, ok := isTrue(v)
		switch {
		case !ok:
			return unsure
		case !truth:
			return m.run(otherwise)
		case !with:
			return m.run(then)
		}
		outer := m.dot
		m.dot = v
		sig := m.run(then)
		m.dot = outer
		return sig
	}
}

func (b *builder) call(n *parse.TemplateNode) step {
	of := func(*machine) (reflect.Value, bool) { return reflect.Value{}, true }
	if n.Pipe != nil {
		if len(n.Pipe.Decl) > 0 {
			b.fail()
			return nil
		}
		of = b.commands(n.Pipe.Cmds)
	}
	r := b.routine(n.Name)
	return func(m *machine) signal {
		v, ok := of(m)
		if !ok || !m.call(r, v) {
			return unsure
		}
		return next
	}
}

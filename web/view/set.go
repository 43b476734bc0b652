package view

import (
	"errors"
	"fmt"
	"html/template"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"text/template/parse"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/view/exec"
)

// set is all views at one time. It never changes.
type set struct {
	views   *Views
	files   map[string]*file // by name
	names   []string         // of files, sorted
	shared  map[string]*file // templates that partials define, by name
	doubles []mistake        // names that exist twice
	pages   map[string]*page
}

// page is a view that can be rendered, or the reason why it cannot.
type page struct {
	file *file
	tmpl *template.Template
	z    *zpage // nil for html/template
	err  error
	bad  []mistake // the faults in err
	deps []*file   // the files that it is made of
	uses map[string]bool
	all  bool // uses may be incomplete: the view passes on its locals as a whole

	ready sync.Once     // sets fast, at the first use
	fast  *exec.Program // of tmpl; nil: only html/template can execute it

	warned sync.Map // keys of warn that were logged already
	warns  atomic.Int32
}

// newSet makes pages of files; it reuses those of old that did not change.
func (v *Views) newSet(files map[string]*file, doubles []mistake, old *set) *set {
	s := &set{views: v, files: files, shared: map[string]*file{}, doubles: doubles, pages: map[string]*page{}}
	s.names = slices.Sorted(maps.Keys(files))
	for _, name := range s.names {
		f := files[name]
		if !f.partial() {
			continue
		}
		for _, d := range slices.Sorted(maps.Keys(f.trees)) {
			if d == name {
				continue
			}
			other := s.shared[d]
			if other == nil {
				other = files[d]
			}
			if other != nil {
				s.doubles = append(s.doubles, mistake{file: f.path, what: fmt.Sprintf("it defines %q, and so does %s", d, other.path)})
				continue
			}
			s.shared[d] = f
		}
	}
	for _, name := range s.names {
		if p := old.kept(s, name); p != nil {
			s.pages[name] = p
			continue
		}
		s.pages[name] = s.compile(files[name])
	}
	return s
}

// kept returns the page of an earlier set if all files that it is made of are unchanged.
func (s *set) kept(next *set, name string) *page {
	if s == nil || s.pages[name] == nil || s.pages[name].err != nil || len(s.doubles)+len(next.doubles) > 0 {
		return nil
	}
	p := s.pages[name]
	for _, f := range p.deps {
		if next.files[f.name] != f {
			return nil
		}
	}
	return p
}

// check returns all faults. A partial that is not a page of its own is checked in the pages that call it.
func (s *set) check() error {
	bad := slices.Clone(s.doubles)
	for _, name := range s.names {
		f, p := s.files[name], s.pages[name]
		if f.err != nil {
			bad = append(bad, *f.err)
		} else if !f.partial() {
			bad = append(bad, p.bad...)
		}
	}
	if l := s.views.layout; l != "" && s.files[l] == nil {
		return errors.Join(broken(bad), s.noLayout(l))
	}
	return broken(bad)
}

// page returns the page of that name.
func (s *set) page(name string) (*page, error) {
	p := s.pages[name]
	if p == nil {
		return nil, s.missing(name)
	}
	if len(s.doubles) > 0 {
		return nil, broken(s.doubles)
	}
	return p, p.err
}

// layout returns the layout, nil if there is none.
func (s *set) layout() (*page, error) {
	name := s.views.layout
	if name == "" {
		if name = "layout"; s.files[name] == nil {
			return nil, nil
		}
	}
	if s.files[name] == nil {
		return nil, s.noLayout(name)
	}
	return s.page(name)
}

func (s *set) noLayout(name string) error {
	return engine.Errorf(CodeViewMissing, "the layout: %s", s.missing(name).Msg)
}

// compile makes a page of a file.
func (s *set) compile(f *file) *page {
	p := &page{file: f, uses: map[string]bool{}}
	switch {
	case f.err != nil:
		p.bad = []mistake{*f.err}
	case f.isZ:
		p.deps = []*file{f}
		p.bad = s.compileZ(p)
	default:
		p.bad = s.compileHTML(p)
	}
	p.err = broken(p.bad)
	return p
}

// compileHTML makes a page of an html/template file and everything that it calls.
func (s *set) compileHTML(p *page) []mistake {
	trees, bad := s.gather(p)
	if len(bad) > 0 {
		return bad
	}
	var err error
	if p.tmpl, err = s.escape(p.file.name, trees); err != nil {
		return []mistake{s.locate(p, trees, p.file.text, err)}
	}
	for _, f := range p.deps {
		for name, t := range f.trees {
			p.addUses(t.Root, true)
			bad = append(bad, forbidden(p.tmpl.Lookup(name).Tree, f)...)
		}
	}
	return bad
}

// gather returns the templates that a page needs, by name.
func (s *set) gather(p *page) (trees map[string]*parse.Tree, bad []mistake) {
	trees = map[string]*parse.Tree{}
	owner := map[string]*file{}
	var add func(f *file)
	add = func(f *file) {
		if f.err != nil {
			bad = append(bad, *f.err)
			return
		}
		if slices.Contains(p.deps, f) {
			return
		}
		p.deps = append(p.deps, f)
		for _, name := range slices.Sorted(maps.Keys(f.trees)) {
			if other := owner[name]; other != nil {
				bad = append(bad, mistake{file: f.path, what: fmt.Sprintf("it defines %q, and so does %s", name, other.path)})
				continue
			}
			owner[name], trees[name] = f, f.trees[name]
		}
		for _, name := range slices.Sorted(maps.Keys(f.trees)) {
			for _, call := range calls(f.trees[name].Root) {
				if f.trees[call.Name] != nil {
					continue
				}
				called := s.files[call.Name]
				if called == nil {
					called = s.shared[call.Name]
				}
				switch {
				case called == nil:
					bad = append(bad, mistake{f.path, call.Line, s.noPartial(call.Name)})
				case called.isZ:
					bad = append(bad, mistake{f.path, call.Line, fmt.Sprintf("%s is in the Z syntax, which {{template}} cannot call: its keys are looked up in the locals of the page", called.path)})
				default:
					add(called)
				}
			}
		}
	}
	add(p.file)
	return trees, bad
}

// noPartial describes a missing template, and the files that may define it but do not parse.
func (s *set) noPartial(name string) string {
	what := fmt.Sprintf("there is no template %q", name)
	if alike := s.files[path.Join(path.Dir(name), "_"+path.Base(name))]; alike != nil {
		what += fmt.Sprintf("; there is %q", alike.name)
	}
	if strings.HasPrefix(path.Base(name), "_") && !slices.ContainsFunc(s.names, func(n string) bool { return s.files[n].partial() }) {
		what += "; go:embed leaves out files that begin with an underscore, unless the pattern begins with all:"
	}
	for _, n := range s.names {
		if f := s.files[n]; f.partial() && f.err != nil {
			what += "; " + f.err.String()
		}
	}
	return what
}

// calls returns the {{template}} actions below a node.
func calls(n parse.Node) (found []*parse.TemplateNode) {
	walk(n, func(n parse.Node) {
		if t, ok := n.(*parse.TemplateNode); ok {
			found = append(found, t)
		}
	})
	return found
}

// errStop ends an execution that was begun only to escape the template.
var errStop = errors.New("stop")

// stop is a writer that always fails with errStop.
type stop struct{}

func (stop) Write([]byte) (int, error) { return 0, errStop }

// wrapper is the name of the template that calls the page for escape.
const wrapper = "\x00page"

// escape makes a template of parsed trees, with every action escaped for its context. It copies the trees.
// html/template escapes at the first execution, so escape begins one and discards its output; it calls no
// function.
func (s *set) escape(name string, trees map[string]*parse.Tree) (t *template.Template, err error) {
	defer func() {
		if p := recover(); p != nil {
			t, err = nil, fmt.Errorf("html/template rejects it: %v", p)
		}
	}()
	t, err = template.New(wrapper).Funcs(s.views.funcs).Parse(fmt.Sprintf("x{{template %q .}}", name))
	if err != nil {
		return nil, err
	}
	for n, tree := range trees {
		if _, err := t.AddParseTree(n, tree.Copy()); err != nil {
			return nil, err
		}
	}
	if err := t.Execute(stop{}, nil); !errors.Is(err, errStop) {
		return nil, err
	}
	for n := range trees {
		place(t.Lookup(n).Tree)
	}
	return t.Lookup(name), nil
}

// place gives the escapers in a tree the position of their action. html/template gives them none, so errors of
// an escaper, such as that of a value's MarshalJSON, would be reported in the first line.
func place(tree *parse.Tree) {
	walk(tree.Root, func(n parse.Node) {
		if a, ok := n.(*parse.ActionNode); ok {
			for _, c := range a.Pipe.Cmds {
				if id, ok := c.Args[0].(*parse.IdentifierNode); ok && strings.HasPrefix(id.Ident, "_html_template_") {
					c.Pos = a.Pos
				}
			}
		}
	})
}

// failed turns the error of an execution into one of this package.
func (p *page) failed(err error) error {
	if e, ok := errors.AsType[*engine.Error](err); ok && e.Code == CodeViewTooLarge {
		return engine.Errorf(CodeViewTooLarge, "%s: %w", p.file.path, err)
	}
	m := placed(err, p.file.path)
	return &engine.Error{Code: CodeViewFailed, Msg: "render a view: " + m.String(), Err: err}
}

// walk calls fn for every node of a tree, parents first.
func walk(n parse.Node, fn func(parse.Node)) {
	list := func(nodes ...*parse.ListNode) {
		for _, l := range nodes {
			if l != nil {
				walk(l, fn)
			}
		}
	}
	pipe := func(p *parse.PipeNode) {
		if p != nil {
			walk(p, fn)
		}
	}
	branch := func(b *parse.BranchNode) {
		pipe(b.Pipe)
		list(b.List, b.ElseList)
	}
	fn(n)
	switch n := n.(type) {
	case *parse.ListNode:
		for _, m := range n.Nodes {
			walk(m, fn)
		}
	case *parse.ActionNode:
		pipe(n.Pipe)
	case *parse.IfNode:
		branch(&n.BranchNode)
	case *parse.RangeNode:
		branch(&n.BranchNode)
	case *parse.WithNode:
		branch(&n.BranchNode)
	case *parse.TemplateNode:
		pipe(n.Pipe)
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			for _, a := range c.Args {
				walk(a, fn)
			}
		}
	case *parse.ChainNode:
		walk(n.Node, fn)
	}
}

// Package view renders pages from files: html/template files, and files in the Z syntax. Editors read Z files
// as plain HTML and JavaScript. They are compiled into html/template, so every value is escaped for its
// context.
//
// It knows files, keys and escaping; it must not know HTTP, sessions, users or where the locals come from.
// docs/templates.md describes both kinds of files.
package view

import (
	"html/template"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/view/exec"
)

// Options of New. FS is required; the zero value of everything else works.
type Options struct {
	// FS has the views. Files ending in .z.html are in the Z syntax, other .html files are html/template's. All
	// other files, and names that begin with a dot, are ignored. The name of a view is its path without the
	// extension.
	FS fs.FS

	// Reload is for development: every Render checks whether files have changed. New then accepts files that do
	// not parse; Render fails until they are fixed. Without Reload, New reads and checks everything once.
	Reload bool

	// Layout names the view that Render puts its pages into. "" is "layout" if there is such a view, otherwise
	// none.
	Layout string

	// Funcs are for html/template views. They are called concurrently and, like the methods of locals, possibly
	// twice for one page: they must have no side effects.
	Funcs template.FuncMap

	// Always names the locals that the caller gives to every page, used or not, so that no warnings are logged
	// about them; nil is LayoutLocals().
	Always []string

	// Logger receives the warnings about keys; nil discards them.
	Logger *slog.Logger
}

// LayoutLocals returns the names of the locals that every layout gets.
func LayoutLocals() []string {
	return []string{"title", "project_name", "assets", "contents", "is_superadmin", "debug_mode", "nonce"}
}

// Views renders the views of one folder. It is safe for concurrent use.
type Views struct {
	fsys   fs.FS
	reload bool
	layout string
	funcs  template.FuncMap
	always map[string]bool
	log    *slog.Logger
	fast   func() *exec.Compiler // made for the first page

	now     atomic.Pointer[set] // the last set read; never changed, only replaced
	buffers sync.Pool           // of *buffer
}

// New reads all views. It fails with CodeViewBroken, naming the faults and lines of every file that does not
// parse, or with engine.CodeInvalid for invalid options. With Reload, Render reports broken files instead.
func New(o Options) (*Views, error) {
	if o.FS == nil {
		return nil, engine.Errorf(engine.CodeInvalid, "views: Options.FS is missing")
	}
	if err := checkFuncs(o.Funcs); err != nil {
		return nil, err
	}
	v := &Views{fsys: o.FS, reload: o.Reload, layout: o.Layout, funcs: maps.Clone(o.Funcs), always: map[string]bool{}, log: o.Logger, fast: sync.OnceValue(exec.NewCompiler)}
	if v.log == nil {
		v.log = slog.New(slog.DiscardHandler)
	}
	if o.Always == nil {
		o.Always = LayoutLocals()
	}
	for _, name := range o.Always {
		v.always[name] = true
	}
	s, err := v.read(nil)
	if err != nil {
		return nil, err
	}
	v.now.Store(s)
	if err := s.check(); err != nil && !o.Reload {
		return nil, err
	}
	return v, nil
}

// checkFuncs turns html/template's panic about an invalid map of functions into an error.
func checkFuncs(funcs template.FuncMap) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = engine.Errorf(engine.CodeInvalid, "views: Options.Funcs: %v", p)
		}
	}()
	template.New("").Funcs(funcs)
	return nil
}

// current returns the current views. In development several goroutines may read changed files at once; the
// first result is kept.
func (v *Views) current() (*set, error) {
	old := v.now.Load()
	if !v.reload {
		return old, nil
	}
	s, err := v.read(old)
	if err != nil {
		return nil, err
	}
	if s != old {
		v.now.CompareAndSwap(old, s)
	}
	return s, nil
}

// Check returns the faults of all files, as New would; nil if there are none.
func (v *Views) Check() error {
	s, err := v.current()
	if err != nil {
		return err
	}
	return s.check()
}

// Has reports whether there is a view with that name, even if it is broken.
func (v *Views) Has(name string) bool {
	s, err := v.current()
	return err == nil && s.files[name] != nil
}

// Names returns the names of all views, sorted.
func (v *Views) Names() []string {
	s, err := v.current()
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.files))
}

// Render writes the view to w inside the layout, whose local "contents" is the page. It only reads the locals.
// Nothing is written if the error is one of this package: CodeViewMissing, CodeViewBroken, CodeViewFailed or
// CodeViewTooLarge. Other errors are those of w.
func (v *Views) Render(w io.Writer, name string, locals map[string]any) error {
	return v.inLayout(w, name, locals, true)
}

// Offer is Render for locals that the view need not use: it logs no warnings about unused ones. It is for
// callers that give the same locals to any view with that name, for example an error page.
func (v *Views) Offer(w io.Writer, name string, locals map[string]any) error {
	return v.inLayout(w, name, locals, false)
}

func (v *Views) inLayout(w io.Writer, name string, locals map[string]any, warn bool) error {
	s, err := v.current()
	if err != nil {
		return err
	}
	layout, err := s.layout()
	if err != nil {
		return err
	}
	return v.render(w, s, name, layout, locals, warn)
}

// HasLayout reports whether Render puts pages into a layout, even a broken one.
func (v *Views) HasLayout() bool {
	s, err := v.current()
	if err != nil {
		return false
	}
	layout, err := s.layout()
	return layout != nil || err != nil
}

// Wrap writes contents inside the layout, as Render does with a view. There must be a layout; see HasLayout.
func (v *Views) Wrap(w io.Writer, contents template.HTML, locals map[string]any) error {
	s, err := v.current()
	if err != nil {
		return err
	}
	layout, err := s.layout()
	if err != nil {
		return err
	}
	if layout == nil {
		return engine.Errorf(CodeViewMissing, "there is no layout")
	}
	buf := v.getBuffer()
	defer v.putBuffer(buf)
	if err := v.wrap(buf, layout, contents, locals); err != nil {
		return err
	}
	_, err = w.Write(buf.b.Bytes())
	return err
}

// wrap renders the layout around contents into an empty buffer.
func (v *Views) wrap(buf *buffer, layout *page, contents template.HTML, locals map[string]any) error {
	outer := make(map[string]any, len(locals)+1)
	maps.Copy(outer, locals)
	outer["contents"] = contents
	return v.execute(buf, layout, outer)
}

// Fragment is Render without the layout.
func (v *Views) Fragment(w io.Writer, name string, locals map[string]any) error {
	s, err := v.current()
	if err != nil {
		return err
	}
	return v.render(w, s, name, nil, locals, true)
}

func (v *Views) render(w io.Writer, s *set, name string, layout *page, locals map[string]any, warn bool) error {
	p, err := s.page(name)
	if err != nil {
		return err
	}
	if warn {
		v.warnUnused(p, layout, locals)
	}
	buf := v.getBuffer()
	defer v.putBuffer(buf)
	if err := v.execute(buf, p, locals); err != nil {
		return err
	}
	if layout != nil {
		contents := template.HTML(buf.b.String()) // escaped by the page itself
		buf.b.Reset()
		if err := v.wrap(buf, layout, contents, locals); err != nil {
			return err
		}
	}
	_, err = w.Write(buf.b.Bytes())
	return err
}

// execute renders one page into the buffer.
func (v *Views) execute(buf *buffer, p *page, locals map[string]any) error {
	if p.err != nil {
		return p.err
	}
	if p.z != nil {
		locals = p.z.data(locals, func(s *slot) { v.warnMissing(p, s) })
	}
	if locals == nil {
		locals = map[string]any{}
	}
	p.ready.Do(func() { p.fast = v.fast().Compile(p.tmpl, v.funcs) })
	if p.fast != nil && p.fast.Execute(&buf.b, locals, MaxPageBytes) {
		return nil
	}
	if err := p.tmpl.Execute(buf, locals); err != nil {
		return p.failed(err)
	}
	return nil
}

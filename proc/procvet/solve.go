package procvet

import (
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
)

// step is what one round of solve adds.
type step struct {
	f     *function
	write bool
	index int
	effect
}

// solve propagates the effects of functions to their callers, one call further in each
// round, so that the first chain found is a shortest one.
func (v *vetter) solve() {
	for _, f := range v.list {
		for _, s := range f.sites {
			f.sum.add(s.effect)
		}
		for _, s := range f.writes {
			f.sum.addWrite(s.index, s.effect)
		}
	}
	for again := true; again; {
		var steps []step
		for _, f := range v.list {
			for i := range f.edges {
				e := &f.edges[i]
				if sum := e.summary(); e.allow == nil {
					steps = v.through(steps, f, e, &f.sum)
				} else if !sum.empty() {
					e.allow.used = true
				}
			}
		}
		again = false
		for _, s := range steps {
			if s.write {
				again = s.f.sum.addWrite(s.index, s.effect) || again
			} else {
				again = s.f.sum.add(s.effect) || again
			}
		}
	}
}

// through appends the effects that f has through e, except those that are known already.
func (v *vetter) through(steps []step, f *function, e *edge, known *summary) []step {
	sum := e.summary()
	for _, have := range sum.Effects {
		if !known.has(have.Kind) {
			steps = append(steps, step{f: f, effect: have.after(e.name)})
		}
	}
	if e.call == nil {
		return steps
	}
	for _, have := range sum.Writes {
		p := v.givenPlace(f, e.call, have.Index)
		out := have.Effect.after(e.name)
		switch {
		case p.outside:
			out.What = "writes " + p.name
			if out.Kind == KindEscape {
				out.What = "keeps the Tx in " + p.name
			}
			steps = append(steps, step{f: f, effect: out})
		case p.param:
			steps = append(steps, step{f: f, write: true, index: p.index, effect: out})
		}
	}
	return steps
}

// export exports facts for the packages that import this one.
func (v *vetter) export() {
	for fn, d := range v.definers {
		v.pass.ExportObjectFact(fn, &d)
	}
	scope := v.pass.Pkg.Scope()
	for _, name := range scope.Names() {
		obj, ok := scope.Lookup(name).(*types.Var)
		if !ok || v.values[obj] == nil || !isFunc(obj.Type()) {
			continue
		}
		if read, ok := v.procedure(v.values[obj]); ok {
			v.pass.ExportObjectFact(obj, &defined{Read: read})
		}
	}
	if v.own {
		return
	}
	for _, f := range v.list {
		if f.fn != nil && !f.sum.empty() {
			sum := f.sum
			v.pass.ExportObjectFact(f.fn, &sum)
		}
	}
}

// isFunc reports whether t is *proc.Func.
func isFunc(t types.Type) bool {
	n := named(t)
	return n != nil && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == procPath && n.Obj().Name() == "Func"
}

// report reports the effects of the procedures of this package.
func (v *vetter) report() {
	for _, r := range v.roots {
		if r.fn.local == nil {
			v.reportForeign(r)
			continue
		}
		f := r.fn.local
		for _, s := range f.sites {
			v.finding(r, s.pos, s.effect)
		}
		for _, s := range f.writes {
			if r.method && f.receiver && s.index == 0 {
				e := s.effect
				e.What += " (its receiver)"
				v.finding(r, s.pos, e)
			}
		}
		for i := range f.edges {
			e := &f.edges[i]
			if e.allow != nil {
				continue
			}
			for _, s := range v.through(nil, f, e, new(summary)) {
				if !s.write || r.method && f.receiver && s.index == 0 {
					v.finding(r, e.pos, s.effect)
				}
			}
		}
	}
}

// reportForeign reports a procedure whose function is in another package.
func (v *vetter) reportForeign(r root) {
	fn := r.fn.foreign
	var sum summary
	if fn.Pkg() == nil || ownPackage(fn.Pkg().Path()) {
		return
	}
	if k, ok := libraryRule(fn); ok {
		sum.add(effect{Kind: k, What: "is " + libraryName(fn)})
	} else if !v.pass.ImportObjectFact(fn, &sum) {
		return
	}
	if a := v.allowed(r.pos); a != nil {
		a.used = true
		return
	}
	for _, e := range sum.Effects {
		v.finding(r, r.pos, e.after(funcName(fn)))
	}
	for _, w := range sum.Writes {
		if r.method && w.Index == 0 {
			v.finding(r, r.pos, w.Effect.after(funcName(fn)))
		}
	}
}

// finding reports e once per position.
func (v *vetter) finding(r root, pos token.Pos, e effect) {
	if e.Kind == KindReadOnly && !r.read {
		return
	}
	key := reportKey{pos, e.Kind, e.What}
	if v.reported[key] {
		return
	}
	v.reported[key] = true
	v.pass.Report(analysis.Diagnostic{Pos: pos, Category: string(e.Kind), Message: e.text(r.name)})
}

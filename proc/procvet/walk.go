package procvet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/types/typeutil"
)

// function is a function with a body in this package. Literals inside it count as called.
type function struct {
	name     string
	node     ast.Node // *ast.FuncDecl or *ast.FuncLit
	body     *ast.BlockStmt
	fn       *types.Func // nil for a literal
	receiver bool

	sites  []site      // its own effects
	writes []paramSite // its own writes through parameters
	edges  []edge      // the functions that it calls
	sum    summary     // both, including those of its callees
}

// site is an effect in the body of a function.
type site struct {
	pos token.Pos
	effect
}

// paramSite is a write through a parameter.
type paramSite struct {
	pos   token.Pos
	index int
	effect
}

// edge is a reference to another function, usually a call.
type edge struct {
	pos     token.Pos
	name    string
	local   *function // exactly one of these two is set
	foreign *summary
	call    *ast.CallExpr // nil if it is not a call
	allow   *allowance    // the comment that allows it, or nil
}

// summary returns the known effects of the callee.
func (e *edge) summary() *summary {
	if e.local != nil {
		return &e.local.sum
	}
	return e.foreign
}

// walker walks one body.
type walker struct {
	*vetter
	f     *function
	calls map[*ast.Ident]*ast.CallExpr     // by the identifier that is called
	sels  map[*ast.Ident]*ast.SelectorExpr // by the last identifier
	skip  map[ast.Node]bool
}

func (v *vetter) walk(f *function) {
	w := &walker{v, f, map[*ast.Ident]*ast.CallExpr{}, map[*ast.Ident]*ast.SelectorExpr{}, map[ast.Node]bool{}}
	ast.Inspect(f.body, w.node)
}

func (w *walker) node(n ast.Node) bool {
	if n == nil || w.skip[n] {
		return false
	}
	switch n := n.(type) {
	case *ast.FuncLit:
		return !w.given[n] // a separate procedure, not called here
	case *ast.GoStmt:
		w.add(n.Pos(), KindGoroutine, "starts a goroutine")
		if w.hands(n.Call) {
			w.add(n.Pos(), KindEscape, "hands the Tx to a goroutine")
		}
		return false
	case *ast.SelectStmt:
		w.add(n.Pos(), KindWait, "selects on channels")
		for _, c := range n.Body.List {
			if c := c.(*ast.CommClause).Comm; c != nil {
				w.skip[c] = true
			}
		}
	case *ast.SendStmt:
		w.add(n.Pos(), KindWait, "sends on a channel")
		if w.keepsTx(n.Value) {
			w.add(n.Pos(), KindEscape, "sends the Tx on a channel")
		}
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			w.add(n.Pos(), KindWait, "receives from a channel")
		}
	case *ast.RangeStmt:
		w.ranges(n)
	case *ast.ForStmt:
		w.loop(n)
	case *ast.AssignStmt:
		w.assign(n)
	case *ast.IncDecStmt:
		w.write(n.X, nil)
	case *ast.CallExpr:
		w.call(n)
	case *ast.SelectorExpr:
		w.sels[n.Sel] = n
	case *ast.Ident:
		w.ident(n)
	}
	return true
}

// add records an effect, unless a comment allows it.
func (w *walker) add(pos token.Pos, k Kind, what string) {
	if a := w.allowed(pos); a != nil {
		a.used = true
		return
	}
	w.f.sites = append(w.f.sites, site{pos, effect{Kind: k, What: what, Where: w.where(pos)}})
}

func (w *walker) ranges(n *ast.RangeStmt) {
	if t := w.pass.TypesInfo.TypeOf(n.X); t != nil {
		if _, ok := t.Underlying().(*types.Chan); ok {
			w.add(n.Pos(), KindWait, "ranges over a channel")
		}
	}
	if n.Tok == token.ASSIGN {
		for _, e := range []ast.Expr{n.Key, n.Value} {
			if e != nil {
				w.write(e, nil)
			}
		}
	}
}

func (w *walker) assign(n *ast.AssignStmt) {
	if n.Tok == token.DEFINE {
		return
	}
	for i, l := range n.Lhs {
		if len(n.Rhs) == len(n.Lhs) {
			w.write(l, n.Rhs[i])
		} else {
			w.write(l, nil)
		}
	}
}

// write records the assignment of rhs, which may be unknown, to lhs.
func (w *walker) write(lhs, rhs ast.Expr) {
	k, verb := KindWrite, "writes "
	if rhs != nil && w.keepsTx(rhs) {
		k, verb = KindEscape, "keeps the Tx in "
	}
	w.writePlace(lhs.Pos(), w.origin(w.f, lhs, false), k, verb)
}

func (w *walker) writePlace(pos token.Pos, p place, k Kind, verb string) {
	switch {
	case p.outside:
		w.add(pos, k, verb+p.name)
	case p.param:
		if a := w.allowed(pos); a != nil {
			a.used = true
			return
		}
		e := effect{Kind: k, What: verb + "what " + p.name + " points to", Where: w.where(pos)}
		w.f.writes = append(w.f.writes, paramSite{pos, p.index, e})
	}
}

func (w *walker) call(n *ast.CallExpr) {
	info := w.pass.TypesInfo
	switch fun := ast.Unparen(n.Fun).(type) {
	case *ast.Ident:
		w.calls[fun] = n
	case *ast.SelectorExpr:
		w.calls[fun.Sel] = n
	case *ast.IndexExpr:
		w.instance(fun.X, n)
	case *ast.IndexListExpr:
		w.instance(fun.X, n)
	}
	b, ok := typeutil.Callee(info, n).(*types.Builtin)
	if !ok {
		return
	}
	switch b.Name() {
	case "close":
		w.add(n.Pos(), KindWait, "closes a channel")
	case "print", "println":
		w.add(n.Pos(), KindLog, "calls "+b.Name())
	case "delete", "clear", "copy":
		w.writePlace(n.Pos(), w.origin(w.f, n.Args[0], true), KindWrite, "writes ")
	}
}

func (w *walker) instance(fun ast.Expr, n *ast.CallExpr) {
	switch fun := ast.Unparen(fun).(type) {
	case *ast.Ident:
		w.calls[fun] = n
	case *ast.SelectorExpr:
		w.calls[fun.Sel] = n
	}
}

// ident records the effects of a reference to a function or variable.
func (w *walker) ident(id *ast.Ident) {
	pos := w.start(id)
	switch obj := w.pass.TypesInfo.Uses[id].(type) {
	case *types.Func:
		if obj.Pkg() != nil {
			w.mention(pos, id, obj.Origin())
		}
	case *types.Var:
		w.variableUse(pos, id, obj)
	}
}

// variableUse records the effects of a reference to a variable.
func (w *walker) variableUse(pos token.Pos, id *ast.Ident, obj *types.Var) {
	if obj.Pkg() == nil || obj.IsField() {
		return
	}
	lib := obj
	if v := w.stands[obj]; v != nil {
		lib = v
	}
	if k, ok := libraryVar(lib); ok {
		w.add(pos, k, "uses "+lib.Pkg().Path()+"."+lib.Name())
		return
	}
	for _, rhs := range w.assigned[obj] {
		w.variableCall(pos, id, obj, rhs)
	}
}

// start returns where the reference id begins: at the qualifier, if that is on the same
// line.
func (w *walker) start(id *ast.Ident) token.Pos {
	sel := w.sels[id]
	if sel == nil || w.pass.Fset.Position(sel.Pos()).Line != w.pass.Fset.Position(id.Pos()).Line {
		return id.Pos()
	}
	return sel.Pos()
}

// variableCall follows a variable to one function that is assigned to it.
func (w *walker) variableCall(pos token.Pos, id *ast.Ident, obj *types.Var, rhs ast.Expr) {
	if rhs.Pos() >= w.f.node.Pos() && rhs.End() <= w.f.node.End() {
		return // found at its definition
	}
	t := w.resolve(rhs)
	switch {
	case t.foreign != nil && t.foreign.Pkg() != nil:
		w.mention(pos, id, t.foreign)
	case t.local != nil:
		w.edge(edge{pos: pos, name: obj.Name(), local: t.local, call: w.calls[id]})
	}
}

// mention records the effects of a function that is called or passed on.
func (w *walker) mention(pos token.Pos, id *ast.Ident, fn *types.Func) {
	call := w.calls[id]
	if ownPackage(fn.Pkg().Path()) {
		w.ownCall(pos, fn, call)
		return
	}
	if k, ok := libraryRule(fn); ok {
		w.add(pos, k, "calls "+libraryName(fn))
		return
	}
	if i, ok := libraryWrites(fn); ok {
		w.libraryCall(pos, fn, call, i)
		return
	}
	e := edge{pos: pos, name: funcName(fn), call: call, local: w.decls[fn]}
	if e.local == nil {
		e.foreign = new(summary)
		known := fn.Pkg() != w.pass.Pkg && w.pass.ImportObjectFact(fn, e.foreign)
		if w.outsider(fn) && !e.foreign.has(KindIO) {
			w.add(pos, KindIO, "calls "+funcName(fn)+" (it takes a context)")
		}
		if !known {
			return
		}
	}
	w.edge(e)
}

// outsider reports whether a function of another module takes a context, which suggests
// that it waits for something external. Database drivers are called through interfaces or
// function values, which cannot be followed.
func (w *walker) outsider(fn *types.Func) bool {
	own := w.pass.Module
	pkg := fn.Pkg().Path()
	if standardPath(pkg) || own == nil || own.Path == "" || pkg == own.Path || strings.HasPrefix(pkg, own.Path+"/") {
		return false
	}
	p := fn.Signature().Params()
	return p.Len() > 0 && isContext(p.At(0).Type())
}

func (w *walker) edge(e edge) {
	if e.local == w.f {
		return
	}
	e.allow = w.allowed(e.pos)
	w.f.edges = append(w.f.edges, e)
}

// libraryName returns the usual name of a function in a program, such as time.Now, or the
// whole path if the last element is ambiguous.
func libraryName(fn *types.Func) string {
	name := fn.Name()
	if recv := receiverName(fn); recv != "" {
		name = recv + "." + name
	}
	return fn.Pkg().Path() + "." + name
}

// ownCall records the effects of a call of one of Skerry's functions.
func (w *walker) ownCall(pos token.Pos, fn *types.Func, call *ast.CallExpr) {
	if k, ok := ownRule(fn); ok {
		w.add(pos, k, "calls "+funcName(fn))
		w.engineKeys(pos, fn, call)
		return
	}
	if call == nil || fn.Pkg().Path() != procPath || receiverName(fn) != "Func" || fn.Name() != "Run" {
		return
	}
	if sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok {
		if read, known := w.procedure(sel.X); known && !read {
			w.add(pos, KindReadOnly, "runs the procedure "+types.ExprString(sel.X)+", which writes")
		}
	}
}

// engineKeys records a write to the value of proc.Tx.Engine. A write through a parameter
// does not count, because that is how capabilities are implemented.
func (w *walker) engineKeys(pos token.Pos, fn *types.Func, call *ast.CallExpr) {
	if call == nil || fn.Pkg().Path() != enginePath || receiverName(fn) != "Tx" {
		return
	}
	sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if ok && w.isEngine(sel.X) {
		w.add(pos, KindKeys, "calls "+funcName(fn)+" on what proc.Tx.Engine gave")
	}
}

// isEngine reports whether e is a call of proc.Tx.Engine, or a variable to which one was
// assigned.
func (v *vetter) isEngine(e ast.Expr) bool {
	for range maxSteps {
		switch x := ast.Unparen(e).(type) {
		case *ast.Ident:
			e = v.value(x)
		case *ast.CallExpr:
			fn, ok := typeutil.Callee(v.pass.TypesInfo, x).(*types.Func)
			if ok && fn.Pkg() != nil && fn.Pkg().Path() == procPath && receiverName(fn) == "Tx" && fn.Name() == "Engine" {
				return true
			}
			e = v.made(x)
		default:
			return false
		}
		if e == nil {
			return false
		}
	}
	return false
}

// libraryCall records the call of a function of the standard library that writes through
// its argument i.
func (w *walker) libraryCall(pos token.Pos, fn *types.Func, call *ast.CallExpr, i int) {
	if call == nil {
		return
	}
	if fn.Signature().Recv() == nil && i >= len(call.Args) {
		return
	}
	k := KindWrite
	if p := fn.Pkg().Path(); p == "math/rand" || p == "math/rand/v2" {
		k = KindRandom
	}
	w.writePlace(pos, w.givenPlace(w.f, call, i), k, "calls "+libraryName(fn)+", which writes ")
}

// givenPlace returns the place that a callee writes, as seen by f, if it writes through its
// parameter i.
func (v *vetter) givenPlace(f *function, call *ast.CallExpr, i int) place {
	arg := v.argument(call, i)
	if arg == nil {
		return place{}
	}
	through := true
	if sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok && i == 0 && arg == sel.X {
		s := v.pass.TypesInfo.Selections[sel]
		// A method with a pointer receiver takes the address of the variable.
		through = refers(v.pass.TypesInfo.TypeOf(arg)) || len(s.Index()) > 1 && s.Indirect()
	}
	return v.origin(f, arg, through)
}

// keepsTx reports whether keeping the value of e keeps a transaction.
func (w *walker) keepsTx(e ast.Expr) (found bool) {
	info := w.pass.TypesInfo
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			found = found || w.hands(n)
			return false
		case *ast.CallExpr:
			b, builtin := typeutil.Callee(info, n).(*types.Builtin)
			if carriesTx(info.TypeOf(n), 2) {
				found = true
			}
			return info.Types[n.Fun].IsType() || builtin && b.Name() == "append"
		case *ast.SelectorExpr:
			found = found || carriesTx(info.TypeOf(n), 2)
			return false // tx.x does not keep tx itself
		case *ast.Ident:
			if obj, ok := info.Uses[n].(*types.Var); ok && carriesTx(obj.Type(), 2) {
				found = true
			}
		}
		return !found
	})
	return found
}

// hands reports whether n uses a transaction that was made outside it.
func (w *walker) hands(n ast.Node) (found bool) {
	ast.Inspect(n, func(x ast.Node) bool {
		if id, ok := x.(*ast.Ident); ok {
			obj, ok := w.pass.TypesInfo.Uses[id].(*types.Var)
			found = found || ok && carriesTx(obj.Type(), 2) && (obj.Pos() < n.Pos() || obj.Pos() >= n.End())
		}
		return !found
	})
	return found
}

// loop records a loop that has no condition, no exit, and does not use the transaction,
// which would eventually fail.
func (w *walker) loop(n *ast.ForStmt) {
	if n.Cond != nil {
		c := w.pass.TypesInfo.Types[n.Cond].Value
		if c == nil || c.Kind() != constant.Bool || !constant.BoolVal(c) {
			return
		}
	}
	if w.leaves(n.Body, true) || w.usesTx(n) {
		return
	}
	w.add(n.Pos(), KindLoop, "loops without an end")
}

func (w *walker) usesTx(n ast.Node) (found bool) {
	ast.Inspect(n, func(x ast.Node) bool {
		if e, ok := x.(ast.Expr); ok && carriesTx(w.pass.TypesInfo.TypeOf(e), 3) {
			found = true
		}
		return !found
	})
	return found
}

// leaves reports whether n contains a statement that leaves the enclosing loop. breaks says
// whether a break without a label leaves it.
func (w *walker) leaves(n ast.Node, breaks bool) (found bool) {
	ast.Inspect(n, func(x ast.Node) bool {
		if found || x == nil {
			return false
		}
		switch x := x.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			found = true
		case *ast.BranchStmt:
			found = x.Label != nil || x.Tok == token.GOTO || x.Tok == token.BREAK && breaks
		case *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
			if breaks && x != n {
				found = w.leaves(x, false)
				return false
			}
		case *ast.CallExpr:
			b, ok := typeutil.Callee(w.pass.TypesInfo, x).(*types.Builtin)
			found = ok && b.Name() == "panic"
		}
		return !found
	})
	return found
}

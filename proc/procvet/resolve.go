package procvet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/types/typeutil"
)

// maxSteps is the maximum number of variables and calls that are followed to resolve an
// expression.
const maxSteps = 8

// target is the function that an expression refers to: one of this package with its body,
// or one of another package.
type target struct {
	local   *function
	foreign *types.Func
	method  bool // a method value, with its receiver
}

func (t target) none() bool { return t.local == nil && t.foreign == nil }

// findValues records the values assigned to variables.
func (v *vetter) findValues() {
	count := map[*types.Var]int{}
	assigned := func(lhs, rhs ast.Expr) {
		id, ok := ast.Unparen(lhs).(*ast.Ident)
		if !ok {
			return
		}
		obj, ok := v.pass.TypesInfo.ObjectOf(id).(*types.Var)
		if !ok {
			return
		}
		if count[obj]++; count[obj] == 1 && rhs != nil {
			v.values[obj] = rhs
		} else {
			delete(v.values, obj)
		}
		if rhs != nil {
			v.noteValue(obj, rhs)
		}
	}
	pairs := func(lhs, rhs []ast.Expr) {
		for i, l := range lhs {
			if len(rhs) == len(lhs) {
				assigned(l, rhs[i])
			} else {
				assigned(l, nil)
			}
		}
	}
	for _, file := range v.pass.Files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				if n.Tok == token.ASSIGN || n.Tok == token.DEFINE {
					pairs(n.Lhs, n.Rhs)
				} else {
					assigned(n.Lhs[0], nil)
				}
			case *ast.ValueSpec:
				names := make([]ast.Expr, len(n.Names))
				for i, id := range n.Names {
					names[i] = id
				}
				if len(n.Values) > 0 {
					pairs(names, n.Values)
				}
			case *ast.RangeStmt:
				assigned(n.Key, nil)
				assigned(n.Value, nil)
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					assigned(n.X, nil) // may be assigned through the pointer
				}
			}
			return true
		})
	}
}

// noteValue records a value that matters even if the variable has others: the library's
// source of random numbers, or a function.
func (v *vetter) noteValue(obj *types.Var, rhs ast.Expr) {
	if sel, ok := ast.Unparen(rhs).(*ast.SelectorExpr); ok {
		lib, ok := v.pass.TypesInfo.Uses[sel.Sel].(*types.Var)
		if ok && lib.Pkg() != nil && !lib.IsField() {
			if _, ok := libraryVar(lib); ok {
				v.stands[obj] = lib
			}
		}
	}
	if _, ok := obj.Type().Underlying().(*types.Signature); ok {
		v.assigned[obj] = append(v.assigned[obj], rhs)
	}
}

// value returns the value of a variable that is assigned once.
func (v *vetter) value(id *ast.Ident) ast.Expr {
	obj, ok := v.pass.TypesInfo.Uses[id].(*types.Var)
	if !ok {
		return nil
	}
	return v.values[obj]
}

// resolve returns the function that e refers to, if it can be determined.
func (v *vetter) resolve(e ast.Expr) target {
	for range maxSteps {
		switch x := ast.Unparen(e).(type) {
		case *ast.FuncLit:
			return target{local: v.literal(x)}
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			if fn, ok := v.pass.TypesInfo.Uses[x].(*types.Func); ok {
				return v.function(fn)
			}
			e = v.value(x)
		case *ast.SelectorExpr:
			fn, ok := v.pass.TypesInfo.Uses[x.Sel].(*types.Func)
			if !ok {
				return target{}
			}
			t := v.function(fn)
			sel := v.pass.TypesInfo.Selections[x]
			t.method = sel != nil && sel.Kind() == types.MethodVal
			return t
		case *ast.CallExpr:
			e = v.made(x)
		default:
			return target{}
		}
		if e == nil {
			return target{}
		}
	}
	return target{}
}

// function returns the target for a declared function.
func (v *vetter) function(fn *types.Func) target {
	fn = fn.Origin()
	if f := v.decls[fn]; f != nil {
		return target{local: f}
	}
	return target{foreign: fn}
}

// made returns the function that a call returns: the operand of a conversion, or the
// literal that a function of this package returns.
func (v *vetter) made(call *ast.CallExpr) ast.Expr {
	if v.pass.TypesInfo.Types[call.Fun].IsType() {
		return call.Args[0]
	}
	fn, ok := typeutil.Callee(v.pass.TypesInfo, call).(*types.Func)
	if !ok {
		return nil
	}
	f := v.decls[fn.Origin()]
	if f == nil {
		if fn.Pkg() != nil && fn.Pkg().Path() == "sync" && strings.HasPrefix(fn.Name(), "Once") && len(call.Args) == 1 {
			return call.Args[0] // OnceFunc and similar functions call it
		}
		return nil
	}
	var result ast.Expr
	returns := 0
	ast.Inspect(f.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			if returns++; len(n.Results) == 1 {
				result = n.Results[0]
			}
		}
		return true
	})
	if returns != 1 {
		return nil
	}
	return result
}

// defines returns the arguments of a call that become procedures or their hints, or nil if
// there are none.
func (v *vetter) defines(call *ast.CallExpr) []definedParam {
	fn, ok := typeutil.Callee(v.pass.TypesInfo, call).(*types.Func)
	if !ok || fn.Pkg() == nil {
		return nil
	}
	fn = fn.Origin()
	if fn.Pkg().Path() == procPath {
		switch receiverName(fn) + "." + fn.Name() {
		case ".Define", "Func.Hint":
			return []definedParam{{Index: 1}}
		case ".DefineRead":
			return []definedParam{{Index: 1, Read: true}}
		}
	}
	if d, ok := v.definers[fn]; ok {
		return d.Params
	}
	var d definer
	if fn.Pkg() != v.pass.Pkg && v.pass.ImportObjectFact(fn, &d) {
		return d.Params
	}
	return nil
}

// findRoots finds the functions that are passed to Define and Hint, including those passed
// through other functions' parameters.
func (v *vetter) findRoots() {
	var calls []*ast.CallExpr
	for _, file := range v.pass.Files {
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				calls = append(calls, call)
			}
			return true
		})
	}
	for found := true; found; {
		found = false
		for _, call := range calls {
			for _, p := range v.defines(call) {
				if at, ok := v.parameter(v.argument(call, p.Index)); ok && v.addDefiner(at, p.Read) {
					found = true
				}
			}
		}
	}
	for _, call := range calls {
		for _, p := range v.defines(call) {
			arg := v.argument(call, p.Index)
			if _, ok := v.parameter(arg); ok || arg == nil {
				continue
			}
			if lit, ok := ast.Unparen(arg).(*ast.FuncLit); ok {
				v.given[lit] = true
			}
			if t := v.resolve(arg); !t.none() {
				v.roots = append(v.roots, root{pos: arg.Pos(), name: v.procedureName(call), read: p.Read, fn: t, method: t.method})
			}
		}
	}
}

// argument returns an argument of a call. The receiver of a method has index 0.
func (v *vetter) argument(call *ast.CallExpr, i int) ast.Expr {
	if sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok {
		if s := v.pass.TypesInfo.Selections[sel]; s != nil && s.Kind() == types.MethodVal {
			if i == 0 {
				return sel.X
			}
			i--
		}
	}
	if i >= len(call.Args) {
		if len(call.Args) == 0 {
			return nil
		}
		i = len(call.Args) - 1
	}
	return call.Args[i]
}

// parameter returns the parameter of a declared function that e refers to.
func (v *vetter) parameter(e ast.Expr) (param, bool) {
	if e == nil {
		return param{}, false
	}
	id, ok := ast.Unparen(e).(*ast.Ident)
	if !ok {
		return param{}, false
	}
	obj, ok := v.pass.TypesInfo.Uses[id].(*types.Var)
	if !ok {
		return param{}, false
	}
	p, ok := v.params[obj]
	return p, ok
}

func (v *vetter) addDefiner(at param, read bool) bool {
	d := v.definers[at.fn]
	for _, p := range d.Params {
		if p.Index == at.index {
			return false
		}
	}
	d.Params = append(d.Params, definedParam{at.index, read})
	v.definers[at.fn] = d
	return true
}

// procedureName returns the name that is passed to Define, as far as it is constant.
func (v *vetter) procedureName(call *ast.CallExpr) string {
	for _, arg := range call.Args {
		if c := v.pass.TypesInfo.Types[arg].Value; c != nil && c.Kind() == constant.String {
			return constant.StringVal(c)
		}
	}
	return "at " + v.where(call.Pos())
}

// procedure determines whether the procedure that e refers to is read-only.
func (v *vetter) procedure(e ast.Expr) (read, ok bool) {
	for range maxSteps {
		var obj types.Object
		switch x := ast.Unparen(e).(type) {
		case *ast.Ident:
			obj = v.pass.TypesInfo.Uses[x]
			e = v.value(x)
		case *ast.SelectorExpr:
			obj = v.pass.TypesInfo.Uses[x.Sel]
			e = v.value(x.Sel)
		case *ast.CallExpr:
			sel, ok := ast.Unparen(x.Fun).(*ast.SelectorExpr)
			if ok && v.pass.TypesInfo.Selections[sel] != nil && (sel.Sel.Name == "Describe" || sel.Sel.Name == "Hint") {
				e = sel.X
				continue
			}
			p := v.defines(x)
			if len(p) != 1 {
				return false, false
			}
			return p[0].Read, true
		default:
			return false, false
		}
		var fact defined
		if obj != nil && obj.Pkg() != v.pass.Pkg && v.pass.ImportObjectFact(obj, &fact) {
			return fact.Read, true
		}
		if e == nil {
			return false, false
		}
	}
	return false, false
}

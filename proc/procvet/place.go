package procvet

import (
	"go/ast"
	"go/token"
	"go/types"
)

// place is the owner of an expression's memory from the view of one function.
type place struct {
	outside bool   // a variable outside the function
	param   bool   // what parameter index points to
	index   int    //
	name    string // of the variable, for messages
}

// origin returns the place that is written if e is assigned to or, if through is set, if
// something is written through e.
func (v *vetter) origin(f *function, e ast.Expr, through bool) place {
	info := v.pass.TypesInfo
	for range 8 * maxSteps {
		switch x := ast.Unparen(e).(type) {
		case *ast.StarExpr:
			e, through = x.X, true
		case *ast.UnaryExpr:
			if x.Op != token.AND {
				return place{}
			}
			e, through = x.X, false
		case *ast.IndexExpr:
			through = through || refers(info.TypeOf(x.X))
			e = x.X
		case *ast.SliceExpr:
			through = refers(info.TypeOf(x.X))
			e = x.X
		case *ast.TypeAssertExpr:
			e = x.X
		case *ast.SelectorExpr:
			sel := info.Selections[x]
			if sel == nil {
				e = x.Sel // a variable of another package
				continue
			}
			if sel.Kind() != types.FieldVal {
				return place{}
			}
			through = through || refers(info.TypeOf(x.X)) || sel.Indirect()
			e = x.X
		case *ast.CallExpr:
			if !info.Types[x.Fun].IsType() {
				return place{}
			}
			e = x.Args[0]
		case *ast.Ident:
			obj, ok := info.ObjectOf(x).(*types.Var)
			if !ok || x.Name == "_" {
				return place{}
			}
			p, alias := v.variable(f, obj, through)
			if alias == nil {
				return p
			}
			e = alias
		default:
			return place{}
		}
	}
	return place{}
}

// variable is origin for a variable. If alias is not nil, it must be analyzed instead.
func (v *vetter) variable(f *function, obj *types.Var, through bool) (p place, alias ast.Expr) {
	switch {
	case obj.Pkg() == nil || obj.IsField():
		return place{}, nil
	case obj.Parent() == obj.Pkg().Scope():
		return place{outside: true, name: "the package variable " + obj.Name()}, nil
	case obj.Pos() < f.node.Pos() || obj.Pos() >= f.node.End():
		return place{outside: true, name: "the captured variable " + obj.Name()}, nil
	case !through:
		return place{}, nil
	}
	if at, ok := v.params[obj]; ok && f.fn != nil && at.fn == f.fn {
		return place{param: true, index: at.index, name: obj.Name()}, nil
	}
	if rhs := v.values[obj]; rhs != nil && refers(obj.Type()) {
		return place{}, rhs
	}
	return place{}, nil
}

// refers reports whether a value of t shares memory with its copies.
func refers(t types.Type) bool {
	if t == nil {
		return false
	}
	switch t.Underlying().(type) {
	case *types.Pointer, *types.Map, *types.Slice, *types.Interface:
		return true
	}
	return false
}

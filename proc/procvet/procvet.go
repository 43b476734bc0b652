// Package procvet looks at the Go source of procedures and warns of what has no
// place in one: effects beside the transaction, waiting, the clock, randomness.
//
// It knows the rules that a procedure has to keep (proc.Define says them), Go's
// syntax and types, and which functions of the standard library break a rule; it
// must not know how procedures are run, nor run any.
//
// It follows calls as far as they can be read off the source: functions and
// methods, also of other packages, and variables of the package that it can see
// assigned. It does not follow calls of interface methods and of other function
// values, and takes Skerry's own packages and the standard library as it knows
// them.
package procvet

import (
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"path/filepath"
	"strconv"

	"golang.org/x/tools/go/analysis"
)

// Analyzer returns the analysis, for any driver of golang.org/x/tools/go/analysis.
// Its findings have the Kind as category.
func Analyzer() *analysis.Analyzer {
	return &analysis.Analyzer{
		Name:      "skerryproc",
		Doc:       "warn of effects, waiting, clocks and randomness inside Skerry procedures",
		Run:       run,
		FactTypes: []analysis.Fact{new(summary), new(definer), new(defined)},
	}
}

// vetter looks at one package.
type vetter struct {
	pass     *analysis.Pass
	own      bool                       // one of Skerry's own packages, whose insides are taken as known
	decls    map[*types.Func]*function  // functions with a body, by origin
	lits     map[*ast.FuncLit]*function // literals that something leads to
	list     []*function                // all of both, in the order in which they were found
	params   map[*types.Var]param       // parameters of declared functions
	values   map[*types.Var]ast.Expr    // variables that are assigned once
	assigned map[*types.Var][]ast.Expr  // variables of functions and all that they are assigned
	stands   map[*types.Var]*types.Var  // variables that are assigned one of the library's with a rule
	definers map[*types.Func]definer    // functions of this package that hand a parameter to Define
	given    map[*ast.FuncLit]bool      // literals that are given to Define
	roots    []root
	allows   map[string]map[int]*allowance // by file and line
	ordered  []*allowance                  // the same, in the order of the source
	reported map[reportKey]bool
}

// param is a parameter of a declared function; the receiver, if there is one, is
// number 0.
type param struct {
	fn    *types.Func
	index int
}

// root is a function that is given to Define.
type root struct {
	pos    token.Pos // of the argument
	name   string
	read   bool
	fn     target
	method bool // a method value: the receiver is from outside
}

type reportKey struct {
	pos  token.Pos
	kind Kind
	what string
}

func run(pass *analysis.Pass) (any, error) {
	if standard(pass) {
		return nil, nil
	}
	v := &vetter{
		pass:     pass,
		own:      ownPackage(pass.Pkg.Path()),
		decls:    map[*types.Func]*function{},
		lits:     map[*ast.FuncLit]*function{},
		params:   map[*types.Var]param{},
		values:   map[*types.Var]ast.Expr{},
		assigned: map[*types.Var][]ast.Expr{},
		stands:   map[*types.Var]*types.Var{},
		definers: map[*types.Func]definer{},
		given:    map[*ast.FuncLit]bool{},
		allows:   map[string]map[int]*allowance{},
		reported: map[reportKey]bool{},
	}
	v.findAllowances()
	v.findValues()
	v.findFunctions()
	v.findRoots()
	walked := 0
	for walked < len(v.list) { // a walk may find further literals
		v.walk(v.list[walked])
		walked++
	}
	v.solve()
	v.export()
	v.report()
	v.reportAllowances()
	return nil, nil
}

// standard reports whether the package is of the standard library. Only a driver
// that looks at everything, as go vet does, comes here with one.
func standard(pass *analysis.Pass) bool {
	if pass.Module != nil && pass.Module.Path != "" {
		return false
	}
	return standardPath(pass.Pkg.Path())
}

// findFunctions lists the declared functions and their parameters.
func (v *vetter) findFunctions() {
	for _, file := range v.pass.Files {
		for _, d := range file.Decls {
			decl, ok := d.(*ast.FuncDecl)
			if !ok || decl.Body == nil {
				continue
			}
			fn, ok := v.pass.TypesInfo.Defs[decl.Name].(*types.Func)
			if !ok {
				continue
			}
			f := &function{name: funcName(fn), node: decl, body: decl.Body, fn: fn}
			sig := fn.Signature()
			i := 0
			if r := sig.Recv(); r != nil {
				v.params[r] = param{fn, 0}
				f.receiver = true
				i = 1
			}
			for p := range sig.Params().Variables() {
				v.params[p] = param{fn, i}
				i++
			}
			v.decls[fn] = f
			v.list = append(v.list, f)
		}
	}
}

// literal returns the function of a literal that something leads to.
func (v *vetter) literal(lit *ast.FuncLit) *function {
	f := v.lits[lit]
	if f == nil {
		f = &function{name: "the function at " + v.where(lit.Pos()), node: lit, body: lit.Body}
		v.lits[lit] = f
		v.list = append(v.list, f)
	}
	return f
}

// where names a place for people, the same in whatever folder it is read:
// last element of the package's path, file and line.
func (v *vetter) where(pos token.Pos) string {
	p := v.pass.Fset.Position(pos)
	return path.Base(v.pass.Pkg.Path()) + "/" + filepath.Base(p.Filename) + ":" + strconv.Itoa(p.Line)
}

// funcName is pkg.F, or pkg.T.M for a method.
func funcName(fn *types.Func) string {
	name := fn.Name()
	if recv := receiverName(fn); recv != "" {
		name = recv + "." + name
	}
	if fn.Pkg() != nil {
		name = fn.Pkg().Name() + "." + name
	}
	return name
}

// receiverName is the name of the type that a method belongs to, "" for a function.
func receiverName(fn *types.Func) string {
	recv := fn.Signature().Recv()
	if recv == nil {
		return ""
	}
	if n := named(recv.Type()); n != nil {
		return n.Obj().Name()
	}
	return ""
}

// named returns the named type that t is or points to, or nil.
func named(t types.Type) *types.Named {
	t = types.Unalias(t)
	if p, ok := t.(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	n, _ := t.(*types.Named)
	return n
}

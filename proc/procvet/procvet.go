// Package procvet analyzes the Go source of procedures and reports what they must not do:
// effects outside the transaction, blocking, reading the clock, randomness.
//
// It knows the rules for procedures (see proc.Define), Go's syntax and types, and which
// functions of the standard library break a rule; it must not know how procedures are run,
// nor run any.
//
// It follows calls as far as they are visible in the source: functions and methods,
// including those of other packages, and variables of the package whose assignments it can
// see. It does not follow calls of interface methods or of other function values. For
// Skerry's own packages and the standard library it relies on built-in rules.
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

// Analyzer returns the analysis for any driver of golang.org/x/tools/go/analysis. The
// category of a finding is its Kind.
func Analyzer() *analysis.Analyzer {
	return &analysis.Analyzer{
		Name:      "skerryproc",
		Doc:       "warn of effects, waiting, clocks and randomness inside Skerry procedures",
		Run:       run,
		FactTypes: []analysis.Fact{new(summary), new(definer), new(defined)},
	}
}

// vetter analyzes one package.
type vetter struct {
	pass     *analysis.Pass
	own      bool                       // one of Skerry's own packages, for which built-in rules apply
	decls    map[*types.Func]*function  // functions with a body, by origin
	lits     map[*ast.FuncLit]*function // literals that can be reached
	list     []*function                // all of both, in the order of discovery
	params   map[*types.Var]param       // parameters of declared functions
	values   map[*types.Var]ast.Expr    // variables that are assigned once
	assigned map[*types.Var][]ast.Expr  // variables of functions and all their assigned values
	stands   map[*types.Var]*types.Var  // variables that are assigned a library variable with a rule
	definers map[*types.Func]definer    // functions of this package that pass a parameter to Define
	given    map[*ast.FuncLit]bool      // literals that are passed to Define
	roots    []root
	allows   map[string]map[int]*allowance // by file and line
	ordered  []*allowance                  // the same, in source order
	reported map[reportKey]bool
}

// param is a parameter of a declared function. The receiver, if there is one, has index 0.
type param struct {
	fn    *types.Func
	index int
}

// root is a function that is passed to Define.
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

// standard reports whether the package is in the standard library. Only a driver that
// analyzes everything, such as go vet, passes one.
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

// literal returns the function for a literal that can be reached.
func (v *vetter) literal(lit *ast.FuncLit) *function {
	f := v.lits[lit]
	if f == nil {
		f = &function{name: "the function at " + v.where(lit.Pos()), node: lit, body: lit.Body}
		v.lits[lit] = f
		v.list = append(v.list, f)
	}
	return f
}

// where formats a position independently of the directory: last element of the package's
// path, file and line.
func (v *vetter) where(pos token.Pos) string {
	p := v.pass.Fset.Position(pos)
	return path.Base(v.pass.Pkg.Path()) + "/" + filepath.Base(p.Filename) + ":" + strconv.Itoa(p.Line)
}

// funcName returns pkg.F, or pkg.T.M for a method.
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

// receiverName returns the name of a method's receiver type, or "" for a function.
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

package procvet

import (
	"fmt"
	"slices"
	"strings"
)

// effect is something that a procedure must not do.
type effect struct {
	Kind  Kind
	What  string   // a verb and its object: "calls time.Now"
	Where string   // package/file.go:line
	Chain []string // the functions that lead to it; the last one does it
}

// after returns e as seen by a caller of name.
func (e effect) after(name string) effect {
	e.Chain = append([]string{name}, e.Chain...)
	return e
}

// text describes e as an effect of procedure.
func (e effect) text(procedure string) string {
	var b strings.Builder
	if e.Kind.note() {
		b.WriteString("note: ")
	}
	if len(e.Chain) > 0 {
		fmt.Fprintf(&b, "calls %s, which %s at %s", strings.Join(e.Chain, " → "), e.What, e.Where)
	} else {
		b.WriteString(e.What)
	}
	fmt.Fprintf(&b, ": %s (procedure %s)", e.Kind.advice(), procedure)
	return b.String()
}

// summary is the effects of a call of a function: for each kind the effect with the
// shortest chain, and the parameters that the function writes through. It is a fact of the
// function for the packages that import it.
type summary struct {
	Effects []effect      // at most one per kind
	Writes  []paramEffect // at most one per parameter
}

// paramEffect is a write through a parameter. Whether it matters depends on the argument.
type paramEffect struct {
	Index  int // 0 is the receiver of a method
	Effect effect
}

// AFact implements analysis.Fact.
func (*summary) AFact() {}

// empty reports whether a call of the function has no effects.
func (s *summary) empty() bool { return len(s.Effects) == 0 && len(s.Writes) == 0 }

func (s *summary) has(k Kind) bool {
	return slices.ContainsFunc(s.Effects, func(have effect) bool { return have.Kind == k })
}

// add adds e if there is none of its kind yet. It reports whether it did.
func (s *summary) add(e effect) bool {
	if s.has(e.Kind) {
		return false
	}
	s.Effects = append(s.Effects, e)
	return true
}

// addWrite adds a write through parameter i if there is none yet. It reports whether it
// did.
func (s *summary) addWrite(i int, e effect) bool {
	if slices.ContainsFunc(s.Writes, func(have paramEffect) bool { return have.Index == i }) {
		return false
	}
	s.Writes = append(s.Writes, paramEffect{i, e})
	return true
}

// definer is a function that passes some of its parameters to Define. It is a fact of the
// function.
type definer struct {
	Params []definedParam
}

// definedParam is such a parameter.
type definedParam struct {
	Index int // 0 is the receiver of a method
	Read  bool
}

// AFact implements analysis.Fact.
func (*definer) AFact() {}

// defined is a package variable that stores a procedure. It is a fact of the variable.
type defined struct {
	Read bool
}

// AFact implements analysis.Fact.
func (*defined) AFact() {}

// Package forms gives functions to Define in every way.
package forms

import (
	"time"

	"example.com/app/define"
	"example.com/app/logic"
	"github.com/skerrydb/skerry/proc"
)

type none = struct{}

func named(tx *proc.Tx, _ none) (int, error) {
	return time.Now().Day(), nil // want `\(procedure named\)`
}

func generic[T any](tx *proc.Tx, _ T) (int, error) {
	return time.Now().Day(), nil // want `\(procedure generic\)`
}

type box[T any] struct{ v T }

func (b box[T]) method(tx *proc.Tx, _ none) (T, error) {
	time.Sleep(1) // want `\(procedure method\)`
	return b.v, nil
}

func (b box[T]) helper() T {
	time.Sleep(1)
	return b.v
}

func (box[T]) clean(tx *proc.Tx, _ none) (int, error) { return 0, nil }

func viaGeneric[T any](v T) T { return box[T]{v}.helper() }

var once = func(tx *proc.Tx, _ none) (int, error) {
	return time.Now().Day(), nil // want `\(procedure once\)`
}

func maker(n int) func(*proc.Tx, none) (int, error) {
	return func(tx *proc.Tx, _ none) (int, error) {
		n++ // want `writes the captured variable n: .*\(procedure maker\)`
		return n, nil
	}
}

type typed func(*proc.Tx, none) (int, error)

const prefix = "pre."

// local hands its parameter on.
func local[In, Out any](name string, fn func(*proc.Tx, In) (Out, error)) *proc.Func[In, Out] {
	return proc.Define(name, fn)
}

type registry struct{}

func (registry) add(name string, fn func(*proc.Tx, none) (int, error)) proc.Procedure {
	return local(name, fn)
}

// All is every form.
func All() []proc.Procedure {
	here := named2
	b := box[int]{1}
	return []proc.Procedure{
		proc.Define("named", named),
		proc.Define("generic", generic[none]),
		proc.Define("generic", generic[struct{ A int }]),
		proc.Define("method", b.method),
		proc.Define("method.expr", box[int]{}.clean),
		proc.Define("once", once),
		proc.Define("maker", maker(3)),
		proc.Define[none, int](prefix+"explicit", func(tx *proc.Tx, _ none) (int, error) {
			return time.Now().Day(), nil // want `\(procedure pre.explicit\)`
		}),
		proc.Define("converted", typed(func(tx *proc.Tx, _ none) (int, error) {
			return viaGeneric(time.Now().Day()), nil // want `calls forms.viaGeneric → forms.box.helper, which calls time.Sleep` `calls time.Now`
		})),
		proc.Define("here", here),
		local("wrapped", func(tx *proc.Tx, _ none) (int, error) {
			return time.Now().Day(), nil // want `\(procedure wrapped\)`
		}),
		registry{}.add("registered", func(tx *proc.Tx, _ none) (int, error) {
			return time.Now().Day(), nil // want `\(procedure registered\)`
		}),
		define.Read("far", func(tx *proc.Tx, _ none) (int, error) {
			return 0, tx.Engine().Put(nil, nil) // want `calls engine.Tx.Put: .*\(procedure far\)` `calls engine.Tx.Put on what`
		}),
		proc.Define("foreign", logic.Vote),              // want `^calls logic.Vote, which calls time.Now at logic/logic.go:\d+: .*\(procedure foreign\)$`
		proc.Define("foreign.method", logic.App{}.Vote), // want `calls logic.App.Vote → logic.now, which calls time.Now`
		proc.Define("foreign.clean", logic.Clean),
	}
}

func named2(tx *proc.Tx, _ none) (int, error) {
	f := time.Now         // want `\(procedure here\)`
	return f().Day(), nil // seen above
}

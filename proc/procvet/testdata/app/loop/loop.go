// Package loop has procedures with endless loops.
package loop

import "github.com/skerrydb/skerry/proc"

type none = struct{}

// Loop loops.
var Loop = proc.Define("loop", func(tx *proc.Tx, in struct{ N int }) (int, error) {
	n := in.N
	switch {
	case n == 1:
		for { // want `^loops without an end: nothing can end it`
			n++
		}
	case n == 2:
		for true { // want `loops without an end`
			for range 3 {
				break
			}
			switch n {
			case 7:
				break
			}
		}
	case n == 3:
		spin() // want `calls loop.spin, which loops without an end`
	}
	for {
		if n++; n > 3 {
			break
		}
	}
outer:
	for {
		for {
			break outer
		}
	}
	for n < 100 {
		n++
	}
	for {
		if _, ok, err := tx.Engine().Get([]byte{byte(n)}); err != nil {
			panic(err)
		} else if ok {
			n++
		}
	}
})

func spin() {
	for {
	}
}

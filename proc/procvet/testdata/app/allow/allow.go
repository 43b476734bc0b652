// Package allow has procedures that break rules with and without leave.
package allow

import (
	"os"
	"time"

	"example.com/app/helper"
	"github.com/skerrydb/skerry/proc"
)

type none = struct{}

// Allow breaks rules.
var Allow = proc.Define("allow", func(tx *proc.Tx, _ none) (int, error) {
	n := time.Now().Day() //skerry:allow the test wants it
	//skerry:allow it stands alone above
	n += time.Now().Day()
	n += time.Now().Day() //skerry:allowed no // want `calls time.Now`
	n += time.Now().Day() /* want `^allows without a reason: write //skerry:allow` */ //skerry:allow
	n += 2                /* want `^allows nothing` */                                //skerry:allow what is not there
	n += inside()
	n += outside() //skerry:allow seen
	helper.Fetch() //skerry:allow seen
	helper.Calm()
	return n, nil
})

func inside() int {
	return time.Now().Day() //skerry:allow seen
}

func outside() int { return os.Getpid() }

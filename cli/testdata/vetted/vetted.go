// Package vetted has a procedure with a mistake, for `skerry vet` to find.
package vetted

import (
	"time"

	"github.com/skerrydb/skerry/proc"
)

// Late asks the clock of the machine.
var Late = proc.Define("late", func(*proc.Tx, struct{}) (int64, error) {
	return time.Now().Unix(), nil
})

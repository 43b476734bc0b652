// Package clean has a procedure that `skerry vet` has nothing to say about.
package clean

import "github.com/skerrydb/skerry/proc"

// InTime asks the transaction for the time.
var InTime = proc.Define("in_time", func(tx *proc.Tx, _ struct{}) (int64, error) {
	return tx.Now().Unix(), nil
})

// Package define wraps proc.DefineRead.
package define

import "github.com/skerrydb/skerry/proc"

// Read is DefineRead under another name.
func Read[In, Out any](name string, fn func(*proc.Tx, In) (Out, error)) *proc.Func[In, Out] {
	return proc.DefineRead("x."+name, fn)
}

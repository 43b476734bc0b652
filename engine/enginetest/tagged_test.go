package enginetest

import (
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
)

// TestTagged runs the suite on the keys of one partition. The size of a transaction is not exact, since the tags count.
func TestTagged(t *testing.T) {
	open, o := refSuite(func(r *ref) engine.Engine { return Tagged(r) })
	o.Steps = 200
	o.Only = func(name string) bool { return name != "limits/transaction" }
	ran := map[Status]int{}
	for v := range Conform(open, o) {
		ran[v.Status]++
		if v.Status == Fail {
			t.Errorf("%s: %s", v.Case, strings.Join(v.Log, "\n"))
		}
	}
	t.Logf("%v", ran)
}

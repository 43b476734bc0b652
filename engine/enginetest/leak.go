package enginetest

import (
	"runtime"
	"strings"

	"github.com/skerrydb/skerry/ci/eventually"
)

// goroutines returns the stacks of all goroutines by their number.
func goroutines() map[string]string {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	all := map[string]string{}
	for g := range strings.SplitSeq(string(buf), "\n\n") {
		head, _, _ := strings.Cut(g, " [")
		all[head] = g
	}
	return all
}

// checkLeaks fails t if, after a grace period, there are goroutines that were not there
// before, except this one and those of the runtime.
func checkLeaks(t T, before map[string]string, o Options) {
	t.Helper()
	var left []string
	if !eventually.Within(o.grace, func() bool {
		left = left[:0]
		for id, stack := range goroutines() {
			if _, old := before[id]; !old && !strings.Contains(stack, "enginetest.checkLeaks") && !harmless(stack) &&
				(o.Leaves == "" || !strings.Contains(stack, o.Leaves)) {
				left = append(left, stack)
			}
		}
		return len(left) == 0
	}) {
		t.Errorf("%d goroutines are left after Close, e.g.\n%s", len(left), left[0])
	}
}

// harmless reports whether a goroutine belongs to the runtime or to the caller of the
// suite.
func harmless(stack string) bool {
	for _, of := range []string{"testing.(*T).Run(", "testing.tRunner(", "runtime.gc", "os/signal.", "enginetest.(*recorder)", "runtime.ensureSigM"} {
		if strings.Contains(stack, of) {
			return true
		}
	}
	return false
}

package proc_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/proc"
)

// here returns the position of the line after its call in the format of the log.
func here(t *testing.T, function string) string {
	t.Helper()
	_, file, line, _ := runtime.Caller(1)
	return fmt.Sprintf("%s:%d (github.com/skerrydb/skerry/proc_test.%s", file, line+1, function)
}

// TestPanicPlace checks that the log names the position of the panic, and that the stack
// contains neither the recovery nor the code that runs procedures.
func TestPanicPlace(t *testing.T) {
	var at string
	var list []int
	var tree map[string]int
	crashes := map[string]func(n int){
		"panic": func(int) {
			at = here(t, "TestPanicPlace.func")
			panic("as requested")
		},
		"index": func(n int) {
			at = here(t, "TestPanicPlace.func")
			list[n]++
		},
		"nil map": func(int) {
			at = here(t, "TestPanicPlace.func")
			tree["a"] = 1
		},
		"nil pointer": func(int) {
			var p *point
			at = here(t, "TestPanicPlace.func")
			p.X++
		},
		"library": func(n int) {
			at = here(t, "TestPanicPlace.func")
			_ = strings.Repeat("a", n-10)
		},
		"callback": func(int) {
			slices.SortFunc([]int{2, 1}, func(int, int) int {
				at = here(t, "TestPanicPlace.func")
				panic("as requested")
			})
		},
		"deferred": func(int) {
			defer func() {
				at = here(t, "TestPanicPlace.func")
				panic("the second")
			}()
			panic("the first")
		},
		"Skerry": func(int) {
			at = here(t, "TestPanicPlace.func")
			_ = engine.Errorf("", "%s", proc.Procedure(nil).Schema().Name)
		},
		"goexit": func(int) {
			at = "helpers_test.go"
			goexit()
		},
	}
	for name, crash := range crashes {
		record := crashed(t, crash)
		if !strings.Contains(record.At, at) {
			t.Errorf("%s: at %s, want %s", name, record.At, at)
		}
		for _, part := range []string{"runtime.gopanic\n", "proc.(*Tx).crashed", "proc.(*Set).protect", "proc.(*typedFrame", "proc.(*Call)", "engine/embedded", "testing."} {
			if strings.Contains(record.Stack, part) && name != "deferred" {
				t.Errorf("%s: the stack has %s:\n%s", name, part, record.Stack)
			}
		}
		if !strings.Contains(record.Stack, "proc_test.crashed.func") || !strings.Contains(record.Stack, "crash_test.go:") {
			t.Errorf("%s: the stack is without the procedure:\n%s", name, record.Stack)
		}
	}
}

// crashRecord is a log line of a panic.
type crashRecord struct{ Procedure, At, Stack string }

// crashed runs crash in a procedure within another one, and returns what was logged.
func crashed(t *testing.T, crash func(n int)) (r crashRecord) {
	t.Helper()
	var l logs
	within := proc.Define("within", func(_ *proc.Tx, _ struct{}) (int, error) {
		crash(3)
		return 0, nil
	})
	s := newSet(t, proc.Options{Logger: slog.New(slog.NewJSONHandler(&l, nil))}, proc.Define("crash", func(tx *proc.Tx, in struct{}) (int, error) {
		return within.Run(tx, in)
	}))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = call(t, s, "crash")
	}()
	<-done
	if err := json.Unmarshal([]byte(l.String()), &r); err != nil || r.Procedure != "crash" {
		t.Fatalf("the log is %q: %v", l.String(), err)
	}
	return r
}

// TestDeepPanic checks that the innermost part of a deep stack is logged.
func TestDeepPanic(t *testing.T) {
	var down func(n int)
	down = func(n int) {
		if n == 1000 {
			panic("deep")
		}
		down(n + 1)
	}
	r := crashed(t, down)
	if n := strings.Count(r.Stack, "crash_test.go:"); n != 100 || !strings.HasSuffix(r.Stack, "…\n") {
		t.Errorf("%d frames:\n%s", n, r.Stack)
	}
}

package enginetest

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
)

const refHistory = 2000

// refSuite opens reference engines, each as wrap makes it, and opens them again.
func refSuite(wrap func(*ref) engine.Engine) (open func(T) engine.Engine, o Options) {
	var last *ref
	open = func(T) engine.Engine {
		last = newRef(refState{}, refHistory)
		return wrap(last)
	}
	return open, Options{
		Steps: 1000, History: refHistory + 100, Seed: 1,
		Reopen: func(T) engine.Engine {
			last = newRef(last.state, refHistory)
			return wrap(last)
		},
		Second:  func(T) engine.Engine { return shared{wrap(last)} },
		Cut:     func(T) { last.cut.Store(true) },
		Restore: func(_ T, backup io.Reader) engine.Engine { return wrap(restoreRef(backup)) },
	}
}

func TestReferenceEngine(t *testing.T) {
	open, o := refSuite(func(r *ref) engine.Engine { return r })
	o.Seed = 0
	Run(Adapt(t), open, o)
}

// shared is an engine that another one has open too.
type shared struct{ engine.Engine }

func (shared) Close() error { return nil }

// TestSecondOfItsOwn: the suite detects that two processes do not share their data.
func TestSecondOfItsOwn(t *testing.T) {
	open, o := refSuite(func(r *ref) engine.Engine { return r })
	o.Wait, o.grace = faultWait, time.Millisecond
	o.Second = func(T) engine.Engine { return newRef(refState{}, 0) }
	o.Only = func(name string) bool {
		return strings.HasPrefix(name, "process/") && name != "process/outlives-the-other"
	}
	for v := range Conform(open, o) {
		if v.Status != Fail {
			t.Errorf("%s: %s", v.Case, v.Status)
		}
	}
}

// TestReferenceEngineConforms runs every case the other way, and no case may
// skip itself: then all faults of faults_test.go are looked for.
func TestReferenceEngineConforms(t *testing.T) {
	open, o := refSuite(func(r *ref) engine.Engine { return r })
	o.Steps = 200
	n := 0
	for v := range Conform(open, o) {
		if n++; v.Status != Pass {
			t.Errorf("%s: %s: %s", v.Case, v.Status, strings.Join(v.Log, "\n"))
		}
	}
	if n != len(Cases()) {
		t.Errorf("%d verdicts on %d cases", n, len(Cases()))
	}
}

func TestCasesHaveNames(t *testing.T) {
	form := regexp.MustCompile(`^[a-z]+/[a-z]+(-[a-z]+)*$`)
	seen := map[string]bool{}
	for _, c := range Cases() {
		if !form.MatchString(c.Name) || seen[c.Name] {
			t.Errorf("case %q: a bad name or a second one of that name", c.Name)
		}
		seen[c.Name] = true
	}
}

// TestPromisesThatAreNotMadeAreSkippedByName runs the suite on engines that promise less.
func TestPromisesThatAreNotMadeAreSkippedByName(t *testing.T) {
	for _, scope := range []engine.Scope{engine.OneKey, engine.OnePartition} {
		t.Run(scope.String(), func(t *testing.T) { skippedByName(t, scope) })
	}
}

func skippedByName(t *testing.T, scope engine.Scope) {
	open, o := refSuite(func(r *ref) engine.Engine { return Within(r, scope) })
	has := Within(newRef(refState{}, 0), scope).Promises()
	for v := range Conform(open, o) {
		i := slices.IndexFunc(Cases(), func(c Case) bool { return c.Name == v.Case })
		needs := has.Meets("", Cases()[i].Needs) != nil
		switch {
		case v.Status == Fail, needs && v.Status != Skip:
			t.Errorf("%s: %s: %v", v.Case, v.Status, v.Log)
		case needs && !strings.Contains(strings.Join(v.Log, " "), "promise"):
			t.Errorf("%s was skipped without a reason: %q", v.Case, v.Log)
		}
	}
}

func TestSuiteTouchesNoDataOfOthers(t *testing.T) {
	r := newRef(refState{}, 0)
	if _, err := r.Update(t.Context(), func(tx engine.Tx) error { return tx.Put([]byte("precious"), nil) }); err != nil {
		t.Fatal(err)
	}
	for v := range Conform(func(T) engine.Engine { return newRef(r.state, 0) }, Options{Wipe: true}) {
		if v.Status != Fail || !strings.Contains(strings.Join(v.Log, " "), "precious") {
			t.Fatalf("%s on an engine with data: %s: %v", v.Case, v.Status, v.Log)
		}
	}
}

// TestWipe opens the same data for every case.
func TestWipe(t *testing.T) {
	last := newRef(refState{}, 2000)
	again := func(T) engine.Engine {
		last = newRef(last.state, 2000)
		return last
	}
	for v := range Conform(again, Options{Wipe: true, Reopen: again, Steps: 50}) {
		if v.Status == Fail {
			t.Errorf("%s: %v", v.Case, v.Log)
		}
		if len(last.state.pairs) > 0 {
			t.Fatalf("%s left %d keys", v.Case, len(last.state.pairs))
		}
	}
}

func TestRecorderCatchesPanics(t *testing.T) {
	open := func(T) engine.Engine { panic("no engine") }
	for v := range Conform(open, Options{Only: func(name string) bool { return name == "tx/binary" }}) {
		if v.Status != Fail || !strings.Contains(strings.Join(v.Log, " "), "no engine") {
			t.Errorf("%+v", v)
		}
	}
}

// TestWeakEngines: engines whose transactions share times, run their functions twice, or overwrite what they
// returned as soon as they may, keep the contract.
func TestWeakEngines(t *testing.T) {
	for name, weaken := range map[string]func(r *ref) engine.Engine{
		"coarse":     func(r *ref) engine.Engine { return Coarse(r, 50*time.Millisecond) },
		"twice":      func(r *ref) engine.Engine { return Twice(r) },
		"scribbling": func(r *ref) engine.Engine { return Scribble(r) },
	} {
		open, o := refSuite(weaken)
		o.Steps = 100
		for v := range Conform(open, o) {
			if v.Status == Fail {
				t.Errorf("%s: %s: %v", name, v.Case, v.Log)
			}
		}
	}
}

// TestEmpty: an engine that cannot scan is emptied by its own hook after each case.
func TestEmpty(t *testing.T) {
	last := newRef(refState{}, 0)
	again := func(T) engine.Engine {
		last = newRef(last.state, 0)
		return Within(last, engine.OneKey)
	}
	emptied := 0
	o := Options{Wipe: true, Reopen: again, Steps: 50, Empty: func(T) { emptied++; last.state = refState{} }}
	for v := range Conform(again, o) {
		if v.Status == Fail {
			t.Errorf("%s: %v", v.Case, v.Log)
		}
	}
	if emptied != len(Cases()) {
		t.Errorf("emptied %d times for %d cases", emptied, len(Cases()))
	}
	o.Empty = nil
	for v := range Conform(again, o) {
		if v.Status != Fail || !strings.Contains(strings.Join(v.Log, " "), "Options.Empty") {
			t.Fatalf("%s without Empty: %s: %v", v.Case, v.Status, v.Log)
		}
	}
}

// lax is an engine of one partition that lets transactions cross.
type lax struct{ engine.Engine }

func (l lax) Promises() engine.Promises { return Within(l.Engine, engine.OnePartition).Promises() }

// TestFaultsOfWeakEngines: what is not promised must be refused, not half kept.
func TestFaultsOfWeakEngines(t *testing.T) {
	open, o := refSuite(func(r *ref) engine.Engine { return lax{r} })
	o.Wait, o.grace = faultWait, time.Millisecond
	o.Only = func(name string) bool { return name == "partition/crossing" || name == "promises/refused" }
	for v := range Conform(open, o) {
		if v.Status != Fail {
			t.Errorf("%s: %s", v.Case, v.Status)
		}
	}
}

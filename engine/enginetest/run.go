package enginetest

import (
	"cmp"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// DefaultSteps is how many steps a load case runs if Options.Steps is 0.
const DefaultSteps = 2000

// Options configures the suite. The zero value runs every case that needs none of them.
type Options struct {
	// Reopen opens the data of the last call of open again, after that engine was
	// closed. Without it the cases of group reopen are skipped.
	Reopen func(t T) engine.Engine

	// Restore opens an engine on the output of Backup. Without it the suite does not
	// check the contents of backups.
	Restore func(t T, backup io.Reader) engine.Engine

	// History is a number of small transactions after which an engine of open drops
	// the change of the first one, at once or soon. 0 skips the case on truncation.
	History int

	// Wipe deletes the data of a case at its end, for engines that open always opens
	// on the same data. A case that finds any data at its beginning fails and changes
	// nothing.
	Wipe bool

	// Empty deletes all data after the engine was closed. An engine that cannot scan
	// needs it for Wipe.
	Empty func(t T)

	// Second opens the data of the last call of open again while that engine is open,
	// like another process.
	Second func(t T) engine.Engine

	// Cut breaks the engine's connections to its database once, while it works.
	Cut func(t T)

	// Missing maps the name of a hook above to the reason why this engine lacks it. A
	// case that is skipped for lack of the hook shows the reason.
	Missing map[string]string

	Steps int                    // of one load case; 0: DefaultSteps
	Seed  uint64                 // of all random choices; 0: one that Run draws and logs
	Only  func(name string) bool // which cases run; nil: all

	// Wait is how long the suite waits for what should happen at once, and for the concurrent
	// transactions of one case. 0: 10 s. Engines whose commits take long need more.
	Wait time.Duration

	// Leaves is a function of the engine's driver whose goroutines may be left after Close, because of a
	// fault of the driver. "": none may be.
	Leaves string

	grace time.Duration // 0: leakGrace; tests of the suite use a shorter one
}

// Case tests one statement of the contract.
type Case struct {
	Name  string          // group/what
	Needs engine.Promises // without these it is skipped
	run   func(*env)
}

// Cases returns all cases in the order in which they run.
func Cases() []Case {
	return slices.Concat(txCases(), scanCases(), limitCases(), viewCases(), updateCases(),
		isolationCases(), changeCases(), eachCases(), cancelCases(), closeCases(), reopenCases(),
		optionalCases(), processCases(), loadCases())
}

// lacksHook skips the case if a hook of Options is missing.
func (e *env) lacksHook(name string, have bool) {
	e.Helper()
	if !have {
		e.Skipf("skipped: the suite was given no Options.%s (%s)", name, cmp.Or(e.o.Missing[name], "no reason given"))
	}
}

// Run runs the suite under go test. open returns a new, empty engine, which the suite
// closes. It is called once or more for every case, one case at a time. The seed is o.Seed
// or SKERRY_SEED.
func Run(t T, open func(t T) engine.Engine, o Options) {
	t.Helper()
	if o.Seed == 0 {
		o.Seed, _ = strconv.ParseUint(os.Getenv("SKERRY_SEED"), 10, 64)
	}
	o = o.withDefaults()
	t.Logf("SKERRY_SEED=%d", o.Seed)
	for _, c := range Cases() {
		if o.Only == nil || o.Only(c.Name) {
			t.Run(c.Name, func(t T) { c.runOn(t, open, o) })
		}
	}
}

// Status is the outcome of a case.
type Status string

// Statuses.
const (
	Pass Status = "pass"
	Fail Status = "fail"
	Skip Status = "skip" // the engine does not promise it, or Options lacks a hook for it
)

// Verdict is the result of one case.
type Verdict struct {
	Case    string        `json:"case"`
	Status  Status        `json:"status"`
	Log     []string      `json:"log,omitempty"` // why it failed or was skipped
	Elapsed time.Duration `json:"elapsed_ns"`
}

// Conform runs the suite without go test and yields a verdict after each case. open may
// only use Fatalf, Logf, TempDir and Cleanup of its T.
func Conform(open func(t T) engine.Engine, o Options) iter.Seq[Verdict] {
	o = o.withDefaults()
	return func(yield func(Verdict) bool) {
		for _, c := range Cases() {
			if o.Only != nil && !o.Only(c.Name) {
				continue
			}
			start := time.Now()
			r := record(func(t T) { c.runOn(t, open, o) })
			v := Verdict{Case: c.Name, Status: Pass, Log: r.log, Elapsed: time.Since(start)}
			switch {
			case r.failed:
				v.Status = Fail
			case r.skipped:
				v.Status = Skip
			}
			if !yield(v) {
				return
			}
		}
	}
}

func (o Options) withDefaults() Options {
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	if o.Steps <= 0 {
		o.Steps = DefaultSteps
	}
	o.Wait, o.grace = cmp.Or(o.Wait, waitTimeout), cmp.Or(o.grace, leakGrace)
	return o
}

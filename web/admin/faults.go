package admin

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/skerrydb/skerry/web"
)

const (
	maxFaults     = 200 // that are kept
	faultsPage    = 25
	linesPage     = 100
	maxFaultStack = 32 << 10
	maxFaultText  = 4 << 10
)

// Fault is a panic or an internal error of the application, without secrets.
type Fault struct {
	N      int // set by Faults.Add: counts from 1
	At     time.Time
	Ref    string // that the user was shown
	Method string
	Path   string
	Route  string
	Err    string
	Stack  string // of a panic
}

// Faults keeps the newest faults of the application, in memory. It is safe for concurrent use.
type Faults struct {
	mu    sync.Mutex // guards the fields below
	all   []Fault    // the newest last
	count int        // of all faults so far
}

// Add adds a fault.
func (f *Faults) Add(x Fault) {
	x.Err, x.Stack, x.Path = shorten(x.Err, maxFaultText), shorten(x.Stack, maxFaultStack), shorten(x.Path, maxFaultText)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	x.N = f.count
	if len(f.all) == maxFaults {
		f.all = append(f.all[:0], f.all[1:]...)
	}
	f.all = append(f.all, x)
}

// find returns up to n of the newest faults before a number, the newest first: those with a reference or, if there are none, with
// one that contains it. 0 is no number.
func (f *Faults) find(before, n int, ref string) (found []Fault, more bool) {
	if f == nil {
		return nil, false
	}
	f.mu.Lock()
	all := slices.Clone(f.all)
	f.mu.Unlock()
	exact := slices.ContainsFunc(all, func(x Fault) bool { return strings.EqualFold(x.Ref, ref) })
	for _, x := range slices.Backward(all) {
		switch {
		case before > 0 && x.N >= before, exact && !strings.EqualFold(x.Ref, ref), !strings.Contains(strings.ToLower(x.Ref), strings.ToLower(ref)):
		case len(found) == n:
			return found, true
		default:
			found = append(found, x)
		}
	}
	return found, false
}

func (a *Admin) addFaults(g *web.Group) { g.Get("/faults", a.faultsPage) }

// faultsPage shows the newest faults and lines of the log, or those that a search finds.
func (a *Admin) faultsPage(c *web.Context) error {
	number := func(name string) int { n, _ := strconv.Atoi(c.Query(name).String()); return n } // malformed: the newest
	search := strings.TrimSpace(c.Query("q").String())
	errorsOnly := c.Query("level").String() == "error"
	found, moreFaults := a.o.Faults.find(number("faults"), faultsPage, search)
	lines, moreLines := a.o.RecentLog.find(number("lines"), linesPage, errorsOnly, search)
	all := web.Locals{"title": a.text("Faults and logs"), "found": found, "lines": lines, "q": search, "errors_only": errorsOnly, "more_faults": 0, "more_lines": 0, "application": a.o.Faults != nil}
	if moreFaults {
		all["more_faults"] = found[len(found)-1].N
	}
	if moreLines {
		all["more_lines"] = lines[len(lines)-1].N
	}
	return a.show(c, http.StatusOK, "faults", all)
}

package admin

import (
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/web"
)

// procFact is one number of a procedure: of the last minutes, and since the start.
type procFact struct{ Name, Recent, Total string }

// procBar is one bucket of the run times of a procedure.
type procBar struct {
	Bound  string
	Runs   uint64
	Length float64 // of the longest bar, in percent
}

// addNumbers adds to the locals of the page of one procedure what it has done on this node.
func (a *Admin) addNumbers(locals web.Locals, name string) {
	all, recent := a.procs.numbers()
	for _, n := range all {
		if n.Total.Name == name {
			locals["rate"], locals["facts"], locals["bars"] = rateText(n.Rate), a.procFacts(n), procBars(n.Total)
			locals["read"] = a.o.Now().UnixMilli() // another address each time: to the same one, a browser would only scroll
			locals["recent"], locals["fails"], locals["timed"] = a.recently(recent), n.Recent.Errors > 0, n.Total.Took.Count
		}
	}
}

func (a *Admin) procFacts(n procNumbers) []procFact {
	fact := func(name string, of func(proc.Stat) string) procFact {
		return procFact{name, of(n.Recent), of(n.Total)}
	}
	quantile := func(q float64) func(proc.Stat) string {
		return func(st proc.Stat) string { return procTime(st.Took, procQuantile(st.Took, q)) }
	}
	return []procFact{
		fact(a.text("Calls"), func(st proc.Stat) string { return numberText(st.Calls) }),
		fact(a.text("Errors"), errorsText),
		fact(a.text("Panics"), func(st proc.Stat) string { return numberText(st.Panics) }),
		fact(a.text("Replays"), func(st proc.Stat) string { return numberText(st.Replays) }),
		fact("p50", quantile(0.5)),
		fact("p99", quantile(0.99)),
		fact(a.text("Average run time"), func(st proc.Stat) string {
			if st.Took.Count == 0 {
				return "–"
			}
			return secondsText(st.Took.Sum / float64(st.Took.Count))
		}),
	}
}

// procBars returns the buckets from the first that has run times to the last.
func procBars(st proc.Stat) []procBar {
	h := st.Took
	if h.Count == 0 {
		return nil
	}
	var all []procBar
	used, most, over := 0, uint64(0), h.Count
	for i, n := range h.Counts {
		if n == 0 && len(all) == 0 {
			continue
		}
		all = append(all, procBar{Bound: procTime(h, h.Bounds[i]), Runs: n})
		if over -= n; n > 0 {
			used, most = len(all), max(most, n)
		}
	}
	all = all[:used]
	if over > 0 {
		all, most = append(all, procBar{Bound: procTime(h, procQuantile(h, 1)), Runs: over}), max(most, over)
	}
	for i := range all {
		all[i].Length = 100 * float64(all[i].Runs) / float64(most)
	}
	return all
}

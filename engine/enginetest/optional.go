package enginetest

import (
	"fmt"
	"math"
	"regexp"

	"github.com/skerrydb/skerry/engine"
)

func optionalCases() []Case {
	return []Case{
		{"ranker/count-and-at", ordered, rankerCase},
		{"savepoint/random-rollbacks", ordered, savepointCase},
		{"savepoint/misuse", ordered, savepointMisuse},
		{"meter/figures", onAllKeys, meterCase},
		{"positioner/covers-answers", onAllKeys, positionerCase},
	}
}

// rankerCase compares Count and At with the model, in views and among a
// transaction's own writes.
func rankerCase(e *env) {
	m := model{}
	for range 60 {
		ops := randomOps(e.rng, 1+e.rng.IntN(8))
		var after model
		offered := true
		check := func(m model, tx engine.Tx) error {
			r, ok := tx.(engine.Ranker)
			if !ok {
				offered = false
				return nil
			}
			for range 10 {
				if err := checkRank(r, m, randomBound(e.rng), randomBound(e.rng)); err != nil {
					return err
				}
			}
			return checkRank(r, m, nil, nil)
		}
		e.update(func(tx engine.Tx) (err error) {
			if after, err = m.apply(tx, ops); err != nil {
				return err
			}
			return check(after, tx)
		})
		m = after
		e.view(func(tx engine.Tx) error { return check(m, tx) })
		if !offered {
			e.Skipf("skipped: the transactions are no engine.Ranker")
		}
	}
}

func checkRank(r engine.Ranker, m model, lo, hi []byte) error {
	want := m.pairs(lo, hi)
	if n := r.Count(lo, hi); n != len(want) {
		return fmt.Errorf("ranker: Count %s = %d, want %d", bounds(lo, hi), n, len(want))
	}
	for i, w := range want {
		p, ok := r.At(lo, hi, i)
		if !ok || string(p.Key) != string(w.Key) || string(p.Val) != string(w.Val) {
			return fmt.Errorf("ranker: At %s %d = %q = %q, %t; want %q = %q", bounds(lo, hi), i, p.Key, p.Val, ok, w.Key, w.Val)
		}
	}
	for _, i := range []int{-1, len(want), len(want) + 1, math.MaxInt, math.MinInt} {
		if p, ok := r.At(lo, hi, i); ok {
			return fmt.Errorf("ranker: At %s %d = %q, want nothing: there are %d", bounds(lo, hi), i, p.Key, len(want))
		}
	}
	return nil
}

// positionerCase: whoever was answered, Position is not before the answer, and it
// names nothing that is not committed.
func positionerCase(e *env) {
	p, ok := e.eng.(engine.Positioner)
	if !ok {
		e.Skipf("skipped: the engine is no engine.Positioner")
	}
	for i := range 100 {
		pos := e.put("k", fmt.Sprint(i))
		now := p.Position()
		if now < pos {
			e.Fatalf("Position is %d after an update that was answered with %d", now, pos)
		}
		if seen := e.view(func(engine.Tx) error { return nil }); now > seen {
			e.Fatalf("Position is %d, but the newest view is at %d", now, seen)
		}
	}
}

func meterCase(e *env) {
	meter, ok := e.eng.(engine.Meter)
	if !ok {
		e.Skipf("skipped: the engine is no engine.Meter")
	}
	writing := make(chan error, 1)
	go func() { writing <- e.increments("n", 200) }()
	form := regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	counters := map[string]float64{}
	for done := false; !done; {
		select {
		case err := <-writing:
			if err != nil {
				e.Fatalf("write beside Metrics: %v", err)
			}
			done = true
		default:
		}
		seen := map[string]bool{}
		for m := range meter.Metrics() {
			switch {
			case !form.MatchString(m.Name) || m.Help == "" || seen[m.Name]:
				e.Fatalf("metric %+v: a bad name, no help or a second of that name", m)
			case math.IsNaN(m.Value) || math.IsInf(m.Value, 0):
				e.Fatalf("metric %s is %v", m.Name, m.Value)
			case m.Counter && m.Value < counters[m.Name]:
				e.Fatalf("counter %s went from %v to %v", m.Name, counters[m.Name], m.Value)
			}
			seen[m.Name] = true
			if m.Counter {
				counters[m.Name] = m.Value
			}
		}
		if len(seen) == 0 {
			e.Fatalf("an engine.Meter without a metric")
		}
	}
	for range meter.Metrics() { // a reader that has enough
		break
	}
}

package enginetest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"

	"github.com/skerrydb/skerry/engine"
)

func optionalCases() []Case {
	return []Case{
		{"eacher/as-one-by-one", ordered, eacherCase},
		{"ranker/count-and-at", ordered, rankerCase},
		{"ranker/ended", onAllKeys, rankerEnded},
		{"savepoint/random-rollbacks", ordered, savepointCase},
		{"savepoint/misuse", ordered, savepointMisuse},
		{"breaker/not-committed", onAllKeys, breakerCase},
		{"expirer/keeps-and-replaces", onOneKey, expirerCase},
		{"emptier/tells", onOneKey, emptierCase},
		{"many/as-get", ordered, manyCase},
		{"expecter/changes-nothing", ordered, expecterCase},
		{"preparer/changes-nothing", onAllKeys, preparerCase},
		{"fence/stops-writes", fenced, fenceStops},
		{"fence/in-order", fenced, fenceInOrder},
		{"fence/kept", fenced, fenceKept},
		{"raiser/continues", raised, raiserCase},
		{"meter/metrics", onAllKeys, meterCase},
		{"positioner/covers-answers", onAllKeys, positionerCase},
		{"backuper/under-writers", onAllKeys, backuperCase},
		{"backuper/writer-fails", onAllKeys, backuperFails},
		{"stopper/healthy", onOneKey, stopperCase},
		{"clustered/member", onOneKey, clusteredCase},
		{"clustered/advertise", onOneKey, advertiserCase},
		{"clustered/hand-over", onOneKey, handOverCase},
		{"clustered/report", onOneKey, reporterCase},
		{"clustered/members", onOneKey, membersCase},
	}
}

// optional returns the engine as one of the optional interfaces, or skips the case.
func optional[I any](e *env, name string) I {
	e.Helper()
	i, ok := e.eng.(I)
	if !ok {
		e.Skipf("skipped: the engine is no engine.%s", name)
	}
	return i
}

// eacherCase compares UpdateEach of the engine with one Update after the other.
func eacherCase(e *env) {
	ee := optional[engine.Eacher](e, "Eacher")
	own := errors.New("own error")
	m := model{}
	for range 20 {
		rows := make([][]op, 1+e.rng.IntN(8))
		after := make([]model, len(rows)+1)
		for i := range rows {
			rows[i] = randomOps(e.rng, 1+e.rng.IntN(6))
		}
		after[0] = m
		fn := func(tx engine.Tx, i int) (err error) {
			fail := len(rows[i])%3 == 0
			if after[i+1], err = after[i].apply(tx, rows[i]); fail {
				after[i+1] = after[i]
				err = cmp.Or(err, own)
			}
			return err
		}
		pos, err := ee.UpdateEach(e.ctx, len(rows), fn)
		if err != nil {
			e.Fatalf("UpdateEach: %v", err)
		}
		m = after[len(rows)]
		e.viewAt(engine.Read{AtLeast: pos}, m.check)
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
	if n, err := r.Count(lo, hi); n != len(want) || err != nil {
		return fmt.Errorf("ranker: Count %s = %d, want %d (%w)", bounds(lo, hi), n, len(want), err)
	}
	for i, w := range want {
		p, ok, err := r.At(lo, hi, i)
		if err != nil {
			return fmt.Errorf("ranker: At %s %d: %w", bounds(lo, hi), i, err)
		}
		if !ok || string(p.Key) != string(w.Key) || string(p.Val) != string(w.Val) {
			return fmt.Errorf("ranker: At %s %d = %q = %q, %t; want %q = %q", bounds(lo, hi), i, p.Key, p.Val, ok, w.Key, w.Val)
		}
	}
	for _, i := range []int{-1, len(want), len(want) + 1, math.MaxInt, math.MinInt} {
		if p, ok, err := r.At(lo, hi, i); ok || err != nil {
			return fmt.Errorf("ranker: At %s %d = %q, want nothing: there are %d (%w)", bounds(lo, hi), i, p.Key, len(want), err)
		}
	}
	return nil
}

// rankerEnded calls Count and At in transactions that have ended.
func rankerEnded(e *env) {
	e.put("a", "1")
	var kept []engine.Ranker
	keep := func(tx engine.Tx) error {
		if r, ok := tx.(engine.Ranker); ok {
			kept = append(kept, r)
		}
		return nil
	}
	e.update(keep)
	e.view(keep)
	if len(kept) == 0 {
		e.Skipf("skipped: the transactions are no engine.Ranker")
	}
	for _, r := range kept {
		_, err := r.Count(nil, nil)
		e.is("Count after the end", err, engine.ErrInvalid)
		_, _, err = r.At(nil, nil, 0)
		e.is("At after the end", err, engine.ErrInvalid)
	}
}

// positionerCase checks that Position is not before any position that a call has returned,
// and that everything up to it is committed.
func positionerCase(e *env) {
	p := optional[engine.Positioner](e, "Positioner")
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
	meter := optional[engine.Meter](e, "Meter")
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
	for range meter.Metrics() { // a reader that stops early
		break
	}
}

// preparerCase compares UpdateOf, with keys of which some are used, with the model.
func preparerCase(e *env) {
	p := optional[engine.Preparer](e, "Preparer")
	m := model{}
	for range 40 {
		ops := randomOps(e.rng, 1+e.rng.IntN(8))
		keys := [][]byte{nil, {}, []byte("never"), bytes.Repeat([]byte("k"), e.p.MaxKeyBytes+1), []byte(engine.FenceKey)}
		for _, o := range ops {
			if e.rng.IntN(2) == 0 {
				keys = append(keys, []byte(o.key), []byte(o.key))
			}
		}
		var after model
		pos, err := p.UpdateOf(e.ctx, keys, func(tx engine.Tx) (err error) {
			for _, key := range keys {
				clear(key) // they were copied
			}
			if after, err = m.apply(tx, ops); err != nil {
				return err
			}
			return after.check(tx)
		})
		if err != nil {
			e.Fatalf("UpdateOf: %v", err)
		}
		m = after
		e.viewAt(engine.Read{AtLeast: pos}, m.check)
	}
}

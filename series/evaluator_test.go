package series

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
)

// TestEstimate: a query reads the series that were estimated, and no more samples, in memory and in parts.
func TestEstimate(t *testing.T) {
	rng := seed.Rand(t)
	e := newExpiring(t, Collection{Name: "c", Retention: 30 * day})
	names := []string{"a", "b", "c", "d"}
	sealed, unsealed := 0, 0
	for range 40 {
		appendSome(t, rng, e, e.define(names...))
		if rng.IntN(4) == 0 {
			e.work()
		}
		q := Query{Match: match(t, names[rng.IntN(len(names))]), From: e.at.now().Add(-time.Duration(rng.IntN(100)) * time.Hour), To: e.at.now().Add(-time.Duration(rng.IntN(3)) * time.Hour)}
		if rng.IntN(4) == 0 {
			q.Match = nil
		}
		if q.To.Before(q.From) {
			q.From, q.To = q.To, q.From
		}
		is, err := e.s.Estimate(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		found, err := e.s.Find(t.Context(), q.Match, engine.Read{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.s.Select(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, s := range got {
			n += len(s.Times)
		}
		if is.Series != len(found) || !is.From.Equal(q.From) || !is.To.Equal(q.To) {
			t.Errorf("%d series match %v: %+v", len(found), q.Match, is)
		}
		if e.s.db.own == nil && n > is.Unsealed+int(is.Samples) {
			t.Errorf("%d samples were read, and %+v estimated", n, is)
		}
		sealed, unsealed = sealed+is.Parts, unsealed+is.Unsealed
	}
	if e.s.db.own == nil && (sealed == 0 || unsealed == 0) {
		t.Errorf("%d parts and %d samples in memory were estimated in all", sealed, unsealed)
	}
	if _, err := e.s.Estimate(t.Context(), Query{From: now, To: now.Add(-1)}); engine.CodeOf(err) != engine.CodeInvalid {
		t.Errorf("a time that ends before it begins: %v", err)
	}
}

func appendSome(t *testing.T, rng *rand.Rand, e *expiring, ids []ID) {
	t.Helper()
	var b Batch
	for range 1 + rng.IntN(20) {
		b.Add(ids[rng.IntN(len(ids))], nanos(e.at.now().Add(-time.Duration(rng.IntN(100))*time.Hour)), rng.Float64())
	}
	if _, err := e.s.Append(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
}

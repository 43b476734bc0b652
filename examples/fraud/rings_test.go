package fraud_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/examples/fraud"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/traversal"
)

var rewrite = flag.Bool("rewrite", false, "write ring.svg anew")

// TestSamples: the rings of a sample are found, with what their accounts share, and no others.
func TestSamples(t *testing.T) {
	t.Parallel()
	first := seed.Rand(t).Uint64()
	for _, s := range []uint64{1, first, first + 1} {
		b := open(t)
		sample := fraud.NewSample(s)
		expect(t, b, fraud.Fill, fraud.FillIn{s}, fraud.FillOut{len(sample.Accounts), len(sample.Transfers), len(sample.Rings)}, "", "")
		f, err := fraud.Find(t.Context(), b.db)
		if err != nil || f.Accounts != len(sample.Accounts) || f.Transfers != len(sample.Transfers) {
			t.Fatalf("seed %d: %v, %d accounts, %d transfers", s, err, f.Accounts, f.Transfers)
		}
		var found [][]string
		for _, r := range f.Rings {
			found = append(found, r.Accounts())
			again, err := fraud.FindRings(t.Context(), b.db, r.ID())
			if err != nil || len(again) != 1 || !reflect.DeepEqual(again[0], r) {
				t.Errorf("seed %d, from %s: %+v, %v, want %+v", s, r.ID(), again, err, r)
			}
		}
		same(t, s, "rings", found, sample.Rings)
		users, groups := map[string][]string{}, [][]string(nil)
		for _, a := range sample.Accounts {
			for _, thing := range []string{"device " + a.Device, "card " + a.Card} {
				users[thing] = append(users[thing], a.Account)
			}
		}
		var shares, want [][]string
		for thing, accounts := range users {
			if slices.Sort(accounts); len(accounts) > 1 && !strings.HasSuffix(thing, " ") {
				want = append(want, append([]string{thing}, accounts...))
			}
		}
		for _, x := range f.Shared {
			shares = append(shares, append([]string{x.Kind + " " + x.Code}, x.Accounts...))
		}
		same(t, s, "shared", shares, want)
		for _, r := range sample.Rings { // all but the first payer use one phone
			if len(r) > 3 {
				groups = append(groups, slices.Sorted(slices.Values(r[1:])))
			}
		}
		same(t, s, "groups", f.Groups, groups)
	}
}

func same(t *testing.T, s uint64, what string, got, want [][]string) {
	t.Helper()
	slices.SortFunc(got, slices.Compare)
	want = slices.Clone(want)
	slices.SortFunc(want, slices.Compare)
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("seed %d, %s:\n%v\nwant\n%v", s, what, got, want)
	}
}

// TestAnyTransfers compares what the traversal finds among random transfers with what a search in Go finds.
func TestAnyTransfers(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	total := 0
	for range 15 {
		b := open(t)
		const accounts = 7
		var all []fraud.Transfer
		start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		name := func(n int) string { return fmt.Sprintf("a%d", n) }
		if _, err := b.db.Update(t.Context(), graph.Default, func(tx *graph.Tx) error {
			all = nil
			var v [accounts]*graph.Vertex
			var err error
			for i := range v {
				if v[i], err = tx.AddVertex([]string{"account"}, name(i)); err != nil {
					return err
				}
			}
			for i := range 30 {
				from, to := r.IntN(accounts), r.IntN(accounts)
				x := fraud.Transfer{ID: fmt.Sprintf("T%d", i), From: name(from), To: name(to), Cents: fraud.LeastCents - 1 + r.Int64N(4)*9_000, At: start.Add(time.Duration(r.IntN(96)) * time.Hour)}
				e, err := tx.AddEdge("transfer", v[from], v[to], x.ID)
				if err != nil {
					return err
				}
				if err := e.Set("cents", x.Cents); err != nil {
					return err
				}
				if err := e.Set("at", x.At); err != nil {
					return err
				}
				all = append(all, x)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		f, err := fraud.Find(t.Context(), b.db)
		if err != nil {
			t.Fatal(err)
		}
		var got [][]string
		for _, r := range f.Rings {
			got = append(got, ids(r.Transfers))
		}
		want := search(all, nil)
		total += len(want)
		same(t, 0, "rings", got, want)
	}
	if total == 0 { // about 15 are to be expected
		t.Error("no rings were there to be found")
	}
}

func ids(way []fraud.Transfer) (list []string) {
	for _, x := range way {
		list = append(list, x.ID)
	}
	return list
}

// search returns the rings that begin with a way, by trying every transfer.
func search(all, way []fraud.Transfer) (found [][]string) {
	if n := len(way); n > 0 && way[n-1].To == way[0].From {
		if n >= fraud.MinAccounts && way[n-1].At.Sub(way[0].At) <= fraud.Window && 100*way[n-1].Cents >= fraud.LeastShare*way[0].Cents {
			found = append(found, ids(way))
		}
		return found
	}
	if len(way) == fraud.MaxAccounts {
		return nil
	}
	for _, x := range all {
		if x.Cents < fraud.LeastCents {
			continue
		}
		if n := len(way); n > 0 {
			last := way[n-1]
			visited := slices.ContainsFunc(way[1:], func(w fraud.Transfer) bool { return w.From == x.To })
			if x.From != last.To || !x.At.After(last.At) || x.Cents > last.Cents || visited || x.To == x.From {
				continue
			}
		}
		found = append(found, search(all, append(way[:len(way):len(way)], x))...)
	}
	return found
}

// TestIndexUsed: large transfers are found by the index, and not by reading all.
func TestIndexUsed(t *testing.T) {
	t.Parallel()
	b := open(t)
	if _, err := b.db.View(t.Context(), engine.Read{}, graph.Default, func(tx *graph.Tx) error {
		text := traversal.G(tx).E().HasLabel("transfer").Has("cents", traversal.Gte(fraud.LeastCents)).String()
		q, err := gremlin.Parse(text, nil)
		if err != nil {
			return err
		}
		plan, err := traversal.Compile(q.Traversal)
		if err == nil && !strings.Contains(plan.Explain(), "by an index") {
			t.Errorf("%s", plan.Explain())
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// TestPicture: ring.svg is the longest ring of the sample that README.md uses.
func TestPicture(t *testing.T) {
	t.Parallel()
	b := open(t)
	expect(t, b, fraud.Fill, fraud.FillIn{1}, fraud.FillOut{87, 600, 3}, "", "")
	f, err := fraud.Find(t.Context(), b.db)
	if err != nil || len(f.Rings) != 3 {
		t.Fatal(f.Rings, err)
	}
	longest := slices.MaxFunc(f.Rings, func(a, b fraud.Ring) int { return len(a.Transfers) - len(b.Transfers) })
	got, want := longest.Picture().File(), ""
	if raw, err := os.ReadFile("ring.svg"); err == nil {
		want = string(raw)
	}
	if got == want {
		return
	}
	if !*rewrite {
		t.Errorf("ring.svg differs; go test ./examples/fraud -rewrite writes it anew:\n%s", got)
	} else if err := os.WriteFile("ring.svg", []byte(got), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestManyRings: the search ends at 100 rings, and ways that are no rings do not count.
func TestManyRings(t *testing.T) {
	t.Parallel()
	b := open(t)
	for _, a := range []string{"a", "b", "c", "d"} {
		expect(t, b, fraud.Open, fraud.OpenIn{Account: a}, 0, "", "")
	}
	start, n := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), 0
	if _, err := b.db.Update(t.Context(), graph.Default, func(tx *graph.Tx) error {
		for _, way := range []string{"ad", "da", "ab", "bc", "ca"} {
			for range 5 {
				from, _, err1 := tx.Vertex(way[:1])
				to, _, err2 := tx.Vertex(way[1:])
				e, err3 := tx.AddEdge("transfer", from, to, fmt.Sprintf("T%d", n))
				if err := errors.Join(err1, err2, err3, e.Set("cents", int64(fraud.LeastCents)), e.Set("at", start.Add(time.Duration(n)*time.Minute))); err != nil {
					return err
				}
				n++
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	f, err := fraud.Find(t.Context(), b.db)
	if err != nil || len(f.Rings) != 100 {
		t.Errorf("%d rings of 125, %v, want 100", len(f.Rings), err)
	}
}

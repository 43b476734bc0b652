package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/skerrydb/skerry/bench/rig"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/traversal"
)

const (
	perUpdate = 1000 // people or edges of one transaction in this process
	rankRuns  = 3    // of pageRank, at most
)

// larger measures a graph on an engine in this process.
type larger struct {
	p   *plan
	g   *social
	db  *graph.DB
	w   io.Writer
	ids []int64 // of people
}

// larger runs the second part.
func (p *plan) larger(ctx context.Context, dir string, w io.Writer) (err error) {
	data := filepath.Join(dir, "larger")
	// The history that engines keep for consumers would count as memory of edges.
	eng, err := embedded.Open(data, embedded.Options{Logger: slog.New(slog.DiscardHandler), HistoryBytes: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	b := &larger{p: p, g: newSocial(p.seed, p.bigPeople, p.bigEdges), w: w, ids: make([]int64, p.bigPeople)}
	if b.db, err = graph.New(eng); err != nil {
		return err
	}
	if err := b.db.AddIndex(ctx, graph.Default, byName); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nIn this process: %d people with an index of their names, %d edges, %d of them a transaction, %d transactions at once, fsync before each returns\n", p.bigPeople, p.bigEdges, perUpdate, p.callers)
	for _, step := range []func(context.Context) error{b.load, b.queries, b.rank} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	rss, err := rig.RSS(os.Getpid())
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "memory of the process at the end, with %d MiB of its own copy of the graph: %d MiB; data folder %.0f bytes per edge\n", (len(b.g.edges)*12+len(b.g.first)*4+len(b.ids)*8)>>20, rss>>20, float64(rig.DiskBytes(data))/float64(p.bigEdges))
	return nil
}

func (b *larger) update(ctx context.Context, fn func(*graph.Tx) error) error {
	_, err := b.db.Update(ctx, graph.Default, fn)
	return err
}

// load adds everything and prints how fast that was and how much memory it takes.
func (b *larger) load(ctx context.Context) error {
	empty := liveHeap()
	from := time.Now()
	for at := 0; at < b.g.people; at += perUpdate {
		if err := b.update(ctx, func(tx *graph.Tx) error { return b.addPeople(tx, at, min(at+perUpdate, b.g.people)) }); err != nil {
			return err
		}
	}
	took := time.Since(from)
	people := liveHeap()
	var rates []float64
	for round := range b.p.Rounds {
		part := b.g.edges[round*len(b.g.edges)/b.p.Rounds : (round+1)*len(b.g.edges)/b.p.Rounds]
		from := time.Now()
		if err := b.addEdges(ctx, part); err != nil {
			return err
		}
		rates = append(rates, float64(len(part))/time.Since(from).Seconds())
	}
	all := liveHeap()
	edges := float64(len(b.g.edges))
	whole := float64(all-empty) / edges
	fmt.Fprintf(b.w, "adding people %.0f/s, edges %.0f/s (median of %d parts; slowest %.0f/s)\n", float64(b.g.people)/took.Seconds(), rig.Median(rates), b.p.Rounds, slices.Min(rates))
	fmt.Fprintf(b.w, "live heap %.1f bytes per edge; with people and their index %.1f; a person %.1f\n", float64(all-people)/edges, whole, float64(people-empty)/float64(b.g.people))
	b.p.targets = append(b.p.targets, rig.AtMost("bytes of memory per edge, both directions, with people and their index", whole, 60, ""))
	return nil
}

func liveHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func (b *larger) addPeople(tx *graph.Tx, from, to int) error {
	for i := from; i < to; i++ {
		v, err := tx.AddVertex([]string{"person"}, nil)
		if err != nil {
			return err
		}
		if _, err := v.Set(graph.Single, "name", name(i)); err != nil {
			return err
		}
		if _, err := v.Set(graph.Single, "age", age(i)); err != nil {
			return err
		}
		b.ids[i] = v.ElementID().(int64)
	}
	return nil
}

// addEdges adds edges in transactions, some at once.
func (b *larger) addEdges(ctx context.Context, edges [][2]uint32) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(b.p.callers)
	for some := range slices.Chunk(edges, perUpdate) {
		work.Go(func() error {
			return b.update(ctx, func(tx *graph.Tx) error {
				for _, e := range some {
					if err := b.addEdge(tx, e); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	return work.Wait()
}

func (b *larger) addEdge(tx *graph.Tx, e [2]uint32) error {
	var ends [2]*graph.Vertex
	for i, person := range e {
		v, ok, err := tx.Vertex(b.ids[person])
		if err != nil || !ok {
			return fmt.Errorf("%s is there: %v: %w", name(int(person)), ok, err)
		}
		ends[i] = v
	}
	_, err := tx.AddEdge("knows", ends[0], ends[1], nil)
	return err
}

// ask answers a query about a person.
func (b *larger) ask(ctx context.Context, tx *graph.Tx, q string, person int) (n int64, err error) {
	at := traversal.G(tx).V(b.ids[person])
	switch q {
	case queries[0].name:
		names, err := traversal.All[string](ctx, at.Out("knows").Values("name"))
		if err != nil {
			return 0, err
		}
		return sumOf(names)
	case queries[1].name:
		at = at.Out("knows").Out("knows").Count()
	case queries[2].name:
		at = at.Out("knows").Out("knows").Out("knows").Count()
	case queries[3].name:
		at = traversal.G(tx).V().Step("has", "person", "name", name(person)).Values("age")
	}
	n, _, err = traversal.First[int64](ctx, at)
	return n, err
}

// queries measures the same queries as of the servers, one at a time.
func (b *larger) queries(ctx context.Context) error {
	for _, a := range b.p.asked(b.g) {
		var hist rig.Hist
		for end := time.Now().Add(b.p.Window); time.Now().Before(end); {
			i := int(hist.Count) % len(a.people)
			var got int64
			from := time.Now()
			if _, err := b.db.View(ctx, engine.Read{}, graph.Default, func(tx *graph.Tx) (err error) {
				got, err = b.ask(ctx, tx, a.name, a.people[i])
				return err
			}); err != nil {
				return err
			}
			hist.Add(time.Since(from))
			if got != a.wants[i] {
				return fmt.Errorf("the larger graph answers %d to %q about %s, want %d", got, a.name, name(a.people[i]), a.wants[i])
			}
		}
		fmt.Fprintf(b.w, "%-14s p50 %8.1f µs  p99 %8.1f µs\n", a.name, rig.Micros(hist.Quantile(0.5)), rig.Micros(hist.Quantile(0.99)))
	}
	return nil
}

// rank measures pageRank of the whole graph.
func (b *larger) rank(ctx context.Context) error {
	want := b.g.top(topRanks)
	var took []float64
	for range min(b.p.Rounds, rankRuns) {
		q, err := gremlin.Parse(rankText, nil)
		if err != nil {
			return err
		}
		plan, err := traversal.Compile(q.Traversal)
		if err != nil {
			return err
		}
		var got []string
		from := time.Now()
		if _, err := b.db.View(ctx, engine.Read{}, graph.Default, func(tx *graph.Tx) error {
			got = nil // it may run again
			return plan.Run(ctx, tx, traversal.Options{}, func(v any, _ int64) error {
				got = append(got, fmt.Sprint(v))
				return nil
			})
		}); err != nil {
			return err
		}
		took = append(took, time.Since(from).Seconds())
		if !slices.Equal(got, want) {
			return fmt.Errorf("the larger graph has %v with the highest PageRank, want %v", got, want)
		}
	}
	fmt.Fprintf(b.w, "PageRank of all, the best %d: %.2f s (median of %d)\n", topRanks, rig.Median(took), len(took))
	b.p.targets = append(b.p.targets, rig.AtMost(fmt.Sprintf("PageRank of %g million edges", float64(len(b.g.edges))/1e6), rig.Median(took), 30, " s"))
	return nil
}

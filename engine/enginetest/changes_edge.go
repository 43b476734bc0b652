package enginetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sort"

	"github.com/skerrydb/skerry/engine"
)

// more commits n small transactions by UpdateEach and returns their changes.
func (e *env) more(after engine.Position, n int) []engine.Change {
	e.Helper()
	pos := e.each(n, func(tx engine.Tx, i int) error {
		return tx.Put(fmt.Appendf(nil, "k%d", i%9), fmt.Appendf(nil, "%d+%d", after, i))
	})
	list := e.changes(after, pos)
	if len(list) != n {
		e.Fatalf("%d transactions came as %d changes", n, len(list))
	}
	return list
}

// fillHistory commits more transactions than the engine keeps, and returns the
// position before them and their changes.
func (e *env) fillHistory() (engine.Position, []engine.Change) {
	e.Helper()
	if e.o.History == 0 {
		e.Skipf("skipped: Options.History is not set")
	}
	start := e.put("start", "1")
	pos, list := start, []engine.Change(nil)
	for len(list) <= e.o.History {
		list = append(list, e.more(pos, 50)...)
		pos = list[len(list)-1].Pos
	}
	return start, list
}

// first returns the first change after a position, which is not the newest.
func (e *env) first(after engine.Position) (engine.Change, error) {
	ctx, cancel := context.WithTimeout(e.ctx, e.o.Wait)
	defer cancel()
	for c, err := range e.eng.Changes(ctx, after) {
		if err != nil || len(c.Writes) > 0 {
			return c, err
		}
	}
	return engine.Change{}, fmt.Errorf("the changes after %d end at once (%w)", after, context.Cause(ctx))
}

// changesEdge checks both sides of the edge of the kept history, while the edge moves by
// one transaction or a few: the position before the edge is ErrTruncated, and from the
// edge on nothing is missing. An engine may drop changes some time after the write that
// makes them too old: if the edge has moved, it checks again.
func changesEdge(e *env) {
	before, list := e.fillHistory()
	for round := range 40 {
		err, edge := error(nil), -1
		for now := e.edge(before, list); now != edge; now = e.edge(before, list) {
			edge, err = now, e.around(before, list, now, round == 0)
		}
		if err != nil {
			e.Fatalf("%v", err)
		}
		list = append(list, e.more(list[len(list)-1].Pos, 1+e.rng.IntN(4))...)
	}
	if e.edge(before, list) <= 40 {
		e.Fatalf("the history after %d is still kept after %d transactions", list[40].Pos, len(list))
	}
}

// around checks the changes next to the edge.
func (e *env) around(before engine.Position, list []engine.Change, edge int, all bool) error {
	e.Helper()
	for i := max(0, edge-2); i <= edge+2; i++ {
		if err := e.resumes(before, list, i, i >= edge, all); err != nil {
			return err
		}
	}
	return nil
}

// after returns the position before change i of a list that begins after before.
func after(before engine.Position, list []engine.Change, i int) engine.Position {
	if i == 0 {
		return before
	}
	return list[i-1].Pos
}

// edge returns the first i such that change i of the list is kept, with all after it.
func (e *env) edge(before engine.Position, list []engine.Change) int {
	e.Helper()
	return sort.Search(len(list)-1, func(i int) bool {
		_, err := e.first(after(before, list, i))
		return !errors.Is(err, engine.ErrTruncated)
	})
}

// resumes returns an error unless Changes yields the changes from change i of the list on,
// if they are kept, or ErrTruncated. It reads all of them, or only the next.
func (e *env) resumes(before engine.Position, list []engine.Change, i int, kept, all bool) error {
	e.Helper()
	pos := after(before, list, i)
	c, err := e.first(pos)
	switch {
	case !kept && !errors.Is(err, engine.ErrTruncated):
		return fmt.Errorf("the change of %d is no longer kept, but the changes after %d begin with that of %d (%v)", list[i].Pos, pos, c.Pos, err)
	case kept && err != nil:
		return fmt.Errorf("the changes after %d are kept, but not those after %d: %w", after(before, list, i-1), pos, err)
	case kept && text(c) != text(list[i]):
		return fmt.Errorf("after %d comes %s, want %s", pos, text(c), text(list[i]))
	case kept && all:
		ctx, cancel := context.WithTimeout(e.ctx, e.o.Wait)
		defer cancel()
		got, err := collect(ctx, e.eng, pos, list[len(list)-1].Pos)
		if err != nil {
			return err
		}
		if !slices.Equal(texts(got), texts(list[i:])) {
			return fmt.Errorf("after %d come %d changes, want %d, or they are others", pos, len(got), len(list)-i)
		}
	}
	return nil
}

// changesTrimmed lets readers that begin at the edge of the kept history continue while
// the edge moves past them, at once or in small steps. They must receive changes without
// a gap, up to ErrTruncated.
func changesTrimmed(e *env) {
	before, list := e.fillHistory()
	for _, burst := range []int{1, 2, 50, e.o.History} {
		i := e.edge(before, list)
		next, stop := iter.Pull2(e.eng.Changes(e.ctx, after(before, list, i)))
		defer stop()
		for round := 0; i < len(list); round++ {
			c, err, ok := next()
			if errors.Is(err, engine.ErrTruncated) {
				break
			}
			switch {
			case err != nil || !ok:
				e.Fatalf("a reader that fell behind ended before change %d: %v", list[i].Pos, err)
			case len(c.Writes) == 0:
				continue
			case text(c) != text(list[i]):
				e.Fatalf("a reader that fell behind got %s after position %d, want %s or %v", text(c), after(before, list, i), text(list[i]), engine.ErrTruncated)
			}
			if i++; round >= 150 {
				continue // it reads the rest, as far as it is kept
			}
			for ; burst > 50; burst -= 50 {
				list = append(list, e.more(list[len(list)-1].Pos, 50)...)
			}
			list = append(list, e.more(list[len(list)-1].Pos, burst)...)
			burst = min(burst, 2)
		}
		stop()
	}
}

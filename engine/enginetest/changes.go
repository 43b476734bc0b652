package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/skerrydb/skerry/engine"
)

func changeCases() []Case {
	return []Case{
		{"changes/exact", engine.Promises{Atomic: engine.AllKeys, Snapshot: true, Positions: true, Feed: true, Ordered: true}, changesExact},
		{"changes/final-values-once", fed, changesFinal},
		{"changes/resume-from-every-position", fed, changesResume},
		{"changes/live-under-writers", fed, changesLive},
		{"changes/slow-reader", fed, changesSlow},
		{"changes/may-be-kept", fed, changesKept},
		{"changes/visible-at-their-position", fed, changesVisible},
		{"changes/end-with-ctx", fed, changesEnd},
		{"changes/waits-for-the-future", fed, changesFuture},
		{"changes/truncated", fed, changesTruncated},
		{"changes/edge-of-the-history", fed, changesEdge},
		{"changes/trimmed-under-readers", fed, changesTrimmed},
	}
}

// changes reads the changes with writes after one position, up to the change at another,
// and checks that positions grow.
func (e *env) changes(after, upTo engine.Position) []engine.Change {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.ctx, e.o.Wait)
	defer cancel()
	out, err := collect(ctx, e.eng, after, upTo)
	if err != nil {
		e.Fatalf("%v", err)
	}
	return out
}

func collect(ctx context.Context, eng engine.Engine, after, upTo engine.Position) ([]engine.Change, error) {
	var out []engine.Change
	pos := after
	for c, err := range eng.Changes(ctx, after) {
		if err != nil {
			return nil, fmt.Errorf("changes after %d, at %d of %d: %w", after, pos, upTo, err)
		}
		if c.Pos < pos || c.Pos == pos && len(c.Writes) > 0 {
			return nil, fmt.Errorf("changes after %d: position %d comes after %d", after, c.Pos, pos)
		}
		if c.Pos > upTo || c.Pos == upTo && len(c.Writes) == 0 {
			return nil, fmt.Errorf("changes after %d: position %d comes, but the change of %d has not come", after, c.Pos, upTo)
		}
		pos = c.Pos
		if len(c.Writes) > 0 {
			out = append(out, c)
		}
		if c.Pos == upTo {
			return out, nil
		}
	}
	return nil, fmt.Errorf("changes after %d end at %d, before %d (%w)", after, pos, upTo, context.Cause(ctx))
}

// commit is a transaction that a case has made.
type commit struct {
	pos           engine.Position
	now           time.Time
	touched       map[string]bool
	before, after model
}

// effective returns the keys that have another value after the commit.
func (c commit) effective() []string {
	var out []string
	for k := range c.touched {
		was, had := c.before[k]
		is, has := c.after[k]
		if had != has || was != is {
			out = append(out, k)
		}
	}
	return out
}

// matches compares a change with the commit. A write that does not change the value of
// its key may be in the change or not.
func (c commit) matches(got engine.Change) error {
	if !got.Time.Equal(c.now) {
		return fmt.Errorf("change %d: time is %v, its transaction's Now was %v", got.Pos, got.Time, c.now)
	}
	seen := map[string]bool{}
	for _, w := range got.Writes {
		k := string(w.Key)
		val, has := c.after[k]
		switch {
		case seen[k]:
			return fmt.Errorf("change %d has key %q twice", got.Pos, k)
		case !c.touched[k]:
			return fmt.Errorf("change %d has key %q, which its transaction did not write", got.Pos, k)
		case w.Deleted && w.Val != nil:
			return fmt.Errorf("change %d deletes %q and has a value for it: %q", got.Pos, k, w.Val)
		case w.Deleted == has || has && string(w.Val) != val:
			return fmt.Errorf("change %d has %q = %q, deleted %t; its transaction left %q, deleted %t", got.Pos, k, w.Val, w.Deleted, val, !has)
		}
		seen[k] = true
	}
	for _, k := range c.effective() {
		if !seen[k] {
			return fmt.Errorf("change %d lacks key %q", got.Pos, k)
		}
	}
	return nil
}

// changesExact runs random transactions, some of which fail, and compares every change
// with its transaction.
func changesExact(e *env) {
	start := e.put("start", "1")
	m := model{"start": "1"}
	own := errors.New("own error")
	commits := map[engine.Position]commit{}
	for range 200 {
		ops, fail := randomOps(e.rng, 1+e.rng.IntN(8)), e.rng.IntN(5) == 0
		c := commit{before: m, touched: map[string]bool{}}
		for _, o := range ops {
			if o.kind == opPut || o.kind == opDelete {
				c.touched[o.key] = true
			}
		}
		var err error
		c.pos, err = e.eng.Update(e.ctx, func(tx engine.Tx) (err error) {
			c.now = tx.Now()
			if c.after, err = m.apply(tx, ops); err == nil && fail {
				err = own
			}
			return err
		})
		if fail && err == own {
			continue
		}
		if err != nil {
			e.Fatalf("update: %v", err)
		}
		m = c.after
		if len(c.effective()) > 0 {
			if _, dup := commits[c.pos]; dup {
				e.Fatalf("two transactions that wrote have position %d", c.pos)
			}
			commits[c.pos] = c
		}
	}
	end := e.put("end", "1")
	held := model{"start": "1"}
	var last time.Time
	for _, got := range e.changes(start, end) {
		if got.Time.Before(last) || e.p.DistinctTimes && got.Time.Equal(last) {
			e.Fatalf("change %d is of %v, the one before it of %v", got.Pos, got.Time, last)
		}
		last = got.Time
		c, ok := commits[got.Pos]
		if ok {
			if err := c.matches(got); err != nil {
				e.Fatalf("%v", err)
			}
			delete(commits, got.Pos)
		}
		for _, w := range got.Writes {
			k, v := string(w.Key), string(w.Val)
			if was, had := held[k]; !ok && got.Pos != end && (had == w.Deleted || was != v) {
				e.Fatalf("change %d has an effect, on %q, but no transaction of that position had", got.Pos, k)
			}
			if held[k] = v; w.Deleted {
				delete(held, k)
			}
		}
	}
	for pos := range commits {
		e.Fatalf("there is no change of position %d, where a transaction was committed", pos)
	}
}

func changesFinal(e *env) {
	start := e.put("b", "old", "gone", "old")
	end := e.update(func(tx engine.Tx) error {
		for i := range 5 {
			if err := putAll(tx, "a", fmt.Sprint(i), "b", fmt.Sprint(i), "empty", ""); err != nil {
				return err
			}
		}
		return tx.Delete([]byte("gone"))
	})
	list := e.changes(start, end)
	if len(list) != 1 {
		e.Fatalf("one transaction came as %d changes", len(list))
	}
	slices.SortFunc(list[0].Writes, func(a, b engine.Write) int { return bytes.Compare(a.Key, b.Key) })
	want := `a="4" false, b="4" false, empty="" false, gone="" true, `
	got := ""
	for _, w := range list[0].Writes {
		got += fmt.Sprintf("%s=%q %t, ", w.Key, w.Val, w.Deleted)
	}
	if got != want {
		e.Errorf("writes are %s want %s", got, want)
	}
}

// text returns a change in a form that can be compared.
func text(c engine.Change) string {
	s := fmt.Sprint(c.Pos, " ", c.Time.UnixMicro())
	for _, w := range c.Writes {
		s += fmt.Sprintf(" %q=%q,%t", w.Key, w.Val, w.Deleted)
	}
	return s
}

func texts(list []engine.Change) []string {
	var out []string
	for _, c := range list {
		out = append(out, text(c))
	}
	return out
}

func changesResume(e *env) {
	start := e.put("start", "1")
	positions := []engine.Position{start}
	for i := range 60 {
		if i%5 == 4 { // failed and empty ones between
			if _, err := e.eng.Update(e.ctx, func(tx engine.Tx) error { return errors.New("own") }); err == nil {
				e.Fatalf("an update whose function failed succeeded")
			}
			e.update(func(tx engine.Tx) error { return nil })
		}
		positions = append(positions, e.put(fmt.Sprint("k", i%7), fmt.Sprint(i)))
	}
	end := positions[len(positions)-1]
	all := texts(e.changes(start, end))
	if len(all) != len(positions)-1 {
		e.Fatalf("%d transactions came as %d changes", len(positions)-1, len(all))
	}
	for i, pos := range positions[:len(positions)-1] {
		if got := texts(e.changes(pos, end)); !slices.Equal(got, all[i:]) {
			e.Fatalf("changes after %d are %q, want %q", pos, got, all[i:])
		}
	}
}

// writeMany runs concurrent writers that use Update and UpdateEach. It returns the
// positions that these returned, and the last position.
func (e *env) writeMany(writers, each int) (acked map[engine.Position]bool, end engine.Position) {
	e.Helper()
	acked = map[engine.Position]bool{}
	var mu sync.Mutex // guards acked
	errs := make(chan error, writers)
	for w := range writers {
		go func() {
			errs <- func() error {
				for i := range each {
					key, val := []byte(fmt.Sprintf("w%d", w)), fmt.Appendf(nil, "%d", i)
					pos, err := e.eng.Update(e.ctx, func(tx engine.Tx) error { return tx.Put(key, val) })
					if err != nil {
						return err
					}
					mu.Lock()
					dup := acked[pos]
					acked[pos] = true
					mu.Unlock()
					if dup {
						return fmt.Errorf("two transactions got position %d", pos)
					}
				}
				return nil
			}()
		}()
	}
	for range writers {
		if err := <-errs; err != nil {
			e.Fatalf("write: %v", err)
		}
	}
	return acked, e.put("end", "1")
}

// changesLive tails changes while writers write. All tails see the same.
func changesLive(e *env) {
	const writers, each, tails = 6, 100, 4
	start := e.put("start", "1")
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	type tailed struct {
		list []string
		err  error
	}
	out := make(chan tailed, tails)
	for t := range tails {
		go func() {
			var r tailed
			last := start
			for c, err := range e.eng.Changes(ctx, start) {
				if err != nil {
					r.err = err
					break
				}
				if len(c.Writes) == 0 {
					continue
				}
				if c.Pos <= last {
					r.err = fmt.Errorf("position %d comes after %d", c.Pos, last)
					break
				}
				last = c.Pos
				r.list = append(r.list, text(c))
				if t == 0 && len(r.list)%50 == 0 {
					time.Sleep(time.Millisecond)
				}
				if string(c.Writes[0].Key) == "end" {
					break
				}
			}
			out <- r
		}()
	}
	acked, end := e.writeMany(writers, each)
	all := e.changes(start, end)
	want := texts(all)
	for range tails {
		r := receive(e, "a tail", out)
		if r.err != nil || !slices.Equal(r.list, want) {
			e.Fatalf("a live tail has %d changes (%v), a later one %d; they differ", len(r.list), r.err, len(want))
		}
	}
	next := map[string]int{}
	for _, c := range all[:len(all)-1] {
		if !acked[c.Pos] {
			e.Fatalf("change %d is of no transaction", c.Pos)
		}
		delete(acked, c.Pos)
		k, v := string(c.Writes[0].Key), string(c.Writes[0].Val)
		if v != fmt.Sprint(next[k]) {
			e.Fatalf("change %d sets %s to %s; the one before set it to %d", c.Pos, k, v, next[k]-1)
		}
		next[k]++
	}
	if len(acked) > 0 {
		e.Fatalf("%d acknowledged transactions are in no change", len(acked))
	}
}

// changesSlow stops reading for a while. Then it must receive all changes, or
// ErrTruncated.
func changesSlow(e *env) {
	start := e.put("start", "1")
	stall, stalled := make(chan struct{}), make(chan struct{})
	type result struct {
		n   int
		err error
	}
	out := make(chan result, 1)
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	go func() {
		var r result
		for c, err := range e.eng.Changes(ctx, start) {
			if err != nil {
				r.err = err
				break
			}
			if len(c.Writes) == 0 {
				continue
			}
			if r.n++; r.n == 1 {
				close(stalled)
				<-stall
			}
			if string(c.Writes[0].Key) == "end" {
				break
			}
		}
		out <- r
	}()
	defer func() {
		select {
		case <-stall:
		default:
			close(stall)
		}
	}()
	e.put("first", "1")
	receive(e, "the first change", stalled)
	e.writeMany(4, 200) // a reader that has stopped must not block writers
	close(stall)
	r := receive(e, "the slow reader", out)
	if errors.Is(r.err, engine.ErrTruncated) {
		return
	}
	if r.err != nil || r.n != 802 {
		e.Errorf("a slow reader got %d changes of 802, error %v", r.n, r.err)
	}
}

// changesKept checks that changes do not change after they were received.
func changesKept(e *env) {
	start := e.put("start", "1")
	for i := range 100 {
		e.put(fmt.Sprint("k", i%10), fmt.Sprint("value ", i))
	}
	end := e.put("end", "1")
	var list []engine.Change
	var was []string
	ctx, cancel := context.WithTimeout(e.ctx, e.o.Wait)
	defer cancel()
	for c, err := range e.eng.Changes(ctx, start) {
		if err != nil {
			e.Fatalf("changes: %v", err)
		}
		list, was = append(list, c), append(was, text(c))
		if c.Pos >= end {
			break
		}
	}
	for i := range 100 {
		e.put(fmt.Sprint("k", i%10), fmt.Sprint("other ", i))
	}
	e.update(func(tx engine.Tx) error {
		for i := range 10 {
			if err := tx.Delete([]byte(fmt.Sprint("k", i))); err != nil {
				return err
			}
		}
		return nil
	})
	if !slices.Equal(texts(list), was) {
		e.Errorf("changes that were kept have changed")
	}
}

// changesVisible reads a view at the position of each change when it arrives.
func changesVisible(e *env) {
	start := e.put("n", "0")
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	const n = 200
	writing := make(chan error, 1)
	go func() { writing <- e.increments("n", n) }()
	seen := 0
	for c, err := range e.eng.Changes(ctx, start) {
		if err != nil {
			e.Fatalf("changes: %v", err)
		}
		if len(c.Writes) == 0 {
			continue
		}
		seen++
		var has int
		r := engine.Read{Level: levels[seen%3], AtLeast: c.Pos}
		pos := e.viewAt(r, func(tx engine.Tx) (err error) { has, err = number(tx, "n"); return err })
		if has < seen || pos < c.Pos {
			e.Fatalf("the change of %d sets %d; a view of it is of %d and shows %d", c.Pos, seen, pos, has)
		}
		if seen == n {
			break
		}
	}
	if err := receive(e, "the writer", writing); err != nil {
		e.Fatalf("write: %v", err)
	}
}

// changesEnd ends a waiting tail by its ctx. It may end with ctx's error or without.
func changesEnd(e *env) {
	last := e.put("a", "1")
	for _, before := range []bool{false, true} {
		ctx, cancel := context.WithCancel(e.ctx)
		defer cancel()
		if before {
			cancel()
		}
		out := make(chan error, 1)
		go func() {
			out <- func() (end error) {
				for c, err := range e.eng.Changes(ctx, last) {
					if end != nil {
						return fmt.Errorf("the tail goes on after error %w", end)
					}
					if end = err; err == nil && len(c.Writes) > 0 {
						return fmt.Errorf("change %d comes out of nothing", c.Pos)
					}
				}
				return end
			}()
		}()
		if !before {
			select {
			case err := <-out:
				e.Fatalf("a tail ended before its ctx, with %v", err)
			case <-time.After(30 * time.Millisecond):
			}
			cancel()
		}
		if err := receive(e, "a tail whose ctx has ended", out); err != nil && !errors.Is(err, context.Canceled) {
			e.Fatalf("a tail whose ctx was cancelled ended with %v", err)
		}
	}
	for _, err := range e.eng.Changes(e.ctx, 0) { // a reader that stops early
		if err != nil && !errors.Is(err, engine.ErrTruncated) {
			e.Fatalf("changes from the beginning: %v", err)
		}
		break
	}
}

// changesFuture reads changes after a position that does not exist yet.
func changesFuture(e *env) {
	last := e.put("a", "1")
	ctx, cancel := context.WithTimeout(e.ctx, e.o.Wait)
	defer cancel()
	out := make(chan engine.Change, 1)
	go func() {
		for c, err := range e.eng.Changes(ctx, last) {
			if err != nil || len(c.Writes) > 0 {
				out <- c
				return
			}
		}
	}()
	time.Sleep(10 * time.Millisecond)
	pos := e.put("b", "2")
	if c := receive(e, "the change that was waited for", out); c.Pos != pos || len(c.Writes) != 1 || string(c.Writes[0].Key) != "b" {
		e.Errorf("the change that was waited for is %s, want one of %d", text(c), pos)
	}
}

// changesTruncated writes until the first change is no longer kept. Then Changes after
// every position must yield all changes or ErrTruncated.
func changesTruncated(e *env) {
	if e.o.History == 0 {
		e.Skipf("skipped: Options.History is not set")
	}
	positions := []engine.Position{e.put("start", "1")}
	for i := range e.o.History {
		positions = append(positions, e.put("k", fmt.Sprint(i)))
	}
	// An engine may drop changes some time after the write that makes them too old.
	e.eventually("the first change is no longer kept", func() bool {
		_, err := e.first(positions[0])
		gone := errors.Is(err, engine.ErrTruncated)
		if !gone {
			positions = append(positions, e.put("k", "more"))
		}
		return gone
	})
	end := positions[len(positions)-1]
	step := max(1, len(positions)/50)
	kept := false
	for i := 0; i < len(positions)-1; i += step {
		ctx, cancel := context.WithTimeout(e.ctx, e.o.Wait)
		list, err := collect(ctx, e.eng, positions[i], end)
		cancel()
		switch {
		case errors.Is(err, engine.ErrTruncated):
			if !kept {
				break
			}
			// An engine may have dropped more in the meantime, but only the oldest.
			if _, err := collect(e.ctx, e.eng, positions[i-step], end); !errors.Is(err, engine.ErrTruncated) {
				e.Fatalf("the changes after %d are kept (%v), those after %d are not", positions[i-step], err, positions[i])
			}
			kept = false
		case err != nil:
			e.Fatalf("%v", err)
		case i == 0:
			e.Fatalf("the history after %d was gone, and is kept again", positions[0])
		case len(list) != len(positions)-1-i:
			e.Fatalf("after %d come %d changes, want %d or %v", positions[i], len(list), len(positions)-1-i, engine.ErrTruncated)
		default:
			kept = true
		}
	}
	e.changes(positions[len(positions)-2], end) // the newest is always kept
}

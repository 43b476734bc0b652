package proc_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
)

// node is one call of a random tree of calls.
type node struct {
	steps  []treeStep
	end    int  // 0: success, 1: an error, 2: a panic
	forgot bool // the caller continues after its failure
}

// treeStep is a write, or an inner call if there is one.
type treeStep struct {
	key, val string
	ttl      bool
	call     *node
}

func randomNode(rng *rand.Rand, depth int) *node {
	n := &node{forgot: rng.IntN(4) > 0}
	if rng.IntN(3) == 0 {
		n.end = 1 + rng.IntN(2)
	}
	for range rng.IntN(7) {
		s := treeStep{key: fmt.Sprint("key ", rng.IntN(12)), ttl: rng.IntN(3) == 0}
		switch {
		case depth > 0 && rng.IntN(3) == 0:
			s.call = randomNode(rng, depth-1)
		case rng.IntN(4) > 0:
			s.val = fmt.Sprint(rng.IntN(1000))
		}
		n.steps = append(n.steps, s)
	}
	return n
}

// run applies n to m. It reports whether n succeeds; if not, m is unchanged.
func (n *node) run(m map[string]string) bool {
	before := maps.Clone(m)
	for _, s := range n.steps {
		switch {
		case s.call != nil:
			if !s.call.run(m) && !s.call.forgot {
				clear(m)
				maps.Copy(m, before)
				return false
			}
		case s.val == "":
			delete(m, s.key)
		default:
			m[s.key] = s.val
		}
	}
	if n.end != 0 {
		clear(m)
		maps.Copy(m, before)
	}
	return n.end == 0
}

// tree is a procedure that runs nodes.
type tree struct {
	fn    *proc.Func[treeIn, int]
	nodes []*node
}

type treeIn struct{ Node int }

func newTree() *tree {
	t := &tree{}
	t.fn = proc.Define("tree", func(tx *proc.Tx, in treeIn) (int, error) { return 1, t.run(tx, t.nodes[in.Node]) })
	return t
}

func (t *tree) run(tx *proc.Tx, n *node) error {
	for _, s := range n.steps {
		k, key := tx.KV(0), []byte(s.key)
		var err error
		switch {
		case s.call != nil:
			err = t.inner(tx, s.call)
		case s.val == "":
			_, err = k.Delete(key)
		case s.ttl:
			_, err = k.Set(key, []byte(s.val), kv.SetOptions{TTL: time.Hour})
		default:
			_, err = k.Set(key, []byte(s.val), kv.SetOptions{SkipOld: true})
		}
		if err != nil {
			return err
		}
	}
	switch n.end {
	case 1:
		return errOwn
	case 2:
		panic(errOwn)
	}
	return nil
}

// inner calls n, and ignores its error if it should.
func (t *tree) inner(tx *proc.Tx, n *node) (err error) {
	t.nodes = append(t.nodes, n)
	defer func() {
		if v := recover(); v != nil && (!n.forgot || v != errOwn) {
			panic(v)
		}
		if n.forgot {
			err = nil
		}
	}()
	_, err = t.fn.Run(tx, treeIn{len(t.nodes) - 1})
	return err
}

// TestRandomTrees nests random failing calls. Only the effects of successful ones may be
// left.
func TestRandomTrees(t *testing.T) {
	rng := seed.Rand(t)
	tree := newTree()
	s := newSet(t, proc.Options{}, tree.fn)
	store, err := kv.New(s.Engine(), kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]string{}
	for i := range 400 {
		root := randomNode(rng, 4)
		tree.nodes = append(tree.nodes[:0], root)
		_, _, err := tree.fn.Call(t.Context(), s, treeIn{})
		if ok := root.run(m); ok != (err == nil) {
			t.Fatalf("tree %d: %v, and it should be %t", i, err, ok)
		}
		page, _, err := store.List(t.Context(), engine.Read{}, 0, kv.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, it := range page.Items {
			got[string(it.Key)] = string(it.Val)
		}
		if !maps.Equal(got, m) {
			t.Fatalf("tree %d leaves %v, want %v", i, got, m)
		}
	}
}

// TestConcurrentCalls runs calls in many goroutines, concurrently with the watchdog and a
// reader of metrics.
func TestConcurrentCalls(t *testing.T) {
	const callers, each = 8, 100
	s := counting(t, openEngine(t))
	ctx, cancel := context.WithCancel(t.Context())
	var watching, calling sync.WaitGroup
	watching.Go(func() {
		for at := time.Unix(0, 0); ctx.Err() == nil; at = at.Add(time.Microsecond) {
			s.Look(at)
			if m := metrics(s); m["proc_running"] > callers || m["proc_errors_total"] > m["proc_calls_total"] {
				t.Errorf("metrics: %v", m)
			}
			time.Sleep(time.Millisecond)
		}
	})
	for g := range callers {
		calling.Go(func() {
			for i := range each {
				key := fmt.Sprintf("key %d %d", g/2, i) // two callers per key
				if _, err := once(t, s, key, "count", "sum", "1"); err != nil {
					t.Error(err)
				}
				if _, err := call(t, s, "seen", "sum"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	calling.Wait()
	cancel()
	watching.Wait()
	want(t, fmt.Sprintf("%q", fmt.Sprint(callers/2*each)))(call(t, s, "reader", "sum"))
	if m := metrics(s); m["proc_calls_total"] != callers*each*2+1 || m["proc_errors_total"] != 0 {
		t.Errorf("metrics: %v", m)
	}
}

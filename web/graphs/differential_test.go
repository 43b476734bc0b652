package graphs_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/tinkerpop"
)

// SKERRY_DIFF_COUNT is how many graphs, SKERRY_DIFF_FIRST the seed of the first, and SKERRY_DIFF_FOR for how long new
// seeds are tried instead of a number.
const (
	diffCountVar = "SKERRY_DIFF_COUNT"
	diffFirstVar = "SKERRY_DIFF_FIRST"
	diffForVar   = "SKERRY_DIFF_FOR"
)

// What is done with each graph.
const (
	readsPerGraph   = 12
	changesPerGraph = 6
)

const (
	wipe = "g.V().drop()"
	dump = "g.union(__.V().project('id','label','properties').by(T.id).by(T.label).by(__.properties().project('k','v','m').by(T.key).by(T.value).by(__.valueMap()).fold())," +
		"__.E().project('id','label','out','in','properties').by(T.id).by(T.label).by(__.outV().id()).by(__.inV().id()).by(__.valueMap()))"
)

// pair is two servers with the same graph.
type pair struct {
	tb           testing.TB
	ours, theirs string // URLs
	failures     int    // texts at which both fail
	texts, late  int
}

// trial is what is done with a graph: it is made, changed, and read or changed once more.
type trial struct {
	graph []string // parts of a text
	prior []chain
	last  chain
	reads bool
}

func number(t *testing.T, name string, or uint64) uint64 {
	s := os.Getenv(name)
	if s == "" {
		return or
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestDifferential: random traversals on random graphs have the same results as on TinkerPop's own server, number
// types included, and change the graph in the same way.
func TestDifferential(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Gremlin Server")
	}
	p := &pair{tb: t, theirs: tinkerpop.Serve(t), ours: strings.Replace(serve(t), "ws://", "http://", 1)}
	first, count := number(t, diffFirstVar, 1), number(t, diffCountVar, 8)
	var end time.Time
	if s := os.Getenv(diffForVar); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatalf("%s: %v", diffForVar, err)
		}
		end, first = time.Now().Add(d), number(t, diffFirstVar, rand.Uint64()>>16)
	}
	t.Logf("%s=%d", diffFirstVar, first)
	seed, found := first, 0
	for ; found < 5 && (end.IsZero() && seed < first+count || time.Now().Before(end)); seed++ {
		if bad, diff := p.round(seed); diff != "" {
			found++
			bad, diff = p.shrink(bad, diff)
			t.Errorf("%s=%d %s=1\n%s", diffFirstVar, seed, diffCountVar, bad.report(diff))
		}
	}
	t.Logf("%d graphs, %d traversals; at %d of them both servers fail, %d came late", seed-first, p.texts, p.failures, p.late)
	if 2*(p.failures+p.late) > p.texts {
		t.Error("too few of the traversals are compared")
	}
}

func (c trial) report(diff string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "graph: %s\n", strings.Join(c.graph, ""))
	for _, x := range c.prior {
		fmt.Fprintf(&b, "then:  g.%v\n", x)
	}
	fmt.Fprintf(&b, "then:  g.%v\n%s", c.last, diff)
	return b.String()
}

// round makes a graph, reads it and changes it. It returns the first trial in which the servers differ, and how.
func (p *pair) round(seed uint64) (trial, string) {
	g := &generator{rnd: rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // not a secret
	c := trial{graph: g.graph(), reads: true}
	if diff := p.prepare(c); diff != "" {
		return c, diff
	}
	for range readsPerGraph {
		c.last = g.traversal()
		if diff, _ := p.compare(c); diff != "" {
			return c, diff
		}
	}
	c.reads = false
	for range changesPerGraph {
		c.last = g.change()
		diff, failed := p.compare(c)
		if diff != "" {
			return c, diff
		}
		if failed { // TinkerGraph has no transactions: it may have changed something
			break
		}
		c.prior = append(slices.Clone(c.prior), c.last)
	}
	return c, ""
}

// both returns the answers to a text.
func (p *pair) both(text string) (ours, theirs answer) {
	return post(p.tb, p.ours, text), post(p.tb, p.theirs, text)
}

// prepare makes the graph of a trial anew.
func (p *pair) prepare(c trial) string {
	texts := []string{wipe, strings.Join(c.graph, "")}
	for _, x := range c.prior {
		texts = append(texts, "g."+x.String())
	}
	for _, text := range texts {
		if ours, theirs := p.both(text); ours.failed != "" || theirs.failed != "" {
			return fmt.Sprintf("ours:   %s\ntheirs: %s", ours.failed, theirs.failed)
		}
	}
	return p.graphs()
}

// graphs compares the graphs of both servers.
func (p *pair) graphs() string {
	ours, theirs := p.both(dump)
	return differ(ours, theirs, false)
}

// compare carries out the last traversal of a trial and returns how the servers differ, and whether both fail.
func (p *pair) compare(c trial) (diff string, failed bool) {
	text := "g." + c.last.String()
	ours, theirs := p.both(text)
	p.texts++
	if ours.late || theirs.late {
		p.late++
		p.tb.Logf("late, ours %v, theirs %v: %s %s", ours.late, theirs.late, strings.Join(c.graph, ""), text)
		return "", true
	}
	if ours.failed != "" && theirs.failed != "" {
		p.failures++
		return "", true
	}
	if differs(theirs) {
		return "", true
	}
	ordered := len(c.last) > 0 && c.last[len(c.last)-1].flags&orders != 0
	diff = differ(ours, theirs, ordered)
	if diff == "" && !c.reads {
		diff = p.graphs()
	}
	return diff, false
}

// allowed are errors of TinkerPop's server that this one need not have. docs/gremlin.md lists them.
var allowed = []string{
	"cannot be cast to class ", // P.within() with numbers of several types, max() of several types, has() of what is no element
	"evaluationTimeout",        // its optimizer does not always end
	"Division by zero!",        // of math(), which has infinity here
	"/ by zero",                // of substring() of an empty string
	"does not support the replacement of local traversals",
}

// differs reports whether an answer is one of those that may be different.
func differs(theirs answer) bool {
	return slices.ContainsFunc(allowed, func(text string) bool { return strings.Contains(theirs.failed, text) })
}

// differ says how two answers differ.
func differ(ours, theirs answer, ordered bool) string {
	a, b := ours.items, theirs.items
	if !ordered {
		a, b = ours.sorted(), theirs.sorted()
	}
	if ours.failed == theirs.failed && slices.Equal(a, b) {
		return ""
	}
	if !ordered && ours.failed == theirs.failed {
		a, b = without(a, b), without(b, a)
		return fmt.Sprintf("only ours:   %s\nonly theirs: %s", show("", a), show("", b))
	}
	return fmt.Sprintf("ours:   %s\ntheirs: %s", show(ours.failed, a), show(theirs.failed, b))
}

// without returns what the first list has more than the second.
func without(a, b []string) []string {
	var out []string
	b = slices.Clone(b)
	for _, x := range a {
		if i := slices.Index(b, x); i >= 0 {
			b = slices.Delete(b, i, i+1)
		} else {
			out = append(out, x)
		}
	}
	return out
}

func show(failed string, items []string) string {
	if failed != "" {
		return "error " + failed
	}
	return fmt.Sprintf("%d: %s", len(items), strings.Join(items, "  "))
}

// shrink removes what it can from a trial as long as the servers differ.
func (p *pair) shrink(c trial, diff string) (trial, string) {
	try := func(d trial) bool {
		if p.prepare(d) != "" {
			return false
		}
		now, _ := p.compare(d)
		if now != "" {
			c, diff = d, now
		}
		return now != ""
	}
	if c.last == nil {
		return c, diff
	}
	for again := true; again; {
		again = false
		for i := len(c.graph) - 1; i > 0; i-- {
			d := c
			d.graph = slices.Delete(slices.Clone(c.graph), i, i+1)
			again = try(d) || again
		}
		for i := range c.prior {
			d := c
			d.prior = slices.Delete(slices.Clone(c.prior), i, i+1)
			if try(d) {
				again = true
				break
			}
		}
		for _, shorter := range c.last.shorter() {
			d := c
			d.last = shorter
			if try(d) {
				again = true
				break
			}
		}
	}
	return c, diff
}

// shorter returns what is left of a traversal without some units, the shortest first.
func (c chain) shorter() []chain {
	var out []chain
	for i := 1; i < len(c); i++ {
		out = append(out, c[:i:i])
	}
	for n := len(c) - 1; n > 0; n-- {
		for i := 0; i+n <= len(c); i++ {
			if c[i].in == c[i+n-1].out {
				out = append(out, slices.Concat(c[:i], c[i+n:]))
			}
		}
	}
	for i, p := range c {
		for j, x := range p.parts {
			for _, shorter := range x.inner.shorter() {
				if len(shorter) == 0 && !x.inline || x.inner[len(x.inner)-1].out != shorter.end(x.inner[0].in) {
					continue
				}
				d := slices.Clone(c)
				d[i].parts = slices.Clone(p.parts)
				d[i].parts[j].inner = shorter
				out = append(out, d)
			}
		}
	}
	return out
}

// end returns the kind of a traversal's results.
func (c chain) end(from byte) byte {
	if len(c) == 0 {
		return from
	}
	return c[len(c)-1].out
}

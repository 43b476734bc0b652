package traversal

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/value"
)

// The steps of the files olap*.go compute something of the whole graph. pageRank,
// peerPressure and connectedComponent are barriers in four stages: they collect the
// traversers, read the graph's edges into arrays (olapread.go), compute one property
// of each vertex, and pass the traversers on. Later steps of the run see the property
// (olapview.go); the graph does not get it. shortestPath reads only what it reaches.

// MaxIterations bounds the option times of pageRank and peerPressure.
const MaxIterations = 10_000

// wholeGraph has the makers of these steps.
func wholeGraph() map[string]maker {
	return map[string]maker{
		"pageRank": makeProgram, "peerPressure": makeProgram, "connectedComponent": makeProgram, "shortestPath": makeShortestPath,
	}
}

// program is a step that computes a property of all vertices.
type program struct {
	name    string
	key     string // of the property
	times   int64
	alpha   float64 // of pageRank
	edges   hops
	compute func(c *computation) (func(vertex uint32) any, error)
}

func makeProgram(b *builder, c *callInfo) (kernel, traits, error) {
	p := &program{name: c.Name, edges: hops{dir: graph.Out}}
	most := 0
	switch c.Name {
	case "pageRank":
		p.key, p.times, p.alpha, p.compute = "gremlin.pageRankVertexProgram.pageRank", 20, 0.85, pageRank
		most = 1
	case "peerPressure":
		p.key, p.times, p.compute = "gremlin.peerPressureVertexProgram.cluster", 30, peerPressure
	case "connectedComponent":
		p.key, p.compute = "gremlin.connectedComponentVertexProgram.component", connectedComponent
		p.edges.dir = graph.Both
	}
	err := c.arity(0, most)
	if err == nil && len(c.Args) == 1 {
		var ok bool
		if p.alpha, ok = value.Float(c.Args[0]); !ok || !(p.alpha >= 0 && p.alpha <= 1) {
			err = fmt.Errorf("its damping factor is a number from 0 to 1, not %s", value.Describe(c.Args[0]))
		}
	}
	if err == nil {
		err = b.mainOnly()
	}
	if err == nil {
		err = c.eachOption(func(name string, v any) error { return p.option(b, name, v) })
	}
	return p, traits{barrier: true}, err
}

// mainOnly refuses a step in a traversal within another one, which would run it again
// for each traverser.
func (b *builder) mainOnly() error {
	if b.depth > 1 {
		return errNested
	}
	return nil
}

var errNested = errors.New("it cannot be part of a traversal within another one")

// eachOption calls set with the options that follow the step. Those of with have
// names that begin with the step's; by gives the name of the property or the edges.
func (c *callInfo) eachOption(set func(name string, v any) error) error {
	for i := range c.mods {
		mod := &callInfo{Call: c.mods[i]}
		name := "propertyName"
		var v any = true
		switch {
		case mod.Name == "with":
			if err := mod.arity(1, 2); err != nil {
				return err
			}
			full, _ := mod.Args[0].(string)
			var ok bool
			if name, ok = strings.CutPrefix(full, "~tinkerpop."+c.Name+"."); !ok {
				return unknownOption(mod.Args[0])
			}
			if len(mod.Args) == 2 {
				v = mod.Args[1]
			}
		case len(mod.Args) != 1:
			return mod.arity(1, 1)
		default:
			v = mod.Args[0]
			if _, ok := v.(*gremlin.Traversal); ok {
				name = "edges"
			}
		}
		if err := set(name, v); err != nil {
			return err
		}
	}
	return nil
}

func unknownOption(name any) error { return fmt.Errorf("it has no option %s", value.Text(name)) }

func wrongOption(name, want string, got any) error {
	return fmt.Errorf("the option %s must be %s, not %s", name, want, describe(got))
}

func (p *program) option(b *builder, name string, v any) (err error) {
	switch {
	case name == "propertyName":
		key, ok := v.(string)
		if !ok || key == "" {
			return wrongOption(name, "the key of a property", v)
		}
		p.key = key
	case name == "edges":
		p.edges, err = b.hops(v)
	case name == "times" && p.name != "connectedComponent":
		n, ok := value.Int(v)
		if !ok || n < 0 || n > MaxIterations {
			return fmt.Errorf("the option times is from 0 to %d (MaxIterations), not %s", MaxIterations, value.Text(v))
		}
		p.times = n
	default:
		return unknownOption(name)
	}
	return err
}

// childOption makes a plan of an option that is a traversal, which must not write.
func (b *builder) childOption(name string, v any) (*plan, error) {
	if _, ok := v.(*gremlin.Traversal); !ok {
		return nil, wrongOption(name, "a traversal", v)
	}
	before := b.writes
	b.writes = ""
	p, err := b.child(v)
	if err == nil && b.writes != "" {
		err = fmt.Errorf("the traversal of the option %s must not write, but has %s()", name, b.writes)
	}
	b.writes = before
	return p, err
}

func (p *program) open(r *run, next sink) sink { return &programming{r: r, p: p, next: next} }

// programming is an open program.
type programming struct {
	r    *run
	p    *program
	all  []traverser
	at   index
	next sink
}

func (s *programming) push(t traverser) error {
	if _, err := s.r.vertexOf(t.val); err != nil {
		return err
	}
	joined, err := s.at.join(s.r, &s.all, t)
	if err != nil || joined {
		return err
	}
	return s.r.hold(1)
}

func (s *programming) flush() error {
	all := s.all
	s.all, s.at = nil, index{}
	if len(all) > 0 {
		if err := s.compute(all); err != nil {
			return err
		}
	}
	if err := pushAll(s.next, all); err != nil {
		return err
	}
	s.r.release(len(all))
	return s.next.flush()
}

func (s *programming) compute(all []traverser) error {
	place, uniform := s.r.place(s.p)
	if place < 0 {
		return errNested
	}
	c := &computation{
		p: s.p, r: s.r, pulse: pulse{ctx: s.r.ctx},
		kept: ledger{r: s.r}, work: ledger{r: s.r},
	}
	if err := c.number(s.p.name != "pageRank"); err != nil {
		return err
	}
	if !uniform && s.p.name != "connectedComponent" {
		if err := c.weigh(all); err != nil {
			return err
		}
	}
	val, err := s.p.compute(c)
	if err != nil {
		return err
	}
	c.work.release()
	s.r.overlay(&layer{key: s.p.key, at: c.vertices, val: val})
	return nil
}

// place returns where in the main traversal a step is; -1: it is not there. whole
// reports whether nothing but V() and steps like it are before it. TinkerPop then
// runs it before V(), so that it has no traversers to weigh vertices by.
func (r *run) place(k kernel) (at int, whole bool) {
	whole = true
	for i, s := range r.plan.main.steps {
		if s.kernel == k {
			return i, whole
		}
		e, isV := s.kernel.(*elements)
		_, isProgram := s.kernel.(*program)
		whole = whole && (isProgram || i == 0 && isV && !e.edges)
	}
	return -1, false
}

// computation is one run of a program.
type computation struct {
	p        *program
	r        *run
	vertices *numbering
	weights  []float64 // by vertex: how many traversers are there; nil: each counts the same
	kept     ledger    // of what stays until the run ends
	work     ledger    // of what the computation alone needs
	pulse
}

// weigh counts the traversers at each vertex.
func (c *computation) weigh(all []traverser) error {
	if err := c.work.take(8 * c.vertices.count); err != nil {
		return err
	}
	c.weights = make([]float64, c.vertices.count)
	for _, t := range all {
		v, err := c.r.vertexOf(t.val)
		if err != nil {
			return err
		}
		if err := c.beat(8); err != nil {
			return err
		}
		if v == nil {
			continue
		}
		if i, ok := c.vertices.of(v.Number()); ok {
			c.weights[i] += float64(t.bulk)
		}
	}
	return nil
}

func (r *run) progressed(step string, done, total int64) {
	if r.progress != nil {
		r.progress(step, done, total)
	}
}

// pulse looks at the context once in a while.
type pulse struct {
	ctx  context.Context
	work int
}

// pulseWork is how many steps of a loop, each a few memory accesses, are done between
// two looks: some milliseconds.
const pulseWork = 1 << 17

// beat is called after n steps of a loop. It returns an error once the context has
// ended.
func (p *pulse) beat(n int) error {
	if p.work += n; p.work < pulseWork {
		return nil
	}
	p.work = 0
	return p.ctx.Err()
}

// heldBytes is how many bytes of arrays count as one value that is held.
const heldBytes = 64

// ledger counts the bytes of arrays among the values that a run holds. MaxHeld thus
// keeps the entries of all arrays below 1<<32.
type ledger struct {
	r    *run
	held int
}

func (l *ledger) take(bytes int) error {
	n := int(min(int64(bytes)/heldBytes+1, math.MaxInt32))
	l.held += n
	return l.r.hold(n)
}

func (l *ledger) release() {
	l.r.release(l.held)
	l.held = 0
}

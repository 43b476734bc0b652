package traversal

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/graph/value"
)

// profile measures the steps of a run, those of children with the steps that they
// belong to.
type profile struct {
	steps map[*step]*measured
}

// measured is what a step has done: its time without that of the steps after it.
type measured struct {
	nanos      int64
	traversers int64
	elements   int64
}

func newProfile() *profile { return &profile{steps: map[*step]*measured{}} }

// around puts sinks before and after a step's, which measure it.
func (p *profile) around(s *step, next sink, open func(next sink) sink) sink {
	m := p.steps[s]
	if m == nil {
		m = &measured{}
		p.steps[s] = m
	}
	return &before{m, open(&after{m, next})}
}

type before struct {
	m    *measured
	next sink
}

func (b *before) push(t traverser) error {
	start := time.Now()
	err := b.next.push(t)
	b.m.nanos += time.Since(start).Nanoseconds()
	return err
}

func (b *before) flush() error {
	start := time.Now()
	err := b.next.flush()
	b.m.nanos += time.Since(start).Nanoseconds()
	return err
}

type after struct {
	m    *measured
	next sink
}

func (a *after) push(t traverser) error {
	a.m.traversers++
	a.m.elements += t.bulk
	start := time.Now()
	err := a.next.push(t)
	a.m.nanos -= time.Since(start).Nanoseconds()
	return err
}

func (a *after) flush() error {
	start := time.Now()
	err := a.next.flush()
	a.m.nanos -= time.Since(start).Nanoseconds()
	return err
}

// metrics returns what was measured of a plan's steps.
func (p *profile) metrics(main *plan) *value.TraversalMetrics {
	out := &value.TraversalMetrics{}
	for i, s := range main.steps {
		m := p.steps[s]
		if m == nil {
			m = &measured{}
		}
		out.Nanos += m.nanos
		out.Steps = append(out.Steps, &value.Metrics{
			ID: strconv.Itoa(i) + ".0.0()", Name: s.text(), Nanos: m.nanos,
			Counts:      value.MapOf("traverserCount", m.traversers, "elementCount", m.elements),
			Annotations: &value.Map{},
		})
	}
	for _, s := range out.Steps {
		if out.Nanos > 0 {
			s.Annotations.Set("percentDur", float64(s.Nanos)*100/float64(out.Nanos))
		}
	}
	return out
}

// text returns the step as it was written.
func (s *step) text() string { return s.call.Call.String() }

// Explain returns the steps of a plan as they will be carried out, one a line.
func (p *Plan) Explain() string {
	var b strings.Builder
	for _, s := range p.main.steps {
		b.WriteString(s.text())
		if e, ok := s.kernel.(*elements); ok {
			switch {
			case e.byID:
				b.WriteString("  by id")
			case len(e.tests) > 0:
				b.WriteString("  by an index, if there is one for the tests that follow")
			default:
				b.WriteString("  all")
			}
		}
		b.WriteByte('\n')
	}
	paths := map[pathUse]string{noPaths: "no history", labelledPaths: "the labelled part of their history", fullPaths: "their whole history"}
	fmt.Fprintf(&b, "Traversers keep %s.\n", paths[p.source.paths])
	return b.String()
}

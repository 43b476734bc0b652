package top

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry/cli/verb"
)

// Options say what Watch and Once read.
type Options struct {
	Sources []Source
	Every   time.Duration    // between two reads of a server
	Now     func() time.Time // nil: time.Now
	ASCII   bool             // the terminal shows no other characters
}

// patience is how long a server may take to respond.
const patience = 5 * time.Second

// monitor is what has been read so far. One goroutine owns it; those that ask servers send it their answers.
type monitor struct {
	Options
	nodes   []*Node
	asked   []bool // an answer of the node is to come
	answers chan answer
	paused  bool
	chosen  int
}

func newMonitor(o Options) *monitor {
	if o.Now == nil {
		o.Now = time.Now
	}
	m := &monitor{Options: o, asked: make([]bool, len(o.Sources)), answers: make(chan answer, len(o.Sources))}
	for _, s := range o.Sources {
		m.nodes = append(m.nodes, &Node{Name: Clean(s.Name), Role: "…", Wrong: []string{}})
	}
	return m
}

// ask asks every server that does not owe an answer.
func (m *monitor) ask(ctx context.Context) {
	for i, s := range m.Sources {
		if m.asked[i] {
			continue
		}
		m.asked[i] = true
		go func() {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			m.answers <- s.ask(ctx, i, m.Now) // which has room for one of each
		}()
	}
}

// take takes one answer. It is an error if every server refuses the password.
func (m *monitor) take(a answer) error {
	m.asked[a.node] = false
	m.nodes[a.node].take(a)
	if slices.ContainsFunc(m.nodes, func(n *Node) bool { return n.refused == nil }) {
		return nil
	}
	return m.nodes[a.node].refused
}

// round asks every server and takes all answers.
func (m *monitor) round(ctx context.Context) error {
	m.ask(ctx)
	for slices.Contains(m.asked, true) {
		select {
		case a := <-m.answers:
			if err := m.take(a); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (m *monitor) view() view {
	nodes := all(m.nodes)
	m.chosen = min(m.chosen, len(nodes)-1)
	return view{nodes: nodes, chosen: m.chosen, paused: m.paused, every: m.Every, now: m.Now(), ascii: m.ASCII}
}

// wait is how long Once waits between two reads, for rates.
const wait = time.Second

// Once reads every server twice, so that there are rates, and prints them as text or JSON. It fails if no server responds.
func Once(ctx context.Context, o Options, w io.Writer, asJSON bool) error {
	m := newMonitor(o)
	if err := m.round(ctx); err != nil {
		return err
	}
	select {
	case <-time.After(min(wait, o.Every)):
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := m.round(ctx); err != nil {
		return err
	}
	v := m.view()
	if err := v.print(w, asJSON); err != nil {
		return err
	}
	if !slices.ContainsFunc(m.nodes, func(n *Node) bool { return n.Down == nil }) {
		return fmt.Errorf("no server responds: %s", m.nodes[0].Error)
	}
	return nil
}

// print prints what the screen shows, without histories.
func (v *view) print(w io.Writer, asJSON bool) error {
	if asJSON {
		return verb.PrintJSON(w, struct {
			At    time.Time `json:"at"`
			Nodes []*Node   `json:"nodes"`
		}{v.now, v.nodes})
	}
	const wide = 1 << 16
	v.chosen = -1
	lines := append([]line{{{v.now.UTC().Format(time.RFC3339), plain}}}, v.list(wide)...)
	lines = append(append(lines, nil), v.wrong()...)
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.String() + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

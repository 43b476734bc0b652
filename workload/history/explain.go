package history

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/anishathalye/porcupine"
)

// Bounds of the printed text.
const (
	maxText  = 60  // bytes of one key or value
	maxShown = 400 // bytes of one list or state
	maxLines = 30  // operations of an explanation
)

// explain finds the first operation that no order explains, removes the reads that do not
// matter, and describes the rest. It returns the search for the rest.
func (s *search) explain(ctx context.Context, memory int64) (*search, string) {
	ends := make([]int64, 0, len(s.calls))
	for _, c := range s.calls {
		if c.end < s.mark {
			ends = append(ends, c.end)
		}
	}
	slices.Sort(ends)
	ends = slices.Compact(ends)
	n := sort.Search(len(ends), func(i int) bool {
		return s.until(ends[i]).run(ctx, memory) == Violation
	})
	if n == len(ends) { // out of time
		return s, fmt.Sprintf("no order explains the %d operations on %s\n", len(s.calls), keyList(s.keys))
	}
	cut := s.until(ends[n]).shrink(ctx, memory, ends[n])
	return cut, cut.report(ctx, memory, ends[n])
}

// until returns the search as of a time: later calls are removed, and calls that have not
// returned are unknown.
func (s *search) until(t int64) *search {
	cut := &search{model: &model{values: s.values, keys: s.keys, classes: s.classes, byPos: s.byPos}, mark: s.mark}
	for _, c := range s.calls {
		if c.begin > t || c.end > t && c.readOnly {
			continue
		}
		if c.end > t {
			later := *c
			later.unknown, later.end = true, s.mark+1
			c = &later
		}
		cut.calls = append(cut.calls, c)
	}
	return cut
}

// shrink removes every read that is not needed for the violation. The result is still a
// violation.
func (s *search) shrink(ctx context.Context, memory int64, t int64) *search {
	without := func(from *search, drop func(i int, c *call) bool) *search {
		next := *from
		m := *from.model
		next.model, next.calls = &m, nil
		for i, c := range from.calls {
			if !c.readOnly || c.end == t || !drop(i, c) {
				next.calls = append(next.calls, c)
			}
		}
		return &next
	}
	best := s
	for step := len(s.calls); step >= 1; step /= 2 {
		for from := 0; from < len(best.calls); from += step {
			next := without(best, func(i int, _ *call) bool { return i >= from && i < from+step })
			if len(next.calls) < len(best.calls) && next.run(ctx, memory) == Violation {
				best = next
			}
		}
		if step > 1 && len(s.calls)/step > maxTries {
			break
		}
	}
	return best
}

// maxTries bounds how finely shrink divides.
const maxTries = 256

func (s *search) report(ctx context.Context, memory int64, t int64) string {
	var b strings.Builder
	clock := "time"
	if s.byPos {
		clock = "position"
	}
	b.WriteString("no order of the operations explains this result:\n")
	rest := *s
	m := *s.model
	rest.model, rest.calls = &m, nil
	for _, c := range s.calls {
		if c.end == t {
			b.WriteString(c.op.describe() + "\n")
		} else {
			rest.calls = append(rest.calls, c)
		}
	}
	if state, ok := rest.example(ctx, memory); ok {
		fmt.Fprintf(&b, "the others can be explained; by then there could be, for example:\n  %s\n", state)
	}
	if s.byPos {
		b.WriteString("it has to show the state at exactly its position\n")
	}
	fmt.Fprintf(&b, "what matters, of %s, in the order of calls:\n", keyList(s.keys))
	lines := rest.calls
	if len(lines) > maxLines {
		fmt.Fprintf(&b, "  (%d earlier ones)\n", len(lines)-maxLines)
		lines = lines[len(lines)-maxLines:]
	}
	for _, c := range lines {
		b.WriteString(c.op.describe())
		if c.unknown && c.op.Outcome == OK {
			b.WriteString(" (at work at that " + clock + ")")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// example returns a state to which an order of all calls leads, before the remaining
// unknown calls are dropped.
func (s *search) example(ctx context.Context, memory int64) (string, bool) {
	if len(s.calls) == 0 {
		return s.describe(state{vec: string(make([]byte, 4*s.slots()))}), true
	}
	if len(s.calls) > MaxPictureOperations {
		return "", false
	}
	s.start(ctx, memory)
	pm := s.porcupine()
	result, info := porcupine.CheckOperationsVerbose(pm, s.operations(), 0)
	if result != porcupine.Ok {
		return "", false
	}
	at := pm.Init()
	for _, op := range info.PartialLinearizationsOperations()[0][0] {
		_, at = s.advance(pm, at, op)
	}
	return s.describe(at.(state)), true
}

func (s *search) advance(pm porcupine.Model, at any, op porcupine.Operation) (bool, any) {
	s.start(context.Background(), DefaultMaxSearchBytes)
	return pm.Step(at, op.Input, nil)
}

// describe returns an operation on one line, indented.
func (o *Op) describe() string {
	var steps []string
	for _, s := range o.all() {
		steps = append(steps, s.describe(o.Outcome))
	}
	text := strings.Join(steps, "; ")
	if o.Kind == Txn {
		text = "txn { " + text + " }"
	}
	b := fmt.Sprintf("  client %d: %s", o.Client, text)
	if o.weak() {
		b += ", " + string(o.Level)
	}
	if o.Asked > 0 {
		b += fmt.Sprintf(", asked for position %d", o.Asked)
	}
	if o.Pos > 0 {
		b += fmt.Sprintf(", position %d", o.Pos)
	}
	if o.Outcome == Unknown {
		return b + fmt.Sprintf(", called at %d, outcome unknown", o.Call)
	}
	return b + fmt.Sprintf(", called at %d, returned at %d", o.Call, o.Return)
}

// describe returns the text of an operation in the picture.
func (c *call) describe() string {
	if c.last {
		return "pending operations never took effect"
	}
	return strings.TrimSpace(c.op.describe())
}

func (s *Step) describe(out Outcome) string {
	text := string(s.Kind) + " "
	switch s.Kind {
	case MGet:
		text += shortList(s.Keys)
	case MSet:
		text += shortPairs(s.Pairs)
	case Scan:
		text += short(s.Prefix) + "*"
		if s.Limit > 0 {
			text += fmt.Sprintf(" limit %d", s.Limit)
		}
	case Transfer:
		text += fmt.Sprintf("%d from %s to %s", s.Delta, short(s.Key), short(s.To))
	case CAS:
		text += fmt.Sprintf("%s from %s to %s", short(s.Key), s.Expect.short(), s.Value.short())
	case Set, Append, SetAdd:
		text += short(s.Key) + " " + s.Value.short()
	case Add:
		text += fmt.Sprintf("%s %d", short(s.Key), s.Delta)
	default:
		text += short(s.Key)
	}
	if out != OK {
		return text
	}
	return text + s.shownResult()
}

func (s *Step) shownResult() string {
	switch r := s.result().(type) {
	case nil:
		return ""
	case Value:
		return " -> " + r.short()
	case bool:
		return fmt.Sprintf(" -> %t", r)
	case int64:
		return fmt.Sprintf(" -> %d", r)
	case []string:
		return " -> [" + shortList(r) + "]"
	case []Value:
		var texts []string
		for _, v := range r {
			texts = append(texts, v.short())
		}
		return " -> " + cutTo(strings.Join(texts, " "), maxShown)
	}
	return " -> [" + shortPairs(s.Pairs) + "]"
}

func (v Value) short() string {
	if !v.Present {
		return "nothing"
	}
	return short(v.Text)
}

// short shortens a text and quotes it.
func short(text string) string { return strconv.Quote(cutTo(text, maxText)) }

func cutTo(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}

func shortList(texts []string) string { return join(texts, short) }

func shortPairs(pairs []Pair) string {
	return join(pairs, func(p Pair) string { return short(p.Key) + "=" + p.Value.short() })
}

func join[E any](list []E, text func(E) string) string {
	var b strings.Builder
	for i, e := range list {
		if b.Len() > maxShown {
			return b.String() + fmt.Sprintf(" and %d more", len(list)-i)
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(text(e))
	}
	return b.String()
}

func keyList(keys []string) string {
	if len(keys) == 1 {
		return "key " + short(keys[0])
	}
	return "keys " + shortList(keys)
}

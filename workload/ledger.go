package workload

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/skerrydb/skerry/engine"
)

// Outcome is the known outcome of one tried item.
type Outcome uint8

// Outcomes. Maybe is also that of an item whose call has not returned.
const (
	Maybe  Outcome = iota // it may be there, once
	Acked                 // it must be there, once
	Failed                // it must not be there
)

// String returns the word used in reports.
func (o Outcome) String() string { return [...]string{"maybe", "acknowledged", "refused"}[o] }

// Item identifies one write of a workload: an element, an appended entry or an addition.
// Kind is the workload's letter, Key the list or counter, Writer the writer, and Seq the
// number of the item among those of its writer.
type Item struct {
	Kind             byte
	Key, Writer, Seq uint64
}

// String returns the item's form in a ledger's log.
func (i Item) String() string {
	return fmt.Sprintf("%c %d %d %d", i.Kind, i.Key, i.Writer, i.Seq)
}

// record is a ledger's record of an item. Ticks order all events of one ledger: an item
// with began > ended of another was tried after the other had returned.
type record struct {
	outcome      Outcome
	pos          engine.Position // of the commit; 0: unknown
	began, ended int64           // ticks; ended is 0 until the call has returned
}

// Ledger records tried items and their outcomes. With a writer it also writes each event
// as a line, so that a test can kill the process and still check, with Replay, which
// items had been acknowledged:
//
//	wipe KIND                        everything of this kind was removed
//	try KIND KEY WRITER SEQ          written before the call begins
//	ack KIND KEY WRITER SEQ POS      written after it returned; POS 0: unknown
//	not KIND KEY WRITER SEQ          it returned an error that means "not written"
//
// A try without ack or not is a Maybe. All methods are safe for concurrent use.
type Ledger struct {
	mu    sync.Mutex // guards the fields below, and the order of lines
	w     io.Writer
	items map[Item]record
	tick  int64
	ids   uint64
}

// NewLedger returns an empty ledger that writes to w, or nowhere if w is nil. Ledgers
// whose events Replay combines need different epochs.
func NewLedger(epoch uint32, w io.Writer) *Ledger {
	return &Ledger{w: w, items: map[Item]record{}, ids: uint64(epoch) << 32}
}

// Replay adds the events of another ledger's log. It ignores an incomplete last line, as
// a killed process leaves it.
func (l *Ledger) Replay(r io.Reader) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := in.ReadString('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read ledger: %w", err)
		}
		if err := l.replayLine(strings.TrimSuffix(line, "\n")); err != nil {
			return fmt.Errorf("read ledger: line %d %q: %w", n, line, err)
		}
	}
}

func (l *Ledger) replayLine(line string) error {
	var it Item
	var pos engine.Position
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "wipe":
		if len(rest) != 1 {
			return engine.Errorf(engine.CodeInvalid, "not a kind")
		}
		l.forgetLocked(rest[0])
		return nil
	case "ack":
		if _, err := fmt.Sscanf(rest, "%c %d %d %d %d", &it.Kind, &it.Key, &it.Writer, &it.Seq, &pos); err != nil {
			return err
		}
		l.endLocked(it, Acked, pos)
		return nil
	case "try", "not":
		if _, err := fmt.Sscanf(rest, "%c %d %d %d", &it.Kind, &it.Key, &it.Writer, &it.Seq); err != nil {
			return err
		}
		if verb == "not" {
			l.endLocked(it, Failed, 0)
			return nil
		}
		return l.beginLocked(it)
	}
	return engine.Errorf(engine.CodeInvalid, "not an event")
}

// Counts returns how many items have each outcome.
func (l *Ledger) Counts() (acked, maybe, failed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.items {
		switch r.outcome {
		case Acked:
			acked++
		case Maybe:
			maybe++
		case Failed:
			failed++
		}
	}
	return acked, maybe, failed
}

// nextID returns a number that no other call, in this epoch or another, returns.
func (l *Ledger) nextID() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids++
	return l.ids
}

// wipe forgets the items of one kind.
func (l *Ledger) wipe(kind byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgetLocked(kind)
	return l.writeLocked("wipe %c\n", kind)
}

// begin records that an item is about to be tried. If it returns an error, the call must
// not be made.
func (l *Ledger) begin(it Item) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.beginLocked(it); err != nil {
		return err
	}
	return l.writeLocked("try %v\n", it)
}

// end records the outcome of an item.
func (l *Ledger) end(it Item, pos engine.Position, result error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := outcomeOf(result)
	if o != Acked {
		pos = 0 // with an error there is no position
	}
	l.endLocked(it, o, pos)
	switch o {
	case Acked:
		return l.writeLocked("ack %v %d\n", it, pos)
	case Failed:
		return l.writeLocked("not %v\n", it)
	}
	return nil
}

// of returns a copy of the records of one kind.
func (l *Ledger) of(kind byte) map[Item]record {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[Item]record)
	for it, r := range l.items {
		if it.Kind == kind {
			out[it] = r
		}
	}
	return out
}

func (l *Ledger) forgetLocked(kind byte) {
	for it := range l.items {
		if it.Kind == kind {
			delete(l.items, it)
		}
	}
}

func (l *Ledger) beginLocked(it Item) error {
	if _, dup := l.items[it]; dup {
		return engine.Errorf(engine.CodeInvalid, "item %v appears twice: two ledgers have the same epoch", it)
	}
	l.tick++
	l.items[it] = record{outcome: Maybe, began: l.tick}
	return nil
}

func (l *Ledger) endLocked(it Item, o Outcome, pos engine.Position) {
	l.tick++
	r := l.items[it]
	r.outcome, r.pos, r.ended = o, pos, l.tick
	l.items[it] = r
}

func (l *Ledger) writeLocked(format string, args ...any) error {
	if l.w == nil {
		return nil
	}
	if _, err := fmt.Fprintf(l.w, format, args...); err != nil {
		return fmt.Errorf("write ledger: %w", err)
	}
	return nil
}

// inOrder checks that the list, which is in commit order, agrees with real time: no item
// is before one whose call had returned before its own began.
func inOrder(name string, list []Item, known map[Item]record) error {
	var first Item
	var ended int64 // earliest end of the items after the current one
	for _, it := range slices.Backward(list) {
		r := known[it]
		if ended != 0 && r.began > ended {
			return violation(name, "[%v] began after [%v] was acknowledged, but was committed before it", it, first)
		}
		if r.outcome == Acked && (ended == 0 || r.ended < ended) {
			ended, first = r.ended, it
		}
	}
	return nil
}

// positionsInOrder checks that acknowledged items have unique positions that agree with
// real time. It ignores items whose position is unknown.
func positionsInOrder(name string, known map[Item]record) error {
	var list []Item
	for it, r := range known {
		if r.outcome == Acked && r.pos != 0 {
			list = append(list, it)
		}
	}
	slices.SortFunc(list, func(a, b Item) int {
		return cmp.Compare(known[a].pos, known[b].pos)
	})
	for i := 1; i < len(list); i++ {
		if known[list[i]].pos == known[list[i-1]].pos {
			return violation(name, "[%v] and [%v] were committed at the same position %d", list[i-1], list[i], known[list[i]].pos)
		}
	}
	return inOrder(name, list, known)
}

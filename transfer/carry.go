package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// A Carry moves to a target without transactions over all keys, where data is stored in another way. It goes through
// these stages:
//
//  1. Survey: all of the source's keys are looked at. What the target cannot carry is refused.
//  2. Join: the target gets the state, as the value of engine.FenceKey. Servers refuse such a target.
//  3. Fence: the source takes no writes, until the move ends or is abandoned. Then the survey is made again.
//  4. Load: each Cargo writes its data. The state says how far it is.
//  5. Compare: each Cargo reads all of it back.
//  6. Open: the state is deleted.
//
// Nothing stops an overtaken process in the middle of a write, since the target has no fence. So what a Cargo
// writes must be harmless at any later time: it never replaces what is newer.

// Reader yields the pairs of a source with lo <= key < hi, in order. A nil hi means no upper bound.
type Reader func(ctx context.Context, lo, hi []byte) iter.Seq2[engine.Pair, error]

// Cargo is data of a source that a target can carry. Its methods may be called again for data that was written before.
type Cargo interface {
	// Check refuses what the target cannot hold. It writes nothing.
	Check(ctx context.Context, in Reader) error

	// Load writes the data, from a cursor that was saved before; nil is the beginning. It calls save now and then: with a
	// cursor before which everything is written, and how much that was since the last call.
	Load(ctx context.Context, in Reader, from []byte, save func(cursor []byte, did Tally) error) error

	// Compare reads from the target what Load has written, and returns an error if it is not what the source has.
	Compare(ctx context.Context, in Reader, report func(did Tally)) error
}

// Tally counts what was written or compared.
type Tally struct {
	Items int64 // pairs, or samples
	Bytes int64
}

// Fate says what becomes of a Region.
type Fate int

// Fates.
const (
	Refused Fate = iota // the target cannot carry it: it is refused, or left behind if Options say so
	Carried             // by the Region's Cargo
	Left                // it is left behind, which is reported
	Derived             // it is left behind: the target needs none of it
)

// Region is a range of a source's keys. Several may have one name.
type Region struct {
	Name   string // of the data, as in CarryOptions.Leave
	Lo, Hi []byte // a nil Hi is no upper bound
	Fate   Fate
	Cargo  Cargo // of a region that is carried
}

// CarryOptions configure a Carry.
type CarryOptions struct {
	Options // without Needs

	// Regions has all keys from {1} on, in order and without gaps.
	Regions []Region

	// Leave names data that is left behind. OutsideName is the name of data that is in no key.
	Leave       []string
	OutsideName string

	// Notice is called with what is left behind, before anything is written; nil: not.
	Notice func(text string)
}

// CarryResult describes a completed Carry.
type CarryResult struct {
	Move   string           `json:"move"`
	Items  map[string]int64 `json:"items"` // that were compared, by the names of regions
	Left   map[string]int64 `json:"left"`  // keys that were left behind, by the names of regions
	From   engine.Position  `json:"source_position"`
	Paused time.Duration    `json:"paused_ns"`
}

// Carry moves what a target can carry that lacks transactions over all keys. The source refuses writes from the
// beginning of the copy on, also after an error, until Carry has succeeded or Abandon is called. It can be run again
// after an error, and continues.
func Carry(ctx context.Context, from Source, to engine.Engine, o CarryOptions) (CarryResult, error) {
	c := &carrier{mover: mover{src: patient{from}, dst: to, o: o.Options, p: to.Promises()}, o: o}
	c.o.Regions = slices.Clone(o.Regions)
	for i := range c.o.Regions {
		if r := &c.o.Regions[i]; r.Fate == Carried && slices.Contains(o.Leave, r.Name) {
			r.Fate = Left
		}
	}
	about, err := c.checkCarry(ctx)
	if err != nil {
		return CarryResult{}, err
	}
	if err := c.survey(ctx, about); err != nil {
		return CarryResult{}, err
	}
	if err := c.checkCargo(ctx); err != nil {
		return CarryResult{}, err
	}
	c.notice()
	if err := c.joinCarry(ctx, about); err != nil {
		return CarryResult{}, err
	}
	began := time.Now()
	at, err := c.stop(ctx)
	if err == nil {
		err = c.finish(ctx, at)
	}
	switch {
	case err != nil && c.st.Position == 0:
		return CarryResult{}, err
	case err != nil:
		return CarryResult{}, fmt.Errorf("the source refuses writes until this move is run again, or abandoned: %w", err)
	}
	c.done.Move, c.done.From, c.done.Paused = c.st.Move, c.st.Position, time.Since(began)
	c.report(Done, 0, 0)
	return c.done, nil
}

// carrier is a Carry that runs.
type carrier struct {
	mover
	o    CarryOptions
	done CarryResult
	at   engine.Position // that reads of the source include
}

// carrySource is what a Carry needs of its source.
var carrySource = engine.Promises{Atomic: engine.AllKeys, Ordered: true, Snapshot: true, Clock: true, Positions: true, Fence: true}

// checkCarry refuses what cannot be moved.
func (c *carrier) checkCarry(ctx context.Context) (About, error) {
	about, err := c.src.About(ctx)
	if err != nil {
		return about, fmt.Errorf("read the source: %w", err)
	}
	if err := about.Promises.Meets("the source of a move", carrySource); err != nil {
		return about, err
	}
	if about.Foreign != nil {
		return about, foreign(about.Foreign)
	}
	if _, ok := c.dst.(engine.Emptier); !ok {
		return about, engine.Errorf(engine.CodeUnsupported, "the target of a move cannot say whether it has data")
	}
	c.total = int64(about.Pairs)
	return about, c.checkClock(ctx, about)
}

// survey counts the keys of all regions, and refuses those that the target cannot carry.
func (c *carrier) survey(ctx context.Context, about About) error {
	c.done.Left = map[string]int64{}
	refused := map[string]int64{}
	count := func(name string, fate Fate, n int64) {
		switch {
		case n == 0:
		case fate == Refused && !slices.Contains(c.o.Leave, name):
			refused[name] += n
		case fate == Refused, fate == Left:
			c.done.Left[name] += n
		}
	}
	for _, r := range c.o.Regions {
		if r.Fate == Carried || r.Fate == Derived {
			continue
		}
		n := int64(0)
		for _, err := range c.read(ctx, r.Lo, r.Hi) {
			if err != nil {
				return err
			}
			n++
		}
		count(r.Name, r.Fate, n)
	}
	if about.Outside != "" {
		count(c.o.OutsideName, Refused, 1)
	}
	if len(refused) == 0 {
		return nil
	}
	return engine.Errorf(engine.CodeUnsupported, "the target cannot carry %s of the source; `--leave %s` leaves that behind", counted(refused), strings.Join(sortedKeys(refused), ","))
}

// checkCargo refuses what is too long for the target, before anything is written.
func (c *carrier) checkCargo(ctx context.Context) error {
	for _, r := range c.o.Regions {
		if r.Fate != Carried {
			continue
		}
		if err := r.Cargo.Check(ctx, c.read); err != nil {
			return err
		}
	}
	return nil
}

// notice reports what is left behind.
func (c *carrier) notice() {
	if len(c.done.Left) > 0 && c.o.Notice != nil {
		c.o.Notice("left behind: " + counted(c.done.Left))
	}
}

func sortedKeys(m map[string]int64) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// counted returns names with how many keys each has.
func counted(m map[string]int64) string {
	var parts []string
	for _, name := range sortedKeys(m) {
		unit := "keys"
		if m[name] == 1 {
			unit = "key"
		}
		parts = append(parts, fmt.Sprintf("%s (%d %s)", name, m[name], unit))
	}
	return strings.Join(parts, ", ")
}

// read implements Reader.
func (c *carrier) read(ctx context.Context, lo, hi []byte) iter.Seq2[engine.Pair, error] {
	return func(yield func(engine.Pair, error) bool) {
		for at := lo; at != nil; {
			r, err := c.src.Range(ctx, at, hi, c.at)
			if err != nil {
				yield(engine.Pair{}, fmt.Errorf("read the source: %w", err))
				return
			}
			for _, p := range r.Pairs {
				if !yield(p, nil) {
					return
				}
			}
			at = r.Hi
		}
	}
}

// joinCarry begins a move, in a target that is empty, or continues one.
func (c *carrier) joinCarry(ctx context.Context, about About) error {
	var has bool
	if _, err := c.dst.View(ctx, engine.Read{}, func(tx engine.Tx) (err error) {
		_, has, err = readState(tx)
		return err
	}); err != nil {
		return fmt.Errorf("read the target: %w", err)
	}
	if empty, err := c.dst.(engine.Emptier).Empty(ctx); err != nil {
		return fmt.Errorf("read the target: %w", err)
	} else if !empty && !has {
		return engine.Errorf(engine.CodeInvalid, "the target is not empty; a move needs an empty one")
	}
	process := newID()
	if _, err := c.dst.Update(ctx, func(tx engine.Tx) error {
		st, has, err := readState(tx)
		switch {
		case err != nil:
			return err
		case st.Abandoned:
			return engine.Errorf(engine.CodeInvalid, "the target has a part of a move that was abandoned; use an empty one")
		case !has && about.Mark.Move != "":
			return otherMove(about.Mark)
		case !has:
			st = state{Move: newID(), From: c.o.From}
		case about.Mark.Move != st.Move && (about.Mark.Move != "" || st.Position != 0):
			return engine.Errorf(engine.CodeInvalid, "the target holds an unfinished move from %s (%s), which is not from this source; use an empty target", st.From, st.Move)
		case st.Position != 0 && !about.Mark.Fenced:
			return engine.Errorf(engine.CodeInvalid, "the source has taken writes since this move began to copy; abandon the move and use an empty target")
		}
		st.Process = process
		st.Run++
		c.st = st
		return c.st.put(tx)
	}); err != nil {
		return fmt.Errorf("begin in the target: %w", err)
	}
	return nil
}

// stop stops the writes of the source, for good. Before the first data is written, it makes the survey again: if there is
// something new that the target cannot carry, the source takes writes again.
func (c *carrier) stop(ctx context.Context) (at time.Time, err error) {
	fence := c.mark()
	fence.Fenced = true
	pos, at, err := c.src.Mark(ctx, fence)
	c.at = pos
	if err != nil {
		err = fmt.Errorf("stop the writes of the source: %w", err)
	} else if c.st.Position == 0 {
		var about About
		if about, err = c.src.About(ctx); err == nil {
			err = c.survey(ctx, about)
		}
		if err == nil {
			err = c.checkCargo(ctx)
		}
		if err == nil {
			c.st.Position = pos
			err = c.update(ctx, c.st, func(engine.Tx) error { return nil })
		}
	}
	if err != nil && c.st.Position == 0 {
		return at, errors.Join(err, c.retreat(ctx))
	}
	return at, err
}

// finish loads and compares everything, and opens the target.
func (c *carrier) finish(ctx context.Context, at time.Time) error {
	for i, r := range c.o.Regions {
		if r.Fate != Carried || i < c.st.Region || c.st.Whole {
			continue
		}
		if i > c.st.Region {
			c.st.Region, c.st.Cursor = i, nil
		}
		err := r.Cargo.Load(ctx, c.read, c.st.Cursor, func(cursor []byte, did Tally) error {
			c.st.Cursor = bytes.Clone(cursor)
			c.st.Pairs += did.Items
			c.st.Bytes += did.Bytes
			c.report(Copying, c.st.Pairs, c.st.Bytes)
			return c.update(ctx, c.st, func(engine.Tx) error { return nil })
		})
		if err != nil {
			return fmt.Errorf("load %s: %w", r.Name, err)
		}
	}
	c.st.Whole = true
	if err := c.update(ctx, c.st, func(engine.Tx) error { return nil }); err != nil {
		return err
	}
	if err := c.compareAll(ctx); err != nil {
		return err
	}
	_, _, err := c.openTarget(ctx, at)
	return err
}

// compareAll compares what the target has with the source.
func (c *carrier) compareAll(ctx context.Context) error {
	c.done.Items = map[string]int64{}
	var all Tally
	c.total = c.st.Pairs
	for _, r := range c.o.Regions {
		if r.Fate != Carried {
			continue
		}
		err := r.Cargo.Compare(ctx, c.read, func(did Tally) {
			c.done.Items[r.Name] += did.Items
			all.Items, all.Bytes = all.Items+did.Items, all.Bytes+did.Bytes
			c.report(Verifying, all.Items, all.Bytes)
		})
		if err != nil {
			return fmt.Errorf("compare %s: %w", r.Name, err)
		}
	}
	return nil
}

// Pairs is a Cargo of pairs that are written and compared by some at a time. Write and Same return how many of them count. They are tried
// again after errors that pass.
type Pairs struct {
	Lo, Hi      []byte
	MaxValBytes int
	Write, Same func(ctx context.Context, some []engine.Pair) (n int, err error)
}

// Check implements Cargo.
func (p Pairs) Check(ctx context.Context, in Reader) error {
	for x, err := range in(ctx, p.Lo, p.Hi) {
		if err != nil {
			return err
		}
		if n := len(x.Val); n > p.MaxValBytes {
			const shown = 64
			return engine.Errorf(engine.CodeValueTooLarge, "the value of %d bytes of the key %q is over the target's limit of %d", n, x.Key[:min(len(x.Key), shown)], p.MaxValBytes)
		}
	}
	return nil
}

// Load implements Cargo.
func (p Pairs) Load(ctx context.Context, in Reader, from []byte, save func([]byte, Tally) error) error {
	if from == nil {
		from = p.Lo
	}
	return p.some(ctx, in, from, p.Write, save)
}

// Compare implements Cargo.
func (p Pairs) Compare(ctx context.Context, in Reader, report func(Tally)) error {
	return p.some(ctx, in, p.Lo, p.Same, func(_ []byte, did Tally) error { report(did); return nil })
}

// some calls do with the pairs from a key on, as many at a time as fit into one step, and then did.
func (p Pairs) some(ctx context.Context, in Reader, from []byte, do func(context.Context, []engine.Pair) (int, error), did func(next []byte, t Tally) error) error {
	var list []engine.Pair
	var t Tally
	flush := func(next []byte) error {
		if len(list) == 0 {
			return nil
		}
		n, err := retry(ctx, func() (int, error) { return do(ctx, list) })
		if err != nil {
			return err
		}
		t.Items = int64(n)
		err = did(next, t)
		list, t = nil, Tally{}
		return err
	}
	for x, err := range in(ctx, from, p.Hi) {
		if err != nil {
			return err
		}
		list = append(list, x)
		t.Bytes += int64(len(x.Key) + len(x.Val))
		if len(list) >= rangePairs || t.Bytes >= rangeBytes {
			if err := flush(append(bytes.Clone(x.Key), 0)); err != nil {
				return err
			}
		}
	}
	return flush(p.Hi)
}

package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
)

// LineError reports an error in one line of a file.
type LineError struct {
	Line int // from 1
	Why  string
}

// Error returns a message that begins with "line N: ".
func (e *LineError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Why) }

// Ops yields the operations of a file in the order of their completion. Calls without a
// return come last, as Unknown. It skips empty lines and lines that begin with #. It ends
// at the first error: a *LineError, or an error of r. It keeps only one line and the
// pending calls in memory.
func Ops(r io.Reader) iter.Seq2[Op, error] {
	return func(yield func(Op, error) bool) {
		f := file{most: MaxPending, pending: map[int64]object{}, began: map[int64]int{}}
		in := bufio.NewScanner(r)
		in.Buffer(make([]byte, 0, 64<<10), MaxLineBytes+2)
		for in.Scan() {
			f.line++
			op, complete, err := f.read(in.Bytes())
			if err != nil {
				yield(Op{}, &LineError{f.line, err.Error()})
				return
			}
			if complete && !yield(op, nil) {
				return
			}
		}
		if err := in.Err(); errors.Is(err, bufio.ErrTooLong) {
			yield(Op{}, &LineError{f.line + 1, fmt.Sprintf("longer than %d bytes", MaxLineBytes)})
			return
		} else if err != nil {
			yield(Op{}, fmt.Errorf("read history: %w", err))
			return
		}
		f.rest(yield)
	}
}

// Read returns all operations of a file, at most MaxOperations.
func Read(r io.Reader) ([]Op, error) { return readUpTo(r, MaxOperations) }

func readUpTo(r io.Reader, most int) ([]Op, error) {
	var ops []Op
	for op, err := range Ops(r) {
		if err != nil {
			return nil, err
		}
		if len(ops) == most {
			return nil, fmt.Errorf("read history: more than %d operations", most)
		}
		ops = append(ops, op)
	}
	return ops, nil
}

// file is the state of the reader between lines.
type file struct {
	line    int
	most    int              // MaxPending
	pending map[int64]object // calls that have not returned, by id
	began   map[int64]int    // the line of the call
}

func (f *file) read(b []byte) (op Op, complete bool, err error) {
	b = bytes.TrimSpace(b)
	if len(b) == 0 || b[0] == '#' {
		return op, false, nil
	}
	if len(b) > MaxLineBytes {
		return op, false, fmt.Errorf("longer than %d bytes", MaxLineBytes)
	}
	o, err := parseObject(b)
	if err != nil {
		return op, false, err
	}
	if _, isEvent := o["event"]; !isEvent {
		op, err = o.op()
		return op, true, err
	}
	var event string
	var id int64
	if err := errors.Join(o.take("event", &event, true), o.take("id", &id, true)); err != nil {
		return op, false, firstOf(err)
	}
	switch event {
	case "call":
		return op, false, f.call(id, o)
	case "return":
		op, err = f.returned(id, o)
		return op, true, err
	}
	return op, false, fmt.Errorf("event %q is not one of call, return", event)
}

// call keeps a call until its return. It checks the call fully, because the call may never
// return.
func (f *file) call(id int64, o object) error {
	if _, twice := f.pending[id]; twice {
		return fmt.Errorf("call %d was made in line %d and has not returned", id, f.began[id])
	}
	if len(f.pending) == f.most {
		return fmt.Errorf("more than %d calls wait for their return", f.most)
	}
	for _, name := range [...]string{"outcome", "return", "result", "pos"} {
		if _, there := o[name]; there {
			return fmt.Errorf("a call has no field %q", name)
		}
	}
	if _, err := o.unknown(); err != nil {
		return err
	}
	f.pending[id], f.began[id] = o, f.line
	return nil
}

// unknown reads a call as an operation that did not return.
func (o object) unknown() (Op, error) {
	c := object{"outcome": json.RawMessage(strconv.Quote(string(Unknown)))}
	for name, raw := range o {
		c[name] = raw
	}
	return c.op()
}

// returned combines a return with its call. Only steps, which now have results, may be in
// both.
func (f *file) returned(id int64, o object) (Op, error) {
	call, ok := f.pending[id]
	if !ok {
		return Op{}, fmt.Errorf("return of %d, which has not been called", id)
	}
	began := f.began[id]
	delete(f.pending, id)
	delete(f.began, id)
	for name, raw := range call {
		if _, both := o[name]; !both {
			o[name] = raw
		} else if name != "steps" {
			return Op{}, fmt.Errorf("field %q is in both the call, line %d, and the return", name, began)
		}
	}
	var called []Kind
	if raw, ok := call["steps"]; ok {
		called = kinds(raw)
	}
	op, err := o.op()
	if err == nil && called != nil && !slices.EqualFunc(called, op.Steps, func(k Kind, s Step) bool { return k == s.Kind }) {
		return op, fmt.Errorf("the steps differ from those of the call, line %d", began)
	}
	return op, err
}

func kinds(raw json.RawMessage) (list []Kind) {
	var steps []struct{ Op Kind }
	if json.Unmarshal(raw, &steps) != nil {
		panic("BUG: steps of a call that was read before")
	}
	for _, s := range steps {
		list = append(list, s.Op)
	}
	return list
}

// rest yields the calls that never returned, in the order of their lines.
func (f *file) rest(yield func(Op, error) bool) {
	ids := make([]int64, 0, len(f.pending))
	for id := range f.pending {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b int64) int { return f.began[a] - f.began[b] })
	for _, id := range ids {
		op, err := f.pending[id].unknown()
		if err != nil {
			panic("BUG: a call that was read before: " + err.Error())
		}
		if !yield(op, nil) {
			return
		}
	}
}

package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// MarshalJSON writes a string or null.
func (v Value) MarshalJSON() ([]byte, error) {
	if !v.Present {
		return []byte("null"), nil
	}
	return marshal(v.Text)
}

// UnmarshalJSON reads a string or null.
func (v *Value) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*v = Value{}
		return nil
	}
	v.Present = true
	return json.Unmarshal(b, &v.Text)
}

// marshal is json.Marshal that leaves <, > and & as they are.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// lineStep and line are the form in files, in the order in which fields are written.
type lineStep struct {
	Op     Kind    `json:"op"`
	Key    any     `json:"key,omitempty"`
	To     any     `json:"to,omitempty"`
	Expect any     `json:"expect,omitempty"`
	Value  any     `json:"value,omitempty"`
	Delta  any     `json:"delta,omitempty"`
	Keys   any     `json:"keys,omitempty"`
	Pairs  [][]any `json:"pairs,omitempty"`
	Prefix any     `json:"prefix,omitempty"`
	Limit  int     `json:"limit,omitempty"`
	Result any     `json:"result,omitempty"`
}

type line struct {
	Client int64 `json:"client"`
	lineStep
	Steps   []lineStep `json:"steps,omitempty"`
	Level   Level      `json:"level,omitempty"`
	Asked   uint64     `json:"asked,omitempty"`
	Pos     uint64     `json:"pos,omitempty"`
	Call    int64      `json:"call"`
	Return  any        `json:"return,omitempty"`
	Outcome Outcome    `json:"outcome"`
}

// MarshalJSON writes the operation as one line of a history file, without the
// line feed. It does not validate.
func (o Op) MarshalJSON() ([]byte, error) {
	l := line{Client: o.Client, Asked: o.Asked, Pos: o.Pos, Call: o.Call, Outcome: o.Outcome}
	if o.weak() {
		l.Level = o.Level
	}
	if o.Outcome != Unknown {
		l.Return = o.Return
	}
	if o.Kind == Txn {
		l.Op = Txn
		for i := range o.Steps {
			l.Steps = append(l.Steps, o.Steps[i].line(o.Outcome))
		}
	} else {
		l.lineStep = o.Step.line(o.Outcome)
	}
	return marshal(l)
}

func (s *Step) line(out Outcome) lineStep {
	l := lineStep{Op: s.Kind}
	for _, f := range fields(s.Kind) {
		switch f {
		case "key":
			l.Key = s.Key
		case "to":
			l.To = s.To
		case "value":
			l.Value = s.Value
		case "expect":
			l.Expect = s.Expect
		case "delta":
			l.Delta = s.Delta
		case "keys":
			l.Keys = orEmpty(s.Keys)
		case "pairs":
			l.Pairs = linePairs(s.Pairs)
		case "prefix":
			l.Prefix = s.Prefix
		}
	}
	l.Limit = s.Limit
	if out == OK {
		l.Result = s.result()
	}
	return l
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func linePairs(pairs []Pair) [][]any {
	list := [][]any{}
	for _, p := range pairs {
		list = append(list, []any{p.Key, p.Value})
	}
	return list
}

// result returns the value of "result", or nil for none.
func (s *Step) result() any {
	switch s.Kind {
	case Get:
		return s.Got
	case List, SetRead:
		return orEmpty(s.List)
	case MGet:
		return orEmpty(s.Values)
	case Scan:
		return linePairs(s.Pairs)
	case Delete, CAS, SetAdd, Transfer:
		if !s.Blind {
			return s.Done
		}
	case Add:
		if !s.Blind {
			return s.Sum
		}
	}
	return nil
}

// fields returns the arguments that a step of this kind must have.
func fields(k Kind) []string {
	switch k {
	case Get, Delete, List, SetRead:
		return []string{"key"}
	case Set, Append, SetAdd:
		return []string{"key", "value"}
	case CAS:
		return []string{"key", "expect", "value"}
	case Add:
		return []string{"key", "delta"}
	case MGet:
		return []string{"keys"}
	case MSet:
		return []string{"pairs"}
	case Scan:
		return []string{"prefix"}
	case Transfer:
		return []string{"key", "to", "delta"}
	case Txn:
		return []string{"steps"}
	}
	return nil
}

// object is a JSON object whose values have not been read yet.
type object map[string]json.RawMessage

// parseObject parses exactly one object without duplicate names.
func parseObject(b []byte) (object, error) {
	if !utf8.Valid(b) {
		return nil, errors.New("not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	o := object{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, jsonError(err)
		}
		name := t.(string) // the decoder accepts nothing else before a colon
		if _, twice := o[name]; twice {
			return nil, fmt.Errorf("duplicate field %q", name)
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, jsonError(err)
		}
		o[name] = raw
	}
	if _, err := d.Token(); err != nil {
		return nil, jsonError(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("trailing data after the object")
	}
	return o, nil
}

func jsonError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("not JSON: unexpected end of line")
	}
	return fmt.Errorf("not JSON: %w", err)
}

// take reads a field into v and removes it. A missing field, if must is false, leaves v
// unchanged.
func (o object) take(name string, v any, must bool) error {
	raw, ok := o[name]
	if !ok {
		if must {
			return fmt.Errorf("field %q is missing", name)
		}
		return nil
	}
	delete(o, name)
	if _, isValue := v.(*Value); !isValue && string(raw) == "null" {
		return fmt.Errorf("field %q is null", name)
	}
	if err := json.Unmarshal(raw, v); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return fmt.Errorf("field %q: got %s, want %s", name, wrong.Value, wanted(v))
		}
		return fmt.Errorf("field %q: %w", name, err)
	}
	return nil
}

func wanted(v any) string {
	switch v.(type) {
	case *string, *Kind, *Level, *Outcome:
		return "a string"
	case *Value:
		return "a string or null"
	case *bool:
		return "true or false"
	case *int64, *int:
		return "a whole number of 64 bits"
	case *uint64:
		return "a whole number from 0"
	case *[]Value:
		return "an array of strings and nulls"
	case *[][]Value:
		return "an array of [key, value]"
	}
	return "an array of strings"
}

// none returns an error if a field is left.
func (o object) none(kind Kind) error {
	if len(o) == 0 {
		return nil
	}
	var names []string
	for name := range o {
		names = append(names, fmt.Sprintf("%q", name))
	}
	slices.Sort(names)
	return fmt.Errorf("%s has no field %s", kind, strings.Join(names, ", "))
}

// op reads a completed operation.
func (o object) op() (Op, error) {
	var op Op
	if err := o.take("outcome", &op.Outcome, true); err != nil {
		return Op{}, err
	}
	err := errors.Join(
		o.take("client", &op.Client, true), o.take("call", &op.Call, true),
		o.take("return", &op.Return, op.Outcome != Unknown),
		o.take("level", &op.Level, false), o.take("asked", &op.Asked, false), o.take("pos", &op.Pos, false),
	)
	if err != nil {
		return Op{}, firstOf(err)
	}
	if err := o.step(&op.Step, op.Outcome, true); err != nil {
		return Op{}, err
	}
	if op.Kind == Txn {
		var steps []json.RawMessage
		if err := o.take("steps", &steps, true); err != nil {
			return Op{}, err
		}
		if len(steps) > MaxSteps {
			return Op{}, fmt.Errorf("txn has %d steps, must be 1 to %d", len(steps), MaxSteps)
		}
		op.Steps = make([]Step, len(steps))
		for i, raw := range steps {
			so, err := parseObject(raw)
			if err == nil {
				err = so.step(&op.Steps[i], op.Outcome, false)
			}
			if err == nil {
				err = so.none(op.Steps[i].Kind)
			}
			if err != nil {
				return Op{}, fmt.Errorf("step %d: %w", i+1, err)
			}
		}
	}
	if err := o.none(op.Kind); err != nil {
		return Op{}, err
	}
	return op, op.Validate()
}

// firstOf returns the first of joined errors: one reason is enough for a line.
func firstOf(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()[0]
	}
	return err
}

// step reads the fields of one step. Results of operations that did not end with ok are
// allowed and ignored.
func (o object) step(s *Step, out Outcome, top bool) error {
	if err := o.take("op", &s.Kind, true); err != nil {
		return err
	}
	if fields(s.Kind) == nil {
		return fmt.Errorf("unknown operation %q", s.Kind)
	}
	if s.Kind == Txn {
		if !top {
			return errors.New("a txn within a txn")
		}
		return nil
	}
	for _, f := range fields(s.Kind) {
		if err := o.argument(s, f); err != nil {
			return err
		}
	}
	if s.Kind == Scan {
		if err := o.take("limit", &s.Limit, false); err != nil {
			return err
		}
	}
	if out != OK {
		delete(o, "result")
		return nil
	}
	return o.outcome(s)
}

func (o object) argument(s *Step, name string) error {
	switch name {
	case "key":
		return o.take(name, &s.Key, true)
	case "to":
		return o.take(name, &s.To, true)
	case "value":
		return o.take(name, &s.Value, true)
	case "expect":
		return o.take(name, &s.Expect, true)
	case "delta":
		return o.take(name, &s.Delta, true)
	case "keys":
		return o.texts(name, &s.Keys)
	case "pairs":
		return o.pairs(name, &s.Pairs)
	case "prefix":
		return o.take(name, &s.Prefix, true)
	}
	panic("BUG: no argument " + name)
}

// outcome reads the result of a step that ended with ok.
func (o object) outcome(s *Step) error {
	const name = "result"
	_, there := o[name]
	switch s.Kind {
	case Get:
		return o.take(name, &s.Got, true)
	case List, SetRead:
		return o.texts(name, &s.List)
	case MGet:
		return o.take(name, &s.Values, true)
	case Scan:
		return o.pairs(name, &s.Pairs)
	case Delete, CAS, SetAdd, Transfer:
		s.Blind = !there
		return o.take(name, &s.Done, false)
	case Add:
		s.Blind = !there
		return o.take(name, &s.Sum, false)
	}
	return nil
}

// texts reads an array of strings without null.
func (o object) texts(name string, list *[]string) error {
	var values []Value
	if err := o.take(name, &values, true); err != nil {
		return err
	}
	for i, v := range values {
		if !v.Present {
			return fmt.Errorf("field %q: element %d is null", name, i+1)
		}
		*list = append(*list, v.Text)
	}
	return nil
}

func (o object) pairs(name string, pairs *[]Pair) error {
	var list [][]Value
	if err := o.take(name, &list, true); err != nil {
		return err
	}
	for i, p := range list {
		if len(p) != 2 || !p[0].Present {
			return fmt.Errorf("field %q: element %d is not a [key, value] pair", name, i+1)
		}
		*pairs = append(*pairs, Pair{p[0].Text, p[1]})
	}
	return nil
}

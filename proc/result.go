package proc

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Sink receives a result in the data types of RESP; *wire.Writer of resp/wire implements
// it. After Array(n) come n values, after Map(n) n pairs of a BulkString and a value.
type Sink interface {
	Null()
	Bool(v bool)
	Int(v int64)
	Double(v float64)
	Bulk(v []byte)
	BulkString(v string)
	Array(n int)
	Map(n int)
}

// valueBytes is added to the size of a result for every value in it.
const valueBytes = 16

// errResultSize is replaced by an error that names the procedure.
var errResultSize = engine.Errorf(engine.CodeLimit, "the result is too large")

// writer writes one result to a Sink. It stops when the result exceeds the limit.
type writer struct {
	sink    Sink
	left    int    // remaining bytes of the limit
	scratch []byte // reused between results
}

// count counts a value with n bytes of text.
func (w *writer) count(n int) error { return w.countText(n + valueBytes) }

func (w *writer) countText(n int) error {
	if w.left -= n; w.left < 0 {
		return errResultSize
	}
	return nil
}

// value writes v, whose type p describes.
func (w *writer) value(p *plan, v reflect.Value) error {
	if p.op == opString {
		s := v.String()
		if err := w.count(len(s)); err != nil {
			return err
		}
		w.sink.BulkString(s)
		return nil
	}
	if err := w.count(0); err != nil {
		return err
	}
	switch p.op {
	case opNull:
		w.sink.Null()
	case opBool:
		w.sink.Bool(v.Bool())
	case opInt:
		w.sink.Int(v.Int())
	case opUint:
		w.uint(v.Uint())
	case opFloat:
		w.sink.Double(v.Float())
	case opPtr:
		if v.IsNil() {
			w.sink.Null()
			return nil
		}
		return w.value(p.elem, v.Elem())
	case opObject:
		return w.object(p, v)
	case opList, opArray:
		w.sink.Array(v.Len())
		for i := range v.Len() {
			if err := w.value(p.elem, v.Index(i)); err != nil {
				return err
			}
		}
	case opMap:
		return w.mapping(p, v)
	default:
		return w.text(p, v)
	}
	return nil
}

func (w *writer) uint(u uint64) {
	if u <= math.MaxInt64 {
		w.sink.Int(int64(u))
		return
	}
	w.scratch = strconv.AppendUint(w.scratch[:0], u, 10)
	w.sink.Bulk(w.scratch)
}

// text writes a value that is encoded as text.
func (w *writer) text(p *plan, v reflect.Value) (err error) {
	var b []byte
	switch p.op {
	case opBytes:
		b = v.Bytes()
	case opTime:
		if w.scratch, err = timeOf(v).UTC().AppendText(w.scratch[:0]); err != nil {
			return err
		}
		b = w.scratch
	case opText:
		b, err = ownText(v)
	case opJSON:
		b, err = ownJSON(v)
	default:
		panic(fmt.Sprintf("BUG: no encoder for a value of %v", p.typ))
	}
	if err != nil {
		return err
	}
	if err := w.countText(len(b)); err != nil {
		return err
	}
	w.sink.Bulk(b)
	return nil
}

// object writes all fields of a struct, including empty ones, so that their number and
// order match the schema.
func (w *writer) object(p *plan, v reflect.Value) error {
	w.sink.Map(len(p.fields))
	for i := range p.fields {
		f := &p.fields[i]
		if err := w.count(len(f.name)); err != nil {
			return err
		}
		w.sink.BulkString(f.name)
		fv, ok := f.of(v)
		if !ok {
			w.sink.Null()
			continue
		}
		if err := w.value(f.plan, fv); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) mapping(p *plan, v reflect.Value) error {
	w.sink.Map(v.Len())
	for _, e := range sorted(v) {
		if err := w.count(len(e.key)); err != nil {
			return err
		}
		w.sink.BulkString(e.key)
		if err := w.value(p.elem, e.val); err != nil {
			return err
		}
	}
	return nil
}

// entry is one entry of a map, with its key as text.
type entry struct {
	key string
	val reflect.Value
}

// sorted returns the entries of a map in the order of encoding/json.
func sorted(v reflect.Value) []entry {
	list := make([]entry, 0, v.Len())
	for it := v.MapRange(); it.Next(); {
		e := entry{val: it.Value()}
		switch k := it.Key(); {
		case k.Kind() == reflect.String:
			e.key = k.String()
		case k.CanInt():
			e.key = strconv.FormatInt(k.Int(), 10)
		default:
			e.key = strconv.FormatUint(k.Uint(), 10)
		}
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b entry) int { return cmp.Compare(a.key, b.key) })
	return list
}

func timeOf(v reflect.Value) time.Time {
	if v.CanAddr() {
		return *v.Addr().Interface().(*time.Time) // does not allocate
	}
	return v.Interface().(time.Time)
}

// ownText and ownJSON call the method of the type or of its pointer that the plan found.
// They convert a panic in it to an error.
func ownText(v reflect.Value) (b []byte, err error) {
	defer recoverWriting(v, &err)
	return own(v).(encoding.TextMarshaler).MarshalText()
}

func ownJSON(v reflect.Value) (b []byte, err error) {
	defer recoverWriting(v, &err)
	return json.Marshal(own(v))
}

func own(v reflect.Value) any { return addressable(v).Addr().Interface() }

func recoverWriting(v reflect.Value, err *error) {
	if r := recover(); r != nil {
		*err = &writePanic{v.Type(), r, debug.Stack()}
	}
}

// writePanic is a panic in a type's own encoding method. Its text is for the log.
type writePanic struct {
	typ   reflect.Type
	value any
	stack []byte
}

// Error implements error.
func (p *writePanic) Error() string { return fmt.Sprintf("writing a %v panicked: %v", p.typ, p.value) }

package proc

import (
	"bytes"
	"encoding/json"
	"reflect"

	"github.com/skerrydb/skerry/engine"
)

// ArgumentError says which argument is wrong. It wraps an engine.Error of
// CodeInvalid or CodeLimit.
type ArgumentError struct {
	Pointer string // JSON pointer into the arguments, e.g. "/phone"; "" is all of them
	Err     *engine.Error
}

// Error returns the text of Err.
func (e *ArgumentError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *ArgumentError) Unwrap() error { return e.Err }

type argument struct{}

type resultPlan struct{}

func define(name string, readOnly bool, in, out reflect.Type) definition {
	return definition{schema: Schema{Name: name, ReadOnly: readOnly}, in: in}
}

func (d *definition) decodeText(in reflect.Value, args [][]byte) error {
	if len(args) == 1 && len(args[0]) > 0 && args[0][0] == '{' {
		return d.decodeJSON(in, args[0])
	}
	for i, a := range args {
		f := in.Field(i).Addr().Interface()
		if s, ok := f.(*string); ok {
			*s = string(a)
		} else if err := json.Unmarshal(a, f); err != nil {
			return engine.Errorf(engine.CodeInvalid, "argument %d: %w", i, err)
		}
	}
	return nil
}

func (d *definition) decodeJSON(in reflect.Value, body []byte) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	if err := json.Unmarshal(body, in.Addr().Interface()); err != nil {
		return engine.Errorf(engine.CodeInvalid, "arguments: %w", err)
	}
	return nil
}

func (d *definition) writeResult(out reflect.Value, sink Sink) error {
	switch out.Kind() {
	case reflect.Int, reflect.Int64, reflect.Int32:
		sink.Int(out.Int())
		return nil
	case reflect.String:
		sink.BulkString(out.String())
		return nil
	}
	b, err := json.Marshal(out.Interface())
	sink.Bulk(b)
	return err
}

package session

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/skerrydb/skerry/engine"
)

// Key identifies a value of type T, which is stored as JSON. Programs declare their keys
// once, as package variables.
type Key[T any] struct{ name string }

// NewKey returns the key with the given name of 1 to MaxKeyBytes bytes. With any other
// name, Get and Set return CodeInvalid.
func NewKey[T any](name string) Key[T] { return Key[T]{name} }

// Name returns the key's name.
func (k Key[T]) Name() string { return k.name }

// Get returns the value, and whether it exists. If the stored value cannot be decoded into
// T, the error is CodeValueType. If another request changes the value after Get, a Save
// that writes it returns CodeConflict.
func (k Key[T]) Get(s *Session) (v T, ok bool, err error) {
	if err := k.check(); err != nil {
		return v, false, err
	}
	raw, ok := s.lookup(k.name)
	if !ok {
		return v, false, nil
	}
	return k.decode(raw)
}

// Set changes the value for this request; Save writes it. If v cannot be encoded as JSON,
// the error is CodeInvalid; if it is over MaxValueBytes, CodeLimit.
func (k Key[T]) Set(s *Session, v T) error {
	raw, err := k.encode(v)
	if err != nil {
		return err
	}
	return s.set(k.name, raw)
}

// Delete removes the value for this request; Save writes the removal.
func (k Key[T]) Delete(s *Session) {
	if k.check() == nil {
		_ = s.set(k.name, nil) // Save returns the same error
	}
}

// Update changes the stored value in its own transaction, so that no concurrent update is
// lost. fn may run more than once. If it returns an error, Update returns that error and
// writes nothing. Other changes of the request are left to Save. If the session is not
// stored, Update is the same as Get and Set.
func (k Key[T]) Update(ctx context.Context, s *Session, fn func(old T, ok bool) (T, error)) error {
	if err := k.check(); err != nil {
		return err
	}
	return s.update(ctx, k.name, func(raw []byte, ok bool) ([]byte, error) {
		var old T
		if ok {
			var err error
			if old, _, err = k.decode(raw); err != nil {
				return nil, err
			}
		}
		v, err := fn(old, ok)
		if err != nil {
			return nil, err
		}
		return k.encode(v)
	})
}

func (k Key[T]) decode(raw []byte) (v T, ok bool, err error) {
	if err := json.Unmarshal(raw, &v); err != nil {
		var zero T
		cause := fmt.Errorf("get session value %q as %v: %w", k.name, reflect.TypeFor[T](), err)
		return zero, false, &engine.Error{Code: CodeValueType, Msg: cause.Error(), Err: err}
	}
	return v, true, nil
}

func (k Key[T]) encode(v T) ([]byte, error) {
	if err := k.check(); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, engine.Errorf(engine.CodeInvalid, "set session value %q of %v: %w", k.name, reflect.TypeFor[T](), err)
	}
	if len(raw) > MaxValueBytes {
		return nil, engine.Errorf(engine.CodeLimit, "set session value %q: %d bytes are over the limit of %d", k.name, len(raw), MaxValueBytes)
	}
	return raw, nil
}

func (k Key[T]) check() error {
	if len(k.name) == 0 || len(k.name) > MaxKeyBytes {
		return engine.Errorf(engine.CodeInvalid, "the name of a session value must have 1 to %d bytes, has %d", MaxKeyBytes, len(k.name))
	}
	return nil
}

package sqldriver

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/skerrydb/skerry/client"
)

// TestCachedSchemas checks that a Connector caches a limited number of schemas, and that
// procedures beyond it still work.
func TestCachedSchemas(t *testing.T) {
	t.Parallel()
	c := NewConnector(nil, Options{})
	for i := range MaxCachedSchemas + 10 {
		st, err := c.statement(fmt.Sprintf("CALL p%d()", i))
		if err != nil || st.schema.Load() == nil {
			t.Fatalf("statement %d: %v", i, err)
		}
	}
	if n := len(c.schemas); n != MaxCachedSchemas {
		t.Errorf("%d schemas are kept, the limit is %d", n, MaxCachedSchemas)
	}
	first, err := c.statement("CALL p0()")
	if err != nil {
		t.Fatal(err)
	}
	other, err := c.statement("SELECT * FROM p0()")
	if err != nil || other.schema.Load() != first.schema.Load() {
		t.Errorf("two statements of one procedure do not share its schema (%v)", err)
	}
}

// TestDoubt checks that rejected arguments make an old schema be read again, but not a new
// one.
func TestDoubt(t *testing.T) {
	t.Parallel()
	c := &conn{c: NewConnector(nil, Options{})}
	st, err := c.statement("CALL p()")
	if err != nil {
		t.Fatal(err)
	}
	s := st.schema.Load()
	for code, forgets := range map[string]bool{codeInvalid: true, codeUnknownProcedure: true, codeReadOnly: true, "procedure_failed": false, client.CodeOutcomeUnknown: false} {
		for age, old := range map[time.Duration]bool{0: false, 2 * refetchAfter: true} {
			s.p.Store(&procedure{})
			s.read.Store(time.Now().Add(-age).UnixNano())
			if err := c.failed(t.Context(), st, &client.Error{Code: code}); !errors.Is(err, &client.Error{Code: code}) {
				t.Errorf("%s becomes %v", code, err)
			}
			if forgot := s.p.Load() == nil; forgot != (forgets && old) {
				t.Errorf("after %s, a schema that is %v old is forgotten: %t", code, age, forgot)
			}
		}
	}
}

// TestEnded checks that the error of a call that a context ended also matches the context's
// error.
func TestEnded(t *testing.T) {
	t.Parallel()
	c := &conn{c: NewConnector(nil, Options{})}
	st, err := c.statement("CALL p()")
	if err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, x := range []struct {
		ctx  context.Context
		err  error
		want []error
		not  error
	}{
		{t.Context(), client.ErrTimeout, []error{client.ErrTimeout, context.DeadlineExceeded}, context.Canceled},
		{canceled, client.ErrOutcomeUnknown, []error{client.ErrOutcomeUnknown, context.Canceled}, context.DeadlineExceeded},
		{t.Context(), client.ErrOutcomeUnknown, []error{client.ErrOutcomeUnknown}, context.Canceled},
		{t.Context(), driver.ErrBadConn, []error{driver.ErrBadConn}, context.Canceled},
	} {
		got := c.failed(x.ctx, st, x.err)
		for _, want := range x.want {
			if !errors.Is(got, want) {
				t.Errorf("%v becomes %v, which is no %v", x.err, got, want)
			}
		}
		if errors.Is(got, x.not) {
			t.Errorf("%v becomes %v, which is %v", x.err, got, x.not)
		}
	}
}

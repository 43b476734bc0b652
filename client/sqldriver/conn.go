package sqldriver

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/skerrydb/skerry/client"
)

// Codes of the server that indicate an outdated schema.
const (
	codeUnknownProcedure = "unknown_procedure"
	codeReadOnly         = "read_only"
	codeInvalid          = "invalid"
)

// conn is a connection for database/sql, from which one call at a time is made. It is used
// by one goroutine at a time.
type conn struct {
	c      *Connector
	owner  bool // of c
	closed bool

	text string // the statement of the last call
	st   *statement
	args []any // last arguments sent; kept for its memory
	rows rows  // of the last query; its memory is reused when they are closed
}

// keyed is the context key of WithKey.
type keyed struct{}

// WithKey returns a context that gives one call an idempotency key. The server runs the
// call once, however often it is made, and returns the same result for the same key. The
// call is sent again when the connection breaks. client.NewKey makes keys.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyed{}, key)
}

// statement returns text parsed.
func (c *conn) statement(text string) (*statement, error) {
	if c.closed {
		return nil, driver.ErrBadConn
	}
	if c.st != nil && c.text == text {
		return c.st, nil
	}
	st, err := c.c.statement(text)
	if err != nil {
		return nil, err
	}
	if len(text) <= MaxCachedBytes {
		c.text, c.st = text, st
	}
	return st, nil
}

// QueryContext implements driver.QueryerContext.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	st, err := c.statement(query)
	if err != nil {
		return nil, err
	}
	return c.query(ctx, st, args)
}

// ExecContext implements driver.ExecerContext.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	st, err := c.statement(query)
	if err != nil {
		return nil, err
	}
	return c.exec(ctx, st, args)
}

func (c *conn) exec(ctx context.Context, st *statement, args []driver.NamedValue) (driver.Result, error) {
	_, res, err := c.call(ctx, st, args)
	if err != nil {
		return nil, err
	}
	return resultOf(st, res.Raw()), nil
}

func (c *conn) query(ctx context.Context, st *statement, args []driver.NamedValue) (driver.Rows, error) {
	p, res, err := c.call(ctx, st, args)
	if err != nil {
		return nil, err
	}
	r := &c.rows
	if r.open {
		r = new(rows)
	}
	if p != nil {
		if err = r.start(&p.layout, res.Raw()); err == nil {
			return r, nil
		}
	}
	return c.refit(ctx, st, r, res.Raw())
}

// refit makes rows from a reply that does not match the known schema: by the current
// schema, or else by what the reply contains. The call has run, so the mismatch is not an
// error.
func (c *conn) refit(ctx context.Context, st *statement, r *rows, raw []byte) (driver.Rows, error) {
	if p, err := c.c.refresh(ctx, st); err == nil && p != nil && r.start(&p.layout, raw) == nil {
		return r, nil
	}
	lay := layShown(raw)
	if err := r.start(&lay, raw); err != nil {
		return nil, fmt.Errorf("skerry: read the result of %s: %w", clip(st.name), err)
	}
	return r, nil
}

// call runs st and returns its reply, and the schema of the procedure as it was known
// before the call.
func (c *conn) call(ctx context.Context, st *statement, in []driver.NamedValue) (*procedure, client.Result, error) {
	if c.closed {
		return nil, client.Result{}, driver.ErrBadConn
	}
	p, err := c.c.procedure(ctx, st)
	if err != nil {
		return nil, client.Result{}, c.failed(ctx, st, err)
	}
	if st.readOnly && p != nil && !p.ReadOnly {
		return nil, client.Result{}, fmt.Errorf("skerry: %s may write: use CALL %s(…); SELECT is for procedures that only read", clip(st.name), clip(st.name))
	}
	args, err := bind(c.args[:0], st, in, p)
	if err == nil {
		var res client.Result
		res, err = c.send(ctx, st, p, args)
		clear(args)
		c.args = args[:0]
		if err == nil {
			return p, res, nil
		}
	}
	return nil, client.Result{}, c.failed(ctx, st, err)
}

// failed returns the error of a call for its caller. If a context ended the call, it
// matches both the client's error and the context's.
func (c *conn) failed(ctx context.Context, st *statement, err error) error {
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		return err
	}
	switch e.Code {
	case codeInvalid, codeUnknownProcedure, codeReadOnly:
		st.schema.Load().doubt()
	}
	cause := ctx.Err()
	if cause == nil && e.Code == client.CodeTimeout {
		cause = context.DeadlineExceeded
	}
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return &ended{err, cause}
}

// ended is an error of the client that was caused by the end of a context.
type ended struct{ err, cause error }

// Error returns the text of the client's error.
func (e *ended) Error() string { return "skerry: " + e.err.Error() }

// Unwrap returns both errors.
func (e *ended) Unwrap() []error { return []error{e.err, e.cause} }

// send makes the kind of call that the procedure requires.
func (c *conn) send(ctx context.Context, st *statement, p *procedure, args []any) (client.Result, error) {
	cl := c.c.client
	if st.readOnly || p != nil && p.ReadOnly {
		return cl.CallRead(ctx, st.name, args...)
	}
	if key, ok := ctx.Value(keyed{}).(string); ok {
		return cl.CallOnce(ctx, key, st.name, args...)
	}
	if c.c.o.Once {
		return cl.CallOnce(ctx, client.NewKey(), st.name, args...)
	}
	return cl.Call(ctx, st.name, args...)
}

// PrepareContext implements driver.ConnPrepareContext. It parses the statement without
// asking the server.
func (c *conn) PrepareContext(_ context.Context, query string) (driver.Stmt, error) {
	st, err := c.statement(query)
	if err != nil {
		return nil, err
	}
	return &stmt{c, st}, nil
}

// Prepare implements driver.Conn.
func (c *conn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

// BeginTx implements driver.ConnBeginTx. It always fails: a procedure is the transaction.
func (c *conn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	return nil, errTransaction
}

// Begin implements driver.Conn; see BeginTx.
func (c *conn) Begin() (driver.Tx, error) { return nil, errTransaction }

// Ping implements driver.Pinger. It asks the node that receives calls.
func (c *conn) Ping(ctx context.Context) error {
	if c.closed {
		return driver.ErrBadConn
	}
	return c.c.client.Ping(ctx)
}

// IsValid implements driver.Validator. A connection has no socket and is valid as long as
// its Connector is open.
func (c *conn) IsValid() bool { return !c.closed && !c.c.closed.Load() }

// ResetSession implements driver.SessionResetter. There is no state to reset.
func (c *conn) ResetSession(context.Context) error {
	if !c.IsValid() {
		return driver.ErrBadConn
	}
	return nil
}

// CheckNamedValue implements driver.NamedValueChecker. It accepts the types of
// database/sql, unsigned integers, and, for arguments that are objects, lists or maps,
// anything that encoding/json can encode.
func (c *conn) CheckNamedValue(nv *driver.NamedValue) error { return checkValue(nv) }

// Close implements driver.Conn.
func (c *conn) Close() error {
	if c.closed {
		return nil
	}
	c.closed = true
	if c.owner {
		return c.c.Close()
	}
	return nil
}

// stmt is a prepared statement.
type stmt struct {
	c  *conn
	st *statement
}

// NumInput implements driver.Stmt.
func (s *stmt) NumInput() int { return s.st.inputs }

// Close implements driver.Stmt.
func (s *stmt) Close() error { return nil }

// QueryContext implements driver.StmtQueryContext.
func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.c.query(ctx, s.st, args)
}

// ExecContext implements driver.StmtExecContext.
func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return s.c.exec(ctx, s.st, args)
}

// Query implements driver.Stmt.
func (s *stmt) Query(args []driver.Value) (driver.Rows, error) {
	return s.QueryContext(context.Background(), ordinal(args))
}

// Exec implements driver.Stmt.
func (s *stmt) Exec(args []driver.Value) (driver.Result, error) {
	return s.ExecContext(context.Background(), ordinal(args))
}

func ordinal(args []driver.Value) []driver.NamedValue {
	list := make([]driver.NamedValue, len(args))
	for i, v := range args {
		list[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return list
}

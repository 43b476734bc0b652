package sqldriver

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/client"
)

// Name is the name of the driver for sql.Open.
const Name = "skerry"

// MaxCachedSchemas is how many procedures' schemas a Connector caches for all statements;
// other schemas are cached with their statement only.
const MaxCachedSchemas = 4096

// refetchAfter is how long a schema is trusted after it was read: if the server rejects
// arguments within that time, the caller is at fault and not the schema.
const refetchAfter = time.Second

// errTransaction is the error of Begin.
var errTransaction = errors.New("skerry: transactions are not supported: a procedure is the transaction, so put what must happen together into one")

// init registers the driver for sql.Open. docs/decisions/0019 explains why this is the one
// init function.
func init() { sql.Register(Name, Driver{}) }

// Driver implements driver.Driver and driver.DriverContext. Data source names are described
// at ParseDSN.
type Driver struct{}

// Open returns a connection with its own client. database/sql uses OpenConnector instead.
func (d Driver) Open(dsn string) (driver.Conn, error) {
	c, err := d.connector(dsn)
	if err != nil {
		return nil, err
	}
	return &conn{c: c, owner: true}, nil
}

// OpenConnector implements driver.DriverContext. It does not connect yet, so it returns
// only errors in the DSN.
func (d Driver) OpenConnector(dsn string) (driver.Connector, error) {
	c, err := d.connector(dsn)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (Driver) connector(dsn string) (*Connector, error) {
	co, o, err := ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	cl, err := client.Open(co)
	if err != nil {
		return nil, err
	}
	c := NewConnector(cl, o)
	c.owner = true
	return c, nil
}

// Options configures a Connector. The zero value works.
type Options struct {
	// Once gives every call that writes, and has no key from WithKey, a fresh idempotency
	// key. The server runs the call once, so it is sent again when a connection breaks
	// instead of ending with client.ErrOutcomeUnknown. For each such call, the server has
	// to store the response.
	Once bool
}

// Connector makes connections for database/sql on one client. All of them share its
// sockets, so they cost almost nothing; their number bounds the calls in flight. It is safe
// for concurrent use.
type Connector struct {
	client *client.Client
	o      Options
	owner  bool // Close closes client
	closed atomic.Bool

	statements statements
	mu         sync.Mutex // guards schemas
	schemas    map[string]*schema
}

// NewConnector returns a Connector for sql.OpenDB. The caller must close c, after the
// sql.DB.
func NewConnector(c *client.Client, o Options) *Connector {
	return &Connector{client: c, o: o, schemas: map[string]*schema{}}
}

// Connect implements driver.Connector. It does not wait for a server; calls do.
func (c *Connector) Connect(ctx context.Context) (driver.Conn, error) {
	if c.closed.Load() {
		return nil, client.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return &conn{c: c}, nil
}

// Driver implements driver.Connector.
func (c *Connector) Driver() driver.Driver { return Driver{} }

// Client returns the client that all connections share, for features outside database/sql:
// asynchronous calls, other commands, metrics.
func (c *Connector) Client() *client.Client { return c.client }

// Close is called by sql.DB.Close. It closes the client if the Connector created it.
func (c *Connector) Close() error {
	if c.closed.Swap(true) || !c.owner {
		return nil
	}
	c.client.Close()
	return nil
}

// statement returns text parsed.
func (c *Connector) statement(text string) (*statement, error) {
	st, err := c.statements.get(text)
	if err != nil || st.schema.Load() != nil {
		return st, err
	}
	c.mu.Lock()
	s := c.schemas[st.name]
	if s == nil {
		s = new(schema)
		if len(c.schemas) < MaxCachedSchemas {
			c.schemas[st.name] = s
		}
	}
	c.mu.Unlock()
	st.schema.CompareAndSwap(nil, s)
	return st, nil
}

// schema is the cached schema of one procedure.
type schema struct {
	p    atomic.Pointer[procedure]
	read atomic.Int64 // when p was read, in Unix nanoseconds
}

// procedure returns the schema of the procedure that st calls. It returns nil if the server
// that was asked does not know the procedure; the server that runs the call may know it.
func (c *Connector) procedure(ctx context.Context, st *statement) (*procedure, error) {
	if p := st.schema.Load().p.Load(); p != nil {
		return p, nil
	}
	return c.refresh(ctx, st)
}

// refresh reads the schema again.
func (c *Connector) refresh(ctx context.Context, st *statement) (*procedure, error) {
	s := st.schema.Load()
	text, err := c.client.Schema(ctx, st.name)
	if err != nil {
		if e, ok := errors.AsType[*client.Error](err); ok && e.Code == codeUnknownProcedure {
			s.p.Store(nil)
			return nil, nil
		}
		return nil, err
	}
	p, err := readSchema(st.name, text)
	if err != nil {
		return nil, err
	}
	s.read.Store(time.Now().UnixNano())
	s.p.Store(p)
	return p, nil
}

// doubt drops a schema after the server rejected arguments that were sent by it, unless it
// was read just now.
func (s *schema) doubt() {
	if time.Now().UnixNano()-s.read.Load() > int64(refetchAfter) {
		s.p.Store(nil)
	}
}

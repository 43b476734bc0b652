package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/skerrydb/skerry/engine"
)

// limits are the bounds of time that tests shorten.
type limits struct {
	statement, idle, lock, probe time.Duration
}

func (l limits) withDefaults() limits {
	if l == (limits{}) {
		return limits{statementTime, idleTime, lockTime, probeTime}
	}
	return l
}

// pinSQL returns the statement that sets, in a session, what the engine depends on. Operators
// may have set it in another way for the role, the database or the server. It is no startup
// parameter because pgbouncer refuses those.
func (l limits) pinSQL() string {
	var sets []string
	for _, s := range []struct{ name, val string }{
		{"default_transaction_isolation", "read committed"},
		{"standard_conforming_strings", "on"},
		{"row_security", "off"}, // an error instead of rows that are missing
		{"statement_timeout", millis(l.statement)},
		{"lock_timeout", millis(l.lock)},
		{"idle_in_transaction_session_timeout", millis(l.idle)},
		{"idle_session_timeout", "0"}, // since version 14
		{"transaction_timeout", "0"},  // since version 17
	} {
		sets = append(sets, fmt.Sprintf("CASE WHEN current_setting('%[1]s', true) IS NOT NULL THEN set_config('%[1]s', '%s', false) END", s.name, s.val))
	}
	return "SELECT " + strings.Join(sets, ", ")
}

// pin sets up a new session. The first ones of Open are not set up, because they may turn out
// to be shared with other programs.
func (d *DB) pin(ctx context.Context, c *pgconn.PgConn) error {
	if !d.sole.Load() {
		return nil
	}
	return c.Exec(ctx, d.o.limits.pinSQL()).Close()
}

// unsynced is the key in a session's data under which noted remembers a notice.
const unsynced = "skerry.unsynced"

// noted looks for the notice that a commit did not wait for the synchronous standbys, because
// an operator has cancelled that. PostgreSQL takes it for a success.
func noted(c *pgconn.PgConn, n *pgconn.Notice) {
	if n.Routine == "SyncRepWaitForLSN" { // the text is in the server's language
		c.CustomData()[unsynced] = true
	}
}

// synced returns an error if a commit of the session did not wait for synchronous standbys.
func synced(conn *pgx.Conn) error {
	if conn.PgConn().CustomData()[unsynced] != nil {
		return errUnsynced
	}
	return nil
}

var errUnsynced = errors.New("waiting for the synchronous standbys was cancelled")

// refusePooler returns an error if the server's connections are shared between sessions by
// the transaction, as pgbouncer does in that mode: LISTEN and the identity of a session would
// not work. One session leaves a mark. While another one is within a transaction, the first
// must still have its mark, and the other must not see it. No statement is prepared, because
// that would fail with such a pooler, and nothing is left behind that matters to others.
func (d *DB) refusePooler(ctx context.Context, one *pgx.Conn) error {
	two, err := d.connect(ctx)
	if err != nil {
		return d.fault(err)
	}
	defer closeConn(two)
	mark := rand.Text()
	look := "SELECT coalesce(current_setting('skerry.session', true), '')"
	var old, mine, other string
	for _, step := range []struct {
		on   *pgx.Conn
		sql  string
		into *string
	}{
		{one, look, &old},
		{one, "SELECT set_config('skerry.session', '" + mark + "', false)", new(string)},
		{two, "BEGIN", nil},
		{two, look, &other},
		{one, look, &mine},
		{two, "ROLLBACK", nil},
	} {
		soon, cancel := context.WithTimeout(ctx, d.o.limits.probe)
		results, err := step.on.PgConn().Exec(soon, step.sql).ReadAll()
		cancel()
		switch {
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			return engine.Errorf(engine.CodeUnavailable, "postgres: the server did not serve a second session within %v. If a pooler is between, its pool is too small: Skerry needs up to %d connections; or connect to the server itself",
				d.o.limits.probe, d.needs())
		case sqlState(err) == stateProtocol: // "transaction blocks not allowed in statement pooling mode"
			return errPooler
		case err != nil:
			return d.fault(err)
		}
		if step.into != nil {
			*step.into = string(results[0].Rows[0][0])
		}
	}
	switch {
	case mine != mark || other == mark:
		return errPooler
	case old != "" || other != "":
		return errLeftovers
	}
	return nil
}

var errPooler = engine.Errorf(engine.CodeUnsupported, "postgres: a pooler that shares connections between transactions, such as pgbouncer with pool_mode=transaction, is between Skerry and the server: connect to the server itself, or use pool_mode=session")

var errLeftovers = engine.Errorf(engine.CodeUnsupported, "postgres: "+textLeftovers)

const textLeftovers = "a pooler, such as pgbouncer, hands over sessions with what others have left in them: set its server_reset_query to DISCARD ALL, or connect to the server itself"

// needs returns how many connections the engine opens at most: those of the pools, of the
// executor and of the listener, and one to replace one that was lost.
func (d *DB) needs() int { return d.o.ViewConns + d.o.FeedConns + 3 }

package postgres

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/skerrydb/skerry/engine"
)

// SQLSTATEs that the engine knows by name. See appendix A of PostgreSQL's documentation.
const (
	stateProtocol    = "08P01" // protocol_violation, also of pgbouncer
	stateReadOnly    = "25006" // read_only_sql_transaction
	stateIdleTooLong = "25P03" // idle_in_transaction_session_timeout
	stateNoDatabase  = "3D000"
	stateBadPassword = "28P01"
	stateNoRight     = "42501"
	stateBadValue    = "22023" // invalid_parameter_value
	stateUnknownName = "42704" // undefined_object, also a setting
	stateNoTable     = "42P01"
	stateNoColumn    = "42703"
	stateStatement   = "42P05" // duplicate_prepared_statement
	stateNoIndex     = "42P10" // that ON CONFLICT could use
	stateOtherType   = "42804"
	stateDiskFull    = "53100"
	stateNoRoom      = "53300" // too_many_connections
	stateUnique      = "23505"
	stateLockTimeout = "55P03"
	stateCancelled   = "57014" // also statement_timeout
	stateDamaged     = "XX001" // data_corrupted
	stateBadIndex    = "XX002" // index_corrupted
)

// sqlState returns the SQLSTATE of err, or "" if the server did not report one.
func sqlState(err error) string {
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pe.Code
	}
	return ""
}

// lost reports whether the session that returned err has ended, or may have: then nobody
// knows what became of what was sent last.
func lost(err error) bool {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	return !ok || pe.SeverityUnlocalized != "ERROR" // Severity is in the server's language
}

// passing reports whether the same work may succeed on a new connection or a little later.
func passing(err error) bool {
	state := sqlState(err)
	if state == "" {
		return !errors.Is(err, pgx.ErrNoRows)
	}
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok && pe.Routine == "RevalidateCachedQuery" {
		return true // a table has changed since the session prepared the statement
	}
	switch state[:2] {
	case "08", "40", "57": // connections, conflicts, interventions by operators
		return state != stateCancelled
	case "53": // resources: connections, memory
		return state != stateDiskFull
	}
	return state == stateLockTimeout || state == stateIdleTooLong
}

// refusedTLS reports whether err is about a certificate, or about a server without TLS.
func refusedTLS(err error) bool {
	return errors.As(err, new(*tls.CertificateVerificationError)) || errors.As(err, new(x509.UnknownAuthorityError)) ||
		strings.Contains(err.Error(), "server refused TLS connection")
}

// locked returns the error for a statement of a call that met a lock of another program.
func locked(err error) *engine.Error {
	where := ""
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok && pe.Where != "" {
		where = " (" + pe.Where + ")"
	}
	return engine.Errorf(engine.CodeUnavailable, "postgres: a transaction of another program has kept a row locked for more than %v%s: %w", rowLockTime, where, err)
}

// fault makes an engine error of one of the server or of the connection to it.
func (d *DB) fault(err error) error {
	switch {
	case err == nil || errors.Is(err, engine.ErrOutcomeUnknown):
		return err
	case d.isClosed():
		return engine.ErrClosed
	case errors.As(err, new(*engine.Error)):
		return err
	}
	return d.translate(err)
}

// translate returns err as one of engine's errors. Nothing was written.
func (d *DB) translate(err error) *engine.Error {
	if errors.Is(err, pgx.ErrNoRows) { // the only table that must have a row is pos
		return engine.Errorf(engine.CodeCorrupt, "postgres: table %s.pos has no row: somebody has changed Skerry's tables. Restore the schema from a backup", d.schema)
	}
	code, text := meaning(sqlState(err))
	switch {
	case errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, new(*net.DNSError)):
		text = "check host and port in the URL, and that the server runs and listens there"
	case refusedTLS(err):
		text = "check sslmode and sslrootcert in the URL, and the name in the server's certificate"
	}
	if text != "" {
		text = ": " + text
	}
	if errors.Is(err, context.DeadlineExceeded) {
		// The engine's own time limit: callers take a deadline in an error's tree for theirs.
		return engine.Errorf(code, "postgres: the server did not reply in time (%v)%s", err, text)
	}
	return engine.Errorf(code, "postgres: %w%s", err, text)
}

// meaning returns the code for a SQLSTATE, and what to do about it.
func meaning(state string) (engine.Code, string) {
	switch state {
	case "": // there is no connection
		return engine.CodeUnavailable, ""
	case stateReadOnly:
		return engine.CodeReadOnly, "the server is a standby, or default_transaction_read_only is on: connect to the primary, e.g. with target_session_attrs=read-write"
	case stateNoDatabase:
		return engine.CodeInvalid, "create the database first, with CREATE DATABASE or createdb"
	case stateBadPassword:
		return engine.CodeUnauthenticated, "check user and password in the URL, PGPASSWORD or ~/.pgpass, and the server's pg_hba.conf"
	case stateDiskFull:
		return engine.CodeDiskFull, "the disk of the database server is full: make room there; writes go on without a restart of Skerry"
	case stateNoTable, stateNoColumn, stateNoIndex, stateOtherType:
		return engine.CodeCorrupt, "Skerry's tables were changed by hand"
	case stateDamaged, stateBadIndex:
		return engine.CodeCorrupt, "the server has found damaged data: restore the database from a backup"
	case stateNoRight:
		return engine.CodeInvalid, "the role lacks a right that it had when the engine was opened"
	case stateLockTimeout:
		return engine.CodeUnavailable, "another session has kept a lock for too long"
	case stateCancelled:
		return engine.CodeUnavailable, "a statement took too long, or an operator cancelled it"
	case stateStatement:
		return engine.CodeUnsupported, textLeftovers
	case stateIdleTooLong:
		return engine.CodeUnavailable, "a transaction's function ran for too long"
	}
	switch state[:2] {
	case "22", "23":
		return engine.CodeInvalid, ""
	case "28":
		return engine.CodeUnauthenticated, "the server's pg_hba.conf does not let this user in from here, or only with another sslmode"
	case "40":
		return engine.CodeConflict, ""
	case "08", "53", "57":
		return engine.CodeUnavailable, ""
	}
	return engine.CodeInternal, ""
}

// refusal returns the error of an attempt to connect in one line, and says what to do.
func (d *DB) refusal(err error) error {
	if errors.As(err, new(*engine.Error)) { // of notOld
		return err
	}
	err = connectError{err}
	switch sqlState(err) {
	case stateProtocol, stateUnknownName, stateBadValue:
		return engine.Errorf(engine.CodeInvalid, "postgres: %w: check the parameters of the URL; those that Skerry does not know itself go to the server", err)
	case stateNoRoom:
	default:
		return err
	}
	return engine.Errorf(engine.CodeUnavailable, "postgres: %w: Skerry needs up to %d connections for each process, at least 5. Raise max_connections, or CONNECTION LIMIT of the role or the database, or close others", err, d.needs())
}

// connectError shows an error of pgx in one line, with each attempt to connect once.
type connectError struct{ error }

func (e connectError) Unwrap() error { return e.error }

func (e connectError) Error() string {
	var parts []string
	for line := range strings.Lines(e.error.Error()) {
		if line = strings.TrimSpace(line); !slices.Contains(parts, line) {
			parts = append(parts, line)
		}
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return parts[0] + " " + strings.Join(parts[1:], "; ")
}

// explain is fault for an error with which a call ends. It asks the server for what the error
// does not say: who keeps a lock, and which table was changed.
func (d *DB) explain(ctx context.Context, err error) error {
	fault := d.fault(err)
	var ask func(context.Context, *pgx.Conn) error
	switch state := sqlState(err); {
	case state == stateLockTimeout:
		ask = d.lockHolder
	case engine.CodeOf(fault) == engine.CodeCorrupt, state != "" && (state[:2] == "23" || state[:2] == "42"):
		ask = d.checkSchema
	}
	if ask == nil || errors.Is(fault, engine.ErrClosed) || ctx.Err() != nil {
		return fault
	}
	ctx, cancel := context.WithTimeout(ctx, d.o.limits.probe)
	defer cancel()
	conn, cerr := d.connect(ctx)
	if cerr != nil {
		return fault
	}
	defer closeConn(conn)
	var better *engine.Error
	if errors.As(ask(ctx, conn), &better) && (better.Code == engine.CodeCorrupt || better.Code == engine.CodeOf(fault)) {
		return better
	}
	return fault
}

// lockHolder returns an error that names the session which has kept others waiting for longest.
func (d *DB) lockHolder(ctx context.Context, conn *pgx.Conn) error {
	var pid int32
	var who, table, since string
	err := conn.QueryRow(ctx, `SELECT a.pid, format('%s of role %s%s', coalesce(nullif(a.application_name, ''), 'a session'), a.usename, ' at ' || host(a.client_addr)),
			c.relname::text, coalesce(' since ' || date_trunc('second', a.xact_start)::text, '')
		FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_stat_activity a ON a.pid = l.pid
		WHERE l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND c.relnamespace = to_regnamespace($1)
			AND l.granted AND l.mode <> 'AccessShareLock' AND l.pid <> pg_backend_pid()
		ORDER BY a.wait_event_type IS NOT DISTINCT FROM 'Lock', a.xact_start LIMIT 1`, d.ident).Scan(&pid, &who, &table, &since)
	if err != nil {
		return err
	}
	return engine.Errorf(engine.CodeUnavailable, "postgres: %s has kept a lock on table %s.%s%s, for which Skerry has waited for %v: end its transaction, or run SELECT pg_terminate_backend(%d)",
		who, d.schema, table, since, d.o.limits.lock, pid)
}

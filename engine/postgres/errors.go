package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/skerrydb/skerry/engine"
)

// SQLSTATEs that the engine knows by name. See appendix A of PostgreSQL's documentation.
const (
	stateReadOnly    = "25006" // read_only_sql_transaction
	stateIdleTooLong = "25P03" // idle_in_transaction_session_timeout
	stateNoDatabase  = "3D000"
	stateBadPassword = "28P01"
	stateNoRight     = "42501"
	stateNoTable     = "42P01"
	stateDiskFull    = "53100"
	stateLockTimeout = "55P03"
	stateCancelled   = "57014" // also statement_timeout
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
	return !ok || pe.Severity != "ERROR"
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
	return translate(err)
}

// translate returns err as one of engine's errors. Nothing was written.
func translate(err error) *engine.Error {
	if errors.Is(err, pgx.ErrNoRows) { // the only table that must have a row is pos
		return engine.Errorf(engine.CodeCorrupt, "postgres: table pos has no row: somebody has changed Skerry's tables")
	}
	code, text := meaning(sqlState(err))
	if text != "" {
		text = ": " + text
	}
	if errors.Is(err, context.DeadlineExceeded) {
		// The engine's own time limit: callers take a deadline in an error's tree for theirs.
		return engine.Errorf(code, "postgres: the server did not reply within %v%s", statementTime, text)
	}
	return engine.Errorf(code, "postgres: %w%s", err, text)
}

// meaning returns the code for a SQLSTATE, and what to do about it.
func meaning(state string) (engine.Code, string) {
	switch state {
	case "":
		return engine.CodeUnavailable, "" // there is no connection
	case stateReadOnly:
		return engine.CodeReadOnly, "the server is a standby, or default_transaction_read_only is on: connect to the primary, e.g. with target_session_attrs=read-write"
	case stateNoDatabase:
		return engine.CodeInvalid, "create the database first, with CREATE DATABASE or createdb"
	case stateBadPassword:
		return engine.CodeUnauthenticated, "check user and password in the URL, PGPASSWORD or ~/.pgpass, and the server's pg_hba.conf"
	case stateDiskFull:
		return engine.CodeDiskFull, "the disk of the database server is full"
	case stateNoTable, "42703", "42P10": // also columns and unique indexes
		return engine.CodeCorrupt, "Skerry's tables were changed by hand"
	case stateNoRight:
		return engine.CodeInvalid, "the role lacks a right that it had when the engine was opened"
	case stateLockTimeout:
		return engine.CodeUnavailable, "another process has kept the lock on the position for too long"
	case stateCancelled:
		return engine.CodeUnavailable, "a statement took longer than the role's statement_timeout, or an operator cancelled it"
	case stateIdleTooLong:
		return engine.CodeUnavailable, "a transaction's function ran for too long"
	}
	switch state[:2] {
	case "22", "23":
		return engine.CodeInvalid, ""
	case "28":
		return engine.CodeUnauthenticated, "the server's pg_hba.conf does not let this user in"
	case "40":
		return engine.CodeConflict, ""
	case "08", "53", "57":
		return engine.CodeUnavailable, ""
	}
	return engine.CodeInternal, ""
}

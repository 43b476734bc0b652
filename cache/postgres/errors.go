package postgres

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/skerrydb/skerry/engine"
)

// SQLSTATEs that get an explanation.
const (
	stateNoRight = "42501"
	stateInUse   = "55006"
)

// stateOf returns the SQLSTATE of an error of the server, or "".
func stateOf(err error) string {
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pe.Code
	}
	return ""
}

// loadError is what readers of a cache learn of a source that failed: not the address, the user, or the statement. The
// cause stays inside for the program.
func loadError(ctx context.Context, err error) error {
	hidden := func(code engine.Code, msg string) error { return &engine.Error{Code: code, Msg: msg, Err: err} }
	switch state := stateOf(err); {
	case state == "" && ctx.Err() != nil:
		return hidden(engine.CodeUnavailable, "the database behind the cache did not answer in time")
	case state == "":
		return hidden(engine.CodeUnavailable, "the database behind the cache cannot be reached")
	case strings.HasPrefix(state, "42") || strings.HasPrefix(state, "22"):
		return hidden(engine.CodeInternal, "the query of the cache is wrong")
	default:
		return hidden(engine.CodeUnavailable, "the database behind the cache refuses work for now")
	}
}

// identityError says that a table does not report columns.
func identityError(table string, columns []string) error {
	return engine.Errorf(engine.CodeUnsupported, "cache/postgres: when a row of %s is deleted or updated, its old %s would not be reported: make them part of the primary key, or run: "+
		"ALTER TABLE %s REPLICA IDENTITY FULL; or REPLICA IDENTITY USING INDEX with a unique index on columns that are not null", table, strings.Join(columns, ", "), quoted(table))
}

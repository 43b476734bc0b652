// Package record stores records: JSON objects in collections. A collection validates its records, keeps the history of
// every change, and has access rules. Queries and rules are written in one language.
//
// Start with Open and DB.Define, or with Of and DB.Use for records as Go structs. DB.Update and DB.View run
// transactions on behalf of an Actor; its rules decide what a Tx may do. A *DB and a *Set are safe for concurrent use,
// a *Tx is not. Errors wrap *engine.Error with a code of Catalog. The limits are the constants Max… of this package and
// of the packages below it.
//
// It knows what a change of a record means: its collection, rules, references and history. It must not know how users
// log in or how requests arrive. Packages value, expr, schema and query define what things mean; keys stores them.
// DESIGN.md has the layout and the invariants.
package record

import (
	"slices"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/query"
)

// Codes of errors. They are part of the public API and do not change.
const (
	CodeNotFound          engine.Code = "record_not_found"
	CodeExists            engine.Code = "record_exists"
	CodeInvalid           engine.Code = "record_invalid"
	CodeRevision          engine.Code = "record_changed"
	CodeRefused           engine.Code = "record_refused"
	CodeReferenced        engine.Code = "record_referenced"
	CodeUnknownCollection engine.Code = "unknown_collection"
	CodeQuery             engine.Code = "query_invalid"
	CodeScan              engine.Code = "scan_too_large"
	CodeNoPath            engine.Code = "no_access_path"
	CodeTooLarge          engine.Code = "query_too_large"
	CodeHistoryGone       engine.Code = "history_gone"
	CodeMigration         engine.Code = "migration_refused"
	CodeLoses             engine.Code = "migration_loses_data"
)

// Catalog explains the codes of this package, sorted.
func Catalog() []engine.Meaning {
	return []engine.Meaning{
		{Code: CodeHistoryGone, Kind: engine.KindGone, Text: "the history that the request needs is no longer kept or was redacted"},
		{Code: CodeLoses, Kind: engine.KindPrecondition, Text: "the migration would lose data or make records invalid; nothing was changed"},
		{Code: CodeMigration, Kind: engine.KindRefused, Text: "the stored collections cannot be migrated to what the program defines; nothing was changed"},
		{Code: CodeNoPath, Kind: engine.KindRefused, Text: "the engine has no way to the records that the query asks for; the message names the index to declare"},
		{Code: CodeQuery, Kind: engine.KindInvalid, Text: "a filter, order, cursor or other part of a query is malformed; the message says where"},
		{Code: CodeTooLarge, Kind: engine.KindRefused, Text: "the query would read or return more than a limit; the message names it"},
		{Code: CodeRevision, Kind: engine.KindPrecondition, Text: "the record does not have the revision that the request expects; nothing was written"},
		{Code: CodeExists, Kind: engine.KindConflict, Text: "another record has the same id, or the same values in a unique index; nothing was written"},
		{Code: CodeInvalid, Kind: engine.KindRefused, Text: "values of the record are invalid, each reported with a JSON Pointer; nothing was written"},
		{Code: CodeNotFound, Kind: engine.KindNotFound, Text: "there is no such record, or the client may not see it"},
		{Code: CodeReferenced, Kind: engine.KindConflict, Text: "other records refer to the record; nothing was written"},
		{Code: CodeRefused, Kind: engine.KindForbidden, Text: "a rule of the collection does not allow this; nothing was written"},
		{Code: CodeScan, Kind: engine.KindRefused, Text: "the query would read more records than the limit; the message names the index that would help"},
		{Code: CodeUnknownCollection, Kind: engine.KindNotFound, Text: "there is no such collection, or the client may not see anything in it"},
	}
}

// Sentinels for errors.Is.
var (
	ErrNotFound          = &engine.Error{Code: CodeNotFound, Msg: "there is no such record"}
	ErrExists            = &engine.Error{Code: CodeExists, Msg: "the record exists"}
	ErrInvalid           = &engine.Error{Code: CodeInvalid, Msg: "the record is not valid"}
	ErrRevision          = &engine.Error{Code: CodeRevision, Msg: "the record has a different revision"}
	ErrRefused           = &engine.Error{Code: CodeRefused, Msg: "a rule does not allow this"}
	ErrReferenced        = &engine.Error{Code: CodeReferenced, Msg: "other records refer to the record"}
	ErrUnknownCollection = &engine.Error{Code: CodeUnknownCollection, Msg: "there is no such collection"}
	ErrHistoryGone       = &engine.Error{Code: CodeHistoryGone, Msg: "the history is no longer kept"}
	ErrLoses             = &engine.Error{Code: CodeLoses, Msg: "the migration would lose data"}
	ErrMigration         = &engine.Error{Code: CodeMigration, Msg: "the migration is refused"}
	ErrQuery             = &engine.Error{Code: CodeQuery, Msg: "the query is not valid"}
)

// Actor is the user or program that a transaction acts for. The zero Actor is a stranger: in rules, @auth.id is null.
type Actor struct {
	ID       string
	Email    string
	Name     string
	Roles    []string
	Verified bool

	// System exempts the actor from rules: the program itself, whose ID is empty, and superadmins.
	System bool

	// Limit, if not nil, further limits what rules allow, as the scopes of an API key do: what it refuses is refused,
	// also to System actors. What rules themselves look at is not limited.
	Limit func(collection string, op Operation) bool `json:"-"`

	// Request is the id of the request, which the history keeps.
	Request string
}

// Program returns the Actor for the program itself. It may do everything.
func Program() Actor { return Actor{System: true} }

func (a *Actor) auth() query.Auth {
	return query.Auth{ID: a.ID, Email: a.Email, Name: a.Name, Roles: slices.Clip(a.Roles), Verified: a.Verified}
}

// within reports whether the limit of the actor allows an operation.
func (a *Actor) within(c *collection, op Operation) bool {
	return a.Limit == nil || a.Limit(c.Name, op)
}

// Operation is what rules allow or refuse.
type Operation uint8

// The operations that have rules.
const (
	List Operation = iota
	View
	Create
	Update
	Delete
	History
	Subscribe
	operations
)

// String returns the name of the operation, as in schema.Rules.
func (o Operation) String() string {
	return [...]string{"list", "view", "create", "update", "delete", "history", "subscribe"}[o]
}

package api

import (
	"context"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/problem"
)

// Collections of records, for operators: on AdminHandler only.

// MaxOperateBytes bounds the body of a request that migrates collections or takes back changes.
const MaxOperateBytes = 64 << 10

// Migrations is the response to GET and POST /records/migrations.
type Migrations struct {
	Migrations []record.Migration `json:"migrations"`
}

// MigrationRequest is the body of POST /records/migrations.
type MigrationRequest struct {
	Collections []string `json:"collections,omitempty"` // none: all
	Down        bool     `json:"down,omitempty"`        // to the description before the last migration
	AllowLoss   bool     `json:"allow_loss,omitempty"`
	Drop        string   `json:"drop,omitempty"` // a collection to delete; the others are then left alone

	// Convert is where the records of the collections are to be stored. Their descriptions are then left alone.
	Convert record.Place `json:"convert,omitempty"`
}

// onRecords returns a handler for the records of the program, if there are any.
func (a *app) onRecords(h func(x *operation, r *http.Request) error) web.Handler {
	return a.operation(func(x *operation, r *http.Request) error {
		if a.o.Records == nil {
			return engine.Errorf(engine.CodeUnsupported, "this server has no records")
		}
		return h(x, r)
	})
}

func (x *operation) listMigrations(r *http.Request) error {
	if _, err := query(r); err != nil {
		return err
	}
	all, err := x.app.o.Records.Migrations(r.Context())
	if err != nil {
		return err
	}
	return sendJSON(x.c, http.StatusOK, Migrations{append([]record.Migration{}, all...)})
}

// migrate migrates collections.
func (x *operation) migrate(r *http.Request) error {
	return x.operate(r, func(x *operation, r *http.Request) error {
		var m MigrationRequest
		if err := strictJSON(x.val, &m); err != nil {
			return err
		}
		done, err := x.app.migrate(r.Context(), m)
		if err != nil {
			return err
		}
		x.app.o.Logger.Info("an operator migrated records", "collections", len(done), "drop", m.Drop, "convert", m.Convert, "down", m.Down, "allow_loss", m.AllowLoss, "from", x.c.ClientIP())
		return sendJSON(x.c, http.StatusOK, Migrations{append([]record.Migration{}, done...)})
	})
}

// UndoRequest is the body of POST /records/undo.
type UndoRequest struct {
	Actor  string `json:"actor"` // id of the user, or email address
	Since  string `json:"since"` // a time, or how long ago: 90m
	DryRun bool   `json:"dry_run,omitempty"`
}

// Undone is the response to POST /records/undo.
type Undone struct {
	Since   time.Time        `json:"since"`
	Records []*record.Undone `json:"records"`
}

// undoRecords takes back what a user has done.
func (x *operation) undoRecords(r *http.Request) error {
	return x.operate(r, func(x *operation, r *http.Request) error {
		var u UndoRequest
		if err := strictJSON(x.val, &u); err != nil {
			return err
		}
		since, err := sinceWhen(u.Since, time.Now())
		if err != nil {
			return err
		}
		actor := record.Actor{ID: u.Actor}
		if strings.Contains(u.Actor, "@") {
			actor, err = x.app.actor(r.Context(), u.Actor)
		}
		if err == nil && actor.ID == "" {
			err = engine.Errorf(engine.CodeInvalid, "actor: the id or the address of a user is missing")
		}
		if err != nil {
			return err
		}
		program := record.Program()
		program.Request = x.c.RequestID()
		done, err := x.app.o.Records.Undo(r.Context(), program, actor.ID, since, u.DryRun)
		if err != nil {
			return err
		}
		x.app.o.Logger.Info("an operator took back what a user did", "user", actor.ID, "since", since, "records", len(done), "dry_run", u.DryRun, "from", x.c.ClientIP())
		return sendJSON(x.c, http.StatusOK, Undone{since, append([]*record.Undone{}, done...)})
	})
}

// sinceWhen reads a time, or how long ago it was.
func sinceWhen(text string, now time.Time) (time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil && ago > 0 {
		return now.Add(-ago).UTC(), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, engine.Errorf(engine.CodeInvalid, "since: %.40q is not a time like 2026-01-02T15:04:05Z or how long ago, like 90m", text)
	}
	return at.UTC(), nil
}

// operate reads the body and runs h on the leader.
func (x *operation) operate(r *http.Request, h func(x *operation, r *http.Request) error) error {
	if _, err := query(r); err != nil {
		return err
	}
	if err := jsonOnly(r.Header); err != nil {
		return err
	}
	if err := x.readBody(r, bodyLimit{MaxOperateBytes, problem.CodeBodyTooLarge, "the body is"}); err != nil {
		return err
	}
	x.gathered = true
	return x.here(r, func(x *operation, r *http.Request) error {
		if x.othersLead() {
			return engine.ErrNotLeader
		}
		return h(x, r)
	})
}

func (a *app) migrate(ctx context.Context, m MigrationRequest) ([]record.Migration, error) {
	if m.Drop != "" {
		if m.Down || m.Collections != nil || m.Convert != "" {
			return nil, engine.Errorf(engine.CodeInvalid, "drop is given alone")
		}
		return nil, a.o.Records.DropCollection(ctx, m.Drop, m.AllowLoss)
	}
	if m.Convert != "" {
		if m.Down || m.AllowLoss {
			return nil, engine.Errorf(engine.CodeInvalid, "convert is given alone or with collections")
		}
		return a.convert(ctx, m)
	}
	return a.o.Records.Migrate(ctx, record.MigrateOptions{Collections: m.Collections, Down: m.Down, AllowLoss: m.AllowLoss})
}

// convert begins to convert collections and returns the state of those that were begun.
func (a *app) convert(ctx context.Context, m MigrationRequest) ([]record.Migration, error) {
	begun, err := a.o.Records.Convert(ctx, m.Collections, m.Convert)
	if err != nil || len(begun) == 0 {
		return nil, err
	}
	all, err := a.o.Records.Migrations(ctx)
	return slices.DeleteFunc(all, func(x record.Migration) bool { return !slices.Contains(begun, x.Collection) }), err
}

// Verified is the response to GET /records/verify.
type Verified struct {
	record.Verification
	Head string `json:"head,omitempty"` // SHA-256 at the end of the chain of changes, in hexadecimal
}

// verifyRecords looks for contradictions in a collection, on this node.
func (x *operation) verifyRecords(r *http.Request) error {
	q, err := query(r, "collection")
	if err != nil {
		return err
	}
	if q.Get("collection") == "" {
		return badParameter("collection", engine.CodeInvalid, "the name of a collection is missing")
	}
	var head record.Head
	_, err = x.app.o.Records.View(r.Context(), engine.Read{}, record.Program(), func(tx *record.Tx) (err error) {
		head, err = tx.Head(q.Get("collection"))
		return err
	})
	if err != nil {
		return err
	}
	all, err := x.app.o.Records.Verify(r.Context(), []string{q.Get("collection")}, nil)
	if err != nil {
		return err
	}
	return sendJSON(x.c, http.StatusOK, Verified{all[0], hex.EncodeToString(head.Hash)})
}

// explainRule evaluates a rule for a user.
func (x *operation) explainRule(r *http.Request) error {
	q, err := query(r, "as", "collection", "operation", "id")
	if err != nil {
		return err
	}
	op, err := record.ParseOperation(q.Get("operation"))
	if err != nil {
		return err
	}
	actor, err := x.app.actor(r.Context(), q.Get("as"))
	if err != nil {
		return err
	}
	var e *record.Explanation
	_, err = x.app.o.Records.View(r.Context(), engine.Read{}, actor, func(tx *record.Tx) (err error) {
		e, err = tx.Explain(q.Get("collection"), op, q.Get("id"))
		return err
	})
	if err != nil {
		return err
	}
	return sendJSON(x.c, http.StatusOK, e)
}

// actor returns a user of the application as an actor, by email address or id; a stranger for "".
func (a *app) actor(ctx context.Context, name string) (record.Actor, error) {
	if name == "" {
		return record.Actor{}, nil
	}
	if a.o.Users == nil {
		return record.Actor{}, engine.Errorf(engine.CodeUnsupported, "this program has no users; its application sets Services.Users")
	}
	find := a.o.Users.Get
	if strings.Contains(name, "@") {
		find = a.o.Users.Find
	}
	u, err := find(ctx, engine.Read{}, name)
	if err != nil {
		return record.Actor{}, err
	}
	return record.Actor{ID: u.ID, Email: u.Email, Name: u.Name, Roles: u.Roles, Verified: u.Verified()}, nil
}

package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/problem"
)

// Collections of records, for operators: on AdminHandler only.

// MaxMigrationBytes bounds the body of a request that migrates collections.
const MaxMigrationBytes = 64 << 10

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

// migrate reads the body and migrates collections on the leader.
func (x *operation) migrate(r *http.Request) error {
	if _, err := query(r); err != nil {
		return err
	}
	if err := jsonOnly(r.Header); err != nil {
		return err
	}
	if err := x.readBody(r, bodyLimit{MaxMigrationBytes, problem.CodeBodyTooLarge, "the migration is"}); err != nil {
		return err
	}
	x.gathered = true
	return x.here(r, func(x *operation, r *http.Request) error {
		if x.othersLead() {
			return engine.ErrNotLeader
		}
		var m MigrationRequest
		if err := strictJSON(x.val, &m); err != nil {
			return err
		}
		done, err := x.app.migrate(r.Context(), m)
		if err != nil {
			return err
		}
		x.app.o.Logger.Info("an operator migrated records", "collections", len(done), "drop", m.Drop, "down", m.Down, "allow_loss", m.AllowLoss, "from", x.c.ClientIP())
		return sendJSON(x.c, http.StatusOK, Migrations{append([]record.Migration{}, done...)})
	})
}

func (a *app) migrate(ctx context.Context, m MigrationRequest) ([]record.Migration, error) {
	if m.Drop != "" {
		if m.Down || m.Collections != nil {
			return nil, engine.Errorf(engine.CodeInvalid, "drop is given alone")
		}
		return nil, a.o.Records.DropCollection(ctx, m.Drop, m.AllowLoss)
	}
	return a.o.Records.Migrate(ctx, record.MigrateOptions{Collections: m.Collections, Down: m.Down, AllowLoss: m.AllowLoss})
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

package skerry

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/api"
	"github.com/skerrydb/skerry/web/records"
)

// value returns what procedures find under key; see proc.Tx.Value.
func (s *Server) value(key any) any {
	if key == (record.Key{}) && s.services.Records != nil {
		return s.services.Records
	}
	return nil
}

func (s *Server) openRecords() (c capability, err error) {
	passwords, err := auth.NewPasswords(auth.Params{})
	if err != nil {
		return c, err
	}
	db, err := record.Open(s.eng, record.Options{Passwords: passwords, Feed: s.services.Feed, Logger: s.o.Logger})
	if err != nil {
		s.services.Records = record.Unavailable(err)
		return capability{name: "records", errors: record.Catalog()}, s.without("records", err)
	}
	s.services.Records = db
	face := records.New(db, records.Options{Actor: records.Operator})
	routes := []api.Route{
		{Path: records.DefaultPrefix + "/{collection}", Handle: face.Serve, MaxBody: records.MaxBody},
		{Methods: "GET, HEAD", Path: records.DefaultPrefix, Handle: face.Page, Text: "a page about the collections of records"},
		{Methods: "GET, HEAD", Path: "/openapi.json", Handle: face.OpenAPI, Text: "the same as an OpenAPI document"},
	}
	for _, l := range face.Table() {
		routes = append(routes, api.Route{Methods: l.Method, Path: l.Path, Text: l.Text})
	}
	routes = append(routes, api.Route{Methods: "GET, HEAD", Path: collectionsPath, Handle: listCollections(db), Text: "the collections of records, as JSON"})
	return capability{name: "records", errors: record.Catalog(), routes: routes, metrics: db.Metrics, run: func(ctx context.Context) error { return s.runRecords(ctx, db) }}, nil
}

const collectionsPath = records.DefaultPrefix + "/collections"

// listCollections serves the descriptions of all collections, for `skerry gen ts`.
func listCollections(db *record.DB) web.Handler {
	return func(c *web.Context) error {
		list, err := db.Collections(c, engine.Read{})
		if err != nil {
			return err
		}
		if list == nil {
			list = []schema.Collection{} // [] in JSON, not null
		}
		return c.JSON(http.StatusOK, map[string]any{"collections": list})
	}
}

// migratePause is how long a server in debug mode waits before it tries again to migrate.
const migratePause = 300 * time.Millisecond

// runRecords runs db. In debug mode it first brings the stored collections to what the program defines, if no data is
// lost by that, so that a program that is being developed can be run again after each change.
func (s *Server) runRecords(ctx context.Context, db *record.DB) error {
	var work sync.WaitGroup
	defer work.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if s.o.Web.Debug {
		work.Go(func() { s.migrateRecords(ctx, db) })
	}
	return db.Run(ctx)
}

// migrateRecords tries until it has succeeded, another node has, or there is no hope.
func (s *Server) migrateRecords(ctx context.Context, db *record.DB) {
	for ctx.Err() == nil {
		all, err := db.Migrations(ctx)
		if err == nil && !slices.ContainsFunc(all, func(m record.Migration) bool { return len(m.Steps) > 0 || m.Refused != "" }) {
			return
		}
		if err == nil {
			all, err = db.Migrate(ctx, record.MigrateOptions{})
		}
		switch {
		case err == nil:
			for _, m := range all {
				s.o.Logger.Info("collection migrated", "collection", m.Collection, "steps", fmt.Sprint(m.Steps))
			}
			return
		case !engine.Passes(err):
			s.o.Logger.Warn("a collection is not stored as the program defines it; see `migrate status`", "err", err)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(migratePause):
		}
	}
}

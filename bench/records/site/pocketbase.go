package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/pocketbase/dbx"
	"github.com/pocketbase/pocketbase"
	"github.com/pocketbase/pocketbase/apis"
	"github.com/pocketbase/pocketbase/core"
	"github.com/pocketbase/pocketbase/tools/types"

	"github.com/skerrydb/skerry/bench/records/item"
)

// pragmas are those of core.DefaultDBConnect, except for synchronous.
const pragmas = "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=journal_size_limit(200000000)" +
	"&_pragma=synchronous(FULL)&_pragma=foreign_keys(ON)&_pragma=temp_store(MEMORY)&_pragma=cache_size(-32000)"

// history is the table of the variant that keeps one. It is not a collection: its rows cost less then.
const history = `CREATE TABLE IF NOT EXISTS history (
  seq INTEGER PRIMARY KEY, record TEXT NOT NULL, at TEXT NOT NULL, actor TEXT NOT NULL, op TEXT NOT NULL, before TEXT, after TEXT);
CREATE INDEX IF NOT EXISTS history_record ON history (record, seq);`

// newPocketBase is PocketBase as a Go program, with its default settings, or with full durability and without the log
// of requests. keep adds a history, with a row a change in the same transaction.
func newPocketBase(dir string, full, keep bool) (*site, error) {
	c := pocketbase.Config{DefaultDataDir: dir, HideStartBanner: true}
	if full {
		c.DBConnect = func(path string) (*dbx.DB, error) { return dbx.Open("sqlite", path+pragmas) }
	}
	app := pocketbase.NewWithConfig(c)
	if err := app.Bootstrap(); err != nil {
		return nil, err
	}
	if err := app.RunAllMigrations(); err != nil {
		return nil, err
	}
	if full {
		app.Settings().Logs.MaxDays = 0
		if err := app.Save(app.Settings()); err != nil {
			return nil, err
		}
	}
	if keep {
		if _, err := app.NonconcurrentDB().NewQuery(history).Execute(); err != nil {
			return nil, err
		}
		app.OnRecordCreate(item.Collection).BindFunc(func(e *core.RecordEvent) error { return recordChange(e, "create") })
		app.OnRecordUpdate(item.Collection).BindFunc(func(e *core.RecordEvent) error { return recordChange(e, "update") })
	}
	if err := pocketCollection(app); err != nil {
		return nil, err
	}
	return &site{
		load:   func(_ context.Context, n int64) error { return pocketLoad(app, n, keep) },
		report: func(_ context.Context, r *item.Report) error { return pocketReport(app, r, keep) },
		index: func(context.Context) error {
			c, err := app.FindCollectionByNameOrId(item.Collection)
			if err != nil {
				return err
			}
			c.AddIndex("idx_items_price", false, "price", "")
			return app.Save(c)
		},
		serve: func(ctx context.Context, addr string) error { return pocketServe(ctx, app, addr) },
		close: app.ResetBootstrapState,
	}, nil
}

// pocketServe serves until ctx is done.
func pocketServe(ctx context.Context, app core.App, addr string) error {
	app.OnServe().BindFunc(func(e *core.ServeEvent) error {
		e.InstallerFunc = nil // it would open a browser
		return e.Next()
	})
	ended := make(chan error, 1)
	go func() { ended <- apis.Serve(app, apis.ServeConfig{HttpAddr: addr}) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	err := app.OnTerminate().Trigger(&core.TerminateEvent{App: app}, func(e *core.TerminateEvent) error { return e.Next() })
	return errors.Join(err, <-ended)
}

// pocketCollection makes the collection, which anyone may read and change, if it is not there.
func pocketCollection(app core.App) error {
	if _, err := app.FindCollectionByNameOrId(item.Collection); err == nil {
		return nil
	}
	c := core.NewBaseCollection(item.Collection)
	anyone := types.Pointer("")
	c.ListRule, c.ViewRule, c.CreateRule, c.UpdateRule = anyone, anyone, anyone, anyone
	c.Fields.Add(
		&core.TextField{Name: "title", Required: true, Max: 200},
		&core.TextField{Name: "status", Required: true, Max: 20},
		&core.NumberField{Name: "number", OnlyInt: true},
		&core.NumberField{Name: "price"},
		&core.BoolField{Name: "done"},
		&core.TextField{Name: "body", Max: 5000},
		&core.AutodateField{Name: "created", OnCreate: true},
		&core.AutodateField{Name: "updated", OnCreate: true, OnUpdate: true},
	)
	c.AddIndex("idx_items_status", false, "status, number DESC", "")
	return app.Save(c)
}

// recordChange writes the change and its row of the history in one transaction.
func recordChange(e *core.RecordEvent, op string) error {
	outer := e.App
	defer func() { e.App = outer }()
	return outer.RunInTransaction(func(tx core.App) error {
		var before []byte
		if op == "update" {
			var err error
			if before, err = json.Marshal(e.Record.Original().FieldsData()); err != nil {
				return err
			}
		}
		e.App = tx
		if err := e.Next(); err != nil {
			return err
		}
		after, err := json.Marshal(e.Record.FieldsData())
		if err != nil {
			return err
		}
		_, err = tx.NonconcurrentDB().Insert("history", dbx.Params{
			"record": e.Record.Id, "at": types.NowDateTime().String(), "actor": "", "op": op, "before": string(before), "after": string(after),
		}).Execute()
		return err
	})
}

// loadRows is how many rows one statement of a load inserts.
const loadRows = 500

// pocketLoad loads records by SQL: saving each as a record would take a minute for 100,000.
func pocketLoad(app core.App, n int64, keep bool) error {
	var there int64
	if err := app.DB().NewQuery("SELECT count(*) FROM items").Row(&there); err != nil || there > 0 {
		return err
	}
	now := types.NowDateTime().String()
	return app.RunInTransaction(func(tx core.App) error {
		for first := int64(0); first < n; first += loadRows {
			var rows, past strings.Builder
			rows.WriteString("INSERT INTO items (id, title, status, number, price, done, body, created, updated) VALUES ")
			past.WriteString("INSERT INTO history (record, at, actor, op, after) VALUES ")
			for i := first; i < min(first+loadRows, n); i++ {
				if i > first {
					rows.WriteByte(',')
					past.WriteByte(',')
				}
				r := item.New(i) // no text of it needs escaping
				fmt.Fprintf(&rows, "('%s','%s','%s',%d,%v,%t,'%s','%s','%s')", item.AppendID(nil, i), r.Title, r.Status, r.Number, r.Price, r.Done, r.Body, now, now)
				fmt.Fprintf(&past, "('%s','%s','','create','%s')", item.AppendID(nil, i), now, item.AppendJSON(nil, i))
			}
			if _, err := tx.NonconcurrentDB().NewQuery(rows.String()).Execute(); err != nil {
				return err
			}
			if !keep {
				continue
			}
			if _, err := tx.NonconcurrentDB().NewQuery(past.String()).Execute(); err != nil {
				return err
			}
		}
		return nil
	})
}

// pocketReport counts rows and the pages of tables with their indexes.
func pocketReport(app core.App, r *item.Report, keep bool) error {
	r.Changes = -1
	if err := app.DB().NewQuery("SELECT count(*) FROM items").Row(&r.Records); err != nil {
		return err
	}
	const bytes = "SELECT coalesce(sum(pgsize), 0) FROM dbstat WHERE name IN (SELECT name FROM sqlite_master WHERE tbl_name = {:table})"
	if err := app.DB().NewQuery(bytes).Bind(dbx.Params{"table": item.Collection}).Row(&r.RecordBytes); err != nil || !keep {
		return err
	}
	if err := app.DB().NewQuery("SELECT count(*) FROM history").Row(&r.Changes); err != nil {
		return err
	}
	return app.DB().NewQuery(bytes).Bind(dbx.Params{"table": "history"}).Row(&r.HistoryBytes)
}

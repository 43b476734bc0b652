package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/bench/records/item"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/records"
)

// newSkerry is a server as a user runs it, with the defaults of all parts.
func newSkerry(dir string) (*site, error) {
	eng, err := embedded.Open(dir, embedded.Options{})
	if err != nil {
		return nil, err
	}
	// Before the server, which must not serve before the records are loaded.
	db, err := record.Open(eng, record.Options{})
	if err == nil {
		err = db.Define(item.Describe())
	}
	if err != nil {
		return nil, err
	}
	return &site{
		load:   func(ctx context.Context, n int64) error { return skerryLoad(ctx, db, n) },
		report: func(ctx context.Context, r *item.Report) error { return skerryReport(ctx, eng, r) },
		index:  func(ctx context.Context) error { return skerryIndex(ctx, eng) },
		serve: func(ctx context.Context, addr string) error {
			s, err := skerry.Open(eng, skerry.Options{
				HTTP: addr, RESP: skerry.Off, Admin: skerry.Off, Dir: dir,
				Web: skerry.Web{Application: func(s *skerry.Services) (http.Handler, error) {
					if err := s.Records.Define(item.Describe()); err != nil {
						return nil, err
					}
					app, err := web.New(s.Web)
					if err != nil {
						return nil, err
					}
					records.Mount(app, s.Records, records.Options{})
					return app, nil
				}},
			})
			if err != nil {
				return err
			}
			return s.Run(ctx)
		},
		close: eng.Close,
	}, nil
}

// skerryLoad loads records in transactions of loadRows.
func skerryLoad(ctx context.Context, db *record.DB, n int64) error {
	there := false
	_, err := db.View(ctx, engine.Read{}, record.Program(), func(tx *record.Tx) error {
		_, err := tx.Get(item.Collection, string(item.AppendID(nil, 0)))
		there = err == nil
		return nil
	})
	if err != nil || there {
		return err
	}
	for first := int64(0); first < n; first += loadRows {
		if _, err := db.Update(ctx, record.Program(), func(tx *record.Tx) error {
			for i := first; i < min(first+loadRows, n); i++ {
				if _, err := tx.Create(item.Collection, string(item.AppendID(nil, i)), item.AppendJSON(nil, i)); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// skerryIndex builds an index as a new version of the program would: it migrates the collection and waits until the work
// in the background is done.
func skerryIndex(ctx context.Context, eng engine.Engine) error {
	db, err := record.Open(eng, record.Options{})
	if err != nil {
		return err
	}
	c := item.Describe()
	c.Indexes = append(c.Indexes, schema.Index{Name: "by_price", Fields: []schema.IndexField{{Name: "price"}}})
	if err := db.Define(c); err != nil {
		return err
	}
	if _, err := db.Migrate(ctx, record.MigrateOptions{}); err != nil {
		return err
	}
	work, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- db.Run(work) }()
	defer func() { stop(); <-ended }()
	for tick := time.Tick(10 * time.Millisecond); ; {
		all, err := db.Migrations(ctx)
		if err != nil {
			return err
		}
		pending := false
		for _, m := range all {
			pending = pending || m.Progress != nil || len(m.Steps) > 0 || m.Refused != ""
			if m.Progress != nil && m.Progress.Failed != "" {
				return errors.New(m.Progress.Failed)
			}
		}
		if !pending {
			return nil
		}
		select {
		case <-tick:
		case err := <-ended:
			ended <- err
			return err
		}
	}
}

// skerryReport counts what is in the engine.
func skerryReport(ctx context.Context, eng engine.Engine, r *item.Report) error {
	n, err := item.Count(ctx, eng)
	n.LiveBytes = r.LiveBytes
	*r = n
	return err
}

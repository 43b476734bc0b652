package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
)

const (
	collection = "orders"
	loadRows   = 1000 // records of one transaction
	gridRows   = 50   // records of a page, as the page has it
	lots       = 100  // values of the field lot, which has no index
)

// describe is the collection: eight fields, an index on one of them.
func describe() schema.Collection {
	return schema.Collection{Name: collection, Indexes: []schema.Index{record.By("total")}, Fields: []schema.Field{
		{Name: "title", Type: schema.Text, Required: true},
		{Name: "status", Type: schema.Select, Options: []string{"open", "paid", "sent"}},
		{Name: "total", Type: schema.Decimal, Scale: 2},
		{Name: "lot", Type: schema.Int}, {Name: "paid", Type: schema.Bool}, {Name: "due", Type: schema.Time},
		{Name: "email", Type: schema.Email}, {Name: "notes", Type: schema.Text},
	}}
}

// order returns the id and the fields of one record. Totals are spread, so that sorting by them reads records all over the data.
func order(i int) (id string, fields []byte) {
	spread := uint32(i) * 2654435761 // Knuth's multiplicative hash
	due := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(i) * time.Minute)
	return fmt.Sprintf("o%08d", i), fmt.Appendf(nil, `{"title":"Order number %d","status":%q,"total":"%d.%02d","lot":%d,"paid":%t,"due":%q,"email":"customer%d@example.org","notes":"Leave it at the back door, please, and ring twice: number %d is often out."}`,
		i, []string{"open", "paid", "sent"}[i%3], spread%100_000, i%100, i%lots, i%3 > 0, due.Format(time.RFC3339), i%5000, spread%1000)
}

// serve runs a server with defaults on a new folder until it is told to stop. It writes the set-up link when the records are there.
func serve(dir, records, link string) (err error) {
	n, err := strconv.Atoi(records)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	eng, err := embedded.Open(dir, embedded.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	var db *record.DB
	links := make(chan string, 1)
	srv, err := skerry.Open(eng, skerry.Options{
		HTTP: "127.0.0.1:0", RESP: skerry.Off, Admin: "127.0.0.1:0", Dir: dir, AdminLink: func(url string) { links <- url },
		Web: skerry.Web{Application: func(s *skerry.Services) (http.Handler, error) {
			db = s.Records
			return http.NotFoundHandler(), db.Define(describe())
		}},
	})
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() {
		err := fill(ctx, db, n)
		if err == nil {
			err = os.WriteFile(link+".new", []byte(<-links), 0o600)
		}
		if err == nil {
			err = os.Rename(link+".new", link)
		}
		if err != nil {
			failed <- err
			stop()
		}
	}()
	err = srv.Run(ctx)
	select {
	case cause := <-failed:
		return cause
	default:
		return err
	}
}

// fill creates the records.
func fill(ctx context.Context, db *record.DB, n int) error {
	for first := 0; first < n; first += loadRows {
		if _, err := db.Update(ctx, record.Program(), func(tx *record.Tx) error {
			for i := first; i < min(first+loadRows, n); i++ {
				id, fields := order(i)
				if _, err := tx.Create(collection, id, fields); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return fmt.Errorf("load records from %d: %w", first, err)
		}
	}
	return nil
}

// Command rival serves the departments of examples/deptemp on net/http without Skerry: straight from PostgreSQL with a
// prepared query on a pool of pgx, or with -otter through the cache otter, which nothing invalidates.
package main

import (
	"context"
	"flag"
	"log"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/maypok86/otter/v2"

	"github.com/skerrydb/skerry/examples/deptemp"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "where to listen")
	url := flag.String("postgres", "", "URL of the database")
	cached := flag.Int64("otter", 0, "bytes of the cache; 0: none")
	flag.Parse()
	cfg, err := pgxpool.ParseConfig(*url)
	if err != nil {
		log.Fatal(err)
	}
	cfg.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		log.Fatal(err)
	}
	load := func(ctx context.Context, id string) ([]byte, error) {
		var key string
		var body []byte
		err := pool.QueryRow(ctx, deptemp.Query, []string{id}).Scan(&key, &body)
		return body, err
	}
	get := load
	if *cached > 0 {
		c := otter.Must(&otter.Options[string, []byte]{MaximumWeight: uint64(*cached), Weigher: func(key string, body []byte) uint32 { return uint32(len(key) + len(body)) }})
		get = func(ctx context.Context, id string) ([]byte, error) {
			return c.Get(ctx, id, otter.LoaderFunc[string, []byte](load))
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /dept/{id}", func(w http.ResponseWriter, r *http.Request) {
		body, err := get(r.Context(), r.PathValue("id"))
		if err != nil {
			http.Error(w, "no such department", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	})
	log.Fatal(http.ListenAndServe(*addr, mux))
}

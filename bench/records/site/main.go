// Command site serves one collection of records on one of three stacks, for the benchmark that compares them: Skerry's
// records, PocketBase, and net/http with pgx on PostgreSQL.
//
// It knows the collection and the three ways to serve it; it must not know what is measured.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/skerrydb/skerry/bench/records/item"
)

// options are the flags.
type options struct {
	system   string
	addr     string // of the records
	control  string // of the generator's questions
	data     string
	postgres string
	load     int64
}

func main() {
	var o options
	flag.StringVar(&o.system, "system", "skerry", "skerry, pocketbase, pocketbase-full, pocketbase-history or postgres")
	flag.StringVar(&o.addr, "addr", "127.0.0.1:0", "where to serve records")
	flag.StringVar(&o.control, "control", "127.0.0.1:0", "where to serve the questions of the load generator")
	flag.StringVar(&o.data, "data", "", "folder of the data")
	flag.StringVar(&o.postgres, "postgres", "", "address of PostgreSQL")
	flag.Int64Var(&o.load, "load", 0, "records to load if there are none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

// site is one stack.
type site struct {
	load   func(ctx context.Context, n int64) error // loads records 0 to n-1, if there are none
	report func(ctx context.Context, r *item.Report) error
	index  func(ctx context.Context) error // builds an index on price
	serve  func(ctx context.Context, addr string) error
	close  func() error
}

func run(ctx context.Context, o options) (err error) {
	s, err := open(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.load(ctx, o.load); err != nil {
		return fmt.Errorf("load %d records: %w", o.load, err)
	}
	l, err := net.Listen("tcp", o.control)
	if err != nil {
		return err
	}
	control := &http.Server{Handler: s.questions()}
	go func() { _ = control.Serve(l) }()
	defer control.Close()
	return s.serve(ctx, o.addr)
}

func open(ctx context.Context, o options) (*site, error) {
	switch o.system {
	case "skerry":
		return newSkerry(o.data)
	case "pocketbase", "pocketbase-full", "pocketbase-history":
		return newPocketBase(o.data, o.system != "pocketbase", o.system == "pocketbase-history")
	case "postgres":
		return newPostgres(ctx, o.postgres)
	}
	return nil, fmt.Errorf("no such system: %s", o.system)
}

// questions is what the load generator asks beside the load.
func (s *site) questions() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /report", func(w http.ResponseWriter, r *http.Request) {
		var report item.Report
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		report.LiveBytes = int64(m.HeapAlloc)
		reply(w, &report, s.report(r.Context(), &report))
	})
	mux.HandleFunc("POST /index", func(w http.ResponseWriter, r *http.Request) {
		from := time.Now()
		err := s.index(r.Context())
		reply(w, item.IndexReport{Seconds: time.Since(from).Seconds()}, err)
	})
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/heap", pprof.Handler("heap").ServeHTTP)
	return mux
}

func reply(w http.ResponseWriter, v any, err error) {
	if err == nil {
		err = json.NewEncoder(w).Encode(v)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// serveHTTP serves h until ctx is done.
func serveHTTP(ctx context.Context, addr string, h http.Handler) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: h}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return srv.Close()
	}
}

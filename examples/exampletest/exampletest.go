// Package exampletest runs the examples for their tests.
//
// It knows engines and servers; it must not know what an example does.
package exampletest

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/proc"
)

// quiet discards the log.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// open returns a new engine, which is closed when the test ends.
func open(t testing.TB, o embedded.Options) *embedded.DB {
	t.Helper()
	o.Logger = quiet()
	db, err := embedded.Open(t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// Set returns procedures on a new engine.
func Set(t testing.TB, procedures ...proc.Procedure) *proc.Set {
	t.Helper()
	set, err := proc.New(open(t, embedded.Options{}), proc.Options{}, procedures...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// Serve runs a server on a new engine until the test ends.
func Serve(t testing.TB, eo embedded.Options, o skerry.Options) *skerry.Server {
	t.Helper()
	return ServeOn(t, open(t, eo), o)
}

// ServeOn runs a server on an engine until the test ends.
func ServeOn(t testing.TB, eng engine.Engine, o skerry.Options) *skerry.Server {
	t.Helper()
	o.HTTP, o.RESP, o.Admin, o.Logger = "127.0.0.1:0", "127.0.0.1:0", skerry.Off, quiet()
	srv, err := skerry.Open(eng, o)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Run(context.Background()) }()
	t.Cleanup(func() {
		srv.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return srv
}

// Address returns the address for clients of a server with procedures. Those in instead replace the ones of the
// same names.
func Address(t testing.TB, procedures []proc.Procedure, instead ...proc.Procedure) string {
	t.Helper()
	all := slices.DeleteFunc(slices.Clone(procedures), func(p proc.Procedure) bool {
		return slices.ContainsFunc(instead, func(i proc.Procedure) bool { return i.Schema().Name == p.Schema().Name })
	})
	srv := Serve(t, embedded.Options{}, skerry.Options{Procedures: append(all, instead...)})
	return strings.TrimPrefix(srv.RESPURL(), "redis://")
}

package client_test

import (
	"context"
	"strings"
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/client"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/proc"
)

// addIn and addOut are what the procedure add takes and gives.
type addIn struct {
	Key string `json:"key"`
	N   int64  `json:"n"`
}

type addOut struct {
	Total int64  `json:"total"`
	Key   string `json:"key"`
}

// procedures are those of the servers under test.
func procedures() []proc.Procedure {
	add := proc.Define("add", func(tx *proc.Tx, in addIn) (addOut, error) {
		n, err := tx.KV(0).Add([]byte(in.Key), in.N)
		return addOut{n, in.Key}, err
	})
	echo := proc.DefineRead("echo", func(_ *proc.Tx, in struct {
		Text string `json:"text"`
	}) (string, error) {
		return in.Text, nil
	})
	return []proc.Procedure{add, echo}
}

// startServer runs Skerry without a cluster, and returns its address.
func startServer(tb testing.TB, o skerry.Options) string {
	tb.Helper()
	db, err := embedded.Open(tb.TempDir(), embedded.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	o.HTTP, o.RESP = skerry.Off, "127.0.0.1:0"
	o.Procedures = procedures()
	s, err := skerry.Open(db, o)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Errorf("the server ended with %v", err)
		}
		db.Close()
	})
	return strings.TrimPrefix(s.RESPURL(), "redis://")
}

func TestCall(t *testing.T) {
	c := open(t, client.Options{Addrs: []string{startServer(t, skerry.Options{})}})
	ctx := context.Background()
	if err := c.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	res, err := c.Call(ctx, "add", "k", 7)
	if want := "%2\r\n$5\r\ntotal\r\n:7\r\n$3\r\nkey\r\n$1\r\nk\r\n"; err != nil || string(res.Raw()) != want {
		t.Errorf("Call: %q, %v; want %q", res.Raw(), err, want)
	}
	_, err = c.Call(ctx, "ad", "k", 7)
	if e, ok := err.(*client.Error); !ok || e.Code != "unknown_procedure" || e.Kind != "ERR" || !strings.Contains(e.Msg, "mean add?") {
		t.Errorf("unknown procedure: %v", err)
	}
	const n = 1000
	ended := make(chan error, n)
	for range n {
		if err := c.CallAsync(ctx, func(_ client.Result, err error) { ended <- err }, "add", "k", 1); err != nil {
			t.Fatal(err)
		}
	}
	for range n {
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	res, err = c.Do(ctx, "GET", "k")
	if v, e := res.Int(); err != nil || e != nil || v != 7+n {
		t.Errorf("GET: %d, %v, %v", v, err, e)
	}
	if s, err := c.Schema(ctx, "add"); err != nil || !strings.HasPrefix(string(s), `{"name":"add"`) {
		t.Errorf("Schema: %s, %v", s, err)
	}
}

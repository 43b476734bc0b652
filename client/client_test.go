package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/client"
)

func TestCall(t *testing.T) {
	c := open(t, client.Options{Addrs: []string{startServer(t, skerry.Options{})}})
	ctx := context.Background()
	if err := c.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	res, err := c.Call(ctx, "add", "k", 7)
	if err != nil {
		t.Fatal(err)
	}
	var out addOut
	if err := res.Scan(&out); err != nil || out.Total != 7 || out.Key != "k" || out.At.IsZero() || len(out.Tags) != 2 || out.Prev != nil {
		t.Errorf("Call: %q, %+v, %v", res.Raw(), out, err)
	}
	_, err = c.Call(ctx, "ad", "k", 7)
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != "unknown_procedure" || e.Kind != "ERR" || !strings.Contains(e.Msg, "mean add?") {
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

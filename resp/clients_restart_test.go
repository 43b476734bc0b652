package resp_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/ports"
	"github.com/skerrydb/skerry/resp"
)

// TestClientsSurviveRestart stops the server while clients are connected and starts another
// at the same address. The clients must reconnect by themselves.
func TestClientsSurviveRestart(t *testing.T) {
	redis.SetLogger(strictLog{silent{t}}) // go-redis rightly logs the refused connections
	addr := ports.Addr(t)
	parent := t
	var calls map[string]func(context.Context) error
	for _, turn := range []string{"first", "second", "third"} {
		t.Run(turn, func(t *testing.T) {
			l, err := net.Listen("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			serveSkerry(t, l, resp.Options{})
			if calls == nil {
				calls = restartClients(parent, addr)
			}
			for name, set := range calls {
				eventually.True(t, name+" on the "+turn+" server", func() bool {
					ctx, cancel := context.WithTimeout(context.Background(), time.Second)
					defer cancel()
					return set(ctx) == nil
				})
			}
		})
	}
}

// restartClients connects both clients; they live until the end of t.
func restartClients(t *testing.T, addr string) map[string]func(context.Context) error {
	t.Helper()
	g := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { g.Close() })
	r, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return map[string]func(context.Context) error{
		"go-redis": func(ctx context.Context) error { return g.Set(ctx, "k", "v", 0).Err() },
		"rueidis": func(ctx context.Context) error {
			return r.Do(ctx, r.B().Set().Key("k").Value("v").Build()).Error()
		},
	}
}

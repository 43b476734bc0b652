package resp_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/skerrydb/skerry/resp"
)

// strictLog fails the test for every line that go-redis logs.
type strictLog struct{ testing.TB }

func (l strictLog) Printf(_ context.Context, format string, v ...any) {
	l.Errorf("go-redis logged: "+format, v...)
}

// strictGoRedis makes this test fail when go-redis logs something.
func strictGoRedis(t *testing.T) {
	t.Helper()
	redis.SetLogger(strictLog{t})
	t.Cleanup(func() { redis.SetLogger(strictLog{silent{t}}) })
}

// silent discards what a client logs after its test.
type silent struct{ testing.TB }

func (silent) Errorf(string, ...any) {}

func TestGoRedis(t *testing.T) {
	strictGoRedis(t)
	server, client, _ := testTLS(t)
	plain := startSkerry(t, resp.Options{})
	secured := startSkerry(t, resp.Options{Password: "secret", TLS: server})
	for name, o := range map[string]*redis.Options{
		"RESP3":        {Addr: plain},
		"RESP2":        {Addr: plain, Protocol: 2, DB: 1, ClientName: "two"},
		"TLS and AUTH": {Addr: secured, TLSConfig: client, Password: "secret"},
		"user":         {Addr: secured, TLSConfig: client, Username: "default", Password: "secret", DB: 2},
	} {
		t.Run(name, func(t *testing.T) {
			c := redis.NewClient(o)
			defer c.Close()
			goRedisStrings(t, c)
			goRedisPipeline(t, c)
			goRedisWatch(t, c)
		})
	}
}

func goRedisStrings(t *testing.T, c *redis.Client) {
	t.Helper()
	ctx := t.Context()
	if err := c.Set(ctx, "k", "v", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	if v, err := c.Get(ctx, "k").Result(); v != "v" || err != nil {
		t.Errorf("GET: %q, %v", v, err)
	}
	if _, err := c.Get(ctx, "none").Result(); err != redis.Nil {
		t.Errorf("GET of nothing: %v", err)
	}
	if d, err := c.TTL(ctx, "k").Result(); d <= 55*time.Second || d > time.Minute || err != nil {
		t.Errorf("TTL: %v, %v", d, err)
	}
	if v, err := c.SetArgs(ctx, "k", "w", redis.SetArgs{Mode: "XX", Get: true, KeepTTL: true}).Result(); v != "v" || err != nil {
		t.Errorf("SET XX GET KEEPTTL: %q, %v", v, err)
	}
	if err := c.Incr(ctx, "k").Err(); err == nil || err.Error() != "ERR value is not an integer or out of range" {
		t.Errorf("INCR of text: %v", err)
	}
	if f, err := c.IncrByFloat(ctx, "f", 1.5).Result(); f != 1.5 || err != nil {
		t.Errorf("INCRBYFLOAT: %v, %v", f, err)
	}
	if vs, err := c.MGet(ctx, "k", "none").Result(); err != nil || len(vs) != 2 || vs[0] != "w" || vs[1] != nil {
		t.Errorf("MGET: %v, %v", vs, err)
	}
	m, err := c.LCS(ctx, &redis.LCSQuery{Key1: "k", Key2: "k", Idx: true, WithMatchLen: true}).Result()
	if err != nil || m.Len != 1 || len(m.Matches) != 1 {
		t.Errorf("LCS: %+v, %v", m, err)
	}
	if n := c.Options().ClientName; n != "" {
		if got, err := c.ClientGetName(ctx).Result(); got != n || err != nil {
			t.Errorf("CLIENT GETNAME: %q, %v", got, err)
		}
	}
	if info, err := c.Command(ctx).Result(); err != nil || info["get"] == nil || info["get"].Arity != 2 || !info["get"].ReadOnly {
		t.Errorf("COMMAND: %d commands, %v", len(info), err)
	}
}

func goRedisPipeline(t *testing.T, c *redis.Client) {
	t.Helper()
	ctx := t.Context()
	const n = 2000
	cmds, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range n {
			p.Set(ctx, fmt.Sprintf("p:%d", i), i, 0)
			p.Get(ctx, fmt.Sprintf("p:%d", i))
		}
		return nil
	})
	if err != nil || len(cmds) != 2*n {
		t.Fatalf("pipeline: %d replies, %v", len(cmds), err)
	}
	for i := range n {
		if v := cmds[2*i+1].(*redis.StringCmd).Val(); v != strconv.Itoa(i) {
			t.Fatalf("reply %d of the pipeline is %q", i, v)
		}
	}
	seen := 0
	for it := c.Scan(ctx, 0, "p:*", 100).Iterator(); it.Next(ctx); seen++ {
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
	}
	if seen != n {
		t.Errorf("SCAN found %d of %d keys", seen, n)
	}
}

// goRedisWatch adds to one counter from many goroutines as in go-redis's manual: WATCH,
// read, MULTI, and again if another goroutine was faster.
func goRedisWatch(t *testing.T, c *redis.Client) {
	t.Helper()
	ctx := t.Context()
	const workers, each = 8, 10
	add := func(tx *redis.Tx) error {
		n, err := tx.Get(ctx, "counter").Int()
		if err != nil && err != redis.Nil {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Set(ctx, "counter", n+1, 0)
			return nil
		})
		return err
	}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				err := error(redis.TxFailedErr)
				for errors.Is(err, redis.TxFailedErr) {
					err = c.Watch(ctx, add, "counter")
				}
				if err != nil {
					t.Errorf("WATCH: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if n, err := c.Get(ctx, "counter").Int(); n != workers*each || err != nil {
		t.Errorf("counter is %d, want %d; %v", n, workers*each, err)
	}
}

// TestGoRedisReconnects closes the client's connections.
func TestGoRedisReconnects(t *testing.T) {
	strictGoRedis(t)
	addr := startSkerry(t, resp.Options{})
	c := redis.NewClient(&redis.Options{Addr: addr})
	defer c.Close()
	killer := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1})
	defer killer.Close()
	for i := range 5 {
		if err := c.Set(t.Context(), "k", i, 0).Err(); err != nil {
			t.Fatal(err)
		}
		n, err := killer.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Result()
		if n < 1 || err != nil {
			t.Fatalf("CLIENT KILL: %d, %v", n, err)
		}
		if v, err := c.Get(t.Context(), "k").Int(); v != i || err != nil {
			t.Fatalf("after the connection was closed: %d, %v", v, err)
		}
	}
}

// TestGoRedisWrongPassword checks that a wrong password is an error and does not block.
func TestGoRedisWrongPassword(t *testing.T) {
	addr := startSkerry(t, resp.Options{Password: "secret"})
	for _, password := range []string{"", "wrong"} {
		c := redis.NewClient(&redis.Options{Addr: addr, Password: password, MaxRetries: -1})
		err := c.Get(t.Context(), "k").Err()
		c.Close()
		want := "WRONGPASS invalid username-password pair or user is disabled."
		if password == "" {
			want = "NOAUTH Authentication required."
		}
		if err == nil || err.Error() != want {
			t.Errorf("password %q: %v, want %s", password, err, want)
		}
	}
}

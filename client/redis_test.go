package client_test

import (
	"errors"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/redisserver"
	"github.com/skerrydb/skerry/client"
)

// TestRedis checks that commands work on Redis itself.
func TestRedis(t *testing.T) {
	noLeaks(t)
	addr := redisserver.InMemory(t, "--requirepass", "secret")
	c := open(t, client.Options{Addrs: []string{addr}, Password: "secret", Name: "tester", Database: 2})
	do := func(want any, args ...any) {
		t.Helper()
		res, err := c.Do(background, args...)
		if got := res.Any(); err != nil || got != want {
			t.Errorf("%v: %v (%T), %v; want %v", args, got, got, err, want)
		}
	}
	do("OK", "SET", "k", 41)
	do(int64(42), "INCR", "k")
	do("42", []byte("GET"), "k")
	do(nil, "GET", "none")
	do("tester", "CLIENT", "GETNAME")
	do(2.5, "EVAL", "redis.setresp(3); return {double=2.5}", 0)
	do(true, "EVAL", "redis.setresp(3); return true", 0)
	res, err := c.Do(background, "CONFIG", "GET", "requirepass")
	if v, ok := res.Field("requirepass"); err != nil || !ok {
		t.Errorf("CONFIG GET: %v, %v", v.Any(), err)
	}
	_, err = c.Do(background, "LPUSH", "k", "x")
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Kind != "WRONGTYPE" || !errors.Is(err, client.ErrWrongType) {
		t.Errorf("LPUSH on text: %v", err)
	}
	for _, args := range [][]any{{"MULTI"}, {"subscribe", "x"}, {[]byte("Select"), 1}, {"CLIENT", "reply", "off"}, {}, {1}} {
		if _, err := c.Do(background, args...); !errors.Is(err, client.ErrInvalid) {
			t.Errorf("%v: %v, want it rejected", args, err)
		}
	}
	wrong := open(t, client.Options{Addrs: []string{addr}, Password: "wrong"})
	start := time.Now()
	err = wrong.Ping(background)
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != "unauthenticated" || e.Kind != "WRONGPASS" {
		t.Errorf("a wrong password: %v", err)
	}
	if d := time.Since(start); d > client.DefaultTimeout {
		t.Errorf("that took %v", d)
	}
}

package resp_test

import (
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/resp"
)

func TestGoRedisCalls(t *testing.T) {
	strictGoRedis(t)
	addr := startSkerry(t, resp.Options{})
	for _, proto := range []int{2, 3} {
		c := redis.NewClient(&redis.Options{Addr: addr, Protocol: proto})
		defer c.Close()
		goRedisCalls(t, c, fmt.Sprint("n", proto))
		goRedisShapes(t, c, proto)
	}
}

func goRedisCalls(t *testing.T, c redis.UniversalClient, key string) {
	t.Helper()
	ctx := t.Context()
	if n, err := c.FCall(ctx, "add", []string{key}, 2).Int64(); n != 2 || err != nil {
		t.Errorf("FCALL: %d, %v", n, err)
	}
	if v, err := c.FCallRo(ctx, "value", []string{key}).Text(); v != "2" || err != nil {
		t.Errorf("FCALL_RO: %q, %v", v, err)
	}
	if v, err := c.FCallRO(ctx, "value", []string{"none"}).Result(); v != nil || err != redis.Nil {
		t.Errorf("FCALL_RO of nothing: %v, %v", v, err)
	}
	if err := c.FCallRO(ctx, "add", []string{key}, 2).Err(); err == nil || !strings.HasSuffix(err.Error(), "[read_only]") {
		t.Errorf("FCALL_RO of what writes: %v", err)
	}
	if err := c.FCall(ctx, "fail", []string{key}, "my_code", "two\r\nlines").Err(); err == nil || err.Error() != "ERR two  lines [my_code]" {
		t.Errorf("FCALL of what fails: %v", err)
	}
	const n = 1000
	cmds, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for range n {
			p.FCall(ctx, "add", nil, key, 1)
		}
		p.FCallRO(ctx, "value", []string{key})
		return nil
	})
	if err != nil || len(cmds) != n+1 {
		t.Fatalf("a pipeline of %d: %v", len(cmds), err)
	}
	for i, cmd := range cmds[:n] {
		if v, err := cmd.(*redis.Cmd).Int(); v != 3+i || err != nil {
			t.Fatalf("call %d of the pipeline: %d, %v", i, v, err)
		}
	}
	cmds, err = c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.FCall(ctx, "add", []string{key}, 1)
		p.Get(ctx, key)
		return nil
	})
	if err != nil || cmds[0].(*redis.Cmd).Val() != int64(n+3) || cmds[1].(*redis.StringCmd).Val() != fmt.Sprint(n+3) {
		t.Errorf("a transaction: %v, %v", cmds, err)
	}
}

func goRedisShapes(t *testing.T, c *redis.Client, proto int) {
	t.Helper()
	ctx := t.Context()
	v, err := c.FCall(ctx, "shape", nil).Result()
	if err != nil {
		t.Fatal(err)
	}
	want := "[Int 7 Yes 1 Text a\r\nb Float 1.5 None <nil> List [1 2] Map [a 1 b 2]]"
	if proto == 3 {
		want = "map[Float:1.5 Int:7 List:[1 2] Map:map[a:1 b:2] None:<nil> Text:a\r\nb Yes:true]"
	}
	if got := fmt.Sprint(v); got != want {
		t.Errorf("a result with everything: %q", got)
	}
	if got, err := c.Do(ctx, "CALL", "echo", `{"text":"x","list":[1],"map":{"k":2}}`).Result(); err != nil || !strings.Contains(fmt.Sprint(got), "x") {
		t.Errorf("arguments as JSON: %v, %v", got, err)
	}
	libs, err := c.FunctionList(ctx, redis.FunctionListQuery{}).Result()
	if err != nil || len(libs) != 1 || libs[0].Engine != "GO" || len(libs[0].Functions) < 9 || libs[0].Functions[0].Description != "adds n to key" {
		t.Errorf("FUNCTION LIST: %+v, %v", libs, err)
	}
	if s, err := c.FunctionStats(ctx).Result(); err != nil || s.Running() || len(s.Engines) != 1 || s.Engines[0].FunctionsCount != int64(len(libs[0].Functions)) {
		t.Errorf("FUNCTION STATS: %+v, %v", s, err)
	}
	if err := c.FunctionLoad(ctx, "#!lua name=x").Err(); err == nil || !strings.Contains(err.Error(), "compiled into the program") {
		t.Errorf("FUNCTION LOAD: %v", err)
	}
	if names, err := c.Do(ctx, "PROC", "LIST").StringSlice(); err != nil || len(names) != len(libs[0].Functions) {
		t.Errorf("PROC LIST: %v, %v", names, err)
	}
	if text, err := c.Do(ctx, "PROC", "SCHEMA", "add").Text(); err != nil || !strings.HasPrefix(text, `[{"name":"add","text":"adds n to key","read_only":false,"args":[{"name":"key",`) {
		t.Errorf("PROC SCHEMA: %s, %v", text, err)
	}
}

// TestGoRedisClusterCalls checks that a cluster client uses COMMAND to determine where
// FCALL goes.
func TestGoRedisClusterCalls(t *testing.T) {
	all := startNodes(t, 3, resp.Options{})
	all.lead(2)
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{all.list[0].addr}, ReadOnly: true})
	defer c.Close()
	goRedisCalls(t, c, "n")
}

func TestRueidisCalls(t *testing.T) {
	addr := startSkerry(t, resp.Options{})
	c := newRueidis(t, rueidis.ClientOption{InitAddress: []string{addr}})
	ctx := t.Context()
	var wg sync.WaitGroup // many concurrent callers: rueidis writes them as one pipeline
	const callers, each = 32, 30
	for i := range callers {
		wg.Go(func() {
			for j := range each {
				n, err := c.Do(ctx, c.B().Fcall().Function("add").Numkeys(1).Key(fmt.Sprint("n", i)).Arg("1").Build()).AsInt64()
				if n != int64(j+1) || err != nil {
					t.Errorf("FCALL: %d, %v", n, err)
				}
				v, err := c.Do(ctx, c.B().FcallRo().Function("value").Numkeys(1).Key(fmt.Sprint("n", i)).Build()).ToString()
				if v != fmt.Sprint(j+1) || err != nil {
					t.Errorf("FCALL_RO: %q, %v", v, err)
				}
			}
		})
	}
	wg.Wait()
	// A key that the client has cached and that another client's procedure changes.
	other := newRueidis(t, rueidis.ClientOption{InitAddress: []string{addr}})
	read := func() rueidis.RedisResult {
		return c.DoCache(ctx, c.B().Get().Key("cached").Cache(), time.Minute)
	}
	for i := range 30 {
		n, err := other.Do(ctx, other.B().Arbitrary("CALL", "add").Args("cached", "1").Build()).AsInt64()
		if n != int64(i+1) || err != nil {
			t.Fatal(n, err)
		}
		eventually.True(t, fmt.Sprint("the invalidation of ", i), func() bool { v, err := read().AsInt64(); return err == nil && v == int64(i+1) })
		eventually.True(t, "a read from the cache", func() bool { r := read(); return r.IsCacheHit() })
	}
	if m, err := c.Do(ctx, c.B().Fcall().Function("shape").Numkeys(0).Build()).ToMap(); err != nil || len(m) != 7 {
		t.Errorf("a struct is not a map: %v, %v", m, err)
	}
}

// TestRedisCLICalls checks that redis-cli shows results and hints as for functions.
func TestRedisCLICalls(t *testing.T) {
	cli := need(t, "redis-cli", "redis-tools")
	addr := startSkerry(t, resp.Options{})
	for _, c := range []struct{ args, want string }{
		{"FCALL add 1 n 2", "2\n"},
		{"CALL add n 2", "4\n"},
		{"--no-raw FCALL_RO value 1 n", "\"4\"\n"},
		{"--no-raw FCALL_RO value 1 none", "(nil)\n"},
		{"-e CALL nothing", "ERR there is no procedure nothing"},
		{"-3 --no-raw CALL shape", "1# \"Int\" => (integer) 7\n2# \"Yes\" => (true)\n3# \"Text\" => \"a\\r\\nb\"\n4# \"Float\" => (double) 1.5\n"},
		{"--json -3 CALL shape", `{"Int":7,"Yes":true,"Text":"a\r\nb","Float":1.5,"None":null,"List":[1,2],"Map":{"a":1,"b":2}}`},
		{"HELP CALLONCE", "CALLONCE"},
		{"HELP FCALL", "FCALL"},
		{"PROC HELP", "PROC <subcommand>"},
	} {
		if got := program(t, "", cli, addr, strings.Fields(c.args)...); !strings.Contains(got, c.want) {
			t.Errorf("redis-cli %s: %s", c.args, got)
		}
	}
	if _, err := exec.LookPath("redis-benchmark"); err == nil {
		bench, _ := exec.LookPath("redis-benchmark")
		out := program(t, "", bench, addr, "-n", "2000", "-r", "100000", "-P", "16", "-q", "FCALL", "vote", "0", "1__rand_int__", "3", "1000000")
		if !strings.Contains(out, "requests per second") {
			t.Errorf("redis-benchmark: %s", out)
		}
	}
}

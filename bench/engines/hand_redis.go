package main

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/skerrydb/skerry/bench/rig"
)

// startRedis starts redis-server with its data below dir. Every write is on disk before its reply.
func startRedis(dir string) (server *rig.Process, addr string, stop func() error, err error) {
	path, err := rig.Need("redis-server", "redis-server")
	if err != nil {
		return nil, "", nil, err
	}
	free, err := rig.FreePorts(1)
	if err != nil {
		return nil, "", nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, "", nil, err
	}
	host, port, _ := net.SplitHostPort(free[0])
	server, err = rig.Start(exec.Command(path, "--bind", host, "--port", port, "--dir", dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always"), dir+".log")
	if err != nil {
		return nil, "", nil, err
	}
	stop = func() error { return server.Stop(syscall.SIGTERM) }
	c := redis.NewClient(&redis.Options{Addr: free[0]})
	defer c.Close()
	for from := time.Now(); ; time.Sleep(10 * time.Millisecond) { // it loads its data first
		if err = c.Ping(context.Background()).Err(); err == nil || time.Since(from) > rig.StartLimit {
			return server, free[0], stop, err
		}
	}
}

var voteScript = redis.NewScript(`
if redis.call('EXISTS', KEYS[2]) == 0 then return redis.error_reply('no such contestant') end
local n = tonumber(redis.call('GET', KEYS[1]) or '0')
if n >= tonumber(ARGV[1]) then return redis.error_reply('too many votes') end
redis.call('INCR', KEYS[3])
redis.call('INCR', KEYS[4])
return redis.call('INCR', KEYS[1])`)

func openGoRedis(ctx context.Context, p *plan, dir string, fill bool) (*side, error) {
	server, addr, stop, err := startRedis(dir)
	if err != nil {
		return nil, err
	}
	c := redis.NewClient(&redis.Options{Addr: addr, PoolSize: maxCallers})
	end := func() error { return errors.Join(c.Close(), stop()) }
	if fill {
		if err := fillRedis(ctx, p, c); err != nil {
			return nil, errors.Join(err, end())
		}
	}
	return &side{ops: redisOps(p, c), pids: []int{server.PID()}, close: end}, nil
}

func fillRedis(ctx context.Context, p *plan, c *redis.Client) error {
	for from := 0; from < p.keys; from += fillBatch {
		pipe := c.Pipeline()
		for i := from; i < min(from+fillBatch, p.keys); i++ {
			pipe.Set(ctx, string(key(int64(i))), value(int64(i)), 0)
			pipe.Set(ctx, "session:"+strconv.Itoa(i%sessions), value(int64(i)), 24*time.Hour)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
	}
	for i := range 12 {
		if err := c.Set(ctx, "contestant:"+strconv.Itoa(i+1), "a name", 0).Err(); err != nil {
			return err
		}
	}
	return nil
}

// redisOps returns the operations by lane. Records have none: Redis has no JSON with indexes and history.
func redisOps(p *plan, c *redis.Client) map[string]op {
	keys := int64(p.keys)
	return map[string]op{
		"get": func(ctx context.Context, _ int, n int64) error { return c.Get(ctx, string(key(n%keys))).Err() },
		"set": func(ctx context.Context, _ int, n int64) error {
			return c.Set(ctx, string(key(n%keys)), value(n), 0).Err()
		},
		"vote": func(ctx context.Context, _ int, n int64) error {
			who, whom := strconv.FormatInt(phone(n%keys), 10), strconv.Itoa(contestant(n))
			return voteScript.Run(ctx, c, []string{"phone:" + who, "contestant:" + whom, "votes:" + whom, "votes:" + whom + ":NY"}, maxVotes).Err()
		},
		"session load": func(ctx context.Context, _ int, n int64) error {
			return c.Get(ctx, "session:"+strconv.FormatInt(n%sessions, 10)).Err()
		},
		"session save": func(ctx context.Context, _ int, n int64) error {
			token := "session:" + strconv.FormatInt(n%sessions, 10)
			if err := c.Get(ctx, token).Err(); err != nil {
				return err
			}
			return c.Set(ctx, token, value(n), 24*time.Hour).Err()
		},
	}
}

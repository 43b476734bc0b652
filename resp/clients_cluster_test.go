package resp_test

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/resp"
)

func addrs(all *nodes) (list []string) {
	for _, n := range all.list {
		list = append(list, n.addr)
	}
	return list
}

// TestGoRedisCluster runs go-redis's cluster client while the leader changes. The client
// returns no error and finds the leader.
func TestGoRedisCluster(t *testing.T) {
	redis.SetLogger(strictLog{silent{t}}) // it may log what it retries
	for name, o := range map[string]*redis.ClusterOptions{"default": {}, "readonly": {ReadOnly: true}, "RESP2": {Protocol: 2}} {
		t.Run(name, func(t *testing.T) {
			all := startNodes(t, 3, resp.Options{})
			o := *o
			o.Addrs = addrs(all)[1:]
			c := redis.NewClusterClient(&o)
			defer c.Close()
			ctx := t.Context()
			changing(t, all, 4, func(i int) error {
				key := "k" + strconv.Itoa(i%50)
				if err := c.Set(ctx, key, i, 0).Err(); err != nil {
					return err
				}
				if o.ReadOnly {
					if err := c.Get(ctx, key).Err(); err != redis.Nil { // it may be slightly stale
						return err
					}
					return nil
				}
				if n, err := c.Get(ctx, key).Int(); err != nil || n != i {
					return errors.Join(err, errors.New("read "+strconv.Itoa(n)))
				}
				return nil
			})
			goRedisClusterTx(t, c)
			c.ReloadState(ctx)
			direct(t, all, func() error { return c.Set(ctx, "k", "v", 0).Err() })
		})
	}
}

func goRedisClusterTx(t *testing.T, c *redis.ClusterClient) {
	t.Helper()
	ctx := t.Context()
	cmds, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, "{a}1", "x", 0)
		p.Get(ctx, "{a}1")
		return nil
	})
	if err != nil || cmds[1].(*redis.StringCmd).Val() != "x" {
		t.Errorf("TxPipelined: %v, %v", cmds, err)
	}
	if err := c.Set(ctx, "counter", 0, 0).Err(); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5 {
				err := error(redis.TxFailedErr)
				for errors.Is(err, redis.TxFailedErr) {
					err = c.Watch(ctx, func(tx *redis.Tx) error {
						n, err := tx.Get(ctx, "counter").Int()
						if err != nil {
							return err
						}
						_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Set(ctx, "counter", n+1, 0).Err() })
						return err
					}, "counter")
				}
				if err != nil {
					t.Errorf("WATCH: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if n, err := c.Get(ctx, "counter").Int(); n != 20 || err != nil {
		t.Errorf("counter: %d, %v", n, err)
	}
}

// changing runs do from two goroutines while the leader changes n times.
func changing(t *testing.T, all *nodes, n int, do func(i int) error) {
	t.Helper()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var done atomic.Int64
	for w := range 2 {
		wg.Go(func() {
			for i := w * 25; ; i = (i+1)%25 + w*25 {
				select {
				case <-stop:
					return
				default:
				}
				// A leader that responds too slowly is given up.
				if err := do(i); err != nil && !strings.Contains(err.Error(), "[outcome_unknown]") {
					t.Errorf("worker %d: %v", w, err)
					return
				}
				done.Add(1)
			}
		})
	}
	works := func() {
		before := done.Load()
		eventually.True(t, "calls under one leader", func() bool { return done.Load() >= before+50 || t.Failed() })
	}
	for i := range n {
		works()
		all.lead(0)
		time.Sleep(20 * time.Millisecond) // the election
		all.lead(uint64(2 + i%2))
	}
	works()
	close(stop)
	wg.Wait()
}

// direct checks that the client has found the leader: its writes are no longer forwarded.
func direct(t *testing.T, all *nodes, write func() error) {
	t.Helper()
	defer func() {
		if t.Failed() {
			for _, nd := range all.list {
				t.Logf("node %d leads: %v, forwarded %v, MOVED %v", nd.id, nd.leads(),
					metric(nd, "resp_forwarded_commands_total"), metric(nd, "resp_moved_replies_total"))
				t.Logf("%s", show(t, newAsker(t, nd.addr).ask("CLIENT", "LIST")))
			}
		}
	}()
	eventually.True(t, "the client goes to the leader itself", func() bool {
		forwarded := func() (n float64) {
			for _, nd := range all.list {
				n += metric(nd, "resp_forwarded_commands_total")
			}
			return n
		}
		was := forwarded()
		for range 20 {
			if err := write(); err != nil {
				t.Fatal(err)
			}
		}
		return forwarded() == was
	})
}

func TestRueidisCluster(t *testing.T) {
	for name, o := range map[string]rueidis.ClientOption{
		"default":  {},
		"replicas": {SendToReplicas: func(cmd rueidis.Completed) bool { return cmd.IsReadOnly() }, ClientName: "test+moved"},
		"moved":    {ClientName: "test+moved"},
		"shards":   {ClusterOption: rueidis.ClusterOption{PreferClusterShards: true, ShardsRefreshInterval: 500 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			all := startNodes(t, 3, resp.Options{})
			o.InitAddress = addrs(all)
			c := newRueidis(t, o)
			ctx := t.Context()
			changing(t, all, 4, func(i int) error {
				key, val := "k"+strconv.Itoa(i), strconv.FormatInt(time.Now().UnixNano(), 10)
				if err := c.Do(ctx, c.B().Set().Key(key).Value(val).Build()).Error(); err != nil {
					return err
				}
				v, err := c.Do(ctx, c.B().Get().Key(key).Build()).ToString()
				if o.SendToReplicas != nil && rueidis.IsRedisNil(err) {
					return nil // a replica may not have it yet
				}
				if o.SendToReplicas == nil && v != val && err == nil {
					err = errors.New("read " + v)
				}
				return err
			})
			if name == "default" {
				return // its connection to a node may not have requested slots, and then it stays there
			}
			i := 0
			direct(t, all, func() error {
				i++
				return c.Do(ctx, c.B().Set().Key(strconv.Itoa(i)).Value("v").Build()).Error()
			})
		})
	}
}

// TestRueidisClusterCache: client-side caching through a node that forwards.
func TestRueidisClusterCache(t *testing.T) {
	all := startNodes(t, 2, resp.Options{})
	o := rueidis.ClientOption{InitAddress: addrs(all)[1:], ForceSingleClient: true}
	rueidisCache(t, newRueidis(t, o), newRueidis(t, o))
	rueidisPipeline(t, newRueidis(t, o))
	rueidisWatch(t, newRueidis(t, o))
}

// TestPlainClients checks that clients without cluster support work on any node.
func TestPlainClients(t *testing.T) {
	strictGoRedis(t)
	all := startNodes(t, 2, resp.Options{})
	c := redis.NewClient(&redis.Options{Addr: all.list[1].addr})
	defer c.Close()
	goRedisStrings(t, c)
	goRedisPipeline(t, c)
	goRedisWatch(t, c)
}

// TestIORedisCluster runs ioredis's Cluster, and the plain client on a follower.
func TestIORedisCluster(t *testing.T) {
	node := need(t, "node", "nodejs")
	dir := installIORedis(t)
	all := startNodes(t, 3, resp.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run := func(args ...string) {
		out, err := exec.CommandContext(ctx, node, append([]string{"--trace-warnings"}, args...)...).CombinedOutput()
		if err != nil || string(out) != "ok\n" {
			t.Errorf("%s: %v\n%s", args[0], err, out)
		}
	}
	host, port, _ := net.SplitHostPort(all.list[1].addr)
	run(filepath.Join(dir, "run.js"), host, port, "", "")
	changes := time.AfterFunc(500*time.Millisecond, func() { all.lead(0); all.lead(3) })
	defer changes.Stop()
	run(filepath.Join(dir, "cluster.js"), strings.Join(addrs(all), ","))
}

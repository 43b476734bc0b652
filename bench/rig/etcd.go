package rig

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// DialEtcd opens etcd's own client for some nodes.
func DialEtcd(addrs ...string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: addrs, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
}

// maxTxnOps is etcd's default limit of operations in one transaction.
const maxTxnOps = 128

// FillEtcd writes the keys from first to keys, many per transaction.
func FillEtcd(addr string, first, keys uint64) error {
	c, err := DialEtcd(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	const workers = 8
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range uint64(workers) {
		wg.Go(func() {
			for from := first + w*maxTxnOps; from < keys && errs[w] == nil; from += workers * maxTxnOps {
				var ops []clientv3.Op
				for k := from; k < min(from+maxTxnOps, keys); k++ {
					ops = append(ops, clientv3.OpPut(string(AppendKey(nil, k)), string(AppendVal(nil, k))))
				}
				_, errs[w] = c.Txn(context.Background()).Then(ops...).Commit()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// RunEtcd runs the job with etcd's own client: one client per connection, one goroutine per request in flight.
// That client takes CPU from the server, which the report must state.
func RunEtcd(j Job) (Outcome, error) {
	clients := make([]*clientv3.Client, j.Shape.Conns)
	for i := range clients {
		c, err := DialEtcd(j.Addrs[i%len(j.Addrs)])
		if err != nil {
			return Outcome{}, err
		}
		defer c.Close()
		clients[i] = c
	}
	n := j.Shape.Conns * j.Shape.Flight
	hists, errs := make([]Hist, n), make([]error, n)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	start := time.Now()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			errs[i] = callEtcd(ctx, clients[i%len(clients)], j, uint64(i), start, &hists[i])
		})
	}
	time.Sleep(time.Until(start.Add(j.Warm)))
	j.Begin()
	from := time.Now()
	time.Sleep(j.Window)
	j.End()
	out := Outcome{Took: time.Since(from)}
	wg.Wait()
	for i := range hists {
		out.Lat.Merge(&hists[i])
	}
	out.Ops = out.Lat.Count
	return out, errors.Join(errs...)
}

// callEtcd makes calls one after another until the window is over.
func callEtcd(ctx context.Context, c *clientv3.Client, j Job, id uint64, start time.Time, h *Hist) error {
	x := (j.Seed+id)*0x9E3779B97F4A7C15 + 1
	for {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		key := string(AppendKey(nil, x%j.Keys))
		from := time.Now()
		if from.Sub(start) > j.Warm+j.Window {
			return nil
		}
		if j.Set {
			if _, err := c.Put(ctx, key, string(AppendVal(nil, x))); err != nil {
				return err
			}
		} else if r, err := c.Get(ctx, key); err != nil {
			return err
		} else if len(r.Kvs) != 1 || len(r.Kvs[0].Value) != ValBytes {
			return fmt.Errorf("get of %s: %d values", key, len(r.Kvs))
		}
		if now := time.Now(); now.Sub(start) > j.Warm && now.Sub(start) <= j.Warm+j.Window {
			h.Add(now.Sub(from))
		}
	}
}

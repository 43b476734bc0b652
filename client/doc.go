// Package client calls procedures of Skerry and runs commands of the Redis protocol over a
// few shared connections.
//
// It knows connections: pipelining, batching, finding the leader, which calls may be sent
// again, and caching responses until the server reports that they are stale. It must not
// know the server's internals. It relies only on the protocol, so commands also work on
// Redis itself.
//
//	c, err := client.Open(client.Options{Addrs: []string{"10.0.0.1:6380", "10.0.0.2:6380"}})
//	res, err := c.Call(ctx, "vote", phone, contestant)              // waits
//	err = c.CallAsync(ctx, func(res client.Result, err error) {…}, "vote", phone, contestant)
//	f := c.Go(ctx, "vote", phone, contestant); res, err = f.Wait(ctx)
//
// All calls share one connection per node (see Options.Conns) and run on it in the order in
// which they were made. A writer combines the calls of many callers into one write to the
// socket; a reader completes calls in order.
package client

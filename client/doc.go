// Package client calls procedures of Skerry, and any command of Redis's protocol,
// over few shared connections.
//
// It knows connections: pipelining, batching, which node leads, what may be sent
// again, and answers kept until the server says that they are stale. It must not
// know the server's insides: what it relies on is the protocol, so that commands
// also work on Redis itself.
//
//	c, err := client.Open(client.Options{Addrs: []string{"10.0.0.1:6380", "10.0.0.2:6380"}})
//	res, err := c.Call(ctx, "vote", phone, contestant)              // waits
//	err = c.CallAsync(ctx, func(res client.Result, err error) {…}, "vote", phone, contestant)
//	f := c.Go(ctx, "vote", phone, contestant); res, err = f.Wait(ctx)
//
// All calls share one connection a node (Options.Conns), on which they run in the
// order in which they were made. A writer gathers what many callers add and hands
// it to the socket at once; a reader completes calls in order.
package client

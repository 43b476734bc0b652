package client

import (
	"context"
	"net"
	"testing"
)

// TestStamps checks that calls of a burst share readings of the clock, but that none begins
// before the call maxSharing before it was made, and none in the future. A call that
// somebody waits for begins when it is made.
func TestStamps(t *testing.T) {
	never := func(ctx context.Context, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	c, err := Open(Options{Dial: never})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const calls = 10 * maxSharing
	var made [calls]int64
	for i := range made {
		made[i] = c.now()
		if err := c.CallAsync(context.Background(), func(Result, error) {}, "p"); err != nil {
			t.Fatal(err)
		}
	}
	over := c.now()
	l := (*c.nodes.Load())[0].links[0]
	l.mu.Lock()
	shared := 0
	for i, at := range made {
		s := l.q.at(l.q.head + uint64(i))
		if s.start < made[max(0, i-maxSharing)] || s.start > over || s.deadline != s.start+int64(c.o.Timeout) {
			t.Errorf("call %d, made at %d, starts at %d with the deadline %d", i, at, s.start, s.deadline)
		}
		if s.start < at {
			shared++
		}
	}
	waits := request{w: &waiter{}}
	before := c.now()
	l.stamp(&waits)
	l.mu.Unlock()
	if shared < calls/2 {
		t.Errorf("%d of %d calls share a reading of the clock", shared, calls)
	}
	if waits.start < before {
		t.Errorf("a blocking call begins at %d, before it was made at %d", waits.start, before)
	}
}

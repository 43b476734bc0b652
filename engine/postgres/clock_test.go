package postgres

import (
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/engine"
)

// TestClocksOff lets processes whose clocks are 10 minutes apart write to one database, and then the server's clock go
// back by 10 minutes. Times never go back or repeat, in transactions, in views and in the feed.
func TestClocksOff(t *testing.T) {
	t.Parallel()
	at := pgserver.Shared(t).Database(t)
	const off = 10 * time.Minute
	skewed := func(by time.Duration) Options {
		return Options{Now: func() time.Time { return time.Now().Add(by) }}
	}
	slow, fast, server := openT(t, at, skewed(-off)), openT(t, at, skewed(off)), openT(t, at, Options{})
	var last time.Time
	write := func(d *DB) time.Time {
		t.Helper()
		var now time.Time
		pos, err := d.Update(t.Context(), func(tx engine.Tx) error { now = tx.Now(); return tx.Put([]byte("a"), []byte(now.String())) })
		if err != nil {
			t.Fatal(err)
		}
		if !now.After(last) {
			t.Fatalf("position %d has time %v, the one before it %v", pos, now, last)
		}
		last = now
		for _, d := range []*DB{slow, fast, server} { // a view of that position is not earlier
			_, err := d.View(t.Context(), engine.Read{AtLeast: pos}, func(tx engine.Tx) error {
				if now, asOf := tx.Now(), tx.AsOf(); now.Before(last) || asOf.Before(last) {
					t.Errorf("a view has times %v and %v, after a write at %v", now, asOf, last)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		return now
	}
	if now := write(server); time.Since(now).Abs() > off/2 { // the server is on this machine
		t.Errorf("the server's time is %v, but it is %v", now, time.Now())
	}
	for range 3 {
		write(slow)
		if now := write(fast); time.Until(now) < off/2 {
			t.Errorf("the process with the fast clock writes at %v", now)
		}
		write(server)
	}
	if ahead := time.Until(write(server)); ahead < off/2 || ahead > off+time.Minute {
		t.Errorf("the time goes on %v from now", ahead)
	}

	// Another process opens after the server's clock went back: what was committed is in its future.
	exec(t, at, "UPDATE skerry.pos SET at = at + 600000000")
	last = last.Add(off)
	server = openT(t, at, Options{})
	begun := last
	for range 10 {
		write(server)
	}
	if took := last.Sub(begun); took > time.Second {
		t.Errorf("time has gone on by %v although the clock is behind", took)
	}
	var before time.Time
	for c, err := range server.Changes(t.Context(), 0) {
		if err != nil || !c.Time.After(before) {
			t.Fatalf("change %d has time %v, the one before it %v: %v", c.Pos, c.Time, before, err)
		}
		if before = c.Time; c.Pos == server.Position() {
			break
		}
	}
}

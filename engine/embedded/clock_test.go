package embedded

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
)

// handClock is a machine's two clocks, moved by hand.
type handClock struct{ wall, mono time.Time }

func newHandClock() *handClock {
	return &handClock{wall: time.Unix(1_800_000_000, 0), mono: time.Unix(50, 0)}
}

func (h *handClock) pass(d time.Duration) { h.wall, h.mono = h.wall.Add(d), h.mono.Add(d) }

func (h *handClock) clock() *clock {
	return &clock{now: func() time.Time { return h.wall }, mono: func() time.Time { return h.mono }}
}

// took reports how far the time of a clock moved while d passed, second by second.
func (h *handClock) took(t *testing.T, c *clock, d time.Duration) time.Duration {
	t.Helper()
	from := c.micros()
	last := from
	for range d / time.Second {
		h.pass(time.Second)
		now := c.micros()
		if now <= last {
			t.Fatalf("a second passed and the time went from %d to %d", last, now)
		}
		last = now
	}
	return time.Duration(last-from) * time.Microsecond
}

// TestClockSetBack: when the machine's clock is set back the time goes on a little
// more slowly, until the two agree.
func TestClockSetBack(t *testing.T) {
	h := newHandClock()
	c := h.clock()
	c.lead()
	before := c.micros()
	h.wall = h.wall.Add(-time.Minute)
	if now := c.micros(); now != before {
		t.Errorf("set back by a minute, the time goes from %d to %d", before, now)
	}
	if took := h.took(t, c, 100*time.Second); took != 90*time.Second {
		t.Errorf("in 100 s after that the time moved by %v", took)
	}
	h.took(t, c, 500*time.Second)
	if off := c.micros() - h.wall.UnixMicro(); off != 0 {
		t.Errorf("after ten times the difference it is still %d µs", off)
	}
	if took := h.took(t, c, 100*time.Second); took != 100*time.Second {
		t.Errorf("in 100 s of peace the time moved by %v", took)
	}
}

// TestClockTakesOver: a new leader goes on from the old one's time, whatever its
// own clock says and however that was set meanwhile.
func TestClockTakesOver(t *testing.T) {
	for _, off := range []time.Duration{20 * time.Second, -2 * time.Minute} {
		h := newHandClock()
		c := h.clock()
		led := h.wall.Add(-off) // the leader's clock
		c.follow(led.UnixMicro())
		h.pass(3 * time.Second)
		h.wall = h.wall.Add(7 * time.Hour)
		if got, want := c.estimate(), led.Add(3*time.Second).UnixMicro(); got != want {
			t.Errorf("%v off: the estimate is %d, not %d", off, got, want)
		}
		h.wall = h.wall.Add(-7 * time.Hour)
		c.lead()
		if got, want := c.micros(), led.Add(3*time.Second).UnixMicro(); got != want {
			t.Errorf("%v off: it goes on from %d, not from %d", off, got, want)
		}
		want := map[bool]time.Duration{true: 11 * time.Second, false: 9 * time.Second}[off > 0]
		if took := h.took(t, c, 10*time.Second); took != want {
			t.Errorf("%v off: in 10 s after that the time moved by %v, not by %v", off, took, want)
		}
	}
}

// TestClockFoundAgain: a leader that began the time anew goes on from what a node
// knows that was cut off meanwhile, as soon as that one has answered it. What was
// read as expired before stays expired then.
func TestClockFoundAgain(t *testing.T) {
	h := newHandClock()
	cut, anew := h.clock(), &group{db: &DB{exec: &executor{}}}
	cut.lead()
	lost := cut.micros()
	behind := h.wall.Add(-time.Minute)
	x := anew.db.exec
	x.wall.now = func() time.Time { return behind }
	x.wall.mono = func() time.Time { return h.mono }
	x.wall.lead()
	if got := x.wall.micros(); got != behind.UnixMicro() {
		t.Fatalf("it began anew at %d, not at %d", got, behind.UnixMicro())
	}
	cut.follow(int64(anew.Known()))
	if got := cut.estimate(); got != lost {
		t.Fatalf("the node that was cut off has %d, want %d", got, lost)
	}
	anew.Heard(uint64(cut.estimate()), true)
	if got := x.wall.micros(); got != lost {
		t.Errorf("it goes on from %d, not from %d", got, lost)
	}
	behind = behind.Add(20 * time.Second)
	if took := time.Duration(x.wall.micros()-lost) * time.Microsecond; took != 18*time.Second {
		t.Errorf("in 20 s after that the time moved by %v", took)
	}
}

// TestClockOfOldLeader: without a word of the leader about its time, as from an
// older version, a node goes by its own clock, and never back.
func TestClockOfOldLeader(t *testing.T) {
	h := newHandClock()
	c := h.clock()
	c.follow(0)
	if got := c.estimate(); got != h.wall.UnixMicro() || c.known.Load() {
		t.Errorf("the estimate is %d, own clock %d", got, h.wall.UnixMicro())
	}
	far := h.wall.Add(time.Hour).UnixMicro()
	c.raise(far)
	c.lead()
	if got := c.micros(); got != far {
		t.Errorf("the time is %d, the log is at %d", got, far)
	}
}

// TestReadNotAfterTransaction: a read takes no time after that of a transaction
// which it does not see: one that runs, and one that has ended since it began.
func TestReadNotAfterTransaction(t *testing.T) {
	h := newHandClock()
	db := open(t, t.TempDir(), Options{Now: func() time.Time { return h.wall }})
	put(t, db, "k", "1")
	asOf := func(r engine.Read, before func()) (at time.Time) {
		t.Helper()
		if _, err := db.View(t.Context(), r, func(tx engine.Tx) error {
			before()
			at = tx.AsOf()
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return at
	}
	nothing := func() {}
	for _, level := range []engine.Level{engine.Linearizable, engine.Session, engine.Local} {
		r := engine.Read{Level: level}
		h.wall = h.wall.Add(time.Minute)
		first := asOf(r, nothing)
		var ran, during time.Time
		_, err := db.Update(context.Background(), func(tx engine.Tx) error {
			ran = tx.Now()
			h.wall = h.wall.Add(time.Minute)
			done := make(chan struct{})
			go func() {
				defer close(done)
				during = asOf(r, nothing)
			}()
			<-done
			return tx.Put([]byte("k"), []byte("2"))
		})
		if err != nil {
			t.Fatal(err)
		}
		if during.After(ran) || during.Before(first) {
			t.Errorf("level %d: judged as of %v and then %v, while a transaction of %v ran", level, first, during, ran)
		}
		var wrote time.Time
		after := asOf(r, func() {
			h.wall = h.wall.Add(time.Minute)
			if _, err := db.Update(context.Background(), func(tx engine.Tx) error {
				wrote = tx.Now()
				return tx.Put([]byte("k"), []byte("3"))
			}); err != nil {
				t.Fatal(err)
			}
			h.wall = h.wall.Add(time.Minute)
		})
		if after.After(wrote) || after.Before(ran) {
			t.Errorf("level %d: judged as of %v in a view before the transaction of %v", level, after, wrote)
		}
		_, err = db.Update(context.Background(), func(engine.Tx) error { return errors.New("no") })
		h.wall = h.wall.Add(time.Minute)
		if at := asOf(r, nothing); err == nil || !at.Equal(h.wall) {
			t.Errorf("level %d: judged as of %v when nothing ran, and it was %v", level, at, h.wall)
		}
	}
}

// TestClusterExpiryTime: by whichever node and at whichever level a read goes, it
// judges expiry by the leader's time, though the nodes' clocks are minutes apart;
// and when another node leads the time goes on from there.
func TestClusterExpiryTime(t *testing.T) {
	t.Parallel()
	ahead := map[uint64]time.Duration{1: 0, 2: 20 * time.Second, 3: -2 * time.Minute}
	c := newTrioOf(t, 3, func(node uint64, o *Options) {
		o.Now = func() time.Time { return time.Now().Add(ahead[node]) }
	})
	c.transfer(1)
	var wrote time.Time
	pos, err := c.dbs[1].Update(t.Context(), func(tx engine.Tx) error {
		wrote = tx.Now()
		return tx.Put([]byte("k"), nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	look := func(node uint64, level engine.Level) (now, asOf time.Time) {
		t.Helper()
		if _, err := c.dbs[node].View(t.Context(), engine.Read{Level: level, AtLeast: pos}, func(tx engine.Tx) error {
			now, asOf = tx.Now(), tx.AsOf()
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return now, asOf
	}
	for node := range c.dbs {
		before := time.Now().Truncate(time.Microsecond)
		_, asOf := look(node, engine.Linearizable)
		if after := time.Now(); asOf.Before(before) || asOf.After(after) {
			t.Errorf("node %d judges a linearizable read as of %v, between %v and %v at the leader", node, asOf, before, after)
		}
		for _, level := range []engine.Level{engine.Session, engine.Local} {
			if now, asOf := look(node, level); !asOf.Equal(wrote) || now.After(time.Now()) {
				t.Errorf("node %d, level %d: judged as of %v, the position is of %v; and the time is %v at %v", node, level, asOf, wrote, now, time.Now())
			}
		}
		eventually.True(c.t, "the time to go on without writes", func() bool {
			now, _ := look(node, engine.Local)
			return now.Sub(wrote) > 100*time.Millisecond
		})
	}
	began, last := time.Now(), time.Now().Add(-time.Second)
	for _, node := range []uint64{2, 3, 1} {
		c.transfer(node)
		for by := range c.dbs {
			_, asOf := look(by, engine.Linearizable)
			if passed := time.Since(began); asOf.Before(last) || asOf.Sub(began) > passed+passed/slew+time.Millisecond {
				t.Errorf("node %d leads: node %d judges as of %v after %v, at %v", node, by, asOf, last, time.Now())
			}
			last = asOf
		}
	}
	if passed := time.Since(began); last.Sub(began) < passed/2-time.Second {
		t.Errorf("in %v the time went on by %v", passed, last.Sub(began))
	}
}

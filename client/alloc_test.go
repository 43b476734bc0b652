package client_test

import (
	"testing"
	"time"

	"github.com/skerrydb/skerry/client"
)

// TestAllocs counts the allocations of both kinds of calls. It counts those of the whole
// process, including readers, writers and the server.
func TestAllocs(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	c := open(t, client.Options{Addrs: []string{startFake(t, one).addr()}})
	text, data, num := "some text that is not constant"[:10+len(t.Name())], []byte("abc"), int64(123456789012)
	when, yes, ratio, small := time.Now(), t.Failed(), 1.25*float64(num), uint8(num)
	const calls = 200
	ended := make(chan struct{}, 1)
	left := 0
	done := func(res client.Result, err error) {
		if n, e := res.Int(); n != 1 || e != nil || err != nil {
			t.Errorf("the result is %d, %v, %v", n, e, err)
		}
		if left--; left == 0 {
			ended <- struct{}{}
		}
	}
	async := testing.AllocsPerRun(100, func() {
		left = calls
		for range calls {
			if err := c.CallAsync(background, done, "vote", text, data, num, &num, when, yes, ratio, small, nil); err != nil {
				t.Fatal(err)
			}
		}
		<-ended
	})
	if per := async / calls; per > 0.02 {
		t.Errorf("a non-blocking call allocates %.3f times, want 0", per)
	}
	blocking := testing.AllocsPerRun(1000, func() {
		if _, err := c.Call(background, "vote", text, data, num, &num, when, yes, ratio, small, nil); err != nil {
			t.Fatal(err)
		}
	})
	if blocking > 2 {
		t.Errorf("a blocking call allocates %.1f times, want 2 at most", blocking)
	}
	do := testing.AllocsPerRun(1000, func() {
		if _, err := c.Do(background, "SET", text, num); err != nil {
			t.Fatal(err)
		}
	})
	if do > 2 {
		t.Errorf("Do allocates %.1f times, want 2 at most", do)
	}
	t.Logf("allocations: %.3f a non-blocking call, %.2f a blocking one, %.2f a Do", async/calls, blocking, do)
}

package client

import (
	"context"
	"errors"
	"testing"
	"time"
)

// enqueued waits until so many wait for a place.
func enqueued(tb testing.TB, p *places, n int64) {
	tb.Helper()
	for end := time.Now().Add(time.Minute); p.waiting.Load() != n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("%d wait, want %d", p.waiting.Load(), n)
		}
	}
}

// TestPlacesInOrder: who waits longest gets the next place, and who comes later
// does not get it before.
func TestPlacesInOrder(t *testing.T) {
	p := places{max: 2}
	for i := range 3 {
		if got := p.take(); got != (i < 2) {
			t.Fatalf("take %d of two places: %v", i, got)
		}
	}
	const n = 20
	served := make(chan int, n)
	for i := range n {
		go func() {
			if err := p.wait(context.Background(), nil, 0); err != nil {
				t.Error(err)
			}
			served <- i
		}()
		enqueued(t, &p, int64(i)+1)
	}
	for i := range n {
		p.free(1)
		if p.take() {
			t.Fatal("a place that somebody waited for was taken")
		}
		if got := <-served; got != i {
			t.Fatalf("number %d was served, want %d", got, i)
		}
	}
	p.free(2)
	if used, waiting := p.used.Load(), p.waiting.Load(); used != 0 || waiting != 0 || len(p.queue) != 0 {
		t.Errorf("%d are used, %d wait", used, waiting)
	}
}

// TestPlacesGivenUp: who gives up leaves no place behind that is used for ever, also
// if it was given one at that moment.
func TestPlacesGivenUp(t *testing.T) {
	p := places{max: 1}
	for range 300 {
		if !p.take() {
			t.Fatal("no place is free")
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- p.wait(ctx, nil, 0) }()
		enqueued(t, &p, 1)
		go cancel()
		p.free(1)
		switch err := <-ended; {
		case err == nil:
			p.free(1)
		case !errors.Is(err, ErrCancelled):
			t.Fatal(err)
		}
		if used, waiting := p.used.Load(), p.waiting.Load(); used != 0 || waiting != 0 {
			t.Fatalf("%d are used, %d wait", used, waiting)
		}
	}
}

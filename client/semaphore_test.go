package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestSemaphoreInOrder checks that the longest waiting caller gets the next permit, and
// that later callers do not get it first.
func TestSemaphoreInOrder(t *testing.T) { synctest.Test(t, testSemaphoreInOrder) }

func testSemaphoreInOrder(t *testing.T) {
	p := semaphore{max: 2}
	for i := range 3 {
		if got := p.acquire(); got != (i < 2) {
			t.Fatalf("acquire %d of two permits: %v", i, got)
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
		synctest.Wait() // it is in the queue
	}
	for i := range n {
		p.release(1)
		if p.acquire() {
			t.Fatal("a permit that a caller waited for was taken")
		}
		if got := <-served; got != i {
			t.Fatalf("number %d was served, want %d", got, i)
		}
	}
	p.release(2)
	if used, waiting := p.used.Load(), p.waiting.Load(); used != 0 || waiting != 0 || len(p.queue) != 0 {
		t.Errorf("%d are used, %d wait", used, waiting)
	}
}

// TestSemaphoreGivenUp checks that a caller that gives up keeps no permit, even if it was
// granted one at that moment.
func TestSemaphoreGivenUp(t *testing.T) { synctest.Test(t, testSemaphoreGivenUp) }

func testSemaphoreGivenUp(t *testing.T) {
	p := semaphore{max: 1}
	for range 300 {
		if !p.acquire() {
			t.Fatal("no permit is free")
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- p.wait(ctx, nil, 0) }()
		synctest.Wait() // it is in the queue
		go cancel()
		p.release(1)
		switch err := <-ended; {
		case err == nil:
			p.release(1)
		case !errors.Is(err, ErrCancelled):
			t.Fatal(err)
		}
		if used, waiting := p.used.Load(), p.waiting.Load(); used != 0 || waiting != 0 {
			t.Fatalf("%d are used, %d wait", used, waiting)
		}
	}
}

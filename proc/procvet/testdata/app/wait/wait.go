// Package wait has procedures that wait.
package wait

import (
	"sync"
	"time"

	"github.com/skerrydb/skerry/proc"
)

type none = struct{}

var (
	mu   sync.Mutex
	rw   sync.RWMutex
	wg   sync.WaitGroup
	list = make(chan int, 1)
)

// Wait waits in every way.
var Wait = proc.Define("wait", func(tx *proc.Tx, _ none) (int, error) {
	time.Sleep(time.Second) // want `calls time.Sleep: every other write waits`
	<-time.After(1)         // want `calls time.After` `receives from a channel`
	time.NewTimer(1)        // want `calls time.NewTimer`
	time.Tick(1)            // want `calls time.Tick`
	mu.Lock()               // want `calls sync.Mutex.Lock`
	defer mu.Unlock()
	rw.RLock() // want `calls sync.RWMutex.RLock`
	rw.RUnlock()
	wg.Wait()        // want `calls sync.WaitGroup.Wait`
	list <- 1        // want `sends on a channel`
	n := <-list      // want `receives from a channel`
	close(list)      // want `closes a channel`
	for range list { // want `ranges over a channel`
		n++
	}
	select { // want `selects on channels`
	case list <- n:
	case n = <-list:
	default:
	}
	return n, nil
})

type guarded struct {
	sync.Mutex
	n int
}

// Embedded locks what a struct embeds.
var Embedded = proc.Define("embedded", func(tx *proc.Tx, _ none) (int, error) {
	var g guarded
	g.Lock() // want `calls sync.Mutex.Lock`
	g.n++
	g.Unlock()
	return g.n, nil
})

// Start starts goroutines.
var Start = proc.Define("start", func(tx *proc.Tx, _ none) (int, error) {
	go func() { // want `^starts a goroutine: `
		time.Sleep(1)
	}()
	wg.Go(func() {}) // want `calls sync.WaitGroup.Go`
	return 0, nil
})

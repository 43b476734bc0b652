package feed

import "github.com/skerrydb/skerry/engine"

// Crowd adds n dummy subscriptions and n dummy waits, to get close to the limits. It
// returns a function that removes them.
func (f *Feed) Crowd(n int) (leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	subs := make([]Sub, n)
	for i := range subs {
		f.subs[&subs[i]] = struct{}{}
		f.waiters = append(f.waiters, &waiter{pos: ^f.pos, done: make(chan error, 1)})
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		clear(f.subs)
		f.waiters = nil
	}
}

// Deliver delivers c as the tail does.
var Deliver = (*Feed).deliver

// Begin simulates a tail that has just started at position 0.
func (f *Feed) Begin() { f.begin(0) }

// BeginAt simulates a tail that has just started at pos.
func (f *Feed) BeginAt(pos engine.Position) { f.begin(pos) }

// CutAll simulates an engine that no longer has the tail's position.
func (f *Feed) CutAll() { f.cutAll(engine.ErrTruncated) }

// Beat sends a heartbeat to the subscriptions for which one is due.
func (f *Feed) Beat() { f.heartbeat() }

// Waiting returns the number of calls of Wait that have not returned.
func (f *Feed) Waiting() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.waiters)
}

package feed

import "github.com/skerrydb/skerry/engine"

// Crowd adds n subscriptions and n waits that nobody is behind, to come near
// the limits, and returns a function that takes them away.
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

// Deliver hands c out as the tail does.
var Deliver = (*Feed).deliver

// Begin takes the place of a tail that has just started at position 0.
func (f *Feed) Begin() { f.begin(0) }

// BeginAt takes the place of a tail that has just started at a position.
func (f *Feed) BeginAt(pos engine.Position) { f.begin(pos) }

// CutAll is what happens when the engine no longer keeps the tail's position.
func (f *Feed) CutAll() { f.cutAll(engine.ErrTruncated) }

// Beat sends a heartbeat to those who are due one.
func (f *Feed) Beat() { f.heartbeat() }

// Waiting is how many calls of Wait have not returned.
func (f *Feed) Waiting() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.waiters)
}

package feed

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

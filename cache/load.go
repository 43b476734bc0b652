package cache

import (
	"hash/maphash"
	"sync"
)

// shard holds the loads of some keys.
type shard struct {
	mu    sync.Mutex // guards loads and what they point to, and orders keeping against dropping
	loads map[string]*slot
}

// slot is the loads of one key: one is under way, and at most one waits for its end, for readers who need a
// value that is read from now on.
type slot struct{ running, next *load }

// load is one load of a key.
type load struct {
	key     string
	atLeast Position // the newest position that its readers need; guarded by shard.mu
	begun   bool     // a tier or the source has been asked; guarded by shard.mu
	dirty   bool     // the key has changed since; guarded by shard.mu

	done  chan struct{} // closed when the fields below are set
	entry Entry
	err   error
}

var seed = maphash.MakeSeed()

func (c *Cache) shard(key string) *shard {
	return &c.shards[maphash.String(seed, key)%uint64(len(c.shards))]
}

// touch says that the key of the slot has changed. Only what was asked before can be too old.
func (s *slot) touch() {
	if s.running.begun {
		s.running.dirty = true
	}
}

// join returns the load that a reader of key waits for, and starts it if need be. If current is false, the load
// begins after this call and reads the source itself: the tiers may not answer.
func (c *Cache) join(key string, current bool, atLeast Position) (*load, error) {
	s := c.shard(key)
	s.mu.Lock()
	held := s.loads[key]
	if held != nil {
		defer s.mu.Unlock()
		l := held.running
		if l.begun && (l.dirty || !current) {
			if held.next == nil {
				if !c.loader.reserve() {
					return nil, c.errQueueFull()
				}
				held.next = &load{key: key, done: make(chan struct{})}
			}
			l = held.next
		}
		l.atLeast = max(l.atLeast, atLeast)
		c.count.joined.Add(1)
		return l, nil
	}
	l := &load{key: key, atLeast: atLeast, done: make(chan struct{})}
	if !c.loader.reserve() {
		s.mu.Unlock()
		return nil, c.errQueueFull()
	}
	l.begun = current && c.disk != nil
	s.loads[key] = &slot{running: l}
	s.mu.Unlock()
	if l.begun && c.fromDisk(s, l) {
		c.loader.release()
		return l, nil
	}
	c.enqueue(l)
	return l, nil
}

// refresh loads an entry again that the memory tier has, unless that is under way or too much is.
func (c *Cache) refresh(key string) {
	s := c.shard(key)
	s.mu.Lock()
	if s.loads[key] != nil || !c.loader.reserve() {
		s.mu.Unlock()
		return
	}
	l := &load{key: key, done: make(chan struct{})}
	s.loads[key] = &slot{running: l}
	s.mu.Unlock()
	c.count.refreshes.Add(1)
	c.enqueue(l)
}

// fromDisk ends the load with what the disk tier has, and reports whether it has it. Otherwise the load is as
// if it had not begun.
func (c *Cache) fromDisk(s *shard, l *load) bool {
	raw, ok := c.disk.Get(nil, l.key)
	var v View
	if ok {
		v, ok = decode(raw)
	}
	if !ok || v.expired(c.clock.now()) {
		s.mu.Lock()
		l.begun, l.dirty = false, false
		s.mu.Unlock()
		return false
	}
	c.count.disk.Add(1)
	l.entry = v.Entry()
	c.finish(l, raw, false)
	return true
}

// finish publishes the result of a load, and keeps it, if it may be kept: raw is its encoding, or nil. toDisk
// says that the disk tier does not have it.
func (c *Cache) finish(l *load, raw []byte, toDisk bool) {
	s := c.shard(l.key)
	s.mu.Lock()
	if raw != nil && !l.dirty {
		c.mem.Set(l.key, raw)
		if toDisk && c.disk != nil {
			c.disk.Put(l.key, raw)
		}
	}
	if l.dirty {
		c.count.dirty.Add(1)
	}
	held := s.loads[l.key]
	next := held.next
	if next != nil {
		held.running, held.next = next, nil
	} else {
		delete(s.loads, l.key)
	}
	s.mu.Unlock()
	close(l.done)
	if next != nil {
		c.enqueue(next)
	}
}

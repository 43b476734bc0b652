// Package memory is a placeholder that the memory tier replaces: delete this file when it lands.
//
// It knows nothing. It must not know anything.
package memory

import "sync"

// Options configure a Cache.
type Options struct {
	MaxBytes int64
	Shards   int
}

// Cache is a map.
type Cache struct {
	mu sync.Mutex // guards m
	m  map[string][]byte
}

// Stats are metrics.
type Stats struct {
	Entries, Bytes, Payload, Max, Evicted int64
}

// New returns a Cache.
func New(Options) (*Cache, error) { return &Cache{m: map[string][]byte{}}, nil }

// Get appends the value of key to dst.
func (c *Cache) Get(dst []byte, key string) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.m[key]
	return append(dst, v...), ok
}

// Set sets.
func (c *Cache) Set(key string, value []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m[key] = append([]byte(nil), value...)
	return true
}

// Delete deletes.
func (c *Cache) Delete(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.m, key)
	return true
}

// Flush drops all.
func (c *Cache) Flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.m)
}

// Len counts.
func (c *Cache) Len() int { return len(c.m) }

// Stats returns metrics.
func (c *Cache) Stats() Stats { return Stats{} }

// Package disk is a placeholder that the disk tier replaces: delete this file when it lands.
//
// It knows nothing. It must not know anything.
package disk

import (
	"log/slog"
	"sync"
	"time"
)

// Options configure a Store.
type Options struct {
	Dir          string
	MaxBytes     int64
	Identity     string
	BatchEntries int
	BatchBytes   int64
	BatchAge     time.Duration
	Logger       *slog.Logger
}

// Store is a map.
type Store struct {
	mu   sync.Mutex // guards m and mark
	m    map[string][]byte
	mark string
}

// Stats are metrics.
type Stats struct {
	Entries, Bytes int64
}

// Open opens.
func Open(Options) (*Store, error) { return &Store{m: map[string][]byte{}}, nil }

// Get appends the value of key to dst.
func (c *Store) Get(dst []byte, key string) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.m[key]
	return append(dst, v...), ok
}

// Put sets.
func (c *Store) Put(key string, value []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m[key] = append([]byte(nil), value...)
	return true
}

// Delete deletes.
func (c *Store) Delete(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.m, key)
}

// Flush drops all.
func (c *Store) Flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.m)
	c.mark = ""
}

// Mark sets the mark.
func (c *Store) Mark(position string) { c.mark = position }

// Marked returns the mark.
func (c *Store) Marked() string { return "" }

// Sync writes.
func (c *Store) Sync() error { return nil }

// Stats returns metrics.
func (c *Store) Stats() Stats { return Stats{} }

// Close closes.
func (c *Store) Close() error { return nil }

// Package memory is the memory tier of a cache: a bounded map from keys to bytes that the garbage collector does
// not walk.
//
// It knows sizes and how often an entry was read. It must not know what a value means, when it ends, or where it
// came from. DESIGN.md describes the layout.
package memory

import (
	"errors"
	"hash/maphash"
	"runtime"
	"sync/atomic"
)

// Limits.
const (
	MaxKey   = 1<<16 - 1 // bytes of a key; a longer one is not kept
	MaxValue = 64 << 20  // bytes of a value; a larger one is not kept, nor is one larger than an eighth of a shard

	// MinBytes is the least Options.MaxBytes.
	MinBytes = 64 << 10
)

const (
	maxShards     = 64
	minShardBytes = 4 << 20 // of shards that are chosen by New
)

// Options configure a Cache.
type Options struct {
	// MaxBytes bounds the memory that the cache holds: entries, index and free space. While its index grows, a shard
	// holds the old one too. At least MinBytes.
	MaxBytes int64

	// Shards is a power of two up to 64, or 0 to choose it by the number of processors. Each has a lock.
	Shards int
}

// Cache is a bounded map. All methods are safe for concurrent use: a Get that begins after a Set, Delete or Flush has
// returned does not see the older value.
type Cache struct {
	shards []shard
	seed   maphash.Seed
	mask   uint64 // of the bits of a hash that are used; tests make collisions with it
	max    int64
}

// Stats are the metrics of a Cache.
type Stats struct {
	Entries int64 `json:"entries"`
	Bytes   int64 `json:"bytes"`   // memory held, with the index and free space
	Payload int64 `json:"payload"` // bytes of the keys and values
	Max     int64 `json:"max"`     // Options.MaxBytes
	Evicted int64 `json:"evicted"` // entries that were dropped to make room
}

// New returns an empty cache.
func New(o Options) (*Cache, error) {
	if o.MaxBytes < MinBytes {
		return nil, errors.New("cache/memory: MaxBytes is below MinBytes")
	}
	if o.Shards == 0 {
		for o.Shards = 1; o.Shards < 8*runtime.GOMAXPROCS(0) && o.Shards < maxShards && o.MaxBytes/int64(o.Shards) > minShardBytes; {
			o.Shards *= 2
		}
	}
	if o.Shards < 0 || o.Shards > maxShards || o.Shards&(o.Shards-1) != 0 || o.MaxBytes/int64(o.Shards) < MinBytes/maxShards {
		return nil, errors.New("cache/memory: Shards is not a power of two up to 64, or too large for MaxBytes")
	}
	c := &Cache{shards: make([]shard, o.Shards), seed: maphash.MakeSeed(), mask: ^uint64(0), max: o.MaxBytes}
	for i := range c.shards {
		c.shards[i].init(c, int(o.MaxBytes)/o.Shards)
	}
	return c, nil
}

func (c *Cache) hash(key string) uint64      { return maphash.String(c.seed, key) & c.mask }
func (c *Cache) hashBytes(key []byte) uint64 { return maphash.Bytes(c.seed, key) & c.mask }

// shard returns the shard of a hash. The index uses the lower bits.
func (c *Cache) shard(hash uint64) *shard {
	return &c.shards[hash>>58&uint64(len(c.shards)-1)]
}

// Get appends the value of key to dst and reports whether there is one. The result belongs to the caller.
func (c *Cache) Get(dst []byte, key string) ([]byte, bool) {
	hash := c.hash(key)
	return c.shard(hash).get(dst, key, hash)
}

// Set sets the value of key, which it copies. It returns false if the entry is too large to be kept; then there is no
// value of key anymore.
func (c *Cache) Set(key string, value []byte) bool {
	hash := c.hash(key)
	return c.shard(hash).set(key, value, hash)
}

// Delete removes key and reports whether it was there.
func (c *Cache) Delete(key string) bool {
	hash := c.hash(key)
	return c.shard(hash).remove(key, hash)
}

// Flush removes everything and frees the memory.
func (c *Cache) Flush() {
	for i := range c.shards {
		c.shards[i].flush()
	}
}

// Len returns the number of entries.
func (c *Cache) Len() int { return int(c.Stats().Entries) }

// Stats returns the metrics of now.
func (c *Cache) Stats() Stats {
	s := Stats{Max: c.max}
	for i := range c.shards {
		n := &c.shards[i].stats
		s.Entries += n.entries.Load()
		s.Bytes += n.bytes.Load()
		s.Payload += n.payload.Load()
		s.Evicted += n.evicted.Load()
	}
	return s
}

// stats are counted by a shard that is locked, and read without its lock.
type stats struct{ entries, bytes, payload, evicted atomic.Int64 }

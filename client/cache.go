package client

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/skerrydb/skerry/resp/wire"
)

// entryOverhead approximates the memory of an entry besides its bytes.
const entryOverhead = 160

// cache keeps responses until the server reports that the key has changed, their time to
// live ends, or they are evicted. It evicts the least recently used first.
type cache struct {
	max int

	mu      sync.Mutex // guards the fields below
	entries map[string]*entry
	keys    map[string]*keyState
	ring    entry // the head of a ring of entries, the most recently used next to it
	used    int
	flushes uint64 // number of flushes
}

// entry is one cached response.
type entry struct {
	next, prev *entry
	command    string // the command as it is sent; it identifies the entry
	key        string
	raw        []byte
	until      int64
}

// keyState is the state of one key that cached responses depend on.
type keyState struct {
	entries map[*entry]struct{}
	loads   int    // reads in progress
	changed uint64 // number of changes to the key while reads were in progress
}

func (c *cache) init(max int) {
	c.max = max
	c.entries, c.keys = map[string]*entry{}, map[string]*keyState{}
	c.ring.next, c.ring.prev = &c.ring, &c.ring
}

func (c *cache) bytes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

// load is a read in progress. Its response may be cached unless the key changes or the
// cache is flushed in the meantime.
type load struct {
	key              string
	changed, flushes uint64
}

// get returns a cached response, or begins a load.
func (c *cache) get(command []byte, key string, now int64) (raw []byte, ok bool, ld load) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[string(command)]; e != nil {
		if e.until > now {
			e.unlink()
			e.linkBehind(&c.ring)
			return e.raw, true, load{}
		}
		c.drop(e)
	}
	k := c.keys[key]
	if k == nil {
		key = strings.Clone(key)
		k = &keyState{}
		c.keys[key] = k
	}
	k.loads++
	return nil, false, load{key, k.changed, c.flushes}
}

// put ends a load. It caches a copy of raw unless the load was overtaken by a change.
func (c *cache) put(ld load, command []byte, raw []byte, keep bool, until int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.keys[ld.key]
	if k == nil || c.flushes != ld.flushes {
		return // the cache was flushed, and this load with it
	}
	k.loads--
	size := len(command) + len(ld.key) + len(raw) + entryOverhead
	if !keep || k.changed != ld.changed || size > c.max/8 {
		c.tidy(ld.key, k)
		return
	}
	if old := c.entries[string(command)]; old != nil {
		c.drop(old)
		c.keys[ld.key] = k
	}
	e := &entry{command: string(command), key: ld.key, raw: append([]byte{}, raw...), until: until}
	if k.entries == nil {
		k.entries = map[*entry]struct{}{}
	}
	k.entries[e] = struct{}{}
	c.entries[e.command] = e
	e.linkBehind(&c.ring)
	c.used += size
	for c.used > c.max {
		c.drop(c.ring.prev)
	}
}

// changed removes the entries that depend on key.
func (c *cache) changed(key []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.keys[string(key)]
	if k == nil {
		return
	}
	k.changed++
	for e := range k.entries {
		c.drop(e)
	}
}

// flush removes all entries. Loads in progress will not be cached.
func (c *cache) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flushes++
	clear(c.entries)
	clear(c.keys)
	c.ring.next, c.ring.prev = &c.ring, &c.ring
	c.used = 0
}

// drop removes one entry.
func (c *cache) drop(e *entry) {
	e.unlink()
	delete(c.entries, e.command)
	c.used -= len(e.command) + len(e.key) + len(e.raw) + entryOverhead
	if k := c.keys[e.key]; k != nil {
		delete(k.entries, e)
		c.tidy(e.key, k)
	}
}

// tidy removes the state of a key that nothing depends on.
func (c *cache) tidy(key string, k *keyState) {
	if k.loads == 0 && len(k.entries) == 0 {
		delete(c.keys, key)
	}
}

func (e *entry) unlink() {
	e.prev.next, e.next.prev = e.next, e.prev
}

func (e *entry) linkBehind(at *entry) {
	e.prev, e.next = at, at.next
	at.next.prev = e
	at.next = e
}

// Cached is like Do for a command that reads a single key, given as its second word, and
// caches the response for up to ttl. It supports GET, STRLEN, GETRANGE, EXISTS and TYPE of
// one key, and Redis's reads of hashes, lists and sets. It goes to the node that
// Options.ReadFrom selects.
//
// The server reports when the key changes, and the cached response is then dropped. Until
// that report arrives, Cached still returns the old response, even to a caller that has
// just seen a newer one elsewhere. The whole cache is dropped when a connection is lost.
//
// Up to Options.CacheBytes are cached; the least recently used responses are evicted first.
// Errors, and responses larger than an eighth of CacheBytes, are not cached. If CacheBytes
// is 0 or the server cannot report changes, Cached is the same as Do.
func (c *Client) Cached(ctx context.Context, ttl time.Duration, args ...any) (Result, error) {
	r := request{verb: verbDo}
	if err := r.command(args); err != nil {
		return Result{}, err
	}
	key, ok := cacheable(args)
	if !ok {
		return Result{}, errorf(CodeInvalid, "the reply to this command cannot be cached: it is not known to read a single key, given as its second word")
	}
	r.flags = readsOnly | followed
	if c.o.CacheBytes == 0 || ttl <= 0 {
		return c.block(ctx, &r, args)
	}
	if err := r.measure(args); err != nil {
		return Result{}, err
	}
	var tmp [256]byte
	command := r.append(tmp[:0], args)
	raw, hit, ld := c.cache.get(command, key, c.now())
	if hit {
		c.counts.hits.Add(1)
		return Result{raw}.Clone(), nil
	}
	c.counts.misses.Add(1)
	r.texts = nil
	r.flags |= twofold
	kept := false
	r.kept = &kept
	res, err := c.block(ctx, &r, args)
	c.cache.put(ld, command, res.raw, err == nil && kept, c.now()+int64(ttl))
	return res, err
}

// cacheable returns the key that a command reads, and whether its response can be cached.
func cacheable(args []any) (key string, ok bool) {
	if len(args) < 2 {
		return "", false
	}
	word, _ := textArg(args[0])
	switch strings.ToUpper(word) {
	case "EXISTS":
		if len(args) != 2 {
			return "", false
		}
	case "GET", "STRLEN", "GETRANGE", "TYPE", "HGET", "HMGET", "HGETALL", "HLEN", "LRANGE", "LLEN",
		"SMEMBERS", "SISMEMBER", "SCARD", "ZRANGE", "ZSCORE", "ZCARD", "BITCOUNT", "GETBIT":
	default:
		return "", false
	}
	return textArg(args[1])
}

// pushInvalidate handles an invalidation: a list of changed keys, or null for all keys.
func (l *link) pushInvalidate(b []byte) {
	list, b, ok := wire.Cut(b)
	if !ok || list.IsNull() {
		l.c.cache.flush()
		return
	}
	for range list.Len {
		var key wire.Item
		if key, b, ok = wire.Cut(b); !ok {
			l.c.cache.flush()
			return
		}
		l.c.cache.changed(key.Str)
	}
}

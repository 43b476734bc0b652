package client

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/skerrydb/skerry/resp/wire"
)

// entryOverhead is about what an entry needs besides its bytes.
const entryOverhead = 160

// cache keeps answers until the server says that a key has changed, their time is
// over, or they are pushed out by newer ones: the least recently used go first.
type cache struct {
	max int

	mu      sync.Mutex // guards the fields below
	entries map[string]*entry
	keys    map[string]*keyState
	ring    entry // the head of a ring of entries, the most recently used next to it
	used    int
	flushes uint64 // how often everything was forgotten
}

// entry is one answer.
type entry struct {
	next, prev *entry
	command    string // the command as it is sent, which names the entry
	key        string
	raw        []byte
	until      int64
}

// keyState is what is known of one key that an answer depends on.
type keyState struct {
	entries map[*entry]struct{}
	loads   int    // reads under way
	changed uint64 // how often the key has changed while there were reads under way
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

// load is a read under way whose answer may be kept, if meanwhile the key has not
// changed and nothing was forgotten.
type load struct {
	key              string
	changed, flushes uint64
}

// get returns a kept answer, or begins a load.
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

// put ends a load, and keeps its answer unless it was overtaken. raw is copied.
func (c *cache) put(ld load, command []byte, raw []byte, keep bool, until int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.keys[ld.key]
	if k == nil || c.flushes != ld.flushes {
		return // everything was forgotten, this load too
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

// changed forgets what depends on a key.
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

// flush forgets everything, and lets no load under way be kept.
func (c *cache) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flushes++
	clear(c.entries)
	clear(c.keys)
	c.ring.next, c.ring.prev = &c.ring, &c.ring
	c.used = 0
}

// drop forgets one entry.
func (c *cache) drop(e *entry) {
	e.unlink()
	delete(c.entries, e.command)
	c.used -= len(e.command) + len(e.key) + len(e.raw) + entryOverhead
	if k := c.keys[e.key]; k != nil {
		delete(k.entries, e)
		c.tidy(e.key, k)
	}
}

// tidy forgets a key on which nothing depends.
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

// Cached is Do for a command that reads one key, its second word, whose answer is
// kept for ttl at most: GET, STRLEN, GETRANGE, EXISTS and TYPE of one key, and
// Redis's reads of hashes, lists and sets. It goes where Options.ReadFrom says. The server
// tells when the key changes, and then the answer is forgotten; on the way from it
// to here lies a moment in which the old one is still given, also to who has just
// seen a newer one elsewhere. Everything is forgotten when a connection is lost.
//
// Up to Options.CacheBytes are kept, the least recently used are pushed out, and
// answers over an eighth of it are not kept; errors are not either. Without
// CacheBytes, or a server that cannot tell, it is Do.
func (c *Client) Cached(ctx context.Context, ttl time.Duration, args ...any) (Result, error) {
	r := request{verb: verbDo}
	if err := r.command(args); err != nil {
		return Result{}, err
	}
	key, ok := cacheable(args)
	if !ok {
		return Result{}, errorf(CodeInvalid, "the answer to this command cannot be kept: it is not known to read one key, its second word")
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

// cacheable returns the key that a command reads.
func cacheable(args []any) (key string, ok bool) {
	if len(args) < 2 {
		return "", false
	}
	var word string
	switch v := args[0].(type) {
	case string:
		word = strings.ToUpper(v)
	case []byte:
		word = strings.ToUpper(string(v))
	}
	switch word {
	case "EXISTS":
		if len(args) != 2 {
			return "", false
		}
	case "GET", "STRLEN", "GETRANGE", "TYPE", "HGET", "HMGET", "HGETALL", "HLEN", "LRANGE", "LLEN",
		"SMEMBERS", "SISMEMBER", "SCARD", "ZRANGE", "ZSCORE", "ZCARD", "BITCOUNT", "GETBIT":
	default:
		return "", false
	}
	switch v := args[1].(type) {
	case string:
		return v, true
	case []byte:
		return string(v), true
	}
	return "", false
}

// pushInvalidate takes what has changed: a list of keys, or null for everything.
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

// Package cache keeps finished bytes near their readers: in memory, on the local disk, and
// only then in their source. It stays coherent with the source through a feed of changes.
//
// It knows keys, entries, positions and how old an answer may be. It must not know what a
// value means, which database it is from, or how it is sent to a client. DESIGN.md has the
// protocol and what must be proved about it.
package cache

import (
	"cmp"
	"context"
	"log/slog"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/cache/disk"
	"github.com/skerrydb/skerry/cache/memory"
	"github.com/skerrydb/skerry/engine"
)

// Limits. Going over one is CodeLimit, unless its comment says otherwise.
const (
	MaxKey    = 1024      // bytes of a key; more is CodeKeyTooLarge
	MaxBody   = 64 << 20  // bytes of an entry with all its variants; more is CodeValueTooLarge
	MaxGather = 1000      // Options.Gather
	MaxLoads  = 1024      // Options.Loads
	MaxQueued = 1_000_000 // Options.Queued

	DefaultMaxQueued = 10_000 // Options.Queued if that is 0
)

const (
	defaultMemory      = 64 << 20
	defaultStaleness   = 2 * time.Second
	defaultWait        = 5 * time.Second
	defaultLoadTimeout = 10 * time.Second
	defaultMissingTTL  = time.Minute
	defaultLoads       = 32

	minStaleness = 10 * time.Millisecond
)

// Options configure a Cache. Source is required.
type Options struct {
	// Name names the cache in metrics, logs and on the command line: a lower-case letter, then at most 31
	// letters, digits, - and _. "" is "cache".
	Name string

	// Source loads what no tier has.
	Source Source

	// Feed reports what changes. Without one, entries live for TTL, which is then required, and may be that
	// old when they are read.
	Feed Feed

	// Staleness bounds the age of an answer: a tier answers only while the feed has proved, no longer than
	// Staleness ago, that it had delivered every change. Otherwise reads go to the source. It has no effect
	// without a feed. 0 is 2 s; the least is 10 ms.
	Staleness time.Duration

	// MemoryBytes bounds the memory tier with all its overhead. 0 is 64 MiB.
	MemoryBytes int64

	// Dir is the folder of the disk tier; "" is no disk tier. DiskBytes bounds it. What is in the folder was
	// written by a cache of the same Identity, or is dropped: the name of the source and of the format.
	Dir       string
	DiskBytes int64
	Identity  string

	// TTL is how long an entry lives, unless Entry.TTL is shorter. 0 is forever, as the feed drops what
	// changes. MissingTTL is the same for keys that do not exist; 0 is a minute, or TTL if that is shorter.
	TTL, MissingTTL time.Duration

	// RefreshAhead makes a read load an entry again, in the background, that has no more than that to live.
	RefreshAhead time.Duration

	// Wait bounds how long a read waits for a position. 0 is 5 s.
	Wait time.Duration

	// LoadTimeout bounds one call of the source. 0 is 10 s. If the source does not return then, its readers
	// get an error, and the call counts against Loads until it returns.
	LoadTimeout time.Duration

	// Loads is how many calls of the source may be under way; 0 is 32. Queued is how many keys may wait for
	// one: 0 is DefaultMaxQueued; a reader of one more key gets CodeQueueFull.
	Loads, Queued int

	// Gather is how many keys one call of the source may load together; 0 is 1.
	Gather int

	// Logger receives what an operator should know; nil discards it.
	Logger *slog.Logger
}

// Cache is a cache of one source. All methods are safe for concurrent use.
type Cache struct {
	o       Options
	mem     *memory.Cache
	disk    *disk.Store // nil: none
	clock   clock
	shards  [64]shard
	loader  loader
	state   state
	count   counters
	started atomic.Bool
	closed  chan struct{} // closed when Run has ended
	once    sync.Once
}

var nameForm = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// New returns a cache. With Options.Dir it opens the disk tier. Nothing is kept coherent before Run: until
// then, a cache with a feed loads each value from the source.
func New(o Options) (*Cache, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	mem, err := memory.New(memory.Options{MaxBytes: o.MemoryBytes})
	if err != nil {
		return nil, err
	}
	c := &Cache{o: o, mem: mem, clock: newClock(), closed: make(chan struct{})}
	for i := range c.shards {
		c.shards[i].loads = map[string]*slot{}
	}
	c.loader.init(o.Queued)
	c.state.init()
	if o.Dir != "" {
		if err := c.openDisk(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// complete checks o and fills in its defaults.
func (o *Options) complete() error {
	o.Name = cmp.Or(o.Name, "cache")
	if !nameForm.MatchString(o.Name) {
		return engine.Errorf(engine.CodeInvalid, "cache: the name %q is not a lower-case letter followed by at most 31 letters, digits, - and _", o.Name)
	}
	if o.Source == nil {
		return engine.Errorf(engine.CodeInvalid, "cache %s: Options.Source is missing", o.Name)
	}
	for _, d := range []time.Duration{o.Staleness, o.TTL, o.MissingTTL, o.RefreshAhead, o.Wait, o.LoadTimeout} {
		if d < 0 {
			return engine.Errorf(engine.CodeInvalid, "cache %s: an option is a negative duration", o.Name)
		}
	}
	if o.MemoryBytes < 0 || o.DiskBytes < 0 || o.Loads < 0 || o.Queued < 0 || o.Gather < 0 {
		return engine.Errorf(engine.CodeInvalid, "cache %s: an option is negative", o.Name)
	}
	if o.Gather > MaxGather || o.Loads > MaxLoads || o.Queued > MaxQueued {
		return engine.Errorf(engine.CodeLimit, "cache %s: Gather, Loads or Queued is over its limit of %d, %d and %d", o.Name, MaxGather, MaxLoads, MaxQueued)
	}
	if o.Feed == nil && o.TTL == 0 {
		return engine.Errorf(engine.CodeInvalid, "cache %s: without a feed, TTL is required: nothing else would ever drop an entry", o.Name)
	}
	if (o.Dir == "") != (o.DiskBytes == 0) {
		return engine.Errorf(engine.CodeInvalid, "cache %s: a disk tier needs both Dir and DiskBytes", o.Name)
	}
	o.Staleness = cmp.Or(o.Staleness, defaultStaleness)
	if o.Staleness < minStaleness {
		return engine.Errorf(engine.CodeInvalid, "cache %s: Staleness of %v is below the least, %v", o.Name, o.Staleness, minStaleness)
	}
	o.MemoryBytes = cmp.Or(o.MemoryBytes, defaultMemory)
	o.Wait = cmp.Or(o.Wait, defaultWait)
	o.LoadTimeout = cmp.Or(o.LoadTimeout, defaultLoadTimeout)
	o.Loads = cmp.Or(o.Loads, defaultLoads)
	o.Queued = cmp.Or(o.Queued, DefaultMaxQueued)
	o.Gather = cmp.Or(o.Gather, 1)
	if o.MissingTTL == 0 {
		o.MissingTTL = defaultMissingTTL
		if o.TTL > 0 {
			o.MissingTTL = min(o.MissingTTL, o.TTL)
		}
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler)).With("cache", o.Name)
	return nil
}

// Name returns Options.Name.
func (c *Cache) Name() string { return c.o.Name }

// Read says how new an answer must be. The zero value asks for the cache's staleness.
type Read struct {
	// AtLeast is the position of the reader's last write, so that it sees that write; 0 asks for none.
	AtLeast Position
}

// Get returns the entry of key, which the caller owns. A key that does not exist is CodeNotFound. It loads the
// entry if no tier has it, at most once for all who wait for the same key. Get waits for Read.AtLeast for at
// most Options.Wait; CodePositionTimeout says that it took longer.
func (c *Cache) Get(ctx context.Context, key string, r Read) (Entry, error) {
	if key == "" {
		return Entry{}, engine.Errorf(engine.CodeKeyEmpty, "cache %s: the key is empty", c.o.Name)
	}
	if len(key) > MaxKey {
		return Entry{}, engine.Errorf(engine.CodeKeyTooLarge, "cache %s: the key has %d bytes; the limit is %d", c.o.Name, len(key), MaxKey)
	}
	current, err := c.await(ctx, r.AtLeast)
	if err != nil {
		return Entry{}, err
	}
	if current {
		if v, ok := c.inMemory(nil, key); ok {
			return c.found(v.Entry())
		}
	}
	l, err := c.join(key, current, r.AtLeast)
	if err != nil {
		return Entry{}, err
	}
	select {
	case <-l.done:
		if l.err != nil {
			return Entry{}, l.err
		}
		return c.found(l.entry)
	case <-ctx.Done():
		return Entry{}, ctx.Err()
	}
}

// found returns e, or CodeNotFound if it says that the key is missing.
func (c *Cache) found(e Entry) (Entry, error) {
	if e.Missing {
		return Entry{}, engine.Errorf(engine.CodeNotFound, "cache %s: there is no such key", c.o.Name)
	}
	return e, nil
}

// Peek returns what the memory tier has for key, if it may answer now. It never waits and never loads. The
// view is in memory that Peek appended to dst.
func (c *Cache) Peek(dst []byte, key string, r Read) (View, bool) {
	if !c.mayAnswer(r.AtLeast) {
		return View{}, false
	}
	return c.inMemory(dst, key)
}

// inMemory returns the live entry of key in the memory tier.
func (c *Cache) inMemory(dst []byte, key string) (View, bool) {
	raw, ok := c.mem.Get(dst, key)
	if !ok {
		return View{}, false
	}
	v, ok := decode(raw[len(dst):])
	now := c.clock.now()
	if !ok || v.expired(now) {
		return View{}, false
	}
	v.raw = raw
	if d := c.o.RefreshAhead; d > 0 && v.deadline != 0 && v.deadline-now <= int64(d) {
		c.refresh(key)
	}
	if v.Missing {
		c.count.missing.Add(1)
	} else {
		c.count.memory.Add(1)
	}
	return v, true
}

// Flush drops every entry from every tier. What is being loaded meanwhile is not kept.
func (c *Cache) Flush() {
	c.count.flushes.Add(1)
	c.drop()
}

// drop empties the tiers. A load that is under way returns its value to those who wait, and is not kept: its
// shard marks it before the tiers are emptied, and a load that was kept before is in them.
func (c *Cache) drop() {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for _, held := range s.loads {
			held.touch()
		}
		s.mu.Unlock()
	}
	c.mem.Flush()
	if c.disk != nil {
		c.disk.Flush()
	}
}

// changed drops keys from every tier, and keeps what is being loaded of them from being kept.
func (c *Cache) changed(keys []string) {
	for _, key := range keys {
		s := c.shard(key)
		s.mu.Lock()
		if held := s.loads[key]; held != nil {
			held.touch()
		}
		c.mem.Delete(key)
		if c.disk != nil {
			c.disk.Delete(key)
		}
		s.mu.Unlock()
	}
	c.count.invalidations.Add(uint64(len(keys)))
}

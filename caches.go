package skerry

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/skerrydb/skerry/cache"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/api"
)

// MaxCaches is how many caches one server can have.
const MaxCaches = 100

// caches are the caches of an application. They run while the server does.
type caches struct {
	mu      sync.Mutex // guards the fields below
	all     []*cache.Cache
	ctx     context.Context // of the caches; nil: the server does not run yet
	ended   bool
	running sync.WaitGroup // Add under mu while not ended
}

// Cache opens a cache that runs with the server: `skerry cache` and /metrics know it by its name, which no other cache
// of the server may have. The application opens its caches before it is served, usually in Web.Application.
func (s *Services) Cache(o cache.Options) (*cache.Cache, error) {
	if o.Logger == nil {
		o.Logger = s.Web.Logger
	}
	c, err := cache.New(o)
	if err != nil {
		return nil, err
	}
	if err := s.caches.add(c); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (k *caches) add(c *cache.Cache) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.ended:
		return engine.Errorf(engine.CodeClosed, "skerry: the server is stopping: no cache can be opened")
	case len(k.all) >= MaxCaches:
		return engine.Errorf(engine.CodeLimit, "skerry: more than %d caches", MaxCaches)
	case slices.ContainsFunc(k.all, func(x *cache.Cache) bool { return x.Name() == c.Name() }):
		return engine.Errorf(engine.CodeInvalid, "skerry: there are two caches with the name %q", c.Name())
	}
	k.all = append(k.all, c)
	if k.ctx != nil {
		k.start(c)
	}
	return nil
}

// start runs a cache. The caller holds k.mu.
func (k *caches) start(c *cache.Cache) {
	ctx := k.ctx
	k.running.Go(func() { _ = c.Run(ctx) }) // it ends when ctx does
}

// run runs the caches until ctx ends.
func (k *caches) run(ctx context.Context) error {
	k.mu.Lock()
	k.ctx = ctx
	for _, c := range k.all {
		k.start(c)
	}
	k.mu.Unlock()
	<-ctx.Done()
	k.mu.Lock()
	k.ended = true
	k.mu.Unlock()
	k.running.Wait()
	return ctx.Err()
}

// close closes the caches of a server that does not run.
func (k *caches) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = true
	for _, c := range k.all {
		c.Close()
	}
}

// list returns the caches.
func (k *caches) list() []*cache.Cache {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.all)
}

func (k *caches) metrics() iter.Seq[engine.Metric] {
	var meters []func() iter.Seq[engine.Metric]
	for _, c := range k.list() {
		meters = append(meters, c.Metrics)
	}
	return all(meters)
}

const cachesPath = "/caches"

func (s *Server) openCaches() (capability, error) {
	k := &s.services.caches
	return capability{name: "caches", run: k.run, metrics: k.metrics, routes: []api.Route{
		{Methods: "GET, HEAD", Path: cachesPath, Handle: k.stats, Operator: true, Text: "metrics of the application's caches, as JSON"},
		{Methods: "POST", Path: cachesPath + "/{name}", Handle: k.flush, Operator: true, Text: "drop all entries of a cache on this node"},
	}}, nil
}

// CacheStats is the response to GET /caches.
type CacheStats struct {
	Caches []cache.Stats `json:"caches"`
}

func (k *caches) stats(c *web.Context) error {
	all := CacheStats{Caches: []cache.Stats{}}
	for _, x := range k.list() {
		all.Caches = append(all.Caches, x.Stats())
	}
	return c.JSON(http.StatusOK, all)
}

func (k *caches) flush(c *web.Context) error {
	x, err := k.find(strings.TrimPrefix(c.Request.URL.Path, cachesPath+"/"))
	if err != nil {
		return err
	}
	x.Flush()
	return c.JSON(http.StatusOK, x.Stats())
}

// find returns the cache with a name.
func (k *caches) find(name string) (*cache.Cache, error) {
	for _, x := range k.list() {
		if x.Name() == name {
			return x, nil
		}
	}
	return nil, engine.Errorf(engine.CodeNotFound, "there is no cache %.80q", name)
}

// empty flushes the cache with a name.
func (k *caches) empty(_ context.Context, name string) error {
	x, err := k.find(name)
	if err == nil {
		x.Flush()
	}
	return err
}

// RecordEntries returns options of a cache of the records of one collection: the keys are the ids of records, the entries
// their JSON as clients see it, without passwords. It follows the changes of the engine, in keys and in tables. The
// rules of the collection do not apply: whoever can reach a route that serves the cache can read every record that is
// not in the trash. What a record refers to is not part of its entry.
//
// The caller may change the options, and passes them to Cache.
func (s *Services) RecordEntries(collection string) (cache.Options, error) {
	o := cache.Options{Name: collection, Source: cache.Func(func(ctx context.Context, id string) (e cache.Entry, err error) {
		_, err = s.Records.View(ctx, engine.Read{}, record.Program(), func(tx *record.Tx) error {
			r, err := tx.Get(collection, id)
			if err == nil {
				e = cache.Entry{Body: r.AppendJSON(nil), Type: "application/json"}
			}
			return err
		})
		if errors.Is(err, record.ErrNotFound) {
			return cache.Entry{Missing: true}, nil
		}
		return e, err
	})}
	if s.Feed == nil {
		return o, engine.Errorf(engine.CodeUnsupported, "skerry: this engine has no change feed: a cache of records cannot know what changes")
	}
	changes, err := cache.Changes(cache.ChangesOptions{Engine: s.Engine, Feed: s.Feed, Prefixes: record.Watched(),
		Keys: func(c engine.Change, drop func(string)) (all bool) {
			return s.Records.Touched(c, func(name, id string) {
				if name == collection {
					drop(id)
				}
			})
		}})
	o.Feed = changes
	return o, err
}

// Newest is for web.CachedOptions.AtLeast: with it, readers of a cache of this engine's data see everything that is
// committed on this node, their own writes among it.
func (s *Services) Newest(*web.Context) (cache.Position, error) {
	if s.Feed == nil {
		return 0, engine.Errorf(engine.CodeUnsupported, "skerry: this engine has no change feed and no positions")
	}
	return s.Feed.Committed()
}

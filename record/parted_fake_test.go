package record

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/testengine"
	"github.com/skerrydb/skerry/record/keys"
)

// partitions is an engine.PathStore in memory, whose table of paths does what a test asks for.
type partitions struct {
	engine.Engine

	mu      sync.Mutex // guards the fields below
	paths   map[pathKey]*pathStamps
	fail    error              // of each Insert of the next Update, after it has stored its entries
	failing error              // of the Update under way
	hold    bool               // Remove keeps what it should remove in held
	held    []engine.PathEntry // what arrives late
	between func()             // called once by the next Insert, after it has stored its entries
	unknown error              // of the next Update, after it has committed
	another func()             // called once by the next Update after its function, which then runs again
}

type pathKey struct{ partition, key string }

// pathStamps are the greatest stamps of an entry: of its insertions and of its removals.
type pathStamps struct{ in, out int64 }

func newPartitions(t *testing.T) *partitions {
	return &partitions{Engine: testengine.Open(t, testengine.Options{}), paths: map[pathKey]*pathStamps{}}
}

// Promises returns only what records in partitions need.
func (p *partitions) Promises() engine.Promises { return keys.NeedsParted() }

func (p *partitions) Paths(context.Context) (engine.Paths, error) { return p, nil }

func (p *partitions) at(x engine.PathEntry) *pathStamps {
	k := pathKey{string(x.Partition), string(x.Key)}
	if p.paths[k] == nil {
		p.paths[k] = &pathStamps{}
	}
	return p.paths[k]
}

// Update does what the test asks for.
func (p *partitions) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	p.mu.Lock()
	another, unknown := p.another, p.unknown
	p.another, p.unknown = nil, nil
	p.failing, p.fail = p.fail, nil
	p.mu.Unlock()
	if another != nil {
		conflict := errors.New("another change came first")
		if _, err := p.Engine.Update(ctx, func(tx engine.Tx) error { return cmp.Or(fn(tx), conflict) }); !errors.Is(err, conflict) {
			return 0, err
		}
		another()
	}
	pos, err := p.Engine.Update(ctx, fn)
	return pos, cmp.Or(err, unknown)
}

func (p *partitions) Insert(_ context.Context, list []engine.PathEntry) error {
	p.mu.Lock()
	for _, x := range list {
		s := p.at(x)
		s.in = max(s.in, x.Stamp)
	}
	between, err := p.between, p.failing
	p.between = nil
	p.mu.Unlock()
	if between != nil {
		between()
	}
	return err
}

func (p *partitions) Remove(_ context.Context, list []engine.PathEntry) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hold {
		p.held = append(p.held, list...)
		return errors.New("the removal is under way")
	}
	p.remove(list)
	return nil
}

func (p *partitions) remove(list []engine.PathEntry) {
	for _, x := range list {
		s := p.at(x)
		s.out = max(s.out, x.Stamp)
	}
}

// release makes what was held arrive.
func (p *partitions) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold = false
	p.remove(p.held)
	p.held = nil
}

// alive returns how many entries there are.
func (p *partitions) alive() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.paths {
		if s.in > s.out {
			n++
		}
	}
	return n
}

func (p *partitions) Range(_ context.Context, partition, lo, hi []byte, back bool, limit int, _ engine.Read) (list [][]byte, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, s := range p.paths {
		if key := []byte(k.key); k.partition == string(partition) && s.in > s.out && bytes.Compare(key, lo) >= 0 && (hi == nil || bytes.Compare(key, hi) < 0) {
			list = append(list, key)
		}
	}
	slices.SortFunc(list, bytes.Compare)
	if back {
		slices.Reverse(list)
	}
	return list[:min(limit, len(list))], nil
}

package traversal

import (
	"fmt"

	"github.com/skerrydb/skerry/graph/value"
)

// others has the makers of the steps that are of no other kind.
func others() map[string]maker {
	return map[string]maker{
		"math": makeMath, "subgraph": makeSubgraph,
		"call": refuses("there are no services to call"),
		"io":   refuses("files of the server are not read or written by a traversal; use import and export"),
	}
}

// refuses makes a step that is known and not supported.
func refuses(why string) maker {
	return func(*builder, *callInfo) (kernel, traits, error) { return nil, traits{}, fmt.Errorf("%s", why) }
}

// profile measures the steps of a run.
type profile struct{}

func (c *config) profile(*run) *profile { return nil }

func (p *profile) measure(_ *step, inner sink) sink { return inner }

// optimize makes a plan faster without changing what it yields.
func (b *builder) optimize(p *Plan) {
	b.config.paths = max(b.config.paths, b.pathUse())
}

func (b *builder) pathUse() pathUse {
	switch {
	case b.used.full:
		return fullPaths
	case b.used.any:
		return labelledPaths
	}
	return noPaths
}

// lookup finds elements by an index.
type lookup struct{}

func (r *run) indexed(value.Kind, *value.Map) *lookup { return nil }

func (l *lookup) find(*run, func(any) error) error { return nil }

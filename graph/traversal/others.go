package traversal

import (
	"fmt"
)

// others has the makers of the steps that are of no other kind.
func others() map[string]maker {
	return map[string]maker{
		"math": makeMath, "subgraph": makeSubgraph,
		"call": refuses("services are called by themselves, as in g.call(name, arguments): without other steps, and not in a session"),
		"io":   refuses("files of the server are not read or written by a traversal; use import and export"),
	}
}

// refuses makes a step that is known and not supported.
func refuses(why string) maker {
	return func(*builder, *callInfo) (kernel, traits, error) { return nil, traits{}, fmt.Errorf("%s", why) }
}

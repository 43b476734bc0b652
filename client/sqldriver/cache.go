package sqldriver

import "sync"

const (
	// MaxCachedStatements is how many parsed statements a Connector caches.
	MaxCachedStatements = 1024
	// MaxCachedBytes is the longest statement that is cached.
	MaxCachedBytes = 4 << 10
)

// statements caches parsed statements in two generations. A hit moves a statement to the
// young generation. When that is full, it becomes the old one, and the previous old one is
// dropped. It is safe for concurrent use.
type statements struct {
	mu         sync.Mutex // guards both maps
	young, old map[string]*statement
}

// get returns text parsed, from the cache if possible.
func (c *statements) get(text string) (*statement, error) {
	if len(text) > MaxCachedBytes {
		return parse(text)
	}
	c.mu.Lock()
	st := c.young[text]
	if st == nil {
		if st = c.old[text]; st != nil {
			c.keep(text, st)
		}
	}
	c.mu.Unlock()
	if st != nil {
		return st, nil
	}
	st, err := parse(text)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.keep(text, st)
	c.mu.Unlock()
	return st, nil
}

// keep adds st to the young generation.
func (c *statements) keep(text string, st *statement) {
	if len(c.young) >= MaxCachedStatements/2 {
		c.old, c.young = c.young, nil
	}
	if c.young == nil {
		c.young = make(map[string]*statement)
	}
	c.young[text] = st
}

// size returns the number of cached statements.
func (c *statements) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.young) + len(c.old)
}

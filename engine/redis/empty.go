package redis

import (
	"context"
	"strings"

	"github.com/skerrydb/skerry/engine"
)

// scanCount is how many keys of a node one SCAN looks at.
const scanCount = 1000

// Empty implements engine.Emptier. It looks at the names of all keys of each node until it finds one that is data.
func (e *slots) Empty(ctx context.Context) (bool, error) {
	pattern := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(e.name("")) + "*"
	for addr, node := range e.c.Nodes() {
		for cursor := uint64(0); ; {
			page, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(pattern).Count(scanCount).Build()).AsScanEntry()
			if err != nil {
				return false, ofNode(addr, fault(ctx, err))
			}
			for _, name := range page.Elements {
				if name != e.name(engine.FenceKey) {
					return false, nil
				}
			}
			if cursor = page.Cursor; cursor == 0 {
				break
			}
		}
	}
	return true, nil
}

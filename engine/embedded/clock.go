package embedded

import (
	"sync/atomic"
	"time"
)

// clock is a wall clock that never goes back while the process runs, or a key
// that a reader saw expired would be there again for the next one.
type clock struct {
	now  func() time.Time
	last atomic.Int64 // microseconds
}

// micros returns the time in microseconds since the Unix epoch.
func (c *clock) micros() int64 {
	t := c.now().UnixMicro()
	for {
		last := c.last.Load()
		if t <= last {
			return last
		}
		if c.last.CompareAndSwap(last, t) {
			return t
		}
	}
}

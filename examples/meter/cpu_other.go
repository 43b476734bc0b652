//go:build !unix

package meter

import "time"

// cpuTime is not known here.
func cpuTime() time.Duration { return 0 }

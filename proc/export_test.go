package proc

import (
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Look has the watchdog look, as Run does from time to time.
func (s *Set) Look(now time.Time) { s.tell(s.look(now)) }

// Engine returns the engine of s.
func (s *Set) Engine() engine.Engine { return s.eng }

// Live returns how many transactions the watchdog knows.
func Live(s *Set) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live)
}

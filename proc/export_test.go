package proc

import (
	"reflect"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Look makes the watchdog look, as Run does periodically.
func (s *Set) Look(now time.Time) { s.report(s.look(now)) }

// WrongTypes returns the error in the types of a procedure.
func WrongTypes(in, out reflect.Type) error { return define("p", false, in, out).err }

// Engine returns the engine of s.
func (s *Set) Engine() engine.Engine { return s.eng }

// Live returns how many transactions the watchdog knows.
func Live(s *Set) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live)
}

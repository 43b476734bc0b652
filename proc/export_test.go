package proc

import (
	"reflect"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Look has the watchdog look, as Run does from time to time.
func (s *Set) Look(now time.Time) { s.tell(s.look(now)) }

// WrongTypes returns what is wrong with the types of a procedure.
func WrongTypes(in, out reflect.Type) error { return define("p", false, in, out).err }

// Engine returns the engine of s.
func (s *Set) Engine() engine.Engine { return s.eng }

// Live returns how many transactions the watchdog knows.
func Live(s *Set) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live)
}

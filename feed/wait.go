package feed

import (
	"slices"

	"github.com/skerrydb/skerry/engine"
)

// waiter is one call of Wait.
type waiter struct {
	pos  engine.Position
	done chan error // takes one value without blocking
}

// waiters are in descending order of position, so that the next one to be reached is last.
type waiters []*waiter

func (ws *waiters) add(w *waiter) {
	i, _ := slices.BinarySearchFunc(*ws, w.pos, func(w *waiter, pos engine.Position) int {
		if w.pos > pos {
			return -1
		}
		return 1
	})
	*ws = slices.Insert(*ws, i, w)
}

func (ws *waiters) remove(w *waiter) {
	if i := slices.Index(*ws, w); i >= 0 {
		*ws = slices.Delete(*ws, i, i+1)
	}
}

// release sends err to all waiters for pos or less.
func (ws *waiters) release(pos engine.Position, err error) {
	n := len(*ws)
	for n > 0 && (*ws)[n-1].pos <= pos {
		n--
		(*ws)[n].done <- err
		(*ws)[n] = nil
	}
	*ws = (*ws)[:n]
}

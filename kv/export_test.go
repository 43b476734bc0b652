package kv

import "context"

// ExpireStep runs one step of Run.
func (s *Store) ExpireStep(ctx context.Context) (more bool, err error) { return s.expireStep(ctx) }

// FlushTo runs the first n steps of Flush. It returns a function that runs the others and
// returns their number, or -1 if one failed.
func (s *Store) FlushTo(ctx context.Context, space uint8, n int) (rest func() int, done bool, err error) {
	var f flush
	run := func() error {
		var next flush
		_, err := s.Update(ctx, space, func(t *Tx) error {
			next = f
			return next.step(t)
		})
		if err == nil {
			f = next
		}
		return err
	}
	for range n {
		if err := run(); err != nil || f.done {
			return nil, true, err
		}
	}
	return func() (steps int) {
		for ; !f.done; steps++ {
			if err := run(); err != nil {
				return -1
			}
		}
		return steps
	}, false, nil
}

package kv

import "context"

// ExpireStep is one step of Run.
func (s *Store) ExpireStep(ctx context.Context) (more bool, err error) { return s.expireStep(ctx) }

// FlushTo runs Flush up to its step n and returns a function for the others.
func (s *Store) FlushTo(ctx context.Context, space uint8, n int) (rest func() error, done bool, err error) {
	var f flush
	run := func() error {
		_, err := s.Update(ctx, space, func(t *Tx) error { return f.step(t) })
		return err
	}
	for range n {
		if err := run(); err != nil || f.done {
			return nil, true, err
		}
	}
	return func() error {
		for !f.done {
			if err := run(); err != nil {
				return err
			}
		}
		return nil
	}, false, nil
}

package transfer

import (
	"context"
	"fmt"

	"github.com/skerrydb/skerry/engine"
)

// epochBits is how many bits of a position count commits; the bits above number the epoch.
const epochBits = 48

// NextEpoch returns the position from which a target should count: it is after all that the source will have until
// the cut, so that no client takes a position of the source for one of the target. It leaves out one epoch, which the source may
// begin while the last clients still read there.
func NextEpoch(p engine.Position) engine.Position { return (p>>epochBits + 2) << epochBits }

// position returns that of the target, at which look must succeed.
func (m *mover) position(ctx context.Context, look func(engine.Tx) error) (engine.Position, error) {
	pos, err := m.dst.View(ctx, engine.Read{}, look)
	if err != nil {
		return 0, fmt.Errorf("read the target: %w", err)
	}
	return pos, nil
}

// ahead returns an error if the target's positions do not come after one of the source, and cannot be raised.
func (m *mover) ahead(ctx context.Context, src engine.Position) error {
	if _, ok := m.dst.(engine.Raiser); ok || !m.p.Positions {
		return nil
	}
	pos, err := m.position(ctx, func(engine.Tx) error { return nil })
	if err != nil {
		return err
	}
	if pos>>epochBits > src>>epochBits {
		return nil
	}
	return engine.Errorf(engine.CodeUnsupported, "the target is at position %d and cannot be raised over the source's, %d: clients would take one for the other. Move to a folder that does not exist yet", pos, src)
}

// raise makes the target's positions come after those of the source, which ends at last, and after its own: what the
// target has kept of its history must not be taken for the source's. If the move is killed after it, it is done again, to positions
// that are higher still.
func (m *mover) raise(ctx context.Context, last engine.Position) error {
	r, ok := m.dst.(engine.Raiser)
	if !ok || !m.p.Positions {
		return m.ahead(ctx, last)
	}
	now, err := m.position(ctx, m.owns) // one that was opened by another process may serve already
	if err != nil {
		return err
	}
	_, err = retry(ctx, func() (engine.Position, error) { return r.Raise(ctx, NextEpoch(max(last, now))) })
	if err != nil {
		return fmt.Errorf("raise the positions of the target: %w", err)
	}
	return nil
}

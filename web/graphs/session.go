package graphs

import (
	"context"
	"errors"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/optimistic"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/traversal"
	"github.com/skerrydb/skerry/web/gremlin"
)

// firstNumbers is for how many elements a session reserves numbers at first; each
// time they are used up it reserves eight times as many.
const firstNumbers = 64

// session is one transaction over several requests. It holds up no other one: if what
// it has read has changed when it is committed, it fails with engine.ErrConflict.
type session struct {
	tx       *optimistic.Tx
	graph    *graph.Lasting
	reserved uint64 // for how many elements numbers were reserved last
}

// Begin implements gremlin.Backend. The transaction is rolled back when ctx ends.
func (b *Backend) Begin(ctx context.Context, r gremlin.Request) (gremlin.Session, error) {
	tx, err := optimistic.Begin(ctx, b.eng, optimistic.Options{})
	if err != nil {
		return nil, failure(err)
	}
	g, err := b.db.Lasting(ctx, r.Source)
	if err != nil {
		tx.Rollback()
		return nil, failure(err)
	}
	return &session{tx: tx, graph: g}, nil
}

// Submit implements gremlin.Session. An error undoes what the traversal has done; the
// transaction goes on.
func (s *session) Submit(ctx context.Context, r gremlin.Request, yield func(val any, bulk int64) error) error {
	if done, err := explain(r, yield); done {
		return err
	}
	plan, err := traversal.Compile(r.Traversal)
	if err != nil {
		return failure(err)
	}
	var all []result
	for {
		all = all[:0]
		err := s.tx.Do(ctx, func(tx engine.Tx) error {
			t := s.graph.Begin(ctx, tx, plan.Writes())
			if err := carry(ctx, plan, t, r, collect(&all)); err != nil {
				return err
			}
			return t.End()
		})
		if !errors.Is(err, graph.ErrNumbers) {
			if err != nil {
				return failure(err)
			}
			return send(all, yield)
		}
		if err := s.reserve(ctx); err != nil {
			return failure(err)
		}
	}
}

// reserve reserves numbers for what the session adds, so that it does not conflict
// with everything that is added meanwhile.
func (s *session) reserve(ctx context.Context) error {
	if s.reserved == graph.MaxReserved {
		return engine.Errorf(engine.CodeTxTooLarge, "one traversal of a session adds more than %d vertices or edges (graph.MaxReserved)", graph.MaxReserved)
	}
	s.reserved = min(max(firstNumbers, s.reserved*8), graph.MaxReserved)
	return s.graph.Reserve(ctx, s.reserved)
}

// Commit implements gremlin.Session.
func (s *session) Commit(ctx context.Context) error {
	if s.graph.Incomplete() {
		if err := s.tx.Do(ctx, func(tx engine.Tx) error { return s.graph.Complete(ctx, tx) }); err != nil {
			s.tx.Rollback()
			return failure(err)
		}
	}
	_, err := s.tx.Commit(ctx)
	return failure(err)
}

// Rollback implements gremlin.Session.
func (s *session) Rollback(context.Context) error {
	s.tx.Rollback()
	return nil
}

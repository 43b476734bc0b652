package record

import "iter"

// historyBatch is how many changes History reads at once.
const historyBatch = 100

// History returns an iterator over the changes of a record, newest first; see Tx.History. In a Tx all batches see the
// same state; otherwise each batch is a separate transaction. An error is yielded last.
func (s *Set[T]) History(r Runner, id string) iter.Seq2[*Change, error] {
	return func(yield func(*Change, error) bool) {
		for before := uint64(0); ; {
			var page []*Change
			err := r.run(false, func(tx *Tx) (err error) {
				page, err = tx.History(s.Name(), id, before, historyBatch)
				return err
			})
			if err != nil {
				yield(nil, err)
				return
			}
			for _, ch := range page {
				if !yield(ch, nil) {
					return
				}
			}
			if len(page) == 0 || page[len(page)-1].Rev == 1 {
				return
			}
			before = page[len(page)-1].Rev
		}
	}
}

// GetAsOf returns an earlier state of a record; see Tx.GetAsOf.
func (s *Set[T]) GetAsOf(r Runner, id string, m Moment) (v *T, err error) {
	err = r.run(false, func(tx *Tx) error {
		past, err := tx.GetAsOf(s.Name(), id, m)
		if err == nil {
			v, err = s.decode(past)
		}
		return err
	})
	return v, err
}

// Revert restores the data of an earlier revision; see Tx.Revert.
func (s *Set[T]) Revert(r Runner, id string, to, rev uint64) (v *T, err error) {
	err = r.run(true, func(tx *Tx) error {
		reverted, err := tx.Revert(s.Name(), id, to, rev)
		if err == nil {
			v, err = s.decode(reverted)
		}
		return err
	})
	return v, err
}

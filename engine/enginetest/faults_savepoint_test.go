package enginetest

import "github.com/skerrydb/skerry/engine"

// savepointFaults are those of transactions that undo a part of themselves.
func savepointFaults() []fault {
	roll := func(undo func(tx *refTx, mark int) error) func(*faulty) {
		return func(f *faulty) {
			f.inUpdate(func(tx engine.Tx) engine.Tx {
				return &faultyTx{Tx: tx, undo: func(mark int) error { return undo(tx.(*refTx), mark) }}
			})
		}
	}
	const random, misuse = "savepoint/random-rollbacks", "savepoint/misuse"
	return []fault{
		{"a roll-back undoes nothing", []string{random, misuse}, roll(func(tx *refTx, mark int) error {
			if tx.ended || mark < 0 || mark >= len(tx.saved) {
				return engine.ErrInvalid
			}
			return nil
		})},
		{"a roll-back undoes everything", []string{random}, roll(func(tx *refTx, mark int) error {
			if err := tx.RollbackTo(mark); err != nil {
				return err
			}
			return tx.RollbackTo(0)
		})},
		{"a roll-back restores values, not deletions", []string{random}, roll(func(tx *refTx, mark int) error {
			now := *tx
			if err := tx.RollbackTo(mark); err != nil {
				return err
			}
			for i := range tx.pairs {
				if _, ok := now.find(tx.pairs[i].Key); !ok {
					return tx.Delete(tx.pairs[i].Key)
				}
			}
			return nil
		})},
		{"what was undone is in the change", []string{random}, roll(func(tx *refTx, mark int) error {
			wrote := tx.wrote
			err := tx.RollbackTo(mark)
			tx.wrote = wrote
			return err
		})},
		{"a savepoint is gone once it was gone back to", []string{random}, roll(func(tx *refTx, mark int) error {
			err := tx.RollbackTo(mark)
			tx.saved = tx.saved[:min(mark, len(tx.saved))]
			return err
		})},
		{"any mark is taken", []string{misuse}, roll(func(tx *refTx, mark int) error {
			_ = tx.RollbackTo(mark)
			return nil
		})},
	}
}

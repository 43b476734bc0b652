package embedded

import "github.com/skerrydb/skerry/engine"

// undoStep is one write since the first savepoint of a transaction, with the data to
// undo it.
type undoStep struct {
	touch int   // index in txState.touched
	held  int   // length of txState.vals before the write
	val   saved // previous value of the key
	has   bool  // there was a previous value
	first bool  // the transaction had not written the key before
}

// keepSteps is the most steps whose memory is reused.
const keepSteps = 4096

// forget drops all savepoints.
func (s *txState) forget() {
	s.saving = false
	if cap(s.steps) > keepSteps {
		s.steps = nil
	}
	s.steps = s.steps[:0]
}

// Savepoint implements engine.Savepointer.
func (h *writeTx) Savepoint() int {
	if h.x == nil {
		return 0
	}
	h.x.tx.saving = true
	return len(h.x.tx.steps)
}

// RollbackTo implements engine.Savepointer.
func (h *writeTx) RollbackTo(mark int) error {
	if h.x == nil {
		return errEnded()
	}
	s := &h.x.tx
	switch {
	case mark < 0 || mark > len(s.steps) || !s.saving:
		return engine.Errorf(engine.CodeInvalid, "the transaction has no savepoint %d", mark)
	case mark == len(s.steps):
		return nil
	case s.scanning > 0:
		return engine.Errorf(engine.CodeInvalid, "a transaction must not undo writes while it scans")
	}
	for len(s.steps) > mark {
		last := len(s.steps) - 1
		h.x.stepBack(s.steps[last])
		s.steps = s.steps[:last]
	}
	return nil
}

// stepBack undoes the newest write.
func (x *speculation) stepBack(st undoStep) {
	s := &x.tx
	t := &s.touched[st.touch]
	key := s.key(*t)
	if t.has {
		x.bytes -= size(key, t.new.len)
	}
	if st.has {
		x.bytes += size(key, st.val.len)
		x.tree.Set(key, s.value(st.val))
	} else if t.has {
		x.tree.Delete(key)
	}
	s.vals = s.vals[:st.held]
	if t.new, t.has = st.val, st.has; !st.first {
		return
	}
	// The key is the last one touched, so it is removed from the end.
	delete(s.byKey, string(key))
	s.keys = s.keys[:t.off]
	s.touched = s.touched[:st.touch]
	if len(s.touched) <= linearTouches {
		clear(s.byKey) // it holds those beyond, or all
	}
}

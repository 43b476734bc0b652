package embedded

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal/memfs"
)

// cloneModes say for which batches the tree is cloned.
var cloneModes = map[string]func(db *DB, rng *rand.Rand) engine.Read{
	"at every batch": func(db *DB, _ *rand.Rand) engine.Read {
		db.exec.wanted.Store(true)
		return engine.Read{}
	},
	"never": func(*DB, *rand.Rand) engine.Read {
		return engine.Read{Level: engine.Local, MaxStale: 1 << 60}
	},
	"at random": func(db *DB, rng *rand.Rand) engine.Read {
		if rng.IntN(8) == 0 {
			db.exec.wanted.Store(true)
			return engine.Read{}
		}
		return engine.Read{Level: engine.Local, MaxStale: 1 << 60}
	},
}

// sumKey has the sum of all other pairs.
var (
	sumKey  = []byte("~sum")
	sumSeed = maphash.MakeSeed()
)

// pairSum returns the part that a pair has in the sum, which is their exclusive or.
func pairSum(key, val []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(sumSeed)
	_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(key))))
	_, _ = h.Write(key)
	_, _ = h.Write(val)
	return h.Sum64()
}

// sumOf returns the sum of the pairs that tx sees, and whether it is the one in sumKey.
func sumOf(tx engine.Tx) (sum uint64, ok bool, err error) {
	var stored []byte
	for p, err := range tx.Scan(nil, nil) {
		if err != nil {
			return 0, false, err
		}
		if bytes.Equal(p.Key, sumKey) {
			stored = bytes.Clone(p.Val)
			continue
		}
		sum ^= pairSum(p.Key, p.Val)
	}
	return sum, len(stored) == 0 && sum == 0 || len(stored) == 8 && binary.LittleEndian.Uint64(stored) == sum, nil
}

// mutator writes random pairs and keeps their sum.
type mutator struct {
	rng *rand.Rand
	tx  engine.Tx
	sum uint64
}

var errUndone = errors.New("undone")

// begin reads the sum.
func (m *mutator) begin(tx engine.Tx) error {
	m.tx, m.sum = tx, 0
	b, ok, err := tx.Get(sumKey)
	if ok {
		m.sum = binary.LittleEndian.Uint64(b)
	}
	return err
}

// finish writes the sum.
func (m *mutator) finish(tx engine.Tx) error {
	return tx.Put(sumKey, binary.LittleEndian.AppendUint64(nil, m.sum))
}

// run is one transaction: some writes, undone parts of it, and sometimes an error.
func (m *mutator) run(tx engine.Tx) error {
	if err := m.begin(tx); err != nil {
		return err
	}
	sp := tx.(engine.Savepointer)
	for range 1 + m.rng.IntN(12) {
		mark, before := -1, m.sum
		if m.rng.IntN(5) == 0 {
			mark = sp.Savepoint()
		}
		for range 1 + m.rng.IntN(4) {
			if err := m.write(); err != nil {
				return err
			}
		}
		if mark >= 0 && m.rng.IntN(2) == 0 {
			if err := sp.RollbackTo(mark); err != nil {
				return err
			}
			m.sum = before
		}
	}
	if err := m.finish(tx); err != nil {
		return err
	}
	if m.rng.IntN(3) == 0 {
		return errUndone
	}
	return nil
}

// write is one write: a deletion, a value of any length, or what the transaction itself returned.
func (m *mutator) write() error {
	key := fmt.Appendf(nil, "%0*d", 1+m.rng.IntN(3)*8, m.rng.IntN(120))
	old, had, err := m.tx.Get(key)
	if err != nil {
		return err
	}
	if had {
		m.sum ^= pairSum(key, old)
	}
	var val []byte
	switch m.rng.IntN(8) {
	case 0, 1:
		return m.tx.Delete(key)
	case 2: // another key's value, from the tree
		if p, ok, err := m.tx.(engine.Ranker).At(nil, sumKey, m.rng.IntN(100)); err != nil {
			return err
		} else if ok {
			val = p.Val
		}
	case 3: // a part of its own value
		val = old[len(old)/2:]
	case 4: // the same length
		val = m.random(len(old))
	case 5:
		val = m.random(m.rng.IntN(3000))
	default:
		val = m.random(m.rng.IntN(60))
	}
	m.sum ^= pairSum(key, val)
	return m.tx.Put(key, val)
}

func (m *mutator) random(n int) []byte {
	val := make([]byte, n)
	for i := range val {
		val[i] = byte(m.rng.Uint32())
	}
	return val
}

// update runs one transaction of m.
func (m *mutator) update(t *testing.T, db *DB) {
	if _, err := db.Update(t.Context(), m.run); err != nil && !errors.Is(err, errUndone) {
		t.Error(err)
	}
}

// TestSnapshotsStay writes while snapshots are held, in one goroutine, so that a seed repeats every step: no byte
// that a snapshot has shown changes.
func TestSnapshotsStay(t *testing.T) {
	for mode, next := range cloneModes {
		t.Run(mode, func(t *testing.T) {
			rng := seed.Rand(t)
			o := Options{FS: memfs.New(1)}
			db := open(t, "data", o)
			m := &mutator{rng: rng}
			var held []*heldSnapshot
			for range 600 {
				r := next(db, rng)
				m.update(t, db)
				if rng.IntN(4) == 0 {
					snap, _, err := db.snapshotFor(t.Context(), r)
					if err != nil {
						t.Fatal(err)
					}
					held = append(held, hold(t, snap))
				}
				if len(held) > 12 {
					i := rng.IntN(len(held))
					held[i].check(t)
					held = append(held[:i], held[i+1:]...)
				}
			}
			for _, h := range held {
				h.check(t)
			}
			checkSum(t, db)
			_ = db.Close()
			checkSum(t, open(t, "data", o)) // and the same from the log
		})
	}
}

// heldSnapshot is a snapshot with its pairs as it returned them, and copies of them.
type heldSnapshot struct {
	snap         *snapshot
	shown, saved [][]byte
}

func hold(t *testing.T, snap *snapshot) *heldSnapshot {
	h := &heldSnapshot{snap: snap}
	h.each(t, func(_ int, b []byte) {
		h.shown, h.saved = append(h.shown, b), append(h.saved, bytes.Clone(b))
	})
	return h
}

// each calls fn with the keys and values of the snapshot and their number.
func (h *heldSnapshot) each(t *testing.T, fn func(i int, b []byte)) {
	i := 0
	for p, err := range (&viewTx{snap: h.snap}).Scan(nil, nil) {
		if err != nil {
			t.Fatal(err)
		}
		fn(i, p.Key)
		fn(i+1, p.Val)
		i += 2
	}
}

func (h *heldSnapshot) check(t *testing.T) {
	t.Helper()
	n := 0
	h.each(t, func(i int, b []byte) {
		if n++; i >= len(h.saved) || !bytes.Equal(b, h.saved[i]) {
			t.Fatalf("position %d now shows %q as item %d", h.snap.pos, b, i)
		}
	})
	if n != len(h.saved) {
		t.Fatalf("position %d has %d keys and values, it had %d", h.snap.pos, n, len(h.saved))
	}
	for i, b := range h.shown {
		if !bytes.Equal(b, h.saved[i]) {
			t.Fatalf("position %d returned %q, which is %q now", h.snap.pos, h.saved[i], b)
		}
	}
}

// checkSum compares what the newest state has with its sum.
func checkSum(t *testing.T, db *DB) {
	t.Helper()
	_, err := db.View(t.Context(), engine.Read{}, func(tx engine.Tx) error {
		if _, ok, err := sumOf(tx); err != nil || !ok {
			t.Errorf("the state has not the sum that its transactions computed: %v", err)
		}
		return nil
	})
	if err == nil {
		err = visible(db).tree.Check()
	}
	if err != nil {
		t.Error(err)
	}
}

// TestReadersBesideWriters: every state that readers see has the sum that its transaction stored, at once and after
// other transactions have written for a while.
func TestReadersBesideWriters(t *testing.T) {
	for mode, next := range cloneModes {
		t.Run(mode, func(t *testing.T) {
			first := seed.Of(t)
			o := Options{FS: memfs.New(1)}
			db := open(t, "data", o)
			var writers, readers sync.WaitGroup
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			for i := range uint64(2) {
				m := &mutator{rng: rand.New(rand.NewPCG(first, i))}
				writers.Go(func() {
					for range 300 {
						next(db, m.rng)
						m.update(t, db)
					}
				})
				rng := rand.New(rand.NewPCG(first, 100+i))
				readers.Go(func() {
					for !t.Failed() {
						readBeside(ctx, t, db, next(db, rng), rng.IntN(20))
						if ctx.Err() != nil {
							return
						}
					}
				})
			}
			writers.Wait()
			stop()
			readers.Wait()
			checkSum(t, db)
			_ = db.Close()
			checkSum(t, open(t, "data", o))
		})
	}
}

// readBeside checks the sum of one state, and again after so many transactions or when ctx ends.
func readBeside(ctx context.Context, t *testing.T, db *DB, r engine.Read, wait int) {
	_, err := db.View(t.Context(), r, func(tx engine.Tx) error {
		was, ok, err := sumOf(tx)
		if err != nil || !ok {
			t.Errorf("a state has not the sum that its transactions computed: %v", err)
			return err
		}
		for range db.Changes(ctx, db.Position()) {
			if wait--; wait < 0 {
				break
			}
		}
		if now, ok, err := sumOf(tx); err != nil || !ok || now != was {
			t.Errorf("the sum of a state was %x and is %x: %v", was, now, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

package embedded

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
	"github.com/skerrydb/skerry/journal/memfs"
)

// TestReplayIsInTheOrderOfTheLog: rounds sorted by key lead to the same state and
// history as one write after the other, wherever the log ends and however it is
// divided into rounds.
func TestReplayIsInTheOrderOfTheLog(t *testing.T) {
	first := seed.Of(t)
	histories := 300
	if testing.Short() {
		histories = 30
	}
	large := btree.NewPairs() // so that the tree reads leaves ahead
	for n := range 1 << 15 {
		large.Set(binary.BigEndian.AppendUint16([]byte{1}, uint16(n)), btree.Value{Bytes: []byte{2}})
	}
	for n := range histories {
		rng := rand.New(rand.NewPCG(first, uint64(n)))
		batches := randomBatches(rng)
		begin, end := rng.IntN(len(batches)+1), rng.IntN(len(batches)+1)
		begin = min(begin, end)
		want := &snapshot{tree: btree.NewPairs()}
		if n%10 == 0 {
			want.tree = large.Clone()
		}
		replayInOrder(t, want, batches[:begin])
		got := &snapshot{tree: want.tree.Clone(), pos: want.pos, time: want.time, bytes: want.bytes, applied: want.applied}
		replayInOrder(t, want, batches[begin:end])

		db := &DB{dir: "data", log: logOf(t, batches[:end]), history: newHistory(1 + rng.IntN(2000))}
		r := &replayer{db: db, at: *got, roundBytes: 1 + rng.IntN(1<<(4+rng.IntN(16)))}
		applied, err := r.run(got, 1)
		if err != nil || applied != end-begin {
			t.Fatalf("history %d: %d of %d records applied: %v", n, applied, end-begin, err)
		}
		if err := sameState(got, want); err != nil {
			t.Fatalf("history %d, records %d to %d: %v", n, begin, end, err)
		}
		checkReplayedHistory(t, db.history, batches[:end])
	}
}

// randomBatches returns encoded batches over few keys, of which some are prefixes of
// others or differ only in length.
func randomBatches(rng *rand.Rand) [][]byte {
	most := 5 // transactions in a batch
	if rng.IntN(8) == 0 {
		most = radixLeast / 4
	}
	keys := [][]byte{{}, []byte("a"), []byte("a\x00"), []byte("a\x00\x00")}
	for range 30 {
		keys = append(keys, binary.BigEndian.AppendUint16([]byte{1}, uint16(rng.Uint32())))
	}
	prefix := bytes.Repeat([]byte("p"), rng.IntN(20))
	for range 1 + rng.IntN(60) {
		key := append(slices.Clone(prefix), make([]byte, rng.IntN(24))...)
		for i := len(prefix); i < len(key); i++ {
			key[i] = byte(rng.IntN(3)) * 127
		}
		keys = append(keys, key)
	}
	if rng.IntN(2) == 0 {
		keys = keys[34:] // all with the prefix
	}
	var batches [][]byte
	pos, micros := engine.Position(0), int64(1)
	for range 1 + rng.IntN(40) {
		b := newBatch(pos, 0)
		for range 1 + rng.IntN(most) {
			micros += 1 + rng.Int64N(1000)
			n := 1 + rng.IntN(4)
			b.add(micros, n)
			for range n {
				if key := keys[rng.IntN(len(keys))]; rng.IntN(3) == 0 {
					b.remove(key)
				} else {
					b.put(key, make([]byte, rng.IntN(40)))
				}
			}
		}
		pos = b.last
		batches = append(batches, b.buf)
	}
	return batches
}

// replayInOrder applies batches one write after the other.
func replayInOrder(t *testing.T, s *snapshot, batches [][]byte) {
	t.Helper()
	for _, b := range batches {
		for c, err := range changes(b) {
			if err != nil {
				t.Fatal(err)
			}
			s.apply(c)
		}
		s.index++
	}
}

// logOf returns a log of the batches, from record 1 on.
func logOf(t *testing.T, batches [][]byte) *journal.Log {
	t.Helper()
	log, err := journal.Open(filepath.Join("data", logDir), journal.Options{FS: memfs.New(1), Inline: true, SegmentBytes: 8 << 10, ReserveBytes: 4 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	for i, b := range batches {
		if err := log.Append(uint64(i+1), b); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Sync(); err != nil {
		t.Fatal(err)
	}
	return log
}

// sameState returns the difference between two states.
func sameState(got, want *snapshot) error {
	if got.pos != want.pos || got.time != want.time || got.bytes != want.bytes || got.index != want.index {
		return fmt.Errorf("position %d, time %d, bytes %d, index %d; want %d, %d, %d, %d",
			got.pos, got.time, got.bytes, got.index, want.pos, want.time, want.bytes, want.index)
	}
	if err := got.tree.Check(); err != nil {
		return err
	}
	var a, b bytes.Buffer
	if err := errors.Join(got.writePairs(&a), want.writePairs(&b)); err != nil {
		return err
	}
	if got.tree.Len() != want.tree.Len() || !bytes.Equal(a.Bytes(), b.Bytes()) {
		return fmt.Errorf("%d keys, want %d, or with other values", got.tree.Len(), want.tree.Len())
	}
	return nil
}

// checkReplayedHistory verifies that the newest batches are kept, in buffers of their
// own.
func checkReplayedHistory(t *testing.T, h *history, batches [][]byte) {
	t.Helper()
	if len(batches) == 0 {
		return
	}
	from, size := len(batches)-1, kept{data: batches[len(batches)-1]}.cost()
	for from > 0 && size+(kept{data: batches[from-1]}).cost() <= h.limit {
		from--
		size += kept{data: batches[from]}.cost()
	}
	if len(h.kept) != len(batches)-from || h.bytes != size {
		t.Fatalf("%d batches of %d bytes are kept, want %d of %d", len(h.kept), h.bytes, len(batches)-from, size)
	}
	for i, k := range h.kept {
		last, err := batchLast(k.data)
		if base, _ := batchBase(k.data); err != nil || k.last != last || k.base != base || k.borrowed ||
			k.index != uint64(from+i+1) || !bytes.Equal(k.data, batches[from+i]) {
			t.Fatalf("batch %d of the history: %v", i, err)
		}
	}
	if h.floor != h.kept[0].base {
		t.Fatalf("the history begins at %d, want %d", h.floor, h.kept[0].base)
	}
}

// TestReplayErrors: a malformed batch, or one on another position, is an error that
// names the record, whichever round it is in.
func TestReplayErrors(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, round := range []int{1, 1 << 20} {
		batches := randomBatches(rng)
		for len(batches) < 3 {
			batches = randomBatches(rng)
		}
		bad := slices.Clone(batches)
		bad[2] = bad[2][:len(bad[2])-1]
		far := slices.Clone(batches)
		far[2] = slices.Clone(far[2])
		far[2][1]++
		for why, bs := range map[string][][]byte{"malformed batch": bad, "was built on position": far} {
			db := &DB{dir: "data", log: logOf(t, bs), history: newHistory(1 << 20)}
			state := &snapshot{tree: btree.NewPairs()}
			r := &replayer{db: db, roundBytes: round}
			_, err := r.run(state, 1)
			if err == nil || !bytes.Contains([]byte(err.Error()), []byte("log record 3: ")) || !bytes.Contains([]byte(err.Error()), []byte(why)) {
				t.Errorf("%s, rounds of %d bytes: %v", why, round, err)
			}
		}
	}
}

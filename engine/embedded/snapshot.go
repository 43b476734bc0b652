package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
	"github.com/skerrydb/skerry/spill"
)

// A snapshot's head, which is the metadata of the snapshot file. Format 1 is on disk and
// in backups, do not change:
//
//	byte    format
//	uint64  position (little endian, as all here)
//	uint64  index of the log record that led here
//	int64   time of the last transaction, microseconds since the Unix epoch
//	uint64  number of pairs
//
// Format 2, of a node of a cluster, also has
//
//	uint64  term of that log record
//	bytes   the roster after it, as JSON
//
// The content is the pairs in ascending order: uvarint length and bytes of the
// key, uvarint length and bytes of the value.
//
// Format 3 is either of them, told apart by its length, of a state with values in files.
// Instead of a value's length it has twice that, plus 1 if the bytes are a spill.Ref.
//
// Format 4 is format 1 or 2, told apart by its length, of a fuzzy snapshot. After the
// number of pairs it has
//
//	uint64  index of the log record that completes it
const (
	snapshotAlone  = 1
	snapshotNode   = 2
	snapshotRefs   = 3
	snapshotFuzzy  = 4
	snapshotFormat = 4
	snapshotHead   = 1 + 4*8
)

var errSnapshot = errors.New("malformed snapshot")

// head is the decoded form.
type head struct {
	pos   engine.Position
	index uint64
	time  int64
	pairs uint64

	term   uint64
	roster *roster // nil: of a node that was alone

	refs    bool   // format 3
	settled uint64 // in format 4, otherwise 0
}

func (s *snapshot) head() []byte { return s.headOf(s.tree.Len()) }

// headOf is head with another number of pairs.
func (s *snapshot) headOf(pairs int) []byte {
	b := append(make([]byte, 0, snapshotHead), snapshotAlone)
	for _, n := range []uint64{uint64(s.pos), s.index, uint64(s.time), uint64(pairs)} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	if s.roster != nil {
		b[0] = snapshotNode
		b = binary.LittleEndian.AppendUint64(b, s.term)
		b = s.roster.append(b)
	}
	return b
}

func parseHead(b []byte) (h head, err error) {
	switch {
	case len(b) > 0 && b[0] > snapshotFormat:
		return h, engine.Errorf(engine.CodeFormatNewer, "the snapshot has format %d; this program knows up to %d", b[0], snapshotFormat)
	case len(b) < snapshotHead, b[0] == snapshotAlone && len(b) != snapshotHead, b[0] == 0:
		return h, errSnapshot
	}
	h.refs = b[0] == snapshotRefs
	rest := b[snapshotHead:]
	if b[0] == snapshotFuzzy {
		if len(rest) < 8 {
			return h, errSnapshot
		}
		h.settled, rest = binary.LittleEndian.Uint64(rest), rest[8:]
	}
	if b[0] == snapshotNode || len(rest) > 0 {
		if len(rest) < 8 {
			return h, errSnapshot
		}
		h.term = binary.LittleEndian.Uint64(rest)
		if h.roster, err = parseRoster(rest[8:]); err != nil {
			return h, err
		}
	}
	at := func(i int) uint64 { return binary.LittleEndian.Uint64(b[1+8*i:]) }
	h.pos, h.index, h.time, h.pairs = engine.Position(at(0)), at(1), int64(at(2)), at(3)
	if b[0] == snapshotFuzzy && h.settled < h.index {
		return h, errSnapshot
	}
	return h, nil
}

// save writes s as a snapshot file of its data folder, through what wrap returns. It
// returns the size of its content and how it uses the value files.
func (s *snapshot) save(fs journal.FS, name string, wrap func(io.Writer) io.Writer) (int64, spill.Uses, error) {
	head, uses := s.head(), spill.Uses{}
	refs := s.vals.files().Len() > 0
	if refs {
		head[0] = snapshotRefs
	}
	size, err := writeSnapshotFile(fs, name, head, func(w io.Writer) error {
		if w = wrap(w); refs {
			return s.writeRefs(w, uses)
		}
		return s.writePairs(w)
	})
	return size, uses, err
}

// writeSnapshotFile writes a snapshot file and returns the size of its content.
func writeSnapshotFile(fs journal.FS, name string, head []byte, fill func(io.Writer) error) (int64, error) {
	count := &countingWriter{}
	err := journal.WriteSnapshot(fs, name, head, func(w io.Writer) error {
		count.w = w
		return fill(count)
	})
	if err != nil {
		return 0, fmt.Errorf("write snapshot %s: %w", name, err)
	}
	return count.n, nil
}

// loadSnapshot builds the state from a snapshot's head and content. v and progress may be
// nil.
func loadSnapshot(meta []byte, r io.Reader, v *restoredValues, progress *progress) (*snapshot, error) {
	h, err := parseHead(meta)
	if err != nil {
		return nil, err
	}
	s := &snapshot{tree: btree.NewPairs(), pos: h.pos, time: h.time, applied: applied{h.index, h.term, h.roster}, settled: h.settled, uses: spill.Uses{}}
	if v != nil {
		err = s.loadSpilled(v.pairs(readPairs(r, h), h))
	} else {
		err = s.load(r, h, progress)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// loadSpilled loads pairs of which some have moved to value files.
func (s *snapshot) loadSpilled(pairs iter.Seq2[pair, error]) (failed error) {
	err := s.tree.Load(func(yield func([]byte, btree.Value) bool) {
		for p, err := range pairs {
			if failed = err; err == nil {
				failed = s.use(p)
			}
			s.bytes += size(p.key, len(p.val.Bytes))
			if failed != nil || !yield(p.key, p.val) {
				return
			}
		}
	})
	if failed == nil && err != nil {
		return errors.Join(errSnapshot, err)
	}
	return failed
}

package embedded

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/engine"
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
const (
	snapshotAlone  = 1
	snapshotFormat = 2
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
}

func (s *snapshot) head() []byte {
	b := append(make([]byte, 0, snapshotHead), snapshotAlone)
	for _, n := range []uint64{uint64(s.pos), s.index, uint64(s.time), uint64(s.tree.Len())} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	if s.roster != nil {
		b[0] = snapshotFormat
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
	if b[0] == snapshotFormat {
		if len(b) < snapshotHead+8 {
			return h, errSnapshot
		}
		h.term = binary.LittleEndian.Uint64(b[snapshotHead:])
		if h.roster, err = parseRoster(b[snapshotHead+8:]); err != nil {
			return h, err
		}
	}
	at := func(i int) uint64 { return binary.LittleEndian.Uint64(b[1+8*i:]) }
	h.pos, h.index, h.time, h.pairs = engine.Position(at(0)), at(1), int64(at(2)), at(3)
	return h, nil
}

// writePairs writes the content of a snapshot.
func (s *snapshot) writePairs(w io.Writer) error {
	var b []byte
	for key, val := range s.tree.Ascend(nil, nil) {
		b = binary.AppendUvarint(b[:0], uint64(len(key)))
		b = append(b, key...)
		b = binary.AppendUvarint(b, uint64(len(val.Bytes)))
		b = append(b, val.Bytes...)
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// readPairs yields the content of a snapshot. A pair is valid until the
// next one. An error is the last value.
func readPairs(r io.Reader, h head) iter.Seq2[pair, error] {
	return func(yield func(pair, error) bool) {
		br := bufio.NewReaderSize(r, 256<<10)
		var p pair
		for i := uint64(0); ; i++ {
			err := p.read(br)
			if err == io.EOF && i == h.pairs {
				return
			}
			if err != nil && i == h.pairs {
				yield(pair{}, fmt.Errorf("after the last pair: %w", err))
				return
			}
			if err != nil {
				yield(pair{}, fmt.Errorf("pair %d of %d: %w", i, h.pairs, err))
				return
			}
			if !yield(p, nil) {
				return
			}
		}
	}
}

// pair is one key and its value.
type pair struct{ key, val []byte }

// read reads the next pair; at the clean end the error is io.EOF itself.
func (p *pair) read(br *bufio.Reader) (err error) {
	if p.key, err = p.field(br, MaxKeyBytes, p.key[:0]); err != nil {
		return err
	}
	if p.val, err = p.field(br, MaxValBytes, p.val[:0]); err != nil {
		return errors.Join(errSnapshot, err)
	}
	return nil
}

func (p *pair) field(br *bufio.Reader, limit uint64, into []byte) ([]byte, error) {
	n, err := binary.ReadUvarint(br)
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, errSnapshot
	}
	if uint64(cap(into)) < n {
		into = make([]byte, n)
	}
	into = into[:n]
	if _, err := io.ReadFull(br, into); err != nil {
		return nil, errors.Join(errSnapshot, err)
	}
	return into, nil
}

// loadSnapshot builds the state from a snapshot's head and content.
func loadSnapshot(meta []byte, r io.Reader) (*snapshot, error) {
	h, err := parseHead(meta)
	if err != nil {
		return nil, err
	}
	s := &snapshot{tree: btree.NewPairs(), pos: h.pos, time: h.time, applied: applied{h.index, h.term, h.roster}}
	var failed error
	err = s.tree.Load(func(yield func([]byte, btree.Value) bool) {
		for p, err := range readPairs(r, h) {
			if err != nil {
				failed = err
				return
			}
			s.bytes += size(p.key, len(p.val))
			if !yield(p.key, btree.Value{Bytes: p.val}) {
				return
			}
		}
	})
	if failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, errors.Join(errSnapshot, err)
	}
	return s, nil
}

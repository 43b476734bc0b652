package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/spill"
)

// This file has the content of a snapshot: the pairs in ascending order. Each is the
// uvarint length and bytes of the key, then those of the value. In format 3 the length of
// the value is doubled, plus 1 if the bytes are a spill.Ref.

// pair is one key and its value.
type pair struct {
	key []byte
	val btree.Value
}

// appendPair appends the encoded form of p, in format 3 if refs is set.
func appendPair(b []byte, p pair, refs bool) []byte {
	b = binary.AppendUvarint(b, uint64(len(p.key)))
	b = append(b, p.key...)
	n := uint64(len(p.val.Bytes))
	if refs {
		n <<= 1
	}
	if p.val.Marked {
		n |= 1
	}
	b = binary.AppendUvarint(b, n)
	return append(b, p.val.Bytes...)
}

// parsePair decodes the pair at the beginning of b, which it aliases, and returns its
// length, or 0 if b does not have all of it.
func parsePair(b []byte, refs bool) (p pair, n int, err error) {
	key, at, _, err := parseField(b, MaxKeyBytes, false)
	if at == 0 {
		return p, 0, err
	}
	val, m, marked, err := parseField(b[at:], MaxValBytes, refs)
	if m == 0 {
		return p, 0, err
	}
	return pair{key, btree.Value{Bytes: val, Marked: marked}}, at + m, nil
}

// parseField decodes a length, with the mark in its lowest bit if there is one, and that
// many bytes. n is 0 if b does not have all of it.
func parseField(b []byte, limit uint64, hasMark bool) (field []byte, n int, marked bool, err error) {
	length, n := binary.Uvarint(b)
	if hasMark {
		marked = length&1 == 1
		length >>= 1
	}
	switch {
	case n < 0, n > 0 && length > limit:
		return nil, 0, false, errSnapshot
	case n == 0, uint64(len(b)-n) < length:
		return nil, 0, false, nil
	}
	end := n + int(length)
	return b[n:end:end], end, marked, nil
}

// writePairs writes the content of a snapshot, with whole values: it does not depend on
// the value files of this folder.
func (s *snapshot) writePairs(w io.Writer) error {
	var b []byte
	for key, val := range s.tree.Ascend(nil, nil) {
		whole, err := s.vals.content(key, val)
		if err != nil {
			return err
		}
		b = appendPair(b[:0], pair{key, btree.Value{Bytes: whole}}, false)
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// writeRefs writes the content of a snapshot of format 3, and counts the references.
func (s *snapshot) writeRefs(w io.Writer, uses spill.Uses) error {
	var b []byte
	for key, val := range s.tree.Ascend(nil, nil) {
		if val.Marked {
			r, err := spill.ParseRef(val.Bytes)
			if err != nil {
				return err
			}
			uses.Add(key, r)
		}
		b = appendPair(b[:0], pair{key, val}, true)
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// readPairs yields the content of a snapshot. A pair is valid until the next one. An
// error is the last value.
func readPairs(r io.Reader, h head) iter.Seq2[pair, error] {
	buf := make([]byte, chunkBytes)
	return pairsOf(func() ([]byte, error) {
		n, err := r.Read(buf)
		return buf[:n], err
	}, h)
}

// readPairsAhead is readPairs with a goroutine that reads, and so verifies checksums,
// while the caller uses the pairs.
func readPairsAhead(r io.Reader, h head) iter.Seq2[pair, error] {
	return func(yield func(pair, error) bool) {
		a := newAhead(r)
		defer a.stop()
		pairsOf(a.next, h)(yield)
	}
}

// pairsOf yields the pairs in the data that next returns part by part. The part is valid
// until the next call.
func pairsOf(next func() ([]byte, error), h head) iter.Seq2[pair, error] {
	return func(yield func(pair, error) bool) {
		d := pairDecoder{next: next, refs: h.refs}
		for i := uint64(0); ; i++ {
			p, err := d.pair()
			switch {
			case err == io.EOF && i == h.pairs:
				return
			case err == io.EOF:
				err = fmt.Errorf("pair %d of %d: %w", i, h.pairs, errors.Join(errSnapshot, io.ErrUnexpectedEOF))
			case err != nil && i == h.pairs:
				err = fmt.Errorf("after the last pair: %w", err)
			case err != nil:
				err = fmt.Errorf("pair %d of %d: %w", i, h.pairs, err)
			}
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}

// pairDecoder decodes pairs in place. Only a pair in more than one part is copied.
type pairDecoder struct {
	next   func() ([]byte, error)
	refs   bool   // format 3
	rest   []byte // of the part
	joined []byte // a pair in several parts
}

// pair returns the next pair; at the clean end the error is io.EOF itself.
func (d *pairDecoder) pair() (pair, error) {
	p, n, err := parsePair(d.rest, d.refs)
	if n > 0 || err != nil {
		d.rest = d.rest[n:]
		return p, err
	}
	d.joined = append(d.joined[:0], d.rest...)
	d.rest = nil
	for {
		part, err := d.next()
		if err == io.EOF && len(d.joined) > 0 {
			err = errors.Join(errSnapshot, io.ErrUnexpectedEOF)
		}
		if err != nil && len(part) == 0 {
			return pair{}, err
		}
		before := len(d.joined)
		d.joined = append(d.joined, part...)
		p, n, err := parsePair(d.joined, d.refs)
		if n > 0 || err != nil {
			d.rest = part[max(0, n-before):]
			return p, err
		}
	}
}

// chunkBytes is the size of a part.
const chunkBytes = 256 << 10

// ahead reads a few parts ahead in a goroutine.
type ahead struct {
	full  chan part
	empty chan []byte
	now   []byte // buffer of the part that next returned
	err   error  // after the last part
	ended chan struct{}
}

type part struct {
	data []byte
	err  error
}

// aheadParts is how many parts are read ahead.
const aheadParts = 4

func newAhead(r io.Reader) *ahead {
	a := &ahead{full: make(chan part, aheadParts), empty: make(chan []byte, aheadParts), ended: make(chan struct{})}
	for range aheadParts {
		a.empty <- make([]byte, chunkBytes)
	}
	go func() {
		defer close(a.ended)
		for buf := range a.empty {
			n, err := r.Read(buf)
			a.full <- part{buf[:n], err}
			if err != nil {
				return
			}
		}
	}()
	return a
}

// next returns the next part.
func (a *ahead) next() ([]byte, error) {
	if a.err != nil {
		return nil, a.err
	}
	if a.now != nil {
		a.empty <- a.now[:chunkBytes]
	}
	p := <-a.full
	if a.now, a.err = p.data, p.err; len(p.data) > 0 {
		return p.data, nil
	}
	return nil, p.err
}

// stop returns when the goroutine has ended.
func (a *ahead) stop() {
	close(a.empty)
	<-a.ended
}

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
	return func(yield func(pair, error) bool) {
		d, p := pairReader{r: r, refs: h.refs}, new(pairPart)
		for i := uint64(0); d.fill(p) && p.yield(&i, h.pairs, yield); {
		}
	}
}

// chunkBytes is how much is read at a time: a whole block of the journal's.
const chunkBytes = 256 << 10

// pairPart is a part of a snapshot's pairs.
type pairPart struct {
	buf   []byte
	pairs []pair // alias buf
	err   error  // after the pairs; io.EOF: there are no more
}

// yield yields the pairs and the error of the part, which begins with pair i of n. It
// reports whether more are wanted.
func (p *pairPart) yield(i *uint64, n uint64, yield func(pair, error) bool) bool {
	for _, pair := range p.pairs {
		if !yield(pair, nil) {
			return false
		}
	}
	last, err := p.end(i, n)
	if err != nil {
		yield(pair{}, err)
	}
	return !last
}

// end counts the pairs of the part, which begins with pair i of n, and reports whether it
// is the last one, perhaps with an error.
func (p *pairPart) end(i *uint64, n uint64) (last bool, err error) {
	*i += uint64(len(p.pairs))
	switch err := p.err; {
	case err == nil:
		return false, nil
	case err == io.EOF && *i == n:
		return true, nil
	case err == io.EOF:
		return true, fmt.Errorf("pair %d of %d: %w", *i, n, errors.Join(errSnapshot, io.ErrUnexpectedEOF))
	case *i == n:
		return true, fmt.Errorf("after the last pair: %w", err)
	default:
		return true, fmt.Errorf("pair %d of %d: %w", *i, n, err)
	}
}

// pairReader reads and decodes pairs.
type pairReader struct {
	r    io.Reader
	refs bool   // format 3
	rest []byte // the beginning of a pair, at the end of the part before
	err  error
}

// fill reads the next part into p, with at least one pair or an error. It returns false if
// there is none.
func (d *pairReader) fill(p *pairPart) bool {
	if d.err != nil {
		return false
	}
	if p.pairs = p.pairs[:0]; len(p.buf) < len(d.rest)+chunkBytes {
		p.buf = make([]byte, 2*len(d.rest)+chunkBytes)
	}
	had := copy(p.buf, d.rest)
	for len(p.pairs) == 0 && d.err == nil {
		if had == len(p.buf) { // a pair is longer
			p.buf = append(make([]byte, 0, 2*had), p.buf...)[:2*had]
		}
		n, err := d.r.Read(p.buf[had:])
		had += n
		d.rest, d.err = p.decode(p.buf[:had], d.refs), err
		if p.err != nil {
			d.err = p.err
		}
	}
	if d.err == io.EOF && len(d.rest) > 0 {
		d.err = errors.Join(errSnapshot, io.ErrUnexpectedEOF)
	}
	p.err = d.err
	return true
}

// decode appends the pairs in b, sets the error if one is malformed, and returns what
// follows them.
func (p *pairPart) decode(b []byte, refs bool) (rest []byte) {
	for {
		q, n, err := parsePair(b, refs)
		if n == 0 {
			p.err = err
			return b
		}
		p.pairs, b = append(p.pairs, q), b[n:]
	}
}

package embedded

import (
	"bytes"
	"errors"
	"io"
	"iter"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
	"github.com/skerrydb/skerry/spill"
)

// This file converts snapshots while they are read or written: one that leaves the data
// folder has whole values, and one that arrives can be larger than memory.

// wholeReader reads a snapshot file with references as the same snapshot with whole
// values. Its memory does not depend on the size of the snapshot.
type wholeReader struct {
	vals *values
	file *journal.SnapshotReader
	next func() (pair, error, bool)
	stop func()
	w    *journal.SnapshotWriter // nil: everything is in out
	out  bytes.Buffer
	buf  []byte
}

// newWholeReader takes ownership of r, whose head is h.
func newWholeReader(r *journal.SnapshotReader, h head, vals *values) (*wholeReader, error) {
	c := &wholeReader{vals: vals, file: r}
	meta := bytes.Clone(r.Meta)
	if meta[0] = snapshotAlone; h.roster != nil {
		meta[0] = snapshotNode
	}
	var err error
	if c.w, err = journal.NewSnapshotWriter(&c.out, meta); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	c.next, c.stop = iter.Pull2(readPairs(r, h))
	return c, nil
}

// Read implements io.Reader.
func (c *wholeReader) Read(p []byte) (int, error) {
	for c.out.Len() == 0 {
		if c.w == nil {
			return 0, io.EOF
		}
		if err := c.fill(); err != nil {
			return 0, err
		}
	}
	return c.out.Read(p)
}

// fill converts the next pair.
func (c *wholeReader) fill() error {
	p, err, more := c.next()
	if err != nil {
		return err
	}
	if !more {
		w := c.w
		c.w = nil
		return w.Close()
	}
	val, err := c.vals.content(p.key, p.val)
	if err != nil {
		return err
	}
	c.buf = appendPair(c.buf[:0], pair{p.key, btree.Value{Bytes: val}}, false)
	_, err = c.w.Write(c.buf)
	return err
}

// Close implements io.Closer.
func (c *wholeReader) Close() error {
	c.stop()
	return c.file.Close()
}

// spillPairs yields the pairs of a snapshot with whole values, but those of more than
// limit bytes as references to w's files. A pair is valid until the next one.
func spillPairs(pairs iter.Seq2[pair, error], w *spill.Writer, limit int) iter.Seq2[pair, error] {
	return func(yield func(pair, error) bool) {
		g := unflushed{w: w}
		for p, err := range pairs {
			if err == nil {
				err = g.add(p, limit)
			}
			if err != nil {
				yield(pair{}, err)
				return
			}
			if (w.Buffered() >= spillStep || len(g.data) >= spillStep) && !g.flush(yield) {
				return
			}
		}
		g.flush(yield)
	}
}

// unflushed is pairs that wait for the next flush of w, to keep their order.
type unflushed struct {
	w     *spill.Writer
	pairs []unflushedPair
	data  []byte // keys, and values that are not in w
}

type unflushedPair struct {
	key, val int // lengths, in data
	long     bool
}

func (g *unflushed) add(p pair, limit int) error {
	g.data = append(g.data, p.key...)
	if len(p.val.Bytes) > limit {
		g.pairs = append(g.pairs, unflushedPair{key: len(p.key), long: true})
		return g.w.Add(p.key, p.val.Bytes)
	}
	g.data = append(g.data, p.val.Bytes...)
	g.pairs = append(g.pairs, unflushedPair{key: len(p.key), val: len(p.val.Bytes)})
	return nil
}

// flush yields everything. It reports whether to go on.
func (g *unflushed) flush(yield func(pair, error) bool) bool {
	refs, err := g.w.Flush()
	if err != nil {
		yield(pair{}, err)
		return false
	}
	if g.w.Full() {
		g.w.Next()
	}
	data := g.data
	for _, h := range g.pairs {
		p := pair{data[:h.key], btree.Value{Bytes: data[h.key : h.key+h.val]}}
		data = data[h.key+h.val:]
		if h.long {
			p.val, refs = btree.Value{Bytes: refs[0].Append(nil), Marked: true}, refs[1:]
		}
		if !yield(p, nil) {
			return false
		}
	}
	g.pairs, g.data = g.pairs[:0], g.data[:0]
	return true
}

// receive copies a snapshot of another node, whose head is h, into a file of this one,
// with long values in value files.
func (s *spiller) receive(sr *journal.SnapshotReader, h head, name string) error {
	meta := bytes.Clone(sr.Meta)
	meta[0] = snapshotRefs
	w := s.store.NewWriter()
	err := journal.WriteSnapshot(s.opts.FS, name, meta, func(out io.Writer) error {
		var buf []byte
		for p, err := range spillPairs(readPairs(sr, h), w, s.limit) {
			if err != nil {
				return err
			}
			buf = appendPair(buf[:0], p, true)
			if _, err := out.Write(buf); err != nil {
				return err
			}
		}
		return sr.Close()
	})
	s.mu.Lock()
	s.came[name] = w.Files()
	s.mu.Unlock()
	if err != nil {
		return errors.Join(err, s.forget(name))
	}
	return nil
}

// installed ends the writing of the value files of a received snapshot. Its state is
// visible, so that no other will be saved any more.
func (s *spiller) installed(name string) {
	s.mu.Lock()
	files := s.came[name]
	delete(s.came, name)
	s.mu.Unlock()
	s.store.Seal(files...)
	s.lookAtAll()
}

// forget removes the value files of a received snapshot that will not be installed.
func (s *spiller) forget(name string) error {
	s.mu.Lock()
	files := s.came[name]
	delete(s.came, name)
	s.mu.Unlock()
	s.store.Seal(files...)
	return s.store.Drop(files...)
}

// errNotWholeThere is returned for a snapshot that is not complete without other files of
// its sender.
var errNotWholeThere = engine.Errorf(engine.CodeCorrupt, "the snapshot of another node is not complete without other files of that node")

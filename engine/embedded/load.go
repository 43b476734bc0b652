package embedded

import (
	"errors"
	"io"
	"runtime"
	"sync"

	"github.com/skerrydb/skerry/btree"
	"github.com/skerrydb/skerry/spill"
)

// A snapshot is loaded in parts, which goroutines pass on:
//
//	read   one goroutine: reads a part, which verifies its checksum, and decodes its pairs
//	pack   one for each processor: packs the pairs of a part into leaves
//	add    the caller: appends the leaves of the parts in their order
//
// There are partsAhead parts for each processor, so a slow stage stops the others. What is
// wrong with a part is reported by the caller, so always the first error in the file.

// partsAhead is how many parts there are for each processor.
const partsAhead = 4

// progressBytes is after how much of a snapshot progress is called.
const progressBytes = 8 << 20

// loadPart is a part on its way.
type loadPart struct {
	pairPart
	run    *btree.Run
	bytes  int64 // of the pairs
	failed error // of packing
	packed chan struct{}
}

// pack packs the pairs.
func (p *loadPart) pack(packer *btree.Packer) {
	p.bytes = 0
	p.run, p.failed = packer.Pack(func(yield func([]byte, btree.Value) bool) {
		for i := range p.pairs {
			q := &p.pairs[i]
			p.bytes += size(q.key, len(q.val.Bytes))
			if !yield(q.key, q.val) {
				return
			}
		}
	})
	p.packed <- struct{}{}
}

// load loads the content of a snapshot with head h.
func (s *snapshot) load(r io.Reader, h head, progress *progress) error {
	packers := runtime.GOMAXPROCS(0)
	parts := partsAhead * packers
	empty, read, ordered := make(chan *loadPart, parts), make(chan *loadPart, parts), make(chan *loadPart, parts)
	for range parts {
		empty <- &loadPart{packed: make(chan struct{}, 1)}
	}
	go func() {
		defer close(ordered)
		defer close(read)
		d := pairReader{r: r, refs: h.refs}
		for p := range empty {
			if !d.fill(&p.pairPart) {
				return
			}
			ordered <- p
			read <- p
		}
	}()
	loading := btree.NewLoading()
	var packing sync.WaitGroup
	for range packers {
		packing.Go(func() {
			packer := loading.NewPacker()
			for p := range read {
				p.pack(packer)
			}
		})
	}
	defer packing.Wait() // r is the caller's again
	defer close(empty)
	pairs, next := uint64(0), int64(progressBytes)
	for p := range ordered {
		<-p.packed
		last, err := s.addPart(loading, p, &pairs, h)
		switch {
		case err != nil:
			return err
		case last:
			s.tree.LoadRuns(loading)
			return nil
		}
		if s.bytes >= next && progress != nil {
			next = s.bytes + progressBytes
			progress.at("reading the snapshot", "keys", pairs, h.pairs, s.bytes)
		}
		empty <- p
	}
	panic("BUG: a snapshot without a last part")
}

// addPart adds a packed part, which begins with pair i, and reports whether it is the last.
func (s *snapshot) addPart(to *btree.Loading, p *loadPart, i *uint64, h head) (last bool, err error) {
	if p.failed == nil {
		p.failed = to.Add(p.run)
	} else if order, ok := errors.AsType[*btree.OrderError](p.failed); ok {
		order.Index += int(*i)
	}
	if p.failed != nil {
		return false, errors.Join(errSnapshot, p.failed)
	}
	s.bytes += p.bytes
	if h.refs {
		for _, q := range p.pairs {
			if err := s.use(q); err != nil {
				return false, err
			}
		}
	}
	return p.end(i, h.pairs)
}

// use counts the reference of a pair to a value file, if it has one.
func (s *snapshot) use(p pair) error {
	if !p.val.Marked {
		return nil
	}
	r, err := spill.ParseRef(p.val.Bytes)
	if err != nil {
		return errors.Join(errSnapshot, err)
	}
	s.uses.Add(p.key, r)
	return nil
}

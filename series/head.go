package series

import (
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// maxRoom bounds the room that is made before there are samples.
const maxRoom = 4096

// head is what is in memory of a collection: the index of all series, and the samples of the generations that are
// not sealed. It follows the changes of the engine, so every node has its own.
type head struct {
	mu      sync.RWMutex // guards the fields below
	index   index
	members members
	gens    []*generation
	meta    meta
	gone    gone
	pos     engine.Position // of the last change that was applied
	seq     uint64          // of the newest batch that was applied
	pending int             // samples in gens
	rolled  int64           // until when a summary is complete
	watches map[*Watch]struct{}
	parts   map[[2]uint64]part // by bucket and number

	// On an engine.SampleStore:
	hashes  []hash    // by id-1
	learned time.Time // until when all series are known that others have defined
}

// generation has the ids of the series of one generation.
type generation struct {
	no    uint64
	ids   []uint32 // also of series that were removed since
	first int64    // the time of one of the first samples
}

// member is one series.
type member struct {
	now   buffer   // of the newest generation that has samples of it; gen is 0 if none has
	older []buffer // of the ones before that are not sealed, ascending
	pairs []uint32 // its labels, see index
	usual uint32   // samples in the last generation that was sealed
}

// buffers returns those that are not sealed, ascending.
func (m *member) buffers() []buffer {
	if m.now.gen == 0 {
		return nil
	}
	return append(append(make([]buffer, 0, len(m.older)+1), m.older...), m.now)
}

// buffer has the samples of one series in one generation. Once the generation is full it never changes.
type buffer struct {
	gen     uint64
	samples []Sample // in the order of their batches
}

func newHead() *head {
	return &head{index: newIndex(), watches: map[*Watch]struct{}{}, parts: map[[2]uint64]part{}, meta: meta{generation: 1}, gone: noneGone, rolled: minTime}
}

// define adds a series. A definition that it has already does nothing.
func (h *head) define(k hash, val []byte) error {
	id, labels, ok := uvarint(val)
	if !ok || id == 0 || id > maxID {
		return corrupt("the definition of a series")
	}
	if h.members.get(uint32(id)) != nil {
		return nil
	}
	if _, ok := h.index.ids[k]; ok { // it was removed in between
		h.undefine([]hash{k})
	}
	pairs, ok := h.index.add(uint32(id), k, labels)
	if !ok || len(pairs) == 0 {
		return corrupt("the definition of series %d", id)
	}
	h.members.add(uint32(id), pairs)
	return nil
}

// undefine removes series by the hashes of their labels. Those that it does not have do nothing. Samples of them that are
// not sealed are dropped.
func (h *head) undefine(hashes []hash) {
	var ids []uint32
	for _, k := range hashes {
		id, ok := h.index.ids[k]
		if !ok {
			continue
		}
		ids = append(ids, id)
		delete(h.index.ids, k)
	}
	slices.Sort(ids)
	h.index.remove(ids, func(id uint32) []uint32 { return h.members.get(id).pairs })
	for _, id := range ids {
		for _, b := range h.members.get(id).buffers() {
			h.pending -= len(b.samples)
		}
		h.members.remove(id)
	}
}

// apply adds the samples of a batch, unless it has them already.
func (h *head) apply(gen, seq uint64, val []byte) error {
	if seq <= h.seq {
		return nil
	}
	r, ok := readBatch(val)
	if !ok {
		return corrupt("batch %d", seq)
	}
	if len(h.gens) == 0 || h.gens[len(h.gens)-1].no < gen {
		h.gens = append(h.gens, &generation{no: gen})
	}
	g := h.gens[len(h.gens)-1]
	for r.next() {
		if len(g.ids) == 0 {
			g.first = r.s.Time
		}
		m := h.members.get(r.id)
		if m == nil {
			if r.id == 0 || uint64(r.id) > h.meta.series {
				return corrupt("batch %d", seq)
			}
			continue // the series was removed after the batch
		}
		h.pending++
		if m.now.gen != gen {
			if m.now.gen != 0 {
				m.older = append(m.older, m.now)
			}
			m.now = buffer{gen: gen, samples: m.room()}
			g.ids = append(g.ids, r.id)
		}
		m.now.samples = append(m.now.samples, r.s)
	}
	if r.left != 0 {
		return corrupt("batch %d", seq)
	}
	h.seq = seq
	h.notify(val)
	return nil
}

// room returns an empty list for the samples of a generation, for about as many as in the one before.
func (m *member) room() []Sample {
	if m.usual == 0 {
		return nil
	}
	return make([]Sample, 0, m.usual+m.usual/8+1)
}

// seal drops the samples of generations that are in parts.
func (h *head) seal(sealed uint64) {
	for len(h.gens) > 0 && h.gens[0].no <= sealed {
		for _, id := range h.gens[0].ids {
			m := h.members.get(id)
			if m == nil {
				continue
			}
			first := &m.now
			if len(m.older) > 0 {
				first = &m.older[0]
			}
			m.usual = uint32(min(len(first.samples), maxRoom))
			h.pending -= len(first.samples)
			*first = buffer{}
			if m.older = m.older[min(1, len(m.older)):]; len(m.older) == 0 {
				m.older = nil
			}
		}
		h.gens = h.gens[1:]
	}
}

// write applies one write of a change.
func (h *head) write(w engine.Write) error {
	kind, _ := kindOf(w.Key)
	switch {
	case kind == keyMeta && !w.Deleted:
		m, err := decodeMeta(w.Val)
		if err == nil {
			h.meta = m
			h.seal(m.sealed)
		}
		return err
	case kind == keyPart:
		n := numbersOf(w.Key)
		if w.Deleted {
			delete(h.parts, [2]uint64(n[:2]))
			return nil
		}
		p, err := readPart(w.Key, w.Val)
		h.parts[[2]uint64(n[:2])] = p
		return err
	case kind == keyRolled && !w.Deleted:
		if len(w.Val) != 9 || w.Val[0] != formatVersion {
			return corrupt("the state of a summary")
		}
		h.rolled = int64(binary.BigEndian.Uint64(w.Val[1:]))
	case kind == keySeries && !w.Deleted && len(w.Key) == 22:
		return h.define(hash(w.Key[6:]), w.Val)
	case kind == keyGone && !w.Deleted:
		var err error
		h.gone, err = decodeGone(w.Val)
		return err
	case kind == keyBatch && !w.Deleted:
		n := numbersOf(w.Key)
		return h.apply(n[0], n[1], w.Val)
	}
	return nil
}

// find returns the ids of the series that match, ascending. The result must not be modified.
func (h *head) find(match []Matcher) []uint32 {
	return h.index.find(match, h.members.ids, func(id uint32) []uint32 { return h.members.get(id).pairs })
}

// labelsOf returns the labels of a series, nil if it was removed.
func (h *head) labelsOf(id uint32) Labels {
	m := h.members.get(id)
	if m == nil {
		return nil
	}
	return h.index.labels(m.pairs)
}

// full returns the first generation that is full and not sealed, with its series, ascending; 0 if there is none.
func (h *head) full() (gen uint64, ids []uint32) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if len(h.gens) == 0 || h.gens[0].no >= h.meta.generation {
		return 0, nil
	}
	ids = slices.Clone(h.gens[0].ids)
	slices.Sort(ids)
	return h.gens[0].no, ids
}

// newest returns the generation that is not full, if it has samples, and the time of one of the first; 0 if it has none.
func (h *head) newest() (gen uint64, first int64) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if len(h.gens) == 0 || h.gens[len(h.gens)-1].no < h.meta.generation {
		return 0, 0
	}
	g := h.gens[len(h.gens)-1]
	return g.no, g.first
}

// allParts returns all parts, by bucket and order.
func (h *head) allParts() []part {
	h.mu.RLock()
	defer h.mu.RUnlock()
	parts := make([]part, 0, len(h.parts))
	for _, p := range h.parts {
		parts = append(parts, p)
	}
	sortParts(parts)
	return parts
}

// take returns the samples of some series in a full generation. They must not be modified.
func (h *head) take(gen uint64, ids []uint32) [][]Sample {
	h.mu.RLock()
	defer h.mu.RUnlock()
	out := make([][]Sample, len(ids))
	for i, id := range ids {
		m := h.members.get(id)
		if m == nil {
			continue // it was removed
		}
		for _, b := range m.buffers() {
			if b.gen == gen {
				out[i] = b.samples
			}
		}
	}
	return out
}

package series

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/skerrydb/skerry/engine"
)

// gone says what has been removed of a collection. It is stored once there is a sweep or a deletion.
type gone struct {
	epoch   uint64 // grows with each transaction that removes series
	removed uint64 // series so far
	swept   int64  // the retention's oldest time at the last sweep, minTime if there was none
	newest  uint64 // id at the last sweep
}

const goneBytes = 1 + 4*8

// noneGone is the state of a collection of which nothing was removed.
var noneGone = gone{swept: minTime}

func readGone(tx engine.Tx, no uint32) (gone, error) {
	val, ok, err := tx.Get(keyOf(keyGone, no))
	if err != nil || !ok {
		return noneGone, err
	}
	return decodeGone(val)
}

// put stores g. Its encoding is on disk: do not change.
func (g gone) put(tx engine.Tx, no uint32) error {
	b := append(make([]byte, 0, goneBytes), formatVersion)
	for _, n := range []uint64{g.epoch, g.removed, uint64(g.swept), g.newest} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return tx.Put(keyOf(keyGone, no), b)
}

func decodeGone(val []byte) (gone, error) {
	if len(val) != goneBytes || val[0] != formatVersion {
		return noneGone, corrupt("the count of removed series")
	}
	n := func(i int) uint64 { return binary.BigEndian.Uint64(val[1+8*i:]) }
	return gone{n(0), n(1), int64(n(2)), n(3)}, nil
}

// errEpoch: series were removed between the check of a batch and its transaction.
var errEpoch = errors.New("series: series were removed meanwhile")

// commit stores a batch if all of its series exist. It checks them in memory and then, in the transaction, that none was
// removed since.
func (s *Store) commit(ctx context.Context, no uint32, b *Batch) (engine.Position, error) {
	val := append(b.encodeHeader(), b.data...)
	for range appendTries {
		epoch, err := s.alive(b)
		if err != nil {
			return 0, err
		}
		pos, err := s.db.eng.Update(ctx, func(tx engine.Tx) error { return s.put(tx, no, val, b, epoch) })
		if !errors.Is(err, errEpoch) {
			return pos, err
		}
		if err := s.reach(ctx, engine.Read{}); err != nil { // until the removal is in memory
			return 0, err
		}
	}
	return 0, engine.Errorf(CodeBusy, "collection %s removes many series; try again later", s.c.Name)
}

// alive returns the epoch at which no series of a batch was removed, or CodeGone.
func (s *Store) alive(b *Batch) (epoch uint64, err error) {
	_, h := s.state()
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.gone.removed == 0 {
		return h.gone.epoch, nil
	}
	r := batchReader{data: b.data, left: b.samples}
	last := uint32(0) // that is known to be alive
	for r.next() {
		if r.id == last || uint64(r.id) > h.meta.series { // this node may not know it yet
			continue
		}
		if r.id != 0 && h.members.get(r.id) == nil { // 0 was never defined
			return 0, engine.Errorf(CodeGone, "series %d of collection %s has expired or was deleted; define it again", r.id, s.c.Name)
		}
		last = r.id
	}
	return h.gone.epoch, nil
}

// removeSeries removes definitions in a transaction. Those that are not there any longer are left out.
func removeSeries(tx engine.Tx, no uint32, which []definition) (gone, error) {
	g, err := readGone(tx, no)
	if err != nil {
		return g, err
	}
	before := g.removed
	for _, d := range which {
		k := seriesKey(no, d.hash)
		val, ok, err := tx.Get(k)
		if err != nil {
			return g, err
		}
		if id, _, whole := uvarint(val); !ok || !whole || id != uint64(d.id) {
			continue
		}
		if err := tx.Delete(k); err != nil {
			return g, err
		}
		g.removed++
	}
	if g.removed == before {
		return g, nil
	}
	g.epoch++
	return g, g.put(tx, no)
}

// definition is one series, by its id and the hash of its labels.
type definition struct {
	id   uint32
	hash hash
}

// definitions returns those of ids that exist, if keep is true for them. The caller holds h.mu.
func (h *head) definitions(ids []uint32, keep func(*member) bool) (list []definition) {
	for _, id := range ids {
		if m := h.members.get(id); m != nil && keep(m) {
			list = append(list, definition{id, hashOf(h.index.labels(m.pairs).encode())})
		}
	}
	return list
}

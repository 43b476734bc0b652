package series

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/keyspace"
)

// Second bytes of keys. On disk: do not change. Numbers in keys are big-endian, so that they sort.
const (
	keyCollection = 'o' // name → number
	keyMeta       = 'm' // no → meta
	keyWorker     = 'w' // no → who seals, until when
	keySeries     = 'n' // no, hash of labels → id, labels
	keyBatch      = 'b' // no, generation, sequence → batch
	keyPart       = 'p' // no, bucket, part → what the part has
	keyBlock      = 'c' // no, part, first id, number → chunks
	keyRolled     = 'r' // no → until when a summary is complete
	keyGone       = 'g' // no → gone
)

// bucketLen is how much time one part covers, in nanoseconds: a day. On disk: do not change.
const bucketLen = 24 * 3600 * 1_000_000_000

func key(kind byte) []byte { return []byte{keyspace.Series, kind} }

func keyOf(kind byte, no uint32, numbers ...uint64) []byte {
	k := binary.BigEndian.AppendUint32(append(make([]byte, 0, 6+8*len(numbers)), keyspace.Series, kind), no)
	for _, n := range numbers {
		k = binary.BigEndian.AppendUint64(k, n)
	}
	return k
}

// numbersOf returns the numbers of a key after the collection's.
func numbersOf(k []byte) (n [3]uint64) {
	for i, k := 0, k[6:]; i < len(n) && len(k) >= 8; i, k = i+1, k[8:] {
		n[i] = binary.BigEndian.Uint64(k)
	}
	return n
}

// hashOf returns the hash of encoded labels: half of SHA-256, so that nobody can make two labels that share one.
func hashOf(labels []byte) hash {
	sum := sha256.Sum256(labels)
	return hash(sum[:16])
}

// seriesKey returns the key of the definition of a series.
func seriesKey(no uint32, h hash) []byte { return append(keyOf(keySeries, no), h[:]...) }

// blockKey returns the key of the nth block of a part; n distinguishes blocks with the same first series.
func blockKey(no uint32, part uint64, first uint32, n uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(keyOf(keyBlock, no, part), first), n)
}

// bucketOf returns the number of the bucket of a time, in the order of times.
func bucketOf(t int64) uint64 {
	n := t / bucketLen
	if t%bucketLen < 0 {
		n--
	}
	return uint64(n) + 1<<63
}

// bucketSpan returns the first and the last time of a bucket. The first and the last bucket there are reach beyond
// the times that an int64 can have, and are cut.
func bucketSpan(bucket uint64) (from, to int64) {
	n := int64(bucket - 1<<63)
	from = max(n, minBucket) * bucketLen
	if n < minBucket {
		from = minTime
	}
	if n >= maxBucket {
		return from, maxTime
	}
	return from, (n+1)*bucketLen - 1
}

const (
	minTime   = int64(-1 << 63)
	maxTime   = int64(1<<63 - 1)
	minBucket = minTime / bucketLen
	maxBucket = maxTime / bucketLen
)

func appendNo(b []byte, no uint32) []byte { return binary.BigEndian.AppendUint32(b, no) }

func collectionOf(val []byte) uint32 {
	if len(val) != 4 {
		return 0
	}
	return binary.BigEndian.Uint32(val)
}

func collectionNo(tx engine.Tx, name string) (uint32, error) {
	val, ok, err := tx.Get(append(key(keyCollection), name...))
	if err != nil || !ok {
		return 0, err
	}
	if no := collectionOf(val); no != 0 {
		return no, nil
	}
	return 0, corrupt("the number of collection %s", name)
}

// meta counts what a collection has. Its encoding is on disk: do not change.
type meta struct {
	seq        uint64 // of the newest batch
	generation uint64 // that new batches go to
	samples    uint64 // in it
	batches    uint64 // in it
	sealed     uint64 // the newest generation that is in parts
	series     uint64 // the newest id
	part       uint64 // the newest number of a part
}

const metaBytes = 1 + 7*8

func (m *meta) fields() []*uint64 {
	return []*uint64{&m.seq, &m.generation, &m.samples, &m.batches, &m.sealed, &m.series, &m.part}
}

func readMeta(tx engine.Tx, no uint32) (m meta, err error) {
	val, ok, err := tx.Get(keyOf(keyMeta, no))
	if err != nil {
		return m, err
	}
	if !ok {
		return meta{generation: 1}, nil
	}
	return decodeMeta(val)
}

func decodeMeta(val []byte) (m meta, err error) {
	if len(val) != metaBytes || val[0] != formatVersion {
		return m, corrupt("the state of a collection")
	}
	for i, f := range m.fields() {
		*f = binary.BigEndian.Uint64(val[1+8*i:])
	}
	return m, nil
}

// begin begins a generation.
func (m *meta) begin() {
	m.generation++
	m.samples, m.batches = 0, 0
}

func (m meta) put(tx engine.Tx, no uint32) error {
	b := append(make([]byte, 0, metaBytes), formatVersion)
	for _, f := range m.fields() {
		b = binary.BigEndian.AppendUint64(b, *f)
	}
	return tx.Put(keyOf(keyMeta, no), b)
}

// formatVersion begins each value. On disk: do not change.
const formatVersion = 1

func corrupt(format string, args ...any) error {
	return engine.Errorf(engine.CodeCorrupt, "series: "+format+" is damaged", args...)
}

// kindOf returns the kind of a key and its collection, 0 if it has none.
func kindOf(k []byte) (kind byte, no uint32) {
	if len(k) < 6 || k[1] == keyCollection {
		return k[1], 0
	}
	return k[1], binary.BigEndian.Uint32(k[2:])
}

// uvarint reads a number from the front of b. It returns false if there is none.
func uvarint(b []byte) (uint64, []byte, bool) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), b[1:], true
	}
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, false
	}
	return v, b[n:], true
}

func appendText[T []byte | string](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// text reads what appendText has appended.
func text(b []byte) (s, rest []byte, ok bool) {
	n, b, ok := uvarint(b)
	if !ok || n > uint64(len(b)) {
		return nil, nil, false
	}
	return b[:n], b[n:], true
}

func zigzag(v int64) uint64   { return uint64(v<<1) ^ uint64(v>>63) }
func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

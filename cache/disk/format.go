package disk

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
)

// The format of a segment: a header, then frames, each of which has a header and records.
// All numbers are little-endian. Do not change; a new format gets a new magic.
const (
	segmentMagic = "skdisk01"
	frameMagic   = 0x72664b53

	headerBytes = 80 // magic 8, store 16, owner 32, segment 8, first record 8, sum 4, CRC 4
	frameBytes  = 28 // magic 4, CRC 4, first record 8, bytes of records 4, sum 4, oldest segment 4
	recordBytes = 11 // CRC 4, kind 1, bytes of key 2, bytes of value 4
)

// Kinds of records, do not change.
const (
	kindPut    = 1 // a key and its value
	kindDelete = 2 // 8 bytes: the hash of the key
	kindMark   = 3 // the value is a position
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// codec writes and checks the records of one store. Its checksums depend on the store's
// random id, so that records of other stores are invalid.
type codec struct {
	id   [16]byte
	seed uint32
}

func newCodec(id [16]byte) codec {
	return codec{id: id, seed: crc32.Checksum(id[:], castagnoli)}
}

func randomID() (id [16]byte) {
	rand.Read(id[:]) // never fails
	return id
}

// hash returns the name of a key in the index and in deletions. It is the same after a
// restart. Keys that share one displace each other.
func (c codec) hash(key string) uint64 {
	b := make([]byte, 0, 128)
	b = append(append(b, c.id[:]...), key...)
	sum := sha256.Sum256(b)
	return binary.LittleEndian.Uint64(sum[:])
}

// location is where a record is. It has no pointers, so that the garbage collector does
// not walk the index.
type location struct {
	segment, offset uint32
	size            uint32 // of the record; with readBit
	number          uint32 // low bits of the record's number
}

// readBit is set when the record has been read since it was written.
const readBit = 1 << 31

func (l location) bytes() int64   { return int64(l.size &^ readBit) }
func (l location) wasRead() bool  { return l.size&readBit != 0 }
func (l location) read() location { l.size |= readBit; return l }

// is reports whether both are the same record.
func (l location) is(m location) bool { return l.read() == m.read() }

// record is a decoded record. Its slices are parts of the encoded one.
type record struct {
	kind       byte
	key, value []byte
}

// appendRecord appends the record with that number to b.
func (c codec) appendRecord(b []byte, number uint64, kind byte, key string, value []byte) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0, kind)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(key)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(value)))
	b = append(append(b, key...), value...)
	binary.LittleEndian.PutUint32(b[at:], c.checksum(b[at:], uint32(number)))
	return b
}

// checksum covers a record without its checksum, and its number.
func (c codec) checksum(rec []byte, number uint32) uint32 {
	return crc32.Update(c.seed^number, castagnoli, rec[4:])
}

// recordSize returns the length of the record that begins with b, which has recordBytes
// bytes, and whether it is one that this package writes.
func recordSize(b []byte) (int, bool) {
	key, value := int(binary.LittleEndian.Uint16(b[5:])), int(binary.LittleEndian.Uint32(b[7:]))
	ok := false
	switch b[4] {
	case kindPut:
		ok = key <= MaxKeyBytes && value <= MaxValueBytes
	case kindDelete:
		ok = key == 8 && value == 0
	case kindMark:
		ok = key == 0 && value > 0 && value <= MaxPositionBytes
	}
	return recordBytes + key + value, ok
}

// parse decodes and checks one record that is exactly b.
func (c codec) parse(b []byte, number uint32) (record, bool) {
	if len(b) < recordBytes {
		return record{}, false
	}
	if n, ok := recordSize(b); !ok || n != len(b) || binary.LittleEndian.Uint32(b) != c.checksum(b, number) {
		return record{}, false
	}
	value := recordBytes + int(binary.LittleEndian.Uint16(b[5:]))
	return record{kind: b[4], key: b[recordBytes:value], value: b[value:]}, true
}

// chain is the state between two records: the number of the next one, and a running
// checksum of all before it.
type chain struct {
	number uint64
	sum    uint32
}

// after returns the chain after the encoded record rec.
func (h chain) after(rec []byte) chain {
	return chain{number: h.number + 1, sum: crc32.Update(h.sum, castagnoli, rec[:4])}
}

// frame is the header of a frame.
type frame struct {
	start  chain  // before its first record
	bytes  int64  // of its records
	oldest uint32 // segment when it was written
}

// putFrame writes the header of a frame into b.
func (c codec) putFrame(b []byte, f frame) {
	binary.LittleEndian.PutUint32(b, frameMagic)
	binary.LittleEndian.PutUint64(b[8:], f.start.number)
	binary.LittleEndian.PutUint32(b[16:], uint32(f.bytes))
	binary.LittleEndian.PutUint32(b[20:], f.start.sum)
	binary.LittleEndian.PutUint32(b[24:], f.oldest)
	binary.LittleEndian.PutUint32(b[4:], crc32.Update(c.seed, castagnoli, b[8:frameBytes]))
}

// parseFrame decodes the header of a frame of this store.
func (c codec) parseFrame(b []byte) (f frame, ok bool) {
	if len(b) < frameBytes || binary.LittleEndian.Uint32(b) != frameMagic ||
		binary.LittleEndian.Uint32(b[4:]) != crc32.Update(c.seed, castagnoli, b[8:frameBytes]) {
		return frame{}, false
	}
	return frame{
		start:  chain{number: binary.LittleEndian.Uint64(b[8:]), sum: binary.LittleEndian.Uint32(b[20:])},
		bytes:  int64(binary.LittleEndian.Uint32(b[16:])),
		oldest: binary.LittleEndian.Uint32(b[24:]),
	}, true
}

// header is the header of a segment.
type header struct {
	id     [16]byte
	owner  [sha256.Size]byte
	number uint64 // of the segment
	start  chain  // before its first record
}

func (h header) encode() []byte {
	b := make([]byte, 0, headerBytes)
	b = append(append(append(b, segmentMagic...), h.id[:]...), h.owner[:]...)
	b = binary.LittleEndian.AppendUint64(b, h.number)
	b = binary.LittleEndian.AppendUint64(b, h.start.number)
	b = binary.LittleEndian.AppendUint32(b, h.start.sum)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func parseHeader(b []byte) (h header, ok bool) {
	if len(b) < headerBytes || string(b[:8]) != segmentMagic ||
		binary.LittleEndian.Uint32(b[76:]) != crc32.Checksum(b[:76], castagnoli) {
		return header{}, false
	}
	copy(h.id[:], b[8:])
	copy(h.owner[:], b[24:])
	h.number = binary.LittleEndian.Uint64(b[56:])
	h.start = chain{number: binary.LittleEndian.Uint64(b[64:]), sum: binary.LittleEndian.Uint32(b[72:])}
	return h, true
}

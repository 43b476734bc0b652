package resp

import (
	"encoding/binary"
	"hash/crc64"
	"math"
	"strconv"
	"time"

	"github.com/skerrydb/skerry/decimal"
	"github.com/skerrydb/skerry/kv"
)

// DUMP uses the format of Redis's RDB files, version 10, as described in
// https://rdb.fnordig.de/file_format.html: a type byte, the value, the version in two bytes
// and a CRC of everything before in eight, both little-endian.
const (
	rdbVersion    = 10
	rdbTypeString = 0
	rdbFooter     = 10
	rdbPackFrom   = 20 // longer strings are compressed if that makes them shorter

	// crcPoly is the Jones polynomial ad93d23594c935a9 with its bits reversed.
	crcPoly = 0x95ac9329ac4bc9b5
)

// Encodings of a string in the two upper bits of its first byte, and in the lower bits of
// rdbEncoded.
const (
	rdbLen6    = 0
	rdbLen14   = 1
	rdbLen32   = 0x80
	rdbLen64   = 0x81
	rdbEncoded = 3
	rdbInt8    = 0
	rdbInt16   = 1
	rdbInt32   = 2
	rdbLZF     = 3
)

func crcTable() *crc64.Table { return crc64.MakeTable(crcPoly) }

// redisCRC is a CRC without inversion at the beginning and the end.
func redisCRC(t *crc64.Table, b []byte) uint64 { return ^crc64.Update(^uint64(0), t, b) }

// appendDump appends val in the format of DUMP.
func (p *packer) appendDump(b []byte, t *crc64.Table, val []byte) []byte {
	start := len(b)
	b = append(b, rdbTypeString)
	b = p.appendString(b, val)
	b = binary.LittleEndian.AppendUint16(b, rdbVersion)
	return binary.LittleEndian.AppendUint64(b, redisCRC(t, b[start:]))
}

func (p *packer) appendString(b, val []byte) []byte {
	if n, ok := decimal.Parse(val); ok && len(val) <= 11 && n >= math.MinInt32 && n <= math.MaxInt32 {
		switch {
		case n >= math.MinInt8 && n <= math.MaxInt8:
			return append(b, rdbEncoded<<6|rdbInt8, byte(n))
		case n >= math.MinInt16 && n <= math.MaxInt16:
			return binary.LittleEndian.AppendUint16(append(b, rdbEncoded<<6|rdbInt16), uint16(n))
		}
		return binary.LittleEndian.AppendUint32(append(b, rdbEncoded<<6|rdbInt32), uint32(n))
	}
	if len(val) > rdbPackFrom {
		tmp, ok := p.pack(nil, val, len(val)-4)
		if ok {
			b = appendRDBLen(append(b, rdbEncoded<<6|rdbLZF), len(tmp))
			return append(appendRDBLen(b, len(val)), tmp...)
		}
	}
	return append(appendRDBLen(b, len(val)), val...)
}

func appendRDBLen(b []byte, n int) []byte {
	switch {
	case n < 1<<6:
		return append(b, byte(n))
	case n < 1<<14:
		return append(b, byte(n>>8)|rdbLen14<<6, byte(n))
	}
	return binary.BigEndian.AppendUint32(append(b, rdbLen32), uint32(n))
}

// Reasons why a dump cannot be restored.
const (
	errDumpSum    replyError = "ERR DUMP payload version or checksum are wrong"
	errDumpFormat replyError = "ERR Bad data format"
	errDumpType   replyError = "ERR only strings can be restored [unsupported]"
)

// parseDump returns the string in a dump of any version up to 10.
func parseDump(b []byte, t *crc64.Table) ([]byte, error) {
	n := len(b) - rdbFooter
	if n < 0 {
		return nil, errDumpSum
	}
	if binary.LittleEndian.Uint16(b[n:]) > rdbVersion || binary.LittleEndian.Uint64(b[n+2:]) != redisCRC(t, b[:n+2]) {
		return nil, errDumpSum
	}
	b = b[:n]
	switch {
	case len(b) == 0:
		return nil, errDumpFormat
	case b[0] != rdbTypeString:
		return nil, errDumpType
	}
	val, rest, err := parseRDBString(b[1:])
	if err == nil && len(rest) > 0 {
		err = errDumpFormat
	}
	return val, err
}

func parseRDBString(b []byte) (val, rest []byte, err error) {
	n, enc, b, err := parseRDBLen(b)
	if err != nil {
		return nil, nil, err
	}
	if !enc {
		if n > uint64(len(b)) {
			return nil, nil, errDumpFormat
		}
		return b[:n], b[n:], nil
	}
	size := 0
	switch n {
	case rdbInt8, rdbInt16, rdbInt32:
		size = 1 << n
	case rdbLZF:
		return parseLZF(b)
	default:
		return nil, nil, errDumpFormat
	}
	if len(b) < size {
		return nil, nil, errDumpFormat
	}
	var i int64
	switch size {
	case 1:
		i = int64(int8(b[0]))
	case 2:
		i = int64(int16(binary.LittleEndian.Uint16(b)))
	default:
		i = int64(int32(binary.LittleEndian.Uint32(b)))
	}
	return strconv.AppendInt(nil, i, 10), b[size:], nil
}

// parseRDBLen parses a length. If enc is set, n is the encoding of the string.
func parseRDBLen(b []byte) (n uint64, enc bool, rest []byte, err error) {
	if len(b) == 0 {
		return 0, false, nil, errDumpFormat
	}
	c := b[0]
	b = b[1:]
	size := 0
	switch {
	case c>>6 == rdbLen6:
		return uint64(c), false, b, nil
	case c>>6 == rdbEncoded:
		return uint64(c & 63), true, b, nil
	case c>>6 == rdbLen14:
		size = 1
	case c == rdbLen32:
		size = 4
	case c == rdbLen64:
		size = 8
	default:
		return 0, false, nil, errDumpFormat
	}
	if len(b) < size {
		return 0, false, nil, errDumpFormat
	}
	switch size {
	case 1:
		n = uint64(c&63)<<8 | uint64(b[0])
	case 4:
		n = uint64(binary.BigEndian.Uint32(b))
	default:
		n = binary.BigEndian.Uint64(b)
	}
	return n, false, b[size:], nil
}

// parseLZF parses a compressed string: its two lengths and its bytes.
func parseLZF(b []byte) (val, rest []byte, err error) {
	packed, enc, b, err := parseRDBLen(b)
	if err != nil || enc {
		return nil, nil, errDumpFormat
	}
	size, enc, b, err := parseRDBLen(b)
	if err != nil || enc || packed > uint64(len(b)) || size > kv.MaxValBytes {
		return nil, nil, errDumpFormat
	}
	val, err = unpackLZF(b[:packed], int(size))
	return val, b[packed:], err
}

func dumpCmd(x *call) error {
	e, ok, err := x.get(x.args[1])
	if err != nil || !ok {
		return x.replyNull(err)
	}
	x.conn.tmp = x.srv.packer.appendDump(x.scratch(), x.srv.crc, e.Val)
	x.out.Bulk(x.conn.tmp)
	return nil
}

// restoreOptions are the options of RESTORE. IDLETIME and FREQ are validated but have no
// effect, because nothing is evicted.
type restoreOptions struct{ replace, absolute bool }

func (o *restoreOptions) parse(args [][]byte) error {
	idle, freq := false, false
	for i := 0; i < len(args); i++ {
		more := i+1 < len(args)
		switch {
		case wordIs(args[i], "REPLACE"):
			o.replace = true
		case wordIs(args[i], "ABSTTL"):
			o.absolute = true
		case wordIs(args[i], "IDLETIME") && more && !freq:
			i++
			n, ok := decimal.Parse(args[i])
			if !ok {
				return errNotInteger
			}
			if n < 0 {
				return replyError("ERR Invalid IDLETIME value, must be >= 0")
			}
			idle = true
		case wordIs(args[i], "FREQ") && more && !idle:
			i++
			n, ok := decimal.Parse(args[i])
			if !ok {
				return errNotInteger
			}
			if n < 0 || n > 255 {
				return replyError("ERR Invalid FREQ value, must be >= 0 and <= 255")
			}
			freq = true
		default:
			return errSyntax
		}
	}
	return nil
}

func restoreCmd(x *call) error {
	var o restoreOptions
	if err := o.parse(x.args[4:]); err != nil {
		return err
	}
	key := x.args[1]
	if !o.replace {
		_, ok, err := x.tx.Get(key)
		if err != nil {
			return err
		}
		if ok {
			return replyError("BUSYKEY Target key name already exists.")
		}
	}
	ms, ok := decimal.Parse(x.args[2])
	switch {
	case !ok:
		return errNotInteger
	case ms < 0:
		return replyError("ERR Invalid TTL value, must be >= 0")
	}
	val, err := parseDump(x.args[3], x.srv.crc)
	if err != nil {
		return err
	}
	set := kv.SetOptions{SkipOld: true}
	if ms > 0 {
		if !o.absolute {
			now := x.tx.Now().UnixMilli()
			ms = min(ms, math.MaxInt64-now) + now
		}
		set.Expires = time.UnixMilli(ms)
	}
	_, err = x.tx.Set(key, val, set)
	return x.replyOK(err)
}

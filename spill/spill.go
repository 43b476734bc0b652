// Package spill keeps values in files and reads them back by position.
//
// It knows records, checksums, files and when a file is worth compacting; it must not
// know where the references to its values are kept, transactions or logs.
//
// A value is appended to the newest value file together with its key, and is from then
// on named by a Ref. A Ref is valid once Flush has returned. A file is never changed
// except at its end, so a Ref stays valid as long as its file exists. Readers use a Set,
// which is immutable and keeps its files open even after their names have been removed.
package spill

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"strconv"
	"strings"
)

// The format of a value file. Do not change it; a change is a new formatVersion.
//
//	bytes   "SKERRYVL"
//	uint32  format version (little endian, as all here)
//	uint32  number of the file, as in its name
//	uint32  CRC-32C of all before
//
// Then records. The bytes after the last flushed record have no meaning.
//
//	uint32  length of the key
//	uint32  length of the value
//	uint32  CRC-32C of the value
//	uint32  CRC-32C of all before and of the key
//	bytes   key
//	bytes   value
const (
	formatVersion = 1
	fileMagic     = "SKERRYVL"
	headerBytes   = 20
	recordHead    = 16
	fileSuffix    = ".val"
)

const (
	// MaxFileBytes is the size above which a value file gets no more values. A file is
	// larger by one flush at most.
	MaxFileBytes = 256 << 20

	// MaxRecordBytes bounds a key and its value.
	MaxRecordBytes = 1 << 28

	// RefBytes is the size of an encoded Ref.
	RefBytes = 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrRef is returned for bytes that are not an encoded Ref.
var ErrRef = errors.New("spill: malformed reference")

// Ref names one stored value. Its encoded form is part of snapshot files, do not change.
type Ref struct {
	File uint32 // number of the file
	Off  uint32 // of the record
	Len  uint32 // of the value
	Sum  uint32 // CRC-32C of the value
}

// Append appends the encoded form to b.
func (r Ref) Append(b []byte) []byte {
	for _, n := range [...]uint32{r.File, r.Off, r.Len, r.Sum} {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	return b
}

// ParseRef decodes a reference.
func ParseRef(b []byte) (Ref, error) {
	if len(b) != RefBytes {
		return Ref{}, ErrRef
	}
	at := func(i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }
	r := Ref{File: at(0), Off: at(1), Len: at(2), Sum: at(3)}
	if r.File == 0 || r.Off < headerBytes || r.Len > MaxRecordBytes {
		return Ref{}, ErrRef
	}
	return r, nil
}

// Matches reports whether val is the value that r names, as far as its length and
// checksum tell.
func (r Ref) Matches(val []byte) bool {
	return uint64(len(val)) == uint64(r.Len) && crc32.Checksum(val, castagnoli) == r.Sum
}

// bytes returns the size of the record of key that r names.
func (r Ref) bytes(key []byte) int64 { return recordHead + int64(len(key)) + int64(r.Len) }

func fileName(dir string, n uint32) string {
	return filepath.Join(dir, fmt.Sprintf("%08d%s", n, fileSuffix))
}

// fileNumber returns the number in the name of a value file.
func fileNumber(name string) (uint32, bool) {
	digits, ok := strings.CutSuffix(name, fileSuffix)
	n, err := strconv.ParseUint(digits, 10, 32)
	if !ok || err != nil || n == 0 || filepath.Base(fileName("", uint32(n))) != name {
		return 0, false
	}
	return uint32(n), true
}

func appendHeader(b []byte, n uint32) []byte {
	at := len(b)
	b = append(b, fileMagic...)
	b = binary.LittleEndian.AppendUint32(b, formatVersion)
	b = binary.LittleEndian.AppendUint32(b, n)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[at:], castagnoli))
}

// appendRecord appends the record of a value, and returns its checksum.
func appendRecord(b, key, val []byte) ([]byte, uint32) {
	at, sum := len(b), crc32.Checksum(val, castagnoli)
	for _, n := range [...]uint32{uint32(len(key)), uint32(len(val)), sum} {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	head := crc32.Update(crc32.Checksum(b[at:], castagnoli), castagnoli, key)
	b = binary.LittleEndian.AppendUint32(b, head)
	b = append(b, key...)
	return append(b, val...), sum
}

// parseHead decodes the head of a record. It does not verify the checksum, which covers
// the key.
func parseHead(b []byte) (key, val, sum, head uint32) {
	at := func(i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }
	return at(0), at(1), at(2), at(3)
}

// headSum returns the checksum of a record's head and key.
func headSum(b, key []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:recordHead-4], castagnoli), castagnoli, key)
}

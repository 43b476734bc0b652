package archive

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
)

// Names and formats inside an archive. They are on disk: do not change.
const (
	headName  = "archive.head" // a snapshot file whose meta is a folderHead
	basesDir  = "base"
	logDir    = "log"
	baseExt   = ".base"
	partExt   = ".part" // a snapshot file whose meta is a partHead; its log is the folder beside it
	goneExt   = ".gone" // a part that is being removed
	nextBase  = "next.base.tmp"
	timeStamp = "20060102T150405.000000Z"

	folderFormat = 1
	recordFormat = 1
)

// folderHead identifies the folder as an archive.
type folderHead struct {
	Format int `json:"format"`
}

// partHead begins one part of the log.
type partHead struct {
	Format int    `json:"format"`
	After  uint64 `json:"after"`         // position before the part's first change
	Time   int64  `json:"time"`          // of the change at After in microseconds since 1970; unknown if Sum is 0
	Sum    uint32 `json:"sum"`           // checksum (CRC32C) of the record of that change; 0: unknown
	Begins bool   `json:"begins"`        // it does not continue the part before: changes may be missing
	Why    string `json:"why,omitempty"` // why it begins, for people
}

// mark is a change that is in the archive.
type mark struct {
	pos  engine.Position
	time int64  // microseconds
	sum  uint32 // 0: time and sum are unknown
}

// baseFile is one base, as described by its name.
type baseFile struct {
	path string
	pos  engine.Position
	time time.Time
}

func baseName(dir string, pos engine.Position, at time.Time) string {
	return filepath.Join(dir, basesDir, fmt.Sprintf("%020d-%s%s", pos, at.UTC().Format(timeStamp), baseExt))
}

func parseBase(dir, name string) (b baseFile, ok bool) {
	stem, isBase := strings.CutSuffix(name, baseExt)
	number, stamp, cut := strings.Cut(stem, "-")
	pos, err := strconv.ParseUint(number, 10, 64)
	at, terr := time.Parse(timeStamp, stamp)
	if !isBase || !cut || err != nil || terr != nil || len(number) != 20 {
		return b, false
	}
	return baseFile{filepath.Join(dir, basesDir, name), engine.Position(pos), at}, true
}

// part is one part of the log.
type part struct {
	head string // file
	dir  string // of its log
	partHead
}

func partAt(dir string, after engine.Position) part {
	stem := filepath.Join(dir, logDir, fmt.Sprintf("%020d", after))
	return part{head: stem + partExt, dir: stem, partHead: partHead{Format: folderFormat, After: uint64(after)}}
}

func (p part) after() engine.Position { return engine.Position(p.After) }

func (p part) mark() mark { return mark{p.after(), p.Time, p.Sum} }

// appendRecord encodes a change. Its record's index is its position. Format 1:
//
//	byte     format
//	int64    microseconds since the Unix epoch (little endian)
//	uvarint  number of writes
//	then for each write
//	  uvarint  2 × length of the key, + 1 if the key was removed
//	  bytes    key
//	  uvarint  length of the value  (not if removed)
//	  bytes    value                (not if removed)
func appendRecord(b []byte, c engine.Change) []byte {
	b = append(b, recordFormat)
	b = binary.LittleEndian.AppendUint64(b, uint64(c.Time.UnixMicro()))
	b = binary.AppendUvarint(b, uint64(len(c.Writes)))
	for _, w := range c.Writes {
		if w.Deleted {
			b = binary.AppendUvarint(b, uint64(len(w.Key))<<1|1)
			b = append(b, w.Key...)
			continue
		}
		b = binary.AppendUvarint(b, uint64(len(w.Key))<<1)
		b = append(b, w.Key...)
		b = binary.AppendUvarint(b, uint64(len(w.Val)))
		b = append(b, w.Val...)
	}
	return b
}

const recordHeader = 9

var errRecord = errors.New("malformed record")

// parseRecord is the inverse of appendRecord. Keys and values alias data.
func parseRecord(pos engine.Position, data []byte) (engine.Change, error) {
	c := engine.Change{Pos: pos}
	switch {
	case len(data) > 0 && data[0] > recordFormat:
		return c, engine.Errorf(engine.CodeFormatNewer, "a record has format %d; this program knows up to %d", data[0], recordFormat)
	case len(data) < recordHeader || data[0] != recordFormat:
		return c, errRecord
	}
	c.Time = time.UnixMicro(int64(binary.LittleEndian.Uint64(data[1:])))
	rest, bad := data[recordHeader:], false
	number := func() uint64 {
		v, n := binary.Uvarint(rest)
		if n <= 0 {
			bad, rest = true, nil
			return 0
		}
		rest = rest[n:]
		return v
	}
	take := func(n uint64) []byte {
		if n > uint64(len(rest)) {
			bad, rest = true, nil
			return nil
		}
		b := rest[:n:n]
		rest = rest[n:]
		return b
	}
	n := number()
	if n == 0 || n > uint64(len(rest)) {
		return c, errRecord
	}
	c.Writes = make([]engine.Write, n)
	for i := range c.Writes {
		head := number()
		w := engine.Write{Key: take(head >> 1), Deleted: head&1 == 1}
		if !w.Deleted {
			w.Val = take(number())
		}
		c.Writes[i] = w
	}
	if bad || len(rest) > 0 {
		return c, errRecord
	}
	return c, nil
}

// sumOf returns the checksum of a record, which is never 0.
func sumOf(record []byte) uint32 {
	return max(1, crc32.Checksum(record, crc32.MakeTable(crc32.Castagnoli)))
}

// writeHead atomically and durably writes a head file.
func writeHead(fs journal.FS, path string, head any) error {
	meta, err := json.Marshal(head)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	return journal.WriteSnapshot(fs, path, meta, func(io.Writer) error { return nil })
}

// readHead reads a head file and returns an error for a newer format.
func readHead(fs journal.FS, path string, head any, format *int) error {
	r, err := journal.ReadSnapshot(fs, path)
	if err != nil {
		return fileError("read "+path, err)
	}
	_, err = io.Copy(io.Discard, r) // up to the footer, which is checked
	if err := errors.Join(err, r.Close()); err != nil {
		return fileError("read "+path, err)
	}
	if err := json.Unmarshal(r.Meta, head); err != nil {
		return engine.Errorf(engine.CodeCorrupt, "read %s: %w", path, err)
	}
	if *format > folderFormat {
		return engine.Errorf(engine.CodeFormatNewer, "%s has format %d; this program knows up to %d", path, *format, folderFormat)
	}
	return nil
}

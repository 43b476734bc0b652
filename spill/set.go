package spill

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	iofs "io/fs"
	"maps"
	"os"
	"runtime"
	"sync/atomic"

	"github.com/skerrydb/skerry/journal"
)

// Set is an immutable set of value files. It is safe for concurrent use. The files of a
// set stay readable until Store.Close, even those that Store.Drop has removed: their
// descriptors are closed when no set that contains them is reachable any more. A nil Set
// is empty.
type Set struct {
	dir   string
	files map[uint32]*file
	open  map[uint32]bool // files that get more values
}

type file struct {
	n       uint32
	path    string
	f       journal.File
	size    atomic.Int64 // flushed
	cleanup runtime.Cleanup
}

// newFile takes ownership of f.
func newFile(n uint32, path string, f journal.File) *file {
	v := &file{n: n, path: path, f: f}
	v.cleanup = runtime.AddCleanup(v, func(f journal.File) { _ = f.Close() }, f) // nothing is pending
	return v
}

func (v *file) close() error {
	v.cleanup.Stop()
	return v.f.Close()
}

// with returns a copy of s with v.
func (s *Set) with(v *file, open bool) *Set {
	c := s.clone()
	c.files[v.n] = v
	if open {
		c.open[v.n] = true
	}
	return c
}

func (s *Set) clone() *Set {
	c := &Set{files: map[uint32]*file{}, open: map[uint32]bool{}}
	if s != nil {
		c.dir = s.dir
		maps.Copy(c.files, s.files)
		maps.Copy(c.open, s.open)
	}
	return c
}

// Len returns the number of files.
func (s *Set) Len() int {
	if s == nil {
		return 0
	}
	return len(s.files)
}

// Bytes returns the size of all files.
func (s *Set) Bytes() (n int64) {
	if s == nil {
		return 0
	}
	for _, v := range s.files {
		n += v.size.Load()
	}
	return n
}

// Read returns the value of key that r names. If the stored bytes are not those that
// were written, or cannot be read, the error is *journal.CorruptError with the file and
// the offset. After Store.Close it matches os.ErrClosed.
func (s *Set) Read(key []byte, r Ref) ([]byte, error) {
	if s == nil {
		s = &Set{}
	}
	v := s.files[r.File]
	if v == nil {
		return nil, &journal.CorruptError{File: fileName(s.dir, r.File), Offset: int64(r.Off), Why: "the file is missing"}
	}
	b := make([]byte, r.bytes(key))
	damaged := func(why string) error {
		return &journal.CorruptError{File: v.path, Offset: int64(r.Off), Why: why}
	}
	switch n, err := v.f.ReadAt(b, int64(r.Off)); {
	case errors.Is(err, iofs.ErrClosed):
		return nil, fmt.Errorf("read value: %w", err)
	case n < len(b) && errors.Is(err, io.EOF):
		return nil, damaged("the file ends before the value does")
	case n < len(b):
		return nil, damaged(fmt.Sprintf("the value cannot be read: %v", err))
	}
	runtime.KeepAlive(v)
	keyLen, valLen, sum, head := parseHead(b)
	stored := b[recordHead : recordHead+len(key)]
	switch {
	case keyLen != uint32(len(key)) || valLen != r.Len || sum != r.Sum, head != headSum(b, stored), string(stored) != string(key):
		return nil, damaged("another record is stored there")
	case crc32.Checksum(b[recordHead+len(key):], castagnoli) != r.Sum:
		return nil, damaged("the value fails its checksum")
	}
	return b[recordHead+len(key):], nil
}

// Record is a stored value that a reference may name.
type Record struct {
	Key []byte
	Ref Ref
}

// Records returns the records of a file from an offset on, 0 for the first, until they
// have most bytes or more. next is where to continue; 0 means that there are no more. It
// does not read the values. Damage is *journal.CorruptError.
func (s *Set) Records(file uint32, from, most int64) (recs []Record, next int64, err error) {
	v := s.files[file]
	if v == nil {
		return nil, 0, fmt.Errorf("spill: %w: value file %d", iofs.ErrNotExist, file)
	}
	end := v.size.Load()
	off := max(from, headerBytes)
	for total := int64(0); total < most; {
		if off == end {
			return recs, 0, nil
		}
		r, err := v.record(off, end)
		if err != nil {
			return recs, 0, err
		}
		recs = append(recs, r)
		n := r.Ref.bytes(r.Key)
		off, total = off+n, total+n
	}
	return recs, off, nil
}

// record reads the head and the key of the record at off.
func (v *file) record(off, end int64) (Record, error) {
	damaged := func(why string) (Record, error) {
		return Record{}, &journal.CorruptError{File: v.path, Offset: off, Why: why}
	}
	var head [recordHead]byte
	if _, err := v.f.ReadAt(head[:], off); err != nil {
		return damaged(fmt.Sprintf("the record cannot be read: %v", err))
	}
	keyLen, valLen, sum, want := parseHead(head[:])
	if uint64(keyLen)+uint64(valLen) > MaxRecordBytes || off+recordHead+int64(keyLen)+int64(valLen) > end {
		return damaged("the record is longer than the file")
	}
	key := make([]byte, keyLen)
	if _, err := v.f.ReadAt(key, off+recordHead); err != nil && keyLen > 0 {
		return damaged(fmt.Sprintf("the record cannot be read: %v", err))
	}
	if headSum(head[:], key) != want {
		return damaged("the record fails its checksum")
	}
	return Record{Key: key, Ref: Ref{File: v.n, Off: uint32(off), Len: valLen, Sum: sum}}, nil
}

// openFile opens a value file for reading and verifies its header. If the header is
// damaged, it returns the file with *journal.CorruptError.
func openFile(fsys journal.FS, dir string, n uint32) (*file, error) {
	path := fileName(dir, n)
	f, err := fsys.OpenFile(path, os.O_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("open value file: %w", err)
	}
	size, err := f.Size()
	if err == nil {
		err = checkHeader(f, path, n)
	}
	if _, corrupt := errors.AsType[*journal.CorruptError](err); err != nil && !corrupt {
		return nil, errors.Join(err, f.Close())
	}
	v := newFile(n, path, f)
	v.size.Store(size)
	return v, err
}

func checkHeader(f io.ReaderAt, path string, n uint32) error {
	var b [headerBytes]byte
	if _, err := f.ReadAt(b[:], 0); err != nil {
		return &journal.CorruptError{File: path, Why: fmt.Sprintf("the header cannot be read: %v", err)}
	}
	version := binary.LittleEndian.Uint32(b[8:])
	switch {
	case string(b[:8]) != fileMagic:
		return &journal.CorruptError{File: path, Why: "it is not a value file"}
	case version > formatVersion && version < 1<<16:
		return &journal.NewerError{File: path, Version: version, Supported: formatVersion}
	case string(b[:]) != string(appendHeader(nil, n)):
		return &journal.CorruptError{File: path, Why: "the header fails its checksum, or is that of another file"}
	}
	return nil
}

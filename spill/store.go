package spill

import (
	"cmp"
	"errors"
	"fmt"
	iofs "io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"sync"

	"github.com/skerrydb/skerry/journal"
)

// Store is a folder of value files. Its methods are safe for concurrent use.
type Store struct {
	fs    journal.FS
	dir   string
	limit int64 // of a file's bytes

	mu     sync.Mutex // guards the fields below
	made   bool       // the folder exists
	next   uint32     // number of the next file
	found  []uint32   // files that Open found, until Attach
	set    *Set
	closed bool
}

// Open lists a folder, which may be missing. Attach must follow. Files get no more values
// when they have fileBytes; 0 means MaxFileBytes.
func Open(fsys journal.FS, dir string, fileBytes int64) (*Store, error) {
	s := &Store{fs: fsys, dir: dir, limit: min(cmp.Or(fileBytes, MaxFileBytes), MaxFileBytes), next: 1, set: (&Set{dir: dir}).clone()}
	names, err := fsys.List(dir)
	if errors.Is(err, iofs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list value files: %w", err)
	}
	for _, name := range names {
		if n, ok := fileNumber(name); ok {
			s.found = append(s.found, n)
			s.next = max(s.next, n+1)
		}
	}
	return s, nil
}

// Attach opens the files that a state uses. A file that is missing, damaged or too short
// is *journal.CorruptError. Unused files are left alone.
func (s *Store) Attach(u Uses) error {
	damaged, err := s.Salvage(u)
	for _, n := range slices.Sorted(maps.Keys(damaged)) {
		return errors.Join(damaged[n], err)
	}
	return err
}

// Salvage is Attach, but also opens what is left of damaged files: reading a value returns
// it as it was written, or an error. It returns the damage by file.
func (s *Store) Salvage(u Uses) (damaged map[uint32]error, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	damaged = map[uint32]error{}
	for n, use := range u {
		if s.set.files[n] != nil {
			continue
		}
		s.next = max(s.next, n+1)
		v, err := openFile(s.fs, s.dir, n)
		if errors.Is(err, iofs.ErrNotExist) {
			damaged[n] = &journal.CorruptError{File: fileName(s.dir, n), Why: fmt.Sprintf("the file is missing; it has %d values", use.Values)}
			continue
		}
		if _, corrupt := errors.AsType[*journal.CorruptError](err); corrupt {
			damaged[n] = err
		} else if err != nil {
			return damaged, err
		}
		if size := v.size.Load(); size < use.End {
			damaged[n] = cmp.Or(damaged[n], error(&journal.CorruptError{File: v.path, Offset: size, Why: fmt.Sprintf("the file ends early; it had at least %d bytes", use.End)}))
		} else {
			v.size.Store(use.End) // what follows may be half written
		}
		s.set = s.set.with(v, false)
	}
	return damaged, nil
}

// Clean removes the files that Open found and Attach did not open: unfinished work of a
// process that ended. No snapshot may refer to them.
func (s *Store) Clean() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, n := range s.found {
		if s.set.files[n] == nil {
			if err := s.fs.Remove(fileName(s.dir, n)); err != nil {
				s.found = s.found[i:]
				return fmt.Errorf("remove unused value file: %w", err)
			}
		}
	}
	s.found = nil
	return nil
}

// Set returns the files as they are now.
func (s *Store) Set() *Set {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set
}

// Drop removes files, which no later state may use. Readers of earlier sets can still
// read them.
func (s *Store) Drop(files ...uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range files {
		if s.set.files[n] == nil {
			continue
		}
		if err := s.fs.Remove(fileName(s.dir, n)); err != nil && !errors.Is(err, iofs.ErrNotExist) {
			return fmt.Errorf("remove value file: %w", err)
		}
		c := s.set.clone()
		delete(c.files, n)
		s.set = c
	}
	return nil
}

// Close closes the files of the current set.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	var errs []error
	for _, v := range s.set.files {
		errs = append(errs, v.close())
	}
	s.set = (&Set{dir: s.dir}).clone()
	return errors.Join(errs...)
}

// create creates the next file.
func (s *Store) create() (*file, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("create value file: %w", iofs.ErrClosed)
	}
	if !s.made {
		if err := s.fs.MkdirAll(s.dir); err != nil {
			return nil, fmt.Errorf("make folder for values: %w", err)
		}
		s.made = true
	}
	if s.next == math.MaxUint32 {
		return nil, errors.New("spill: all numbers of files are used")
	}
	path := fileName(s.dir, s.next)
	f, err := s.fs.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return nil, fmt.Errorf("create value file: %w", err)
	}
	v := newFile(s.next, path, f)
	s.next++
	s.set = s.set.with(v, true)
	return v, nil
}

// Seal ends the writing of files. The caller must have put all references to them into
// its state: from now on the files can be unused.
func (s *Store) Seal(files ...uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.set.clone()
	for _, n := range files {
		delete(c.open, n)
	}
	s.set = c
}

// Writer appends values to files of its own. It is not safe for concurrent use.
type Writer struct {
	s     *Store
	v     *file // nil: the next Add creates it
	buf   []byte
	added []Ref
	files []uint32 // all of them
}

// NewWriter returns a writer. It creates no file before the first Flush.
func (s *Store) NewWriter() *Writer { return &Writer{s: s} }

// Buffered returns the bytes that Flush will write.
func (w *Writer) Buffered() int { return len(w.buf) }

// Add buffers one value. Both slices are copied.
func (w *Writer) Add(key, val []byte) error {
	if uint64(len(key))+uint64(len(val)) > MaxRecordBytes {
		return &journal.LimitError{What: "a value to spill", Bytes: int64(len(key) + len(val)), Limit: MaxRecordBytes}
	}
	at := len(w.buf)
	var sum uint32
	w.buf, sum = appendRecord(w.buf, key, val)
	w.added = append(w.added, Ref{Off: uint32(at), Len: uint32(len(val)), Sum: sum})
	return nil
}

// Reset drops the buffered values.
func (w *Writer) Reset() {
	w.buf, w.added = w.buf[:0], w.added[:0]
	if cap(w.buf) > keepBuffer {
		w.buf = nil
	}
}

// keepBuffer is the largest buffer that is used again.
const keepBuffer = 8 << 20

// Flush makes the values since the last Flush durable and returns their references, in
// the order of Add. After an error none of them is stored. If it is journal.Passing, the
// file can be used again.
func (w *Writer) Flush() ([]Ref, error) {
	defer w.Reset()
	if len(w.added) == 0 {
		return nil, nil
	}
	if w.v == nil {
		v, err := w.s.create()
		if err != nil {
			return nil, err
		}
		w.v = v
		w.files = append(w.files, v.n)
	}
	off := w.v.size.Load()
	refs := slices.Clone(w.added)
	if err := w.write(off); err != nil {
		return nil, err
	}
	for i := range refs {
		refs[i].File, refs[i].Off = w.v.n, uint32(max(off, headerBytes))+refs[i].Off
	}
	return refs, nil
}

// write writes and syncs the buffer. After a failed sync it is unknown what the file has
// beyond off, so that it gets no more values.
func (w *Writer) write(off int64) error {
	if off == 0 {
		if _, err := w.v.f.WriteAt(appendHeader(nil, w.v.n), 0); err != nil {
			return fmt.Errorf("write value file: %w", err)
		}
		off = headerBytes
	}
	if _, err := w.v.f.WriteAt(w.buf, off); err != nil {
		return fmt.Errorf("write value file: %w", err)
	}
	err := w.v.f.Sync()
	if err == nil && w.v.size.Load() == 0 {
		err = w.s.fs.SyncDir(w.s.dir)
	}
	if err != nil {
		w.Seal()
		return fmt.Errorf("sync value file: %w", err)
	}
	w.v.size.Store(off + int64(len(w.buf)))
	return nil
}

// Full reports whether the file has reached its limit, so that Seal is due.
func (w *Writer) Full() bool { return w.v != nil && w.v.size.Load() >= w.s.limit }

// Next makes the next Flush begin a file, and leaves Seal of the current one to the
// caller.
func (w *Writer) Next() { w.v = nil }

// Seal ends the current file. The caller must have put all references to it into its
// state: from now on the file can be unused.
func (w *Writer) Seal() {
	if w.v != nil {
		w.s.Seal(w.v.n)
		w.v = nil
	}
}

// Files returns the numbers of all files that the writer has created.
func (w *Writer) Files() []uint32 { return w.files }

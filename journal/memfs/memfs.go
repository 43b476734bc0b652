// Package memfs implements a file system in memory that can simulate power loss, for
// tests of durability.
//
// It knows what a kernel and a disk may do with unsynced writes; it must not know the
// contents of the files. Production code must not import it.
//
//	fs := memfs.New(seed)
//	db := open(fs)          // and use it
//	fs.StopAfter(17)        // the power fails after 17 more changes
//	fs.Crash()              // unsynced changes are lost, torn or kept
//	db = open(fs)           // and check what is there
package memfs

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/skerrydb/skerry/journal"
)

// ErrStopped is returned by every call between the power failure planned by StopAfter and
// Crash or Kill. Older handles return it even after that.
var ErrStopped = errors.New("memfs: the power is off")

// Stats counts operations since New.
type Stats struct {
	Writes, Bytes, Syncs, DirSyncs int
}

// FS is the file system. All methods are safe for concurrent use. Folders exist
// as soon as they are named and are always durable.
type FS struct {
	mu      sync.Mutex
	rng     *rand.Rand
	files   map[string]*inode // as programs see them
	durable map[string]*inode // as they are after a crash, except for dirOps
	dirOps  []dirOp           // not synced, in order
	locks   map[string]bool
	epoch   int // handles of an older epoch are dead
	stats   Stats

	stopAfter  int   // changes until the power fails; negative: never
	space      int64 // bytes that files may still grow; negative: no limit
	failSyncs  int   // the sync that fails; 0: none
	syncError  error // the error of that sync
	failOpens  int   // the opening of a file or folder that fails; 0: none
	starved    int   // how many openings after it fail too; negative: all
	shortWrite int   // the write that is cut short; 0: none
	missing    int   // by how many bytes
	readOnly   bool
}

var _ journal.FS = (*FS)(nil)

// dirOp is a change of the names: to gets node, from loses it; to or from may be "".
type dirOp struct {
	from, to string
	node     *inode
}

// New returns an empty file system. seed determines the effects of crashes.
func New(seed uint64) *FS {
	return &FS{
		rng:       rand.New(rand.NewPCG(seed, 0)),
		files:     map[string]*inode{},
		durable:   map[string]*inode{},
		locks:     map[string]bool{},
		stopAfter: -1,
		space:     -1,
	}
}

// StopAfter makes the power fail after n more changes (writes, truncations, syncs, new
// names, renames, removals), until Crash or Kill. Negative: never.
func (m *FS) StopAfter(n int) { m.set(func() { m.stopAfter = n }) }

// LimitSpace lets files grow by n more bytes in total. Truncated and removed bytes can be
// used again. A write beyond the limit writes what fits and fails with ENOSPC. Negative:
// no limit.
func (m *FS) LimitSpace(n int64) { m.set(func() { m.space = n }) }

// FailSync makes the nth sync from now, of a file or a folder, fail with EIO; 1 is the
// next, 0 is none. As on Linux, the data that it should have made durable is still
// visible to reads, but no later sync writes it. The next sync of every other handle
// that the file has at that time also returns the error, once.
func (m *FS) FailSync(n int) { m.FailSyncAs(n, syscall.EIO) }

// FailSyncAs is FailSync with another error.
func (m *FS) FailSyncAs(n int, err error) { m.set(func() { m.failSyncs, m.syncError = n, err }) }

// FailOpen makes the nth opening of a file or folder from now, and more openings after
// it, fail with EMFILE, as if the process had too many open files; 1 is the next, 0 is
// none. If more is negative all that follow fail. List and SyncDir open the folder too.
func (m *FS) FailOpen(n, more int) { m.set(func() { m.failOpens, m.starved = n, more }) }

// Opens returns the number, counted from 1, of the next opening that FailOpen makes fail.
// 0 means that it has failed, or that there is none.
func (m *FS) Opens() (left int) {
	m.set(func() { left = m.failOpens })
	return left
}

// opens counts an opening and returns an error if it must fail. The caller holds mu.
func (m *FS) opens() error {
	if m.failOpens == 0 {
		return nil
	}
	if m.failOpens--; m.failOpens > 0 {
		return nil
	}
	if m.starved != 0 { // the next one fails too
		m.failOpens = 1
		m.starved = max(m.starved-1, -1)
	}
	return syscall.EMFILE
}

// ShortWrite makes the nth write from now omit up to missing of its last bytes and return
// io.ErrShortWrite; 1 is the next, 0 is none.
func (m *FS) ShortWrite(n, missing int) { m.set(func() { m.shortWrite, m.missing = n, missing }) }

// SetReadOnly sets whether every change fails with EROFS.
func (m *FS) SetReadOnly(on bool) { m.set(func() { m.readOnly = on }) }

func (m *FS) set(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// Stats returns the counts.
func (m *FS) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stats
}

// ReadFile returns a copy of a file's content.
func (m *FS) ReadFile(path string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, ok := m.files[filepath.Clean(path)]
	if !ok {
		return nil, notExist("read", path)
	}
	return slices.Clone(n.data), nil
}

// WriteFile durably sets a file's content, so that tests can damage files.
func (m *FS) WriteFile(path string, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := &inode{data: slices.Clone(data), disk: slices.Clone(data)}
	path = filepath.Clean(path)
	m.files[path], m.durable[path] = n, n
}

// Clone returns an independent copy, as a Crash without any loss would leave it. seed
// determines the effects of its crashes.
func (m *FS) Clone(seed uint64) *FS {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := New(seed)
	for path, n := range m.files {
		c.WriteFile(path, n.data)
	}
	return c
}

// change counts one change and returns an error if it must fail. The caller holds mu.
func (m *FS) change(epoch int) error {
	switch {
	case epoch != m.epoch || m.stopAfter == 0:
		return ErrStopped
	case m.readOnly:
		return syscall.EROFS
	}
	if m.stopAfter > 0 {
		m.stopAfter--
	}
	return nil
}

func (m *FS) off(epoch int) bool { return epoch != m.epoch || m.stopAfter == 0 }

func pathError(op, path string, err error) error {
	return &fs.PathError{Op: op, Path: path, Err: err}
}

func notExist(op, path string) error { return pathError(op, path, fs.ErrNotExist) }

// OpenFile implements journal.FS.
func (m *FS) OpenFile(path string, flag int) (journal.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.off(m.epoch) {
		return nil, pathError("open", path, ErrStopped)
	}
	if err := m.opens(); err != nil {
		return nil, pathError("open", path, err)
	}
	path = filepath.Clean(path)
	n, ok := m.files[path]
	switch {
	case !ok && flag&os.O_CREATE == 0:
		return nil, notExist("open", path)
	case ok && flag&os.O_EXCL != 0:
		return nil, pathError("open", path, fs.ErrExist)
	case flag&(os.O_WRONLY|os.O_RDWR) != 0 && m.readOnly:
		return nil, pathError("open", path, syscall.EROFS)
	case !ok:
		if err := m.change(m.epoch); err != nil {
			return nil, pathError("open", path, err)
		}
		n = &inode{}
		m.files[path] = n
		m.dirOps = append(m.dirOps, dirOp{to: path, node: n})
	case flag&os.O_TRUNC != 0:
		if err := m.change(m.epoch); err != nil {
			return nil, pathError("open", path, err)
		}
		m.resize(n, 0)
	}
	return &file{fs: m, node: n, path: path, epoch: m.epoch, writable: flag&(os.O_WRONLY|os.O_RDWR) != 0, reported: n.failed}, nil
}

// Rename implements journal.FS.
func (m *FS) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	from, to = filepath.Clean(from), filepath.Clean(to)
	n, ok := m.files[from]
	if !ok {
		return notExist("rename", from)
	}
	if err := m.change(m.epoch); err != nil {
		return pathError("rename", from, err)
	}
	if old := m.files[to]; old != nil {
		m.free(int64(len(old.data)))
	}
	delete(m.files, from)
	m.files[to] = n
	m.dirOps = append(m.dirOps, dirOp{from, to, n})
	return nil
}

// Remove implements journal.FS.
func (m *FS) Remove(path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	path = filepath.Clean(path)
	n, ok := m.files[path]
	if !ok {
		return notExist("remove", path)
	}
	if err := m.change(m.epoch); err != nil {
		return pathError("remove", path, err)
	}
	m.free(int64(len(n.data)))
	delete(m.files, path)
	m.dirOps = append(m.dirOps, dirOp{from: path, node: n})
	return nil
}

// List implements journal.FS.
func (m *FS) List(dir string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.off(m.epoch) {
		return nil, pathError("list", dir, ErrStopped)
	}
	if err := m.opens(); err != nil {
		return nil, pathError("list", dir, err)
	}
	var names []string
	for path := range m.files {
		if filepath.Dir(path) == filepath.Clean(dir) {
			names = append(names, filepath.Base(path))
		}
	}
	slices.Sort(names)
	return names, nil
}

// MkdirAll does nothing, because folders exist once they are named. While the file
// system is read-only, it fails for folders without files.
func (m *FS) MkdirAll(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.readOnly {
		return nil
	}
	for path := range m.files {
		if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
			return nil
		}
	}
	return pathError("mkdir", dir, syscall.EROFS)
}

// OpenDir implements journal.FS.
func (m *FS) OpenDir(path string) (journal.Dir, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.off(m.epoch) {
		return nil, pathError("open", path, ErrStopped)
	}
	if err := m.opens(); err != nil {
		return nil, pathError("open", path, err)
	}
	return dir{m, path, m.epoch}, nil
}

// dir is an open folder.
type dir struct {
	fs    *FS
	path  string
	epoch int
}

func (d dir) Sync() error {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	return d.fs.syncDir(d.path, d.epoch)
}

func (d dir) Close() error { return nil }

// SyncDir implements journal.FS.
func (m *FS) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.off(m.epoch) {
		return pathError("sync", dir, ErrStopped)
	}
	if err := m.opens(); err != nil {
		return pathError("sync", dir, err)
	}
	return m.syncDir(dir, m.epoch)
}

// syncDir is SyncDir for a folder opened in an epoch. The caller holds mu.
func (m *FS) syncDir(dir string, epoch int) error {
	if m.off(epoch) {
		return pathError("sync", dir, ErrStopped)
	}
	if !m.readOnly { // when read-only there is nothing to sync; Linux returns no error either
		if err := m.change(epoch); err != nil {
			return pathError("sync", dir, err)
		}
	}
	m.stats.DirSyncs++
	if m.syncFails() {
		return pathError("sync", dir, m.syncError)
	}
	var rest []dirOp
	for _, op := range m.dirOps {
		if op.in(filepath.Clean(dir)) {
			op.apply(m.durable)
		} else {
			rest = append(rest, op)
		}
	}
	m.dirOps = rest
	return nil
}

// in reports whether op is about a file in dir. The journal renames within one folder.
func (op dirOp) in(dir string) bool {
	path := op.to
	if path == "" {
		path = op.from
	}
	return filepath.Dir(path) == dir
}

func (op dirOp) apply(names map[string]*inode) {
	if op.from != "" {
		if names[op.from] != op.node {
			return // the file that it renames or removes does not exist
		}
		delete(names, op.from)
	}
	if op.to != "" {
		names[op.to] = op.node
	}
}

// syncFails counts a sync. The caller holds mu.
func (m *FS) syncFails() bool {
	if m.failSyncs == 0 {
		return false
	}
	m.failSyncs--
	return m.failSyncs == 0
}

// Lock implements journal.FS. A crash or a kill releases the lock.
func (m *FS) Lock(path string) (unlock func() error, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	path = filepath.Clean(path)
	switch {
	case m.off(m.epoch):
		return nil, pathError("lock", path, ErrStopped)
	case m.readOnly:
		return nil, pathError("lock", path, syscall.EROFS)
	case m.locks[path]:
		return nil, &journal.LockedError{Dir: filepath.Dir(path), Pid: os.Getpid()}
	}
	m.locks[path] = true
	epoch := m.epoch
	return func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if epoch == m.epoch {
			delete(m.locks, path)
		}
		return nil
	}, nil
}

func (m *FS) free(n int64) {
	if m.space >= 0 {
		m.space += n
	}
}

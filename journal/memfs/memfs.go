// Package memfs is a file system in memory that can lose power, for tests of
// what must survive that.
//
// It knows what a kernel and a disk may do with writes that were not synced; it
// must not know what is in the files. Production code must not import it.
//
//	fs := memfs.New(seed)
//	db := open(fs)          // and work with it
//	fs.StopAfter(17)        // after 17 more changes the power fails
//	fs.Crash()              // what was not synced is lost, torn or kept
//	db = open(fs)           // and see what is there
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

// ErrStopped is returned by every call between the loss of power, which
// StopAfter plans, and Crash or Kill, and for ever by handles from before.
var ErrStopped = errors.New("memfs: the power is off")

// Stats count what was done since New.
type Stats struct {
	Writes, Bytes, Syncs, DirSyncs int
}

// FS is the file system. All methods are safe for concurrent use. Folders exist
// as soon as they are named and are always durable.
type FS struct {
	mu      sync.Mutex
	rng     *rand.Rand
	files   map[string]*inode // as programs see them
	durable map[string]*inode // as they are after a crash, but for dirOps
	dirOps  []dirOp           // not synced, in order
	locks   map[string]bool
	epoch   int // handles of an older one are dead
	stats   Stats

	stopAfter  int   // changes until the power fails; negative: never
	space      int64 // bytes that files may still grow; negative: no limit
	failSyncs  int   // the sync that fails; 0: none
	syncError  error // and how
	failOpens  int   // the opening of a file or folder that fails; 0: none
	starved    int   // and how many after it; negative: all
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

// New returns an empty file system whose crashes are chosen by seed.
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

// StopAfter lets n more changes happen (writes, truncations, syncs, new names,
// renames, removals); then the power is off until Crash or Kill. Negative: never.
func (m *FS) StopAfter(n int) { m.set(func() { m.stopAfter = n }) }

// LimitSpace lets files grow by n more bytes in all; what is truncated or
// removed can be used again. A write beyond it writes what fits and fails with
// ENOSPC. Negative: no limit.
func (m *FS) LimitSpace(n int64) { m.set(func() { m.space = n }) }

// FailSync makes the nth sync from now, of a file or a folder, fail with EIO;
// 1 is the next, 0 is none. As with Linux, what it should have made durable
// still shows in reads, no later sync writes it, and the next sync of every other
// handle that the file has at that time returns the error too, once.
func (m *FS) FailSync(n int) { m.FailSyncAs(n, syscall.EIO) }

// FailSyncAs is FailSync with another error.
func (m *FS) FailSyncAs(n int, err error) { m.set(func() { m.failSyncs, m.syncError = n, err }) }

// FailOpen makes the nth opening of a file or folder from now, and more after it
// that follow, fail with EMFILE, as where the process has too many files open; 1
// is the next, 0 is none. Negative more: all that follow. List opens the folder
// too, and so does SyncDir.
func (m *FS) FailOpen(n, more int) { m.set(func() { m.failOpens, m.starved = n, more }) }

// Opens returns how many openings are left before the one that FailOpen lets fail;
// 0: it has failed, or there is none.
func (m *FS) Opens() (left int) {
	m.set(func() { left = m.failOpens })
	return left
}

// opens counts an opening and says whether it may happen. The caller holds mu.
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

// ShortWrite makes the nth write from now leave out its last bytes, up to
// missing of them, with io.ErrShortWrite; 1 is the next, 0 is none.
func (m *FS) ShortWrite(n, missing int) { m.set(func() { m.shortWrite, m.missing = n, missing }) }

// SetReadOnly makes every change fail with EROFS, or no longer.
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

// WriteFile sets a file's content, durably: for damage that a test wants.
func (m *FS) WriteFile(path string, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := &inode{data: slices.Clone(data), disk: slices.Clone(data)}
	path = filepath.Clean(path)
	m.files[path], m.durable[path] = n, n
}

// Clone returns an independent copy, as Crash without any loss would leave it,
// whose crashes are chosen by seed.
func (m *FS) Clone(seed uint64) *FS {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := New(seed)
	for path, n := range m.files {
		c.WriteFile(path, n.data)
	}
	return c
}

// change counts one change and says whether it may happen. The caller holds mu.
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

// OpenFile is journal.FS's.
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

// Rename is journal.FS's.
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

// Remove is journal.FS's.
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

// List is journal.FS's.
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

// MkdirAll does nothing: folders are there when they are named. While nothing can be
// changed, only those that hold a file are.
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

// OpenDir is journal.FS's.
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

// SyncDir is journal.FS's.
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
	if !m.readOnly { // then there is nothing to sync, and Linux agrees
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
			return // what it renames or removes never came to be
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

// Lock is journal.FS's. A crash or a kill releases it.
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

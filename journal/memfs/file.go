package memfs

import (
	"io"
	"os"
	"slices"
	"syscall"
)

// inode is one file's content.
type inode struct {
	data    []byte // as reads see it
	disk    []byte // as of the last sync
	pending []op   // since then, in order
	failed  int    // syncs that failed
	why     error  // the last of them
}

// op is a write that is not synced, or a truncation.
type op struct {
	off  int64
	data []byte // nil: set the size to off
}

// apply does op to b, but only to those of its bytes in lo <= offset < hi.
func (o op) apply(b []byte, lo, hi int64) {
	if o.data == nil {
		clear(b[max(lo, min(o.off, hi)):hi])
		return
	}
	from, to := max(lo, o.off), min(hi, o.off+int64(len(o.data)))
	if from < to {
		copy(b[from:to], o.data[from-o.off:to-o.off])
	}
}

// size is the file's size after op, if it was n before.
func (o op) size(n int64) int64 {
	if o.data == nil {
		return o.off
	}
	return max(n, o.off+int64(len(o.data)))
}

// settle makes everything pending durable.
func (n *inode) settle() {
	for _, o := range n.pending {
		size := o.size(int64(len(n.disk)))
		n.disk = setLen(n.disk, size)
		o.apply(n.disk, 0, size)
	}
	n.pending = nil
}

// setLen returns b truncated to n bytes or extended with zeros.
func setLen(b []byte, n int64) []byte {
	if have := int64(len(b)); n > have {
		b = slices.Grow(b, int(n-have))[:n]
		clear(b[have:])
	}
	return b[:n]
}

// file is an open file.
type file struct {
	fs       *FS
	node     *inode
	path     string
	epoch    int
	writable bool
	closed   bool
	reported int // of node.failed
}

// ReadAt implements journal.File.
func (f *file) ReadAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.usable("read"); err != nil {
		return 0, err
	}
	if off >= int64(len(f.node.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.node.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) usable(op string) error {
	switch {
	case f.fs.off(f.epoch):
		return pathError(op, f.path, ErrStopped)
	case f.closed:
		return pathError(op, f.path, os.ErrClosed)
	}
	return nil
}

// changeable counts a change of f. The caller holds mu.
func (f *file) changeable(op string) error {
	if err := f.usable(op); err != nil {
		return err
	}
	if !f.writable {
		return pathError(op, f.path, syscall.EBADF)
	}
	if err := f.fs.change(f.epoch); err != nil {
		return pathError(op, f.path, err)
	}
	return nil
}

// WriteAt implements journal.File.
func (f *file) WriteAt(p []byte, off int64) (int, error) {
	m := f.fs
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := f.changeable("write"); err != nil {
		return 0, err
	}
	m.stats.Writes++
	n, err := int64(len(p)), error(nil)
	if m.shortWrite > 0 {
		if m.shortWrite--; m.shortWrite == 0 {
			n, err = max(0, n-int64(m.missing)), io.ErrShortWrite
		}
	}
	if grow := off + n - int64(len(f.node.data)); grow > 0 && m.space >= 0 {
		if grow > m.space {
			n, err = max(0, n-(grow-m.space)), pathError("write", f.path, syscall.ENOSPC)
		}
		m.space -= max(0, off+n-int64(len(f.node.data)))
	}
	if n > 0 {
		m.stats.Bytes += int(n)
		o := op{off, slices.Clone(p[:n])}
		f.node.data = setLen(f.node.data, o.size(int64(len(f.node.data))))
		copy(f.node.data[off:], o.data)
		f.node.pending = append(f.node.pending, o)
	}
	return int(n), err
}

// Truncate implements journal.File.
func (f *file) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.changeable("truncate"); err != nil {
		return err
	}
	f.fs.resize(f.node, size)
	return nil
}

// resize sets the size of n. The caller holds mu.
func (m *FS) resize(n *inode, size int64) {
	m.free(max(0, int64(len(n.data))-size))
	n.data = setLen(n.data, size)
	n.pending = append(n.pending, op{off: size})
}

// Sync implements journal.File.
func (f *file) Sync() error {
	m := f.fs
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := f.usable("sync"); err != nil {
		return err
	}
	if err := m.change(f.epoch); err != nil {
		return pathError("sync", f.path, err)
	}
	m.stats.Syncs++
	n := f.node
	if m.syncFails() {
		n.pending = nil // the kernel considers the pages clean
		n.failed, n.why = n.failed+1, m.syncError
	} else {
		n.settle()
	}
	if f.reported < n.failed {
		f.reported = n.failed
		return pathError("sync", f.path, n.why)
	}
	return nil
}

// Size implements journal.File.
func (f *file) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.usable("stat"); err != nil {
		return 0, err
	}
	return int64(len(f.node.data)), nil
}

// Close implements journal.File.
func (f *file) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.closed {
		return pathError("close", f.path, os.ErrClosed)
	}
	f.closed = true
	return nil
}

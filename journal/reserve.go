package journal

import (
	"os"
	"sync"
)

// Reserve is the real file system with reserved file descriptors. When the process or
// the machine has too many open files, opening a file uses a reserved descriptor. It
// is safe for concurrent use.
type Reserve struct {
	osFS

	mu   sync.Mutex // guards the fields below
	size int        // target length of idle; 0 after Close
	idle []*os.File // handles that only occupy a descriptor
}

// NewReserve returns a Reserve that keeps up to n descriptors. Close releases them;
// files that were opened through the Reserve stay open.
func NewReserve(n int) *Reserve {
	r := &Reserve{size: n}
	r.refill()
	return r
}

// Close releases the reserved descriptors.
func (r *Reserve) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.size = 0
	for _, f := range r.idle {
		f.Close() // nothing was written
	}
	r.idle = nil
}

// refill replaces lent descriptors, as far as more are available.
func (r *Reserve) refill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.idle) < r.size {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return // retried when a file is opened or closed
		}
		r.idle = append(r.idle, f)
	}
}

// lend frees one descriptor. It reports false if none is left.
func (r *Reserve) lend() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := len(r.idle) - 1
	if last < 0 {
		return false
	}
	r.idle[last].Close()
	r.idle = r.idle[:last]
	return true
}

// try runs open until it does not lack a descriptor or the reserve is empty. Another
// part of the process or machine may take a lent descriptor first.
func (r *Reserve) try(open func() error) error {
	r.refill()
	err := open()
	for NoFiles(err) && r.lend() {
		err = open()
	}
	return err
}

// OpenFile implements FS.
func (r *Reserve) OpenFile(path string, flag int) (f File, err error) {
	err = r.try(func() error { f, err = r.osFS.OpenFile(path, flag); return err })
	if err != nil {
		return nil, err
	}
	return reservedFile{f, r}, nil
}

// OpenDir implements FS.
func (r *Reserve) OpenDir(dir string) (d Dir, err error) {
	err = r.try(func() error { d, err = r.osFS.OpenDir(dir); return err })
	if err != nil {
		return nil, err
	}
	return reservedDir{d, r}, nil
}

// SyncDir implements FS.
func (r *Reserve) SyncDir(dir string) error {
	return r.try(func() error { return r.osFS.SyncDir(dir) })
}

// List implements FS.
func (r *Reserve) List(dir string) (names []string, err error) {
	err = r.try(func() error { names, err = r.osFS.List(dir); return err })
	return names, err
}

// reservedFile and reservedDir refill the reserve when they are closed.
type reservedFile struct {
	File
	from *Reserve
}

func (f reservedFile) Close() error {
	defer f.from.refill()
	return f.File.Close()
}

type reservedDir struct {
	Dir
	from *Reserve
}

func (d reservedDir) Close() error {
	defer d.from.refill()
	return d.Dir.Close()
}

package journal

import (
	"os"
	"sync"
)

// Reserve is the real file system with file descriptors in reserve: where the
// process or the machine has too many files open, an opening takes one of them.
// It is safe for concurrent use.
type Reserve struct {
	osFS

	mu   sync.Mutex // guards what follows
	size int        // how many there should be; 0 after Close
	idle []*os.File // handles on nothing
}

// NewReserve returns a Reserve that keeps up to n descriptors, which are given
// back by Close. What it has opened stays open then.
func NewReserve(n int) *Reserve {
	r := &Reserve{size: n}
	r.refill()
	return r
}

// Close gives the reserve up.
func (r *Reserve) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.size = 0
	for _, f := range r.idle {
		f.Close() // nothing was written
	}
	r.idle = nil
}

// refill takes back what was lent, as far as there are descriptors.
func (r *Reserve) refill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.idle) < r.size {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return // it is tried again when a file is opened or closed
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

// try runs open until it does not lack a descriptor, or the reserve is empty:
// somebody else may be quicker to take what is lent.
func (r *Reserve) try(open func() error) error {
	r.refill()
	err := open()
	for NoFiles(err) && r.lend() {
		err = open()
	}
	return err
}

// OpenFile is FS's.
func (r *Reserve) OpenFile(path string, flag int) (f File, err error) {
	err = r.try(func() error { f, err = r.osFS.OpenFile(path, flag); return err })
	if err != nil {
		return nil, err
	}
	return reservedFile{f, r}, nil
}

// OpenDir is FS's.
func (r *Reserve) OpenDir(dir string) (d Dir, err error) {
	err = r.try(func() error { d, err = r.osFS.OpenDir(dir); return err })
	if err != nil {
		return nil, err
	}
	return reservedDir{d, r}, nil
}

// SyncDir is FS's.
func (r *Reserve) SyncDir(dir string) error {
	return r.try(func() error { return r.osFS.SyncDir(dir) })
}

// List is FS's.
func (r *Reserve) List(dir string) (names []string, err error) {
	err = r.try(func() error { names, err = r.osFS.List(dir); return err })
	return names, err
}

// reservedFile and reservedDir fill the reserve up as soon as they are closed.
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

package disk

import (
	"sync"

	"github.com/skerrydb/skerry/journal"
)

// gateFS is a disk whose syncs of files wait while the gate is shut, and whose reads can
// be interrupted.
type gateFS struct {
	journal.FS
	arrived chan struct{} // has a value when a sync waits
	gate    chan struct{} // closed by release
	once    sync.Once
	reading func() // called before every read, unless it is nil
}

func newGate(fsys journal.FS) *gateFS {
	return &gateFS{FS: fsys, arrived: make(chan struct{}, 1), gate: make(chan struct{})}
}

// release lets all syncs pass.
func (g *gateFS) release() { g.once.Do(func() { close(g.gate) }) }

func (g *gateFS) OpenFile(path string, flag int) (journal.File, error) {
	f, err := g.FS.OpenFile(path, flag)
	if err != nil {
		return nil, err
	}
	return &gateFile{f, g}, nil
}

type gateFile struct {
	journal.File
	g *gateFS
}

func (f *gateFile) Sync() error {
	select {
	case f.g.arrived <- struct{}{}:
	default:
	}
	<-f.g.gate
	return f.File.Sync()
}

func (f *gateFile) ReadAt(p []byte, off int64) (int, error) {
	if f.g.reading != nil {
		f.g.reading()
	}
	return f.File.ReadAt(p, off)
}

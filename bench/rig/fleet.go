package rig

import (
	"errors"
	"os/exec"
	"sync"
	"syscall"
)

// Fleet has all processes that a run has started and not yet stopped.
type Fleet struct {
	mu    sync.Mutex // guards what follows
	procs map[*Process]struct{}
	ended bool // no more processes are started
}

var errEnded = errors.New("the run was ended")

// NewFleet returns a fleet without processes.
func NewFleet() *Fleet { return &Fleet{procs: map[*Process]struct{}{}} }

// Start is the function Start, for a process of the fleet.
func (f *Fleet) Start(cmd *exec.Cmd, log string) (*Process, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return nil, errEnded
	}
	p, err := Start(cmd, log)
	if err == nil {
		f.procs[p] = struct{}{}
	}
	return p, err
}

// Stop stops a process with a signal.
func (f *Fleet) Stop(p *Process, sig syscall.Signal) error {
	err := p.Stop(sig)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.procs, p)
	return err
}

// End kills all processes by their ids, including stopped ones. No more are started.
func (f *Fleet) End() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	for p := range f.procs {
		_ = p.Signal(syscall.SIGKILL) // it may have ended by itself
	}
	for p := range f.procs {
		<-p.Done()
	}
	clear(f.procs)
}

//go:build unix

package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Lock uses flock, which the kernel releases when the process ends in any way.
func (osFS) Lock(path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock folder: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil {
		b := make([]byte, 32)
		n, _ := f.ReadAt(b, 0) // without a pid the error is still true
		f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		pid, _ := strconv.Atoi(strings.TrimSpace(string(b[:n])))
		return nil, &LockedError{filepath.Dir(path), pid}
	}
	if same, err := named(f, path); !same || err != nil { // its holder has removed it in the meantime
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		return osFS{}.Lock(path)
	}
	// The width is fixed so that a full disk never prevents a restart: the block has
	// existed since the first start. Without space the pid is left out.
	_, err = f.WriteAt(fmt.Appendf(nil, "%-20d\n", os.Getpid()), 0)
	if err != nil && shortage(err) == nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() error {
		_, err := f.WriteAt([]byte(strings.Repeat(" ", 20)+"\n"), 0)
		// Close alone would not release the lock while a process that this one is starting
		// still has its copy of the descriptor, between fork and exec.
		return errors.Join(err, syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
	}, nil
}

// named reports whether path is the name of f.
func named(f *os.File, path string) (bool, error) {
	have, err := f.Stat()
	if err != nil {
		return false, err
	}
	now, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(have, now), err
}

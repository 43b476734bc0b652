package journal

import (
	"errors"
	"fmt"
	"io"
	"syscall"
)

// Errors without details.
var (
	// ErrClosed is returned by every call after Close.
	ErrClosed = errors.New("journal: closed")
	// ErrGone is yielded by Read for a record before First.
	ErrGone = errors.New("journal: record is no longer kept")
	// ErrChanged is yielded by Read if records are removed while it runs.
	ErrChanged = errors.New("journal: records were removed while they were read")
)

// CorruptError reports that stored bytes are not what was written.
type CorruptError struct {
	File   string // "" for a stream
	Offset int64  // of the first part that cannot be trusted
	Why    string
}

func (e *CorruptError) Error() string {
	if e.File == "" {
		return fmt.Sprintf("journal: damaged at offset %d: %s", e.Offset, e.Why)
	}
	return fmt.Sprintf("journal: %s is damaged at offset %d: %s", e.File, e.Offset, e.Why)
}

// NewerError reports that a file was written by a newer version of the program.
type NewerError struct {
	File      string // "" for a stream
	Version   uint32
	Supported uint32 // the newest that this program reads
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("journal: %s has format version %d, this program reads up to %d", e.File, e.Version, e.Supported)
}

// LockedError reports that another process, or another part of this one, uses the
// folder.
type LockedError struct {
	Dir string
	Pid int // 0: unknown
}

func (e *LockedError) Error() string {
	if e.Pid == 0 {
		return fmt.Sprintf("journal: %s is in use by another process", e.Dir)
	}
	return fmt.Sprintf("journal: %s is in use by process %d", e.Dir, e.Pid)
}

// LimitError reports that something exceeds its size limit, or that a segment is
// too small.
type LimitError struct {
	What         string
	Bytes, Limit int64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("journal: %s is %d bytes, the limit is %d", e.What, e.Bytes, e.Limit)
}

// IndexError reports a call with an index that does not match the records of the
// log.
type IndexError struct {
	Got, Want uint64
}

func (e *IndexError) Error() string {
	return fmt.Sprintf("journal: index is %d, must be %d", e.Got, e.Want)
}

// FailedError reports a disk failure after which it is unknown what is stored. The
// log has stopped: every later call returns the same error. It does not unwrap to its
// cause, so that Passing(err) is true only for errors after which the log can still
// be used.
type FailedError struct {
	Op, File string
	Cause    error
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("journal: stopped: %s %s: %v", e.Op, e.File, e.Cause)
}

// Passing reports whether err is a temporary lack of resources, so that the same call
// may succeed later: disk space (syscall.ENOSPC) or file descriptors (NoFiles).
func Passing(err error) bool { return errors.Is(err, syscall.ENOSPC) || NoFiles(err) }

// NoFiles reports whether err means that no file could be opened because the
// process (syscall.EMFILE) or the machine (syscall.ENFILE) has too many open.
func NoFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// shortage returns err as an error that is Passing if it means a lack of space (a
// full disk, a full quota, a file size limit, or a short write without a reason) or
// of file descriptors. For any other error it returns nil.
func shortage(err error) error {
	switch {
	case Passing(err):
		return err
	case errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG), errors.Is(err, io.ErrShortWrite):
		return fmt.Errorf("%w: %w", syscall.ENOSPC, err)
	}
	return nil
}

package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Open opens the log in dir, which it creates if necessary. The caller holds dir's
// lock (LockDir). Open removes unfinished files, reads the last segment, cuts its torn
// tail, if any, and makes the rest durable. Older segments are checked when they are
// read; Verify checks them all.
//
// It returns *CorruptError for damage, *NewerError for a newer format, or an error of
// the file system. After an error no valid data has changed.
func Open(dir string, o Options) (*Log, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Log{fs: o.FS, dir: dir, o: o, kick: make(chan struct{}, 1)}
	if err := l.fs.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("make folder %s: %w", dir, err)
	}
	if l.folder, err = l.fs.OpenDir(dir); err != nil {
		return nil, fmt.Errorf("open folder %s: %w", dir, err)
	}
	if err := l.load(); err != nil {
		l.folder.Close()
		if l.file != nil {
			l.file.Close()
		}
		return nil, err
	}
	if !o.Inline {
		l.done = make(chan struct{})
		go l.background(l.kick)
		l.wake()
	}
	return l, nil
}

// load finds the segments, removes what no longer counts, and opens the last one.
func (l *Log) load() error {
	segs, dead, err := loadSegments(l.fs, l.dir)
	if err != nil {
		return err
	}
	if err := RemoveTemp(l.fs, l.dir); err != nil {
		return err
	}
	// After a process was killed, there may be names that are not durable yet. The
	// removals below depend on them.
	if err := l.syncDir(); err != nil {
		return err
	}
	if err := l.removeSegments(dead); err != nil {
		return err
	}
	for _, s := range dead {
		l.maxID = max(l.maxID, s.id)
	}
	l.segs = segs
	if len(segs) == 0 {
		return nil
	}
	l.maxID = max(l.maxID, segs[len(segs)-1].id)
	return l.openLast(segs[len(segs)-1])
}

// loadSegments reads the headers of dir's segments and sorts those that count,
// ascending, from those that a later one supersedes.
func loadSegments(fsys FS, dir string) (live, dead []*segment, err error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("list %s: %w", dir, err)
	}
	for _, name := range names { // fixed-width hex: in the order of ids
		if _, ok := segID(name); !ok {
			continue
		}
		s, err := loadSegment(fsys, filepath.Join(dir, name))
		if err != nil {
			return nil, nil, err
		}
		var gone []*segment
		live, gone = s.place(live)
		dead = append(dead, gone...)
	}
	return live, dead, nil
}

// loadSegment reads the header of the segment at path.
func loadSegment(fsys FS, path string) (*segment, error) {
	s := &segment{path: path}
	err := withScanner(fsys, path, func(sc *scanner) error { s.segHead = sc.h; return nil })
	if err == nil && segName(s.id) != filepath.Base(path) {
		err = &CorruptError{path, 16, fmt.Sprintf("it is segment %s under another name", segName(s.id))}
	}
	return s, err
}

// place appends s, the newest segment so far, to those of live that it does not
// supersede. It also returns those that it supersedes.
func (s *segment) place(live []*segment) (now, dead []*segment) {
	n := len(live)
	for n > 0 && (s.reset || live[n-1].first >= s.first) {
		n--
	}
	dead = append(dead, live[n:]...)
	return append(live[:n], s), dead
}

// withScanner opens the segment at path for reading and calls fn.
func withScanner(fsys FS, path string, fn func(*scanner) error) error {
	f, err := fsys.OpenFile(path, os.O_RDONLY)
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	defer f.Close() // nothing is written through it
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	sc, err := openScanner(f, path, size)
	if err != nil {
		return err
	}
	return fn(sc)
}

// openLast finds the end of the last segment, cuts the torn tail, and prepares for
// writing.
func (l *Log) openLast(seg *segment) error {
	f, err := l.fs.OpenFile(seg.path, os.O_RDWR)
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	l.file = f
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	sc, err := openScanner(f, seg.path, size)
	if err != nil {
		return err
	}
	seg.marks = make([]mark, 0, l.o.SegmentBytes/markEvery+2)
	end, err := findEnd(sc, func(f *frame) { seg.addMark(f.first, f.off) })
	if err != nil {
		return err
	}
	l.pos, l.next, l.durable, l.unsealed = end.pos, end.next, end.next, end.count > 0
	if end.used > end.pos {
		if err := l.cutTail(seg, end); err != nil {
			return err
		}
		size, sc.size = end.pos, end.pos
	}
	l.reserved = max(size, end.pos)
	return l.hardenLast(sc, seg, end)
}

// segEnd describes a segment's last whole frame and the torn tail after it.
type segEnd struct {
	last  int64  // where the last frame begins; 0: there is none
	pos   int64  // where the last frame ends
	count uint32 // its records
	next  uint64 // index after it
	used  int64  // end of the torn tail; pos if there is none
}

// findEnd reads the frames of the last segment up to the end or the torn tail, and
// calls visit for each. Damage before valid data is *CorruptError.
func findEnd(sc *scanner, visit func(*frame)) (segEnd, error) {
	e := segEnd{pos: headerBytes, next: sc.h.first}
	for {
		f, why, err := sc.frame(e.pos)
		if err != nil {
			return e, err
		}
		if why != "" {
			used, torn, later, err := sc.tail(e.pos)
			if err == nil && !torn {
				err = &CorruptError{sc.file, e.pos, fmt.Sprintf("%s, and later data follows at offset %d", why, later)}
			}
			e.used = used
			return e, err
		}
		if f.first != e.next {
			return e, &CorruptError{sc.file, f.off, fmt.Sprintf("record %d is in the place of record %d", f.first, e.next)}
		}
		visit(&f)
		e.last, e.pos, e.count, e.next = f.off, f.end, f.count, f.next()
	}
}

// cutTail removes what an interrupted Sync left.
func (l *Log) cutTail(seg *segment, end segEnd) error {
	if err := l.file.Truncate(end.pos); err != nil {
		return fmt.Errorf("cut torn tail of %s: %w", seg.path, err)
	}
	l.stats.CutBytes = end.used - end.pos
	if l.o.OnCut != nil {
		l.o.OnCut(Cut{seg.path, end.pos, end.used - end.pos})
	}
	return nil
}

// hardenLast makes the frames that findEnd read durable. The last frame may be only in
// the kernel's memory: the process was killed before its fsync, or that fsync failed.
// After a failed fsync the kernel considers the pages clean, and a new fsync would not
// write them. So hardenLast writes the frame again, byte for byte. All earlier frames
// were durable before the last one was begun.
func (l *Log) hardenLast(sc *scanner, seg *segment, end segEnd) error {
	if end.last > 0 {
		b, err := sc.bytes(end.last, int(end.pos-end.last))
		if err != nil {
			return err
		}
		if _, err := l.file.WriteAt(b, end.last); err != nil {
			return fmt.Errorf("write %s again: %w", seg.path, err)
		}
	}
	if err := l.file.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", seg.path, err)
	}
	l.stats.Fsyncs++
	return nil
}

func (l *Log) syncDir() error {
	l.countFsync()
	if err := l.folder.Sync(); err != nil {
		return fmt.Errorf("sync folder %s: %w", l.dir, err)
	}
	return nil
}

// removeSegments deletes files one after the other, each durably, so that a crash
// leaves no gap.
func (l *Log) removeSegments(segs []*segment) error {
	for _, s := range segs {
		if err := l.fs.Remove(s.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove segment: %w", err)
		}
		if err := l.syncDir(); err != nil {
			return err
		}
	}
	return nil
}

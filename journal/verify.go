package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Report is the result of Verify.
type Report struct {
	Files    int   // log segments and snapshots read
	Bytes    int64 // read
	Frames   int   // of the log
	Records  int   // of the log; superseded ones are not counted
	Blocks   int   // of the snapshots
	First    uint64
	Last     uint64 // records First to Last are in the log; Last is First-1 if there are none
	Torn     []Cut  // tails that the next Open would cut: interrupted writes, not damage
	Leftover []string
	Problems []Problem
}

// Problem is damage, or a file that this program cannot read.
type Problem struct {
	File   string
	Offset int64
	Why    string
}

// Progress is the progress of Verify.
type Progress struct {
	File  string // being read
	Done  int64  // bytes of all files
	Total int64
}

// Verify reads every segment and every snapshot in dir and checks all checksums, and
// that no record is missing. It changes nothing. progress, if not nil, is called before
// each file and about once per MiB. The log must not be open. Problems are in the
// report; the error is that of the file system.
func Verify(fsys FS, dir string, progress func(Progress)) (Report, error) {
	return VerifyRecords(fsys, dir, progress, nil)
}

// VerifyRecords is Verify that also calls record for each whole record of the log, in
// order. Record.Data is valid during the call. An error of record is reported as a
// problem of the record's file.
func VerifyRecords(fsys FS, dir string, progress func(Progress), record func(Record) error) (Report, error) {
	v := &verifier{fs: fsys, progress: progress, record: record}
	names, err := fsys.List(dir)
	if err != nil {
		return v.rep, fmt.Errorf("list %s: %w", dir, err)
	}
	var logs, snaps []string
	for _, name := range names {
		path := filepath.Join(dir, name)
		if _, ok := segID(name); ok {
			logs = append(logs, path)
		} else if strings.HasSuffix(name, tmpSuffix) {
			v.rep.Leftover = append(v.rep.Leftover, path)
			continue
		} else if ok, err := v.isSnapshot(path); err != nil {
			return v.rep, err
		} else if ok {
			snaps = append(snaps, path)
		} else {
			continue
		}
		if err := v.addSize(path); err != nil {
			return v.rep, err
		}
	}
	if err := v.log(logs); err != nil {
		return v.rep, err
	}
	for _, path := range snaps {
		if err := v.snapshot(path); err != nil {
			return v.rep, err
		}
	}
	return v.rep, nil
}

type verifier struct {
	fs       FS
	progress func(Progress)
	record   func(Record) error // or nil
	rep      Report
	at       Progress
	reported int64 // Done at the last call of progress
}

func (v *verifier) addSize(path string) error {
	f, err := v.fs.OpenFile(path, os.O_RDONLY)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	defer f.Close() // nothing is written through it
	n, err := f.Size()
	v.at.Total += n
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	return nil
}

// isSnapshot checks the name and the first bytes, so that neither damage to these nor
// another name hides a snapshot.
func (v *verifier) isSnapshot(path string) (bool, error) {
	if strings.HasSuffix(path, ".snap") {
		return true, nil
	}
	f, err := v.fs.OpenFile(path, os.O_RDONLY)
	if err != nil {
		return false, fmt.Errorf("verify: %w", err)
	}
	defer f.Close() // nothing is written through it
	b := make([]byte, len(snapMagic))
	if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("verify %s: %w", path, err)
	}
	return string(b) == snapMagic, nil
}

func (v *verifier) advance(file string, n int64) {
	v.at.Done += n
	v.rep.Bytes += n
	if v.progress != nil && (file != v.at.File || v.at.Done >= v.reported+1<<20) {
		v.at.File, v.reported = file, v.at.Done
		v.progress(v.at)
	}
}

// problem adds damage to the report and returns any other error.
func (v *verifier) problem(file string, err error) error {
	var corrupt *CorruptError
	var newer *NewerError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &corrupt):
		v.rep.Problems = append(v.rep.Problems, Problem{file, corrupt.Offset, corrupt.Why})
		return nil
	case errors.As(err, &newer):
		v.rep.Problems = append(v.rep.Problems, Problem{file, 0, newer.Error()})
		return nil
	}
	return fmt.Errorf("verify: %w", err)
}

// log checks the segments, oldest first.
func (v *verifier) log(paths []string) error {
	var live []*segment
	for _, path := range paths {
		s, err := loadSegment(v.fs, path)
		if err != nil {
			v.rep.Files++
			if err := v.problem(path, err); err != nil {
				return err
			}
			continue
		}
		var dead []*segment
		live, dead = s.place(live)
		for _, d := range dead {
			v.rep.Leftover = append(v.rep.Leftover, d.path)
		}
	}
	for i, s := range live {
		limit := ^uint64(0)
		if i+1 < len(live) {
			limit = live[i+1].first
		}
		err := withScanner(v.fs, s.path, func(sc *scanner) error { return v.segment(sc, limit) })
		if err := v.problem(s.path, err); err != nil {
			return err
		}
	}
	if len(live) > 0 {
		v.rep.First = live[0].first
	}
	return nil
}

// segment checks one segment. Its successor begins with record limit.
func (v *verifier) segment(sc *scanner, limit uint64) error {
	v.rep.Files++
	v.advance(sc.file, headerBytes)
	visit := func(f *frame) bool {
		v.advance(sc.file, f.end-f.off)
		v.rep.Frames++
		v.rep.Records += int(min(f.next(), limit) - f.first)
		v.rep.Last = min(f.next(), limit) - 1
		v.show(sc.file, f, limit)
		return f.next() < limit
	}
	v.rep.Last = sc.h.first - 1
	if limit == ^uint64(0) {
		e, err := findEnd(sc, func(f *frame) { visit(f) })
		if err == nil && e.used > e.pos {
			v.rep.Torn = append(v.rep.Torn, Cut{sc.file, e.pos, e.used - e.pos})
		}
		return err
	}
	return sc.walk(mark{sc.h.first, headerBytes}, limit, visit)
}

// show passes the records of f before limit to v.record.
func (v *verifier) show(file string, f *frame, limit uint64) {
	if v.record == nil {
		return
	}
	b := f.payload
	for index := f.first; index < min(f.next(), limit); index++ {
		var data []byte
		data, b = splitRecord(b)
		if err := v.record(Record{index, data}); err != nil {
			v.rep.Problems = append(v.rep.Problems, Problem{file, f.off, err.Error()})
		}
	}
}

// snapshot checks one snapshot file.
func (v *verifier) snapshot(path string) error {
	v.rep.Files++
	r, err := ReadSnapshot(v.fs, path)
	if err != nil {
		return v.problem(path, err)
	}
	v.advance(path, r.off)
	for before := r.off; err == nil; before = r.off {
		if err = r.block(); err == nil || errors.Is(err, io.EOF) {
			v.rep.Blocks++
			v.advance(path, r.off-before)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err := v.problem(path, err); err != nil {
		r.Close()
		return err
	}
	return r.Close()
}

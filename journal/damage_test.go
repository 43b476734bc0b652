package journal_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/journal"
	"github.com/skerrydb/skerry/journal/memfs"
)

// small is a log of a few segments and its records, by Sync.
type small struct {
	fs     *memfs.FS
	names  []string
	frames [][]string
}

func smallLog(t *testing.T, sealed bool) small {
	s := small{fs: memfs.New(1)}
	l := open(t, "log", s.options(s.fs, nil))
	index := uint64(1)
	for i := range 40 {
		var recs []string
		for j := range 1 + i%4 {
			rec := strings.Repeat(fmt.Sprintf("record %d.%d ", i, j), 1+(i*7+j)%15)
			if err := l.Append(index, []byte(rec)); err != nil {
				t.Fatal(err)
			}
			recs = append(recs, rec)
			index++
		}
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		s.frames = append(s.frames, recs)
	}
	if sealed {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s.fs.Kill()
	if err := journal.RemoveTemp(s.fs, "log"); err != nil {
		t.Fatal(err)
	}
	names, err := s.fs.List("log")
	if err != nil || len(names) < 3 {
		t.Fatalf("the log has the files %q, want at least 3", names)
	}
	s.names = names
	return s
}

func (s small) options(fs journal.FS, onCut func(journal.Cut)) journal.Options {
	return journal.Options{FS: fs, SegmentBytes: 8 << 10, ReserveBytes: 4 << 10, Inline: true, OnCut: onCut,
		Random: rand.NewChaCha8([32]byte{7})}
}

// outcome opens and reads a damaged copy. It returns the number of frames found,
// in their order from the first, or the error.
func (s small) outcome(t *testing.T, fs *memfs.FS) (frames int, cut bool, err error) {
	t.Helper()
	l, err := journal.Open("log", s.options(fs, func(journal.Cut) { cut = true }))
	if err != nil {
		return 0, cut, err
	}
	defer l.Close()
	var got []string
	for r, err := range l.Read(l.First()) {
		if err != nil {
			return 0, cut, err
		}
		got = append(got, string(r.Data))
	}
	for _, f := range s.frames {
		if len(got) == 0 {
			break
		}
		if len(got) < len(f) || !slices.Equal(got[:len(f)], f) {
			t.Fatalf("frame %d was read as %q, want %q", frames, got, f)
		}
		got = got[len(f):]
		frames++
	}
	if len(got) > 0 {
		t.Fatalf("%d records too many: %q", len(got), got)
	}
	return frames, cut, nil
}

// worth skips most of the reserved bytes of a segment's header: one in 16 represents all
// of them.
func worth(i int) bool { return i < 48 || i >= 4092 || i%16 == 0 }

// TestFlippedBits damages the bytes of a log in turn. Damage is refused, or it
// is of no consequence, or it is to the very last frame of a log that was not
// closed, which looks like an interrupted write and is then reported
// as cut.
func TestFlippedBits(t *testing.T) {
	for _, sealed := range []bool{true, false} {
		t.Run(fmt.Sprintf("sealed=%v", sealed), func(t *testing.T) {
			s := smallLog(t, sealed)
			refused, cuts := 0, 0
			names := s.names
			if !sealed { // of the others the first run knows all
				names = names[len(names)-1:]
			}
			for _, name := range names {
				path := filepath.Join("log", name)
				data, err := s.fs.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				for i := range data {
					if !worth(i) {
						continue
					}
					fs := s.fs.Clone(1)
					bad := slices.Clone(data)
					bad[i] ^= 1 << (i % 8)
					fs.WriteFile(path, bad)
					rep, verr := journal.Verify(fs, "log", nil) // before Open cuts
					n, cut, err := s.outcome(t, fs)
					var corrupt *journal.CorruptError
					if verr != nil || (len(rep.Problems) > 0) != errors.As(err, &corrupt) || (len(rep.Torn) > 0) != cut {
						t.Fatalf("byte %d of %s: verify says %+v, %v; open: cut %v, %v", i, path, rep, verr, cut, err)
					}
					switch {
					case errors.As(err, &corrupt):
						refused++
						if corrupt.File != path || corrupt.Why == "" || corrupt.Offset > int64(i) {
							t.Fatalf("byte %d of %s: %v", i, path, err)
						}
					case err != nil:
						t.Fatalf("byte %d of %s: %v", i, path, err)
					case n == len(s.frames):
					case n == len(s.frames)-1 && cut && !sealed:
						cuts++
					default:
						t.Fatalf("byte %d of %s: %d frames of %d, cut %v", i, path, n, len(s.frames), cut)
					}
				}
			}
			t.Logf("refused %d, cut %d", refused, cuts)
			if refused == 0 || sealed != (cuts == 0) {
				t.Error("the test does not test")
			}
		})
	}
}

// TestTruncatedFiles ends every file at every length, but see worth.
func TestTruncatedFiles(t *testing.T) {
	s := smallLog(t, true)
	for i, name := range s.names {
		path, last := filepath.Join("log", name), i == len(s.names)-1
		data, err := s.fs.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		refused := 0
		for n := range data {
			if !worth(n) {
				continue
			}
			fs := s.fs.Clone(1)
			fs.WriteFile(path, data[:n])
			frames, _, err := s.outcome(t, fs)
			var corrupt *journal.CorruptError
			switch {
			case errors.As(err, &corrupt):
				refused++
			case err != nil:
				t.Fatalf("%s cut to %d bytes: %v", path, n, err)
			case frames != len(s.frames) && !last:
				t.Fatalf("%s cut to %d bytes: %d frames of %d and no error", path, n, frames, len(s.frames))
			}
		}
		if refused < 4096/16 {
			t.Errorf("%s: only %d lengths were refused", path, refused)
		}
	}
}

// TestMissingSegment removes each file in turn. Only the first and the last
// leave no trace in the others.
func TestMissingSegment(t *testing.T) {
	s := smallLog(t, true)
	for _, name := range s.names[1 : len(s.names)-1] {
		fs := s.fs.Clone(1)
		if err := fs.Remove(filepath.Join("log", name)); err != nil {
			t.Fatal(err)
		}
		var corrupt *journal.CorruptError
		if _, _, err := s.outcome(t, fs); !errors.As(err, &corrupt) {
			t.Errorf("without %s: %v", name, err)
		}
	}
	fs := s.fs.Clone(1)
	data, err := fs.ReadFile(filepath.Join("log", s.names[0]))
	if err != nil {
		t.Fatal(err)
	}
	fs.WriteFile(filepath.Join("log", s.names[1]), data)
	var corrupt *journal.CorruptError
	if _, _, err := s.outcome(t, fs); !errors.As(err, &corrupt) || !strings.Contains(corrupt.Why, "another name") {
		t.Errorf("with a copy in place of %s: %v", s.names[1], err)
	}
}

// newer gives a file's header the next format version, with a right checksum.
func newer(data []byte) []byte {
	data = slices.Clone(data)
	binary.LittleEndian.PutUint32(data[8:], binary.LittleEndian.Uint32(data[8:])+1)
	binary.LittleEndian.PutUint32(data[12:], crc32.Checksum(data[:12], crc32.MakeTable(crc32.Castagnoli)))
	return data
}

// TestNewerFormat: a folder of a newer program is refused and left unchanged.
func TestNewerFormat(t *testing.T) {
	s := smallLog(t, true)
	path := filepath.Join("log", s.names[len(s.names)-1])
	data, err := s.fs.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s.fs.WriteFile(path, newer(data))
	before := s.fs.Stats()
	_, _, err = s.outcome(t, s.fs)
	var e *journal.NewerError
	if !errors.As(err, &e) || e.File != path || e.Version != 2 || e.Supported != 1 {
		t.Fatalf("open: %v", err)
	}
	if after := s.fs.Stats(); after != before {
		t.Errorf("the folder was changed: %+v, before %+v", after, before)
	}
	rep, err := journal.Verify(s.fs, "log", nil)
	if err != nil || len(rep.Problems) != 1 || !strings.Contains(rep.Problems[0].Why, "version 2") {
		t.Errorf("verify: %+v, %v", rep.Problems, err)
	}
}

// TestTornFrame loses power between the write and the fsync of a frame of many sectors:
// the frame is there as a whole or not at all, and never affects the next one.
func TestTornFrame(t *testing.T) {
	start := seed.Of(t)
	kept, torn, none := 0, 0, 0
	for run := range uint64(400) {
		fs := memfs.New(start + run)
		cut := false
		o := journal.Options{FS: fs, SegmentBytes: 256 << 10, ReserveBytes: 64 << 10, Inline: true,
			OnCut: func(journal.Cut) { cut = true }}
		l := open(t, "log", o)
		appendSync(t, l, 1, 3, "old")
		for i := uint64(4); i < 8; i++ {
			if err := l.Append(i, []byte(strings.Repeat("new", 1700))); err != nil {
				t.Fatal(err)
			}
		}
		fs.StopAfter(1) // the frame's write
		if err := l.Sync(); err == nil {
			t.Fatal("sync without power")
		}
		fs.Crash()
		l = open(t, "log", o)
		switch last := l.Last(); {
		case last == 7:
			kept++
		case last == 3 && cut:
			torn++
		case last == 3:
			none++
		default:
			t.Fatalf("run %d: the last record is %d", run, last)
		}
		read(t, l, 1)
		// A smaller frame in the same place: of the one before nothing may be left.
		before := l.Last()
		if err := l.Append(before+1, []byte(strings.Repeat("less", 400))); err != nil {
			t.Fatal(err)
		}
		fs.StopAfter(2) // zeros, where the torn one was cut, and the frame's write
		err := l.Sync()
		fs.Crash()
		if l = open(t, "log", o); l.Last() != before+1 && (l.Last() != before || err == nil) {
			t.Fatalf("run %d: the last record is %d, it was %d; sync: %v", run, l.Last(), before, err)
		}
		appendSync(t, l, l.Last()+1, l.Last()+1, "next")
		l.Close()
		fs.Crash()
		if got := read(t, open(t, "log", o), 1); !strings.HasPrefix(got[len(got)-1], "next") {
			t.Fatalf("run %d: the record after the crash is lost: %q", run, got)
		}
	}
	t.Logf("kept %d, torn %d, none %d", kept, torn, none)
	if kept == 0 || torn == 0 || none == 0 {
		t.Error("the test does not test")
	}
}

// TestUndoneWrite: a frame that lacked only its padding was refused; no crash
// brings it back.
func TestUndoneWrite(t *testing.T) {
	start := seed.Of(t)
	for run := range uint64(200) {
		fs := memfs.New(start + run)
		l := memLog(t, fs)
		appendSync(t, l, 1, 3, "kept")
		if err := l.Append(4, []byte("refused")); err != nil {
			t.Fatal(err)
		}
		fs.ShortWrite(1, 3)
		if err := l.Sync(); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("sync: %v", err)
		}
		fs.Crash()
		if l = memLog(t, fs); l.Last() != 3 {
			t.Fatalf("run %d: the last record is %d", run, l.Last())
		}
	}
}

// TestTwoDamages: where the last frame's header tells its length, anything after
// it shows that it was once whole, be that itself readable or not.
func TestTwoDamages(t *testing.T) {
	s := smallLog(t, true)
	path := filepath.Join("log", s.names[len(s.names)-1])
	data, err := s.fs.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	last := s.frames[len(s.frames)-1]
	at := bytes.LastIndex(data, []byte(last[len(last)-1]))
	seal := bytes.LastIndex(data, []byte("SFRM"))
	if at < 0 || seal < at {
		t.Fatalf("the last record is at %d, the seal at %d", at, seal)
	}
	data[at] ^= 1
	data[seal] ^= 1
	s.fs.WriteFile(path, data)
	var corrupt *journal.CorruptError
	if _, _, err := s.outcome(t, s.fs); !errors.As(err, &corrupt) || corrupt.Offset > int64(at) {
		t.Fatalf("open: %v", err)
	}
}

package archive_test

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/archive"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/journal/memfs"
)

// archived is an archive with several bases and parts, and its files.
func archived(t *testing.T) (w *world, files []string) {
	w = newWorld(t, embedded.Options{})
	a := w.start(w.options())
	a.based()
	for range 4 {
		w.write(80)
		a.caughtUp()
	}
	a.stop()
	w.sound([2]int{0, 320})
	for _, dir := range []string{"archive", "archive/base", "archive/log"} {
		names, err := w.fs.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if name != "LOCK" {
				files = append(files, filepath.Join(dir, name))
			}
			if stem, ok := strings.CutSuffix(name, ".part"); ok {
				segments, err := w.fs.List(filepath.Join(dir, stem))
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range segments {
					files = append(files, filepath.Join(dir, stem, s))
				}
			}
		}
	}
	return w, files
}

// honest restores some positions of a damaged archive. Each must return the true state or
// an error. It returns the number of errors.
func (w *world) honest(fs *memfs.FS, what string) (refused int) {
	w.t.Helper()
	for range 4 {
		pos := engine.Position(w.rng.IntN(len(w.truth) + 1))
		sum, got, _, err := restore(fs, archive.AtPosition(pos))
		switch {
		case err != nil && !errors.Is(err, engine.ErrCorrupt) && !errors.Is(err, engine.ErrNotFound) && !errors.Is(err, engine.ErrFormatNewer):
			w.t.Fatalf("%s: restore %d: %v", what, pos, err)
		case err != nil:
			refused++
		case sum.Position != pos || !maps.Equal(got, w.state(pos)):
			w.t.Fatalf("%s: restore %d gave another state, at %d", what, pos, sum.Position)
		}
	}
	return refused
}

// TestBitFlips: no damage gives a wrong state, and none goes unnoticed.
func TestBitFlips(t *testing.T) {
	t.Parallel()
	w, files := archived(t)
	rounds := 100
	if testing.Short() {
		rounds = 40
	}
	noticed := 0
	for range rounds {
		fs := w.fs.Clone(1)
		file := files[w.rng.IntN(len(files))]
		data, err := fs.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		i := w.rng.IntN(len(data))
		unused := data[i] == 0 // perhaps behind the end of a log
		data[i] ^= 1 << w.rng.IntN(8)
		fs.WriteFile(file, data)
		refused := w.honest(fs, file)
		rep, err := archive.Check(fs, "archive", verify, nil)
		if err != nil || !rep.OK() || rep.TornBytes > 0 {
			noticed++
		} else if refused > 0 || !unused {
			t.Fatalf("%s, byte %d: check finds nothing, %d restores were refused", file, i, refused)
		}
	}
	if noticed < rounds/3 {
		t.Errorf("of %d bits flipped, %d were noticed: the test flips the wrong ones", rounds, noticed)
	}
}

// TestMissingAndShortFiles: a missing or truncated file gives no wrong state.
func TestMissingAndShortFiles(t *testing.T) {
	t.Parallel()
	w, files := archived(t)
	whole, err := archive.Check(w.fs, "archive", verify, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		gone := w.fs.Clone(1)
		if err := gone.Remove(file); err != nil {
			t.Fatal(err)
		}
		w.honest(gone, file+" gone")
		rep, err := archive.Check(gone, "archive", verify, nil)
		if err == nil && rep.OK() && rep.Bases == whole.Bases && len(rep.Ranges) == 1 && rep.Ranges[0] == whole.Ranges[0] && rep.Parts == whole.Parts {
			t.Errorf("%s is missing, and check reports no change", file)
		}
		short := w.fs.Clone(1)
		data, err := short.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		short.WriteFile(file, data[:w.rng.IntN(len(data))])
		w.honest(short, file+" cut")
		if filepath.Ext(file) == ".log" {
			continue // zeros may follow what a segment holds
		}
		longer := w.fs.Clone(1)
		longer.WriteFile(file, append(slices.Clone(data), 0))
		if rep, err := archive.Check(longer, "archive", verify, nil); !errors.Is(err, engine.ErrCorrupt) && rep.OK() {
			t.Errorf("%s has data after its end, and check reports no problem", file)
		}
	}
}

// damage changes a byte of the newest file with an ending, at an offset or in the middle
// if the file is shorter, and returns its name.
func (w *world) damage(files []string, ending string, offset int) (newest string) {
	w.t.Helper()
	for _, f := range files {
		if strings.HasSuffix(f, ending) {
			newest = max(newest, f)
		}
	}
	data, err := w.fs.ReadFile(newest)
	if err != nil {
		w.t.Fatal(err)
	}
	data[min(offset, len(data)/2)] ^= 1
	w.fs.WriteFile(newest, data)
	return newest
}

// TestDamageIsNamed: the error names file and offset, and its advice works: a damaged base
// is moved away and an older one is used.
func TestDamageIsNamed(t *testing.T) {
	t.Parallel()
	w, files := archived(t)
	newest := w.damage(files, ".base", 10_000)
	if _, _, plan, err := restore(w.fs, archive.Latest()); !errors.Is(err, engine.ErrCorrupt) || plan.BaseFile != newest {
		t.Errorf("restore from a damaged base: %v", err)
	}
	if rep, err := archive.Check(w.fs, "archive", verify, nil); err != nil || len(rep.Problems) != 1 || !strings.Contains(rep.Problems[0], newest) {
		t.Errorf("check of a damaged base: %v, %v", err, rep.Problems)
	}
	if err := w.fs.Remove(newest); err != nil {
		t.Fatal(err)
	}
	w.expect(archive.Latest(), 320)
}

// TestDamagedEnd: an archiver that finds a damaged end begins a new run after it.
func TestDamagedEnd(t *testing.T) {
	t.Parallel()
	w, files := archived(t)
	w.damage(files, ".log", 100) // in its header
	w.write(3)
	a := w.start(w.options())
	a.based()
	w.write(3)
	a.stop()
	w.expect(archive.Latest(), engine.Position(len(w.truth)))
	w.expect(archive.AtPosition(323), 323)
	if rep, err := archive.Check(w.fs, "archive", verify, nil); err != nil || rep.OK() {
		t.Errorf("check of the damaged part: %v, %+v", err, rep)
	}
}

func TestRefusedFolders(t *testing.T) {
	t.Parallel()
	w, _ := archived(t)
	a := w.start(w.options())
	if _, err := archive.Open("archive", w.options()); !errors.Is(err, engine.ErrLocked) {
		t.Errorf("a folder in use: %v", err)
	}
	a.stop()
	w.fs.WriteFile("other/file", []byte("x"))
	if _, err := archive.Open("other", w.options()); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("a folder with something in it: %v", err)
	}
	w.fs.WriteFile("mine/snap/1.snap", []byte("x"))
	if _, err := archive.Open("mine", w.options()); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("a data folder: %v", err)
	}
	if _, err := archive.Find(w.fs, "other", archive.Latest()); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("find in a folder that is no archive: %v", err)
	}
	o := w.options()
	o.Keep = -1
	if _, err := archive.Open("archive", o); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("a negative option: %v", err)
	}
	if _, err := archive.Open("archive", archive.Options{}); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("no Verify: %v", err)
	}
}

func TestParseTarget(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"latest": "latest", "0": "position 0", "42": "position 42",
		"2026-11-21T12:00:00Z": "2026-11-21T12:00:00Z", "2026-11-21T13:00:00.5+01:00": "2026-11-21T12:00:00.5Z",
		"": "!", "-1": "!", "yesterday": "!", "2026-11-21": "!", "99999999999999999999": "!",
	} {
		got, err := archive.ParseTarget(in)
		if want == "!" {
			if !errors.Is(err, engine.ErrInvalid) {
				t.Errorf("%q: %v, %v", in, got, err)
			}
		} else if err != nil || got.String() != want {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
}

package archive

import (
	"cmp"
	"slices"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
)

// Reach is what an archive can restore, by its names and heads. Check reads the contents.
type Reach struct {
	Spans     []Span // oldest first
	Bases     int
	BaseBytes int64
	Parts     int
	LogBytes  int64
	Problems  []string // of heads that cannot be read

	// Waiting is set if changes are archived that no base can be restored before: the first one, or the one after a gap, is being
	// taken.
	Waiting bool
}

// Span is a part of history without gaps, as far as names and heads say.
type Span struct {
	Range

	// Open says that more may follow To: the heads know the end of the last part only once another one begins.
	Open bool

	// Why says why there is a gap before the span; "": it is the first, or no reason is known.
	Why string
}

// ReachOf returns the reach of an archive, which may be in use. It reads no changes and no bases. To extend the newest span to the
// end that the archiver knows, pass its Status.
func ReachOf(fsys journal.FS, dir string, now Status) (r Reach, err error) {
	f, err := scan(orOS(fsys), dir, func(err error) { r.Problems = append(r.Problems, err.Error()) })
	if err != nil {
		return Reach{}, err
	}
	if err := r.sizes(f); err != nil {
		return Reach{}, err
	}
	last := -2 // the run of the span before
	runs := f.runs()
	for _, b := range f.bases {
		run := runOf(runs, b.pos)
		here := Point{b.pos, b.time.UTC()}
		if run != last || run < 0 {
			s := Span{Range: Range{here, here}}
			if run >= 0 {
				s.Open, s.Why = true, runs[run][0].Why
				s.To = end(runs[run], here)
			}
			if len(r.Spans) == 0 {
				s.Why = ""
			}
			r.Spans = append(r.Spans, s)
			last = run
			continue
		}
		if s := &r.Spans[len(r.Spans)-1]; s.To.Position < b.pos {
			s.To = here
		}
	}
	newest := len(runs) - 1
	r.Waiting = newest >= 0 && last != newest
	if n := len(r.Spans); n > 0 && newest >= 0 && last == newest {
		if s := &r.Spans[n-1]; now.Position >= s.To.Position && !now.Time.Before(s.To.Time) {
			s.To, s.Open = Point{now.Position, now.Time.UTC()}, false
		}
	}
	return r, nil
}

// sizes counts files and their bytes.
func (r *Reach) sizes(f folder) error {
	for _, b := range f.bases {
		n, err := fileSize(f.fs, b.path)
		if err != nil {
			return err
		}
		r.Bases, r.BaseBytes = r.Bases+1, r.BaseBytes+n
	}
	for _, p := range f.parts {
		n, err := f.logBytes(p)
		if err != nil {
			return err
		}
		r.Parts, r.LogBytes = r.Parts+1, r.LogBytes+n
	}
	return nil
}

// runs returns the parts as runs without gaps.
func (f *folder) runs() (all [][]part) {
	for i, p := range f.parts {
		if i == 0 || p.Begins {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], p)
	}
	return all
}

// runOf returns the index of the run that has, or would have, the change after pos; -1: none has it.
func runOf(runs [][]part, pos engine.Position) int {
	at, found := slices.BinarySearchFunc(runs, pos, func(run []part, pos engine.Position) int { return cmp.Compare(run[0].after(), pos) })
	if found {
		return at
	}
	return at - 1
}

// end returns the newest point of a run that a head names, or from if that is later.
func end(run []part, from Point) Point {
	for _, p := range slices.Backward(run) {
		if p.Sum == 0 { // its time is unknown
			continue
		}
		if p.after() > from.Position {
			return Point{p.after(), time.UnixMicro(p.Time).UTC()}
		}
		break
	}
	return from
}

package archive

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
)

// Range is a part of history without gaps: each position in it can be restored, and each
// time from From.Time on.
type Range struct {
	From Point `json:"from"`
	To   Point `json:"to"`
}

// Point is a position with its transaction's time.
type Point struct {
	Position engine.Position `json:"position"`
	Time     time.Time       `json:"time"`
}

// Report is the result of Check.
type Report struct {
	Ranges    []Range  `json:"ranges"` // oldest first
	Bases     int      `json:"bases"`
	BaseBytes int64    `json:"base_bytes"`
	Parts     int      `json:"parts"`
	LogBytes  int64    `json:"log_bytes"`
	TornBytes int64    `json:"torn_bytes"` // an unfinished write at the end: not damage
	Problems  []string `json:"problems"`
}

// OK reports whether nothing is damaged.
func (r *Report) OK() bool { return len(r.Problems) == 0 }

// Check reads every byte of an archive, which may be in use, and changes nothing.
// Report.Problems lists damage, each with its file. Check returns an error if the folder
// cannot be read at all. progress, if not nil, is called before each file or part is
// read.
func Check(fsys journal.FS, dir string, verify func(io.Reader) (Summary, error), progress func(string)) (Report, error) {
	if progress == nil {
		progress = func(string) {}
	}
	c := &checker{verify: verify, progress: progress, rep: Report{Ranges: []Range{}, Problems: []string{}}}
	f, err := scan(orOS(fsys), dir, func(err error) { c.problem(err) })
	if err != nil {
		return c.rep, err
	}
	c.f = f
	c.bases()
	c.log()
	return c.rep, nil
}

type checker struct {
	f        folder
	verify   func(io.Reader) (Summary, error)
	progress func(string)
	rep      Report
	whole    []baseFile // undamaged bases
}

func (c *checker) problem(err error) {
	c.rep.Problems = append(c.rep.Problems, err.Error())
}

func (c *checker) bases() {
	for _, b := range c.f.bases {
		c.progress(b.path)
		c.rep.Bases++
		if err := c.base(b); err != nil {
			c.problem(err)
		} else {
			c.whole = append(c.whole, b)
		}
	}
}

func (c *checker) base(b baseFile) error {
	file, err := c.f.fs.OpenFile(b.path, 0)
	if err != nil {
		return fileError("open base", err)
	}
	defer file.Close() // nothing is written through it
	size, err := file.Size()
	if err != nil {
		return fileError("read "+b.path, err)
	}
	c.rep.BaseBytes += size
	sum, err := c.verify(io.NewSectionReader(file, 0, math.MaxInt64))
	if err != nil {
		return fileError(b.path, err)
	}
	if name := baseName(c.f.dir, sum.Position, sum.Time); name != b.path {
		return engine.Errorf(engine.CodeCorrupt, "%s has the base %s", b.path, filepath.Base(name))
	}
	return nil
}

// log reads all parts, and finds the ranges that can be restored with the undamaged bases.
func (c *checker) log() {
	next := 0 // of the bases
	var at *Range
	end := func() {
		if at != nil {
			c.rep.Ranges = append(c.rep.Ranges, *at)
		}
		at = nil
	}
	// bases before or at a position begin a range, or lie in one
	reach := func(pos engine.Position) {
		for ; next < len(c.whole) && c.whole[next].pos <= pos; next++ {
			b := c.whole[next]
			if at != nil && b.pos <= at.To.Position {
				continue
			}
			end()
			here := Point{b.pos, b.time.UTC()}
			at = &Range{here, here}
		}
	}
	for i, p := range c.f.parts {
		c.progress(p.dir)
		c.rep.Parts++
		if p.Begins {
			if p.after() > 0 {
				reach(p.after() - 1)
			}
			end()
		}
		reach(p.after())
		r := &replay{fs: c.f.fs, next: p.after() + 1, time: time.UnixMicro(p.Time)}
		r.visit = func(ch engine.Change) bool {
			if at != nil && at.To.Position == ch.Pos-1 {
				at.To = Point{ch.Pos, ch.Time.UTC()}
			}
			reach(ch.Pos)
			return true
		}
		var follower *mark
		if i+1 < len(c.f.parts) && !c.f.parts[i+1].Begins {
			m := c.f.parts[i+1].mark()
			follower = &m
		}
		if err := r.part(p, follower); err != nil {
			c.problem(err)
			end()
		}
		c.rep.LogBytes += r.bytes
		for _, t := range r.torn {
			c.rep.TornBytes += t.Bytes
		}
	}
	reach(math.MaxUint64)
	end()
}

// String returns the range in a form for people.
func (r Range) String() string {
	return fmt.Sprintf("position %d (%s) to %d (%s)", r.From.Position, r.From.Time.Format(time.RFC3339Nano),
		r.To.Position, r.To.Time.Format(time.RFC3339Nano))
}

package archive

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/journal"
)

// Target is the state to restore.
type Target struct {
	pos   engine.Position // with kind byPosition
	at    time.Time       // with kind byTime
	kind  targetKind
	given string
}

type targetKind uint8

const (
	latest targetKind = iota
	byPosition
	byTime
)

// Latest returns the Target for the newest state in the archive.
func Latest() Target { return Target{given: "latest"} }

// AtPosition returns the Target for the state after the transaction with that position.
func AtPosition(pos engine.Position) Target {
	return Target{pos: pos, kind: byPosition, given: fmt.Sprintf("position %d", pos)}
}

// AtTime returns the Target for the state after the last transaction that is not later
// than t.
func AtTime(t time.Time) Target {
	return Target{at: t, kind: byTime, given: t.UTC().Format(time.RFC3339Nano)}
}

// ParseTarget parses "latest", a position, or a time like 2026-11-21T12:00:00Z.
func ParseTarget(s string) (Target, error) {
	if s == "latest" {
		return Latest(), nil
	}
	if n, err := strconv.ParseUint(s, 10, 64); err == nil {
		return AtPosition(engine.Position(n)), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return AtTime(t), nil
	}
	return Target{}, engine.Errorf(engine.CodeInvalid, "%q is not a valid target: use latest, a position, or a time like 2026-11-21T12:00:00Z", s)
}

func (t Target) String() string { return t.given }

// beyond reports whether c is after the target.
func (t Target) beyond(c engine.Change) bool {
	return t.kind == byPosition && c.Pos > t.pos || t.kind == byTime && c.Time.After(t.at)
}

// Plan is a plan to restore a target: a base, and the changes after it.
type Plan struct {
	Target   Target
	Base     engine.Position
	BaseTime time.Time
	BaseFile string

	// Note, once Changes has ended, is additional information for operators about the
	// restored state, or "".
	Note string

	f     folder
	base  baseFile
	parts []part
	gap   *part // which does not continue parts; nil: there is none
}

// Find plans a restore. It reads only names and heads; the files' contents are checked
// when they are read. The archive may be in use. If the target is not in the archive,
// the error is engine.ErrNotFound and names the positions that are.
func Find(fsys journal.FS, dir string, t Target) (*Plan, error) {
	f, err := scan(orOS(fsys), dir, nil)
	if err != nil {
		return nil, err
	}
	var base *baseFile
	for i := range f.bases {
		b := &f.bases[i]
		if t.kind == byPosition && b.pos > t.pos || t.kind == byTime && b.time.After(t.at) {
			break
		}
		base = b
	}
	switch {
	case len(f.bases) == 0:
		return nil, engine.Errorf(engine.CodeNotFound, "%s has no base yet, so nothing can be restored", dir)
	case base == nil:
		first := f.bases[0]
		return nil, engine.Errorf(engine.CodeNotFound, "%s is before the archive's oldest base, position %d of %s", t, first.pos, first.time.UTC().Format(time.RFC3339Nano))
	}
	p := &Plan{Target: t, Base: base.pos, BaseTime: base.time, BaseFile: base.path, f: f, base: *base}
	p.parts, p.gap = f.run(base.pos)
	return p, nil
}

// OpenBase opens the base. The caller closes it.
func (p *Plan) OpenBase() (io.ReadCloser, error) {
	file, err := p.f.fs.OpenFile(p.base.path, 0)
	if err != nil {
		return nil, fileError("open base", err)
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(file, 0, math.MaxInt64), file}, nil
}

// Bytes returns the size of the files that the restore may read.
func (p *Plan) Bytes() (int64, error) {
	sum, err := fileSize(p.f.fs, p.base.path)
	if err != nil {
		return 0, err
	}
	for _, one := range p.parts {
		n, err := p.f.logBytes(one)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// Changes yields the changes after the base up to the target. They may be kept. An error
// is the last value: engine.ErrCorrupt names a file that is damaged before the target,
// engine.ErrNotFound means that the archive does not have the target. Changes can be
// called once.
func (p *Plan) Changes() iter.Seq2[engine.Change, error] {
	return func(yield func(engine.Change, error) bool) {
		r := &replay{fs: p.f.fs, next: p.base.pos + 1, time: p.base.time}
		if p.Target.kind == byPosition && p.Target.pos == p.base.pos {
			return
		}
		r.visit = func(c engine.Change) bool {
			if p.Target.beyond(c) || !yield(c, nil) {
				return false
			}
			return p.Target.kind != byPosition || c.Pos < p.Target.pos
		}
		for i, part := range p.parts {
			var follower *mark
			if i+1 < len(p.parts) {
				m := p.parts[i+1].mark()
				follower = &m
			}
			if err := r.part(part, follower); err != nil {
				yield(engine.Change{}, err)
				return
			}
			if r.over {
				return
			}
		}
		if err := p.ended(r); err != nil {
			yield(engine.Change{}, err)
		}
	}
}

// ended handles changes that ended before the target: it returns an error or sets Note.
func (p *Plan) ended(r *replay) error {
	end := fmt.Sprintf("position %d of %s", r.next-1, r.time.UTC().Format(time.RFC3339Nano))
	switch {
	case p.Target.kind == latest && p.gap != nil:
		p.Note = fmt.Sprintf("the archive goes on after position %d, but has no base there yet", p.gap.After)
	case p.Target.kind == latest:
	case p.gap != nil:
		return engine.Errorf(engine.CodeNotFound, "%s is not in the archive: changes are missing between %s and position %d (%s)",
			p.Target, end, p.gap.After, cmp.Or(p.gap.Why, "no reason is known"))
	case p.Target.kind == byPosition:
		return engine.Errorf(engine.CodeNotFound, "%s is not in the archive, which ends at %s", p.Target, end)
	default:
		p.Note = fmt.Sprintf("the archive ends at %s: what was written between that and %s, if anything, is not in it", end, p.Target)
	}
	return nil
}

// replay reads changes in order, and checks that none is missing.
type replay struct {
	fs    journal.FS
	next  engine.Position // of the change to be visited next; earlier ones are skipped
	time  time.Time       // of the previous change
	visit func(engine.Change) bool
	over  bool // visit wants no more
	bytes int64
	torn  []journal.Cut
}

// triesAtEnd is how often a damaged newest part is read again: if the archive is in use,
// it may be a write in progress.
const triesAtEnd = 3

// part reads one part of the log. It must reach the start of the next part, if any.
func (r *replay) part(p part, follower *mark) error {
	for try := 1; ; try++ {
		problem, err := r.read(p)
		if err != nil || r.over {
			return err
		}
		if problem != nil {
			if follower == nil && try < triesAtEnd {
				continue
			}
			return engine.Errorf(engine.CodeCorrupt, "%s, offset %d: %s; it was read up to position %d", problem.File, problem.Offset, problem.Why, r.next-1)
		}
		if follower != nil && r.next <= follower.pos {
			return engine.Errorf(engine.CodeCorrupt, "%s ends after position %d, but the next part begins after %d: changes are missing", p.dir, r.next-1, follower.pos)
		}
		return nil
	}
}

// read visits the changes of a part that can be read, and returns the first problem.
func (r *replay) read(p part) (*journal.Problem, error) {
	want := p.after() + 1
	var stopped error
	rep, err := journal.VerifyRecords(r.fs, p.dir, nil, func(rec journal.Record) error {
		pos := engine.Position(rec.Index)
		if stopped != nil || r.over {
			return nil //nolint:nilerr // reported already
		}
		if pos != want {
			stopped = fmt.Errorf("the change at position %d comes after that at %d: changes are missing", pos, want-1)
			return stopped
		}
		want++
		if pos < r.next {
			return nil
		}
		c, err := parseRecord(pos, append([]byte(nil), rec.Data...))
		if err == nil && c.Time.Before(r.time) {
			err = fmt.Errorf("the change at position %d has an earlier time than the one before it", pos)
		}
		if err != nil {
			stopped = err
			return err
		}
		r.next, r.time = pos+1, c.Time
		r.over = !r.visit(c)
		return nil
	})
	if err != nil {
		return nil, fileError("read archive", err)
	}
	r.bytes += rep.Bytes
	r.torn = append(r.torn, rep.Torn...)
	if len(rep.Problems) > 0 {
		return &rep.Problems[0], nil
	}
	return nil, nil
}

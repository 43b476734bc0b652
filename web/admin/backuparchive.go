package admin

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/skerrydb/skerry/archive"
	"github.com/skerrydb/skerry/backups"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
)

// The bar of the archive's reach, in units of its own.
const (
	barWidth = 1000
	barLeast = 4   // width of the shortest span: it must be seen
	maxSpans = 200 // that are shown, the newest
)

// reachView is what the archive can restore, as the page shows it; nil: there is no archive.
type reachView struct {
	Dir      string
	Spans    []spanView
	From, To time.Time
	Reach    archive.Reach
	Left     int    // older spans that are not shown
	Problem  string // why it cannot be read
}

// spanView is a span with its place in the bar.
type spanView struct {
	archive.Span

	Begins   string
	X, Width float64
	First    string // positions
	Last     string
	Gap      time.Duration // before it
}

// knownTime returns the first time of spans that is known: before the first transaction there is none.
func knownTime(spans []archive.Span) time.Time {
	if spans[0].From.Position > 0 {
		return spans[0].From.Time
	}
	return spans[0].To.Time
}

func (a *Admin) reachView() *reachView {
	if a.o.Archive == nil {
		return nil
	}
	v := &reachView{Dir: a.o.Archive.Dir}
	var err error
	if v.Reach, err = a.o.Archive.Reach(); err != nil {
		v.Problem = err.Error()
		return v
	}
	spans := v.Reach.Spans
	v.Left = max(0, len(spans)-maxSpans)
	spans = spans[v.Left:]
	if len(spans) == 0 {
		return v
	}
	v.From, v.To = knownTime(spans), spans[len(spans)-1].To.Time
	whole := v.To.Sub(v.From).Seconds()
	place := func(at time.Time) float64 {
		if whole <= 0 {
			return 0
		}
		return max(0, at.Sub(v.From).Seconds()/whole*barWidth)
	}
	for i, s := range spans {
		one := spanView{Span: s, Begins: when(s.From.Time), X: place(s.From.Time), First: position(s.From.Position), Last: position(s.To.Position)}
		one.Width = max(place(s.To.Time)-one.X, barLeast)
		if whole <= 0 {
			one.Width = barWidth
		}
		if s.From.Position == 0 {
			one.Begins = a.text("the beginning")
		}
		one.X = min(one.X, barWidth-one.Width)
		if i > 0 {
			one.Gap = s.From.Time.Sub(spans[i-1].To.Time).Round(time.Second)
		}
		v.Spans = append(v.Spans, one)
	}
	return v
}

// verifyArchive reads every byte of the archive as a job.
func (a *Admin) verifyArchive(c *web.Context) error {
	if err := a.here(c); err != nil {
		return a.answer(c, "", err)
	}
	return a.answer(c, "begun", a.begin(c, actionArchiveCheck, actionArchiveSound, a.o.Archive.Dir, func(ctx context.Context, p *backups.Progress) (string, error) {
		rep, err := a.o.Archive.Check(ctx, p)
		if err != nil {
			return "", err
		}
		var ranges []string
		for _, r := range rep.Ranges {
			begins := when(r.From.Time)
			if r.From.Position == 0 {
				begins = a.text("the beginning")
			}
			ranges = append(ranges, a.text("%s to %s", begins, when(r.To.Time)))
		}
		if !rep.OK() {
			return "", engine.Errorf(engine.CodeCorrupt, "the archive is damaged: %s. What can be restored: %s", strings.Join(rep.Problems, "; "), strings.Join(ranges, ", "))
		}
		return a.text("verified: %s of bases, %s of changes; what can be restored: %s", byteText(rep.BaseBytes), byteText(rep.LogBytes), strings.Join(ranges, ", ")), nil
	}))
}

// restoreMoment restores the state of a moment into a new folder.
func (a *Admin) restoreMoment(c *web.Context) error {
	err := a.here(c)
	target, name := archive.Latest(), c.Form("name").String()
	if at := c.Form("at"); err == nil && at.String() != "" {
		t, wrong := timeOf(at)
		if wrong != nil {
			err = engine.Errorf(engine.CodeInvalid, "%q is not a time like 2026-11-21 12:00:00", shorten(at.String(), 100))
		}
		target = archive.AtTime(t)
	}
	var dir string
	if err == nil {
		dir, err = a.o.Backups.NewFolder(name)
	}
	if err != nil {
		return a.answer(c, "", err)
	}
	return a.answer(c, "begun", a.begin(c, actionAtRestore, actionAtRestored, target.String(), func(ctx context.Context, p *backups.Progress) (string, error) {
		sum, note, err := a.o.Archive.Restore(ctx, target, dir, p)
		if err != nil {
			return "", errors.Join(err, ctx.Err())
		}
		outcome := a.text("position %s of %s, %s keys, in %s", position(sum.Position), when(sum.Time), numberText(sum.Keys), dir)
		if note != "" {
			outcome += "; " + note
		}
		return outcome, nil
	}))
}

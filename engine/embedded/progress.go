package embedded

import (
	"log/slog"
	"time"
)

// progressEvery is how often a start that takes longer reports its progress.
const progressEvery = time.Second

// progress reports how far a start is to the operator.
type progress struct {
	log   *slog.Logger
	now   func() time.Time
	dir   string
	began time.Time // of the current part
	next  time.Time // when to report again
}

func newProgress(o Options, dir string) *progress {
	now := o.mono()
	return &progress{log: o.Logger, now: o.mono, dir: dir, began: now, next: now.Add(progressEvery)}
}

// part begins the next part of the start, and returns how long the last one took.
func (p *progress) part() time.Duration {
	before := p.began
	p.began = p.now()
	return p.began.Sub(before)
}

// at reports that done of all pairs or records have been read, which are bytes so far.
func (p *progress) at(doing, what string, done, all uint64, bytes int64) {
	now := p.now()
	if now.Before(p.next) {
		return
	}
	p.next = now.Add(progressEvery)
	p.log.Info(doing, "dir", p.dir, "percent", 100*done/max(all, 1), what, done,
		"mb_per_second", int64(float64(bytes)/1e6/max(now.Sub(p.began).Seconds(), 1e-3)))
}

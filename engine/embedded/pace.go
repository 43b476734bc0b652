package embedded

import (
	"io"
	"time"
)

// A snapshot in the background works in steps of paceBytes and pauses after each for
// pacePause times as long as the step took, but at most for longestPause, so that it
// takes a small part of the processors and the disk while there are writes. It pauses
// only as long as the step took if a recovery would already take longer than its target.
const (
	paceBytes    = 256 << 10
	pacePause    = 3
	longestPause = 4 * time.Millisecond
	idleAfter    = 100 * time.Millisecond // without a batch there are no writes
)

// pacer passes writes on and pauses. The zero values of its functions are not valid.
type pacer struct {
	w     io.Writer
	now   func() time.Time
	pause func(time.Duration)
	busy  func() bool // there are writes, and nobody waits for the snapshot
	late  func() bool // a recovery would take longer than its target

	began time.Time // of the step
	bytes int       // of the step
}

func (p *pacer) Write(b []byte) (int, error) {
	if p.bytes == 0 {
		p.began = p.now()
	}
	n, err := p.w.Write(b)
	if p.bytes += n; err != nil || p.bytes < paceBytes {
		return n, err
	}
	p.bytes = 0
	if p.busy() {
		d := p.now().Sub(p.began)
		if !p.late() {
			d *= pacePause
		}
		p.pause(min(d, longestPause))
	}
	return n, nil
}

// paced returns w with pauses for the writes of db. There are none once db closes.
func (db *DB) paced(w io.Writer) io.Writer {
	batches, wrote := db.counts.batches.Load(), db.opts.mono()
	return &pacer{
		w: w, now: db.opts.mono, late: db.saver.plan.late,
		busy: func() bool {
			if n := db.counts.batches.Load(); n != batches {
				batches, wrote = n, db.opts.mono()
			}
			return db.opts.mono().Sub(wrote) < idleAfter && db.saver.hurried.Load() == 0
		},
		pause: func(d time.Duration) {
			select {
			case <-db.saver.closing:
			case <-time.After(d):
			}
		},
	}
}

package embedded

import (
	"io"
	"time"
)

// A snapshot in the background works in steps of paceBytes, or of a piece, and pauses
// after each as long as the step took, but at most for longestPause: it takes half of a
// processor at most while there are writes.
const (
	paceBytes    = 256 << 10
	longestPause = 4 * time.Millisecond
	idleAfter    = 100 * time.Millisecond // without a batch there are no writes
)

// pacer pauses after steps of work. The zero values of its functions are not valid.
type pacer struct {
	now   func() time.Time
	pause func(time.Duration)
	busy  func() bool // there are writes, and nobody waits for the snapshot
}

// rest pauses after a step that took that long.
func (p *pacer) rest(took time.Duration) {
	if p.busy() {
		p.pause(min(took, longestPause))
	}
}

// pacedWriter passes writes on and pauses.
type pacedWriter struct {
	pacer
	w     io.Writer
	began time.Time // of the step
	bytes int       // of the step
}

func (p *pacedWriter) Write(b []byte) (int, error) {
	if p.bytes == 0 {
		p.began = p.now()
	}
	n, err := p.w.Write(b)
	if p.bytes += n; err != nil || p.bytes < paceBytes {
		return n, err
	}
	p.bytes = 0
	p.rest(p.now().Sub(p.began))
	return n, nil
}

// paced returns w with pauses for the writes of db.
func (db *DB) paced(w io.Writer) io.Writer { return &pacedWriter{pacer: db.newPacer(), w: w} }

// newPacer returns a pacer for the writes of db. There are no pauses once db closes.
func (db *DB) newPacer() pacer {
	batches, wrote := db.counts.batches.Load(), db.opts.mono()
	return pacer{
		now: db.opts.mono,
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

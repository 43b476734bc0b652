package files

import (
	"hash/maphash"
	"io"

	"github.com/skerrydb/skerry/engine"
)

// replay writes a file once, although the function that produces it may run more than
// once. A later run must begin with what an earlier one has written.
type replay struct {
	w    io.Writer
	err  error        // of w
	n    int64        // bytes that were written
	sum  maphash.Hash // of them
	at   int64        // where this run is
	mine maphash.Hash // of what it produced
}

func newReplay(w io.Writer) *replay {
	r := &replay{w: w}
	r.mine.SetSeed(r.sum.Seed())
	return r
}

// again begins another run.
func (r *replay) again() {
	r.at = 0
	r.mine.Reset()
}

// Write implements io.Writer.
func (r *replay) Write(p []byte) (int, error) {
	size := len(p)
	if r.at < r.n {
		old := p[:min(int64(len(p)), r.n-r.at)]
		_, _ = r.mine.Write(old) // never fails
		r.at += int64(len(old))
		p = p[len(old):]
		if err := r.end(); r.at == r.n && err != nil {
			return 0, err
		}
	}
	if r.err != nil {
		return 0, r.err
	}
	if len(p) == 0 {
		return size, nil
	}
	n, err := r.w.Write(p)
	r.n, r.at, r.err = r.n+int64(n), r.at+int64(n), err
	_, _ = r.sum.Write(p[:n]) // never fails
	_, _ = r.mine.Write(p[:n])
	return size, err
}

// end returns an error if the run has not produced what is written.
func (r *replay) end() error {
	if r.at != r.n || r.mine.Sum64() != r.sum.Sum64() {
		return engine.Errorf(engine.CodeConflict, "the export had to begin again and the graph has changed; export it again")
	}
	return nil
}

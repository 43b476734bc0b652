package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/skerrydb/skerry/cli/verb"
)

// progressPause is how long a terminal shows one state before the next.
const progressPause = 100 * time.Millisecond

// progress shows on a terminal how far a verb is, in one line that it rewrites.
type progress struct {
	to   io.Writer // nil: shows nothing
	next time.Time // when the line may change; zero: there is no line
}

// newProgress returns a progress on standard error if that is a terminal.
func newProgress(p verb.Process) *progress {
	if !verb.Terminal(p.Stderr) {
		return &progress{}
	}
	return &progress{to: p.Stderr}
}

// show shows a state, unless the last one is too new.
func (p *progress) show(format string, args ...any) {
	if p.to == nil || time.Now().Before(p.next) {
		return
	}
	p.next = time.Now().Add(progressPause)
	fmt.Fprintf(p.to, "\r"+format+eraseRest, args...)
}

// eraseRest erases the rest of the line of a terminal: the escape sequence EL.
const eraseRest = "\x1b[K"

// end removes the line.
func (p *progress) end() {
	if !p.next.IsZero() {
		fmt.Fprint(p.to, "\r"+eraseRest)
		p.next = time.Time{}
	}
}

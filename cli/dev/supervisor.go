package dev

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skerrydb/skerry/cli/cluster"
	"github.com/skerrydb/skerry/cli/serve"
	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine/embedded"
)

// Times of the processes of `skerry dev`.
const (
	firstPause   = 200 * time.Millisecond // before a failed node starts again; doubled each time
	longestPause = 5 * time.Second
	settled      = 10 * time.Second // after running this long, the pauses start over
	stopWait     = 20 * time.Second // for a clean stop; then the process is killed
	maxFailures  = 5                // consecutive failures of a node that never served
)

// maxLogLine bounds one line of a node that is shown; the rest is dropped.
const maxLogLine = 64 << 10

// callbacks are the hooks of a supervisor.
type callbacks struct {
	// command returns the file and the arguments of a node's process.
	command func(n Node) (file string, args []string)

	// up is called with the announcement of a node that listens; down when it has ended, or is about to end
	// because of restart.
	up   func(n Node, a serve.Announcement)
	down func(n Node)

	// failed is called for a node that ended before it listened. waits reports whether the node waits for
	// restart or wake, because it ended twice in the same way. If failed is nil, several such failures in a row
	// stop all nodes.
	failed func(n Node, words string, waits bool)

	lines bool // show everything that the nodes print
	alone bool // there is only one node, whose lines need no name
}

// supervisor runs the processes of several nodes and restarts those that end.
type supervisor struct {
	p         verb.Process
	callbacks callbacks
	ctx       context.Context // ends when all nodes must stop
	cancel    context.CancelFunc
	running   sync.WaitGroup
	failed    chan error // a node that cannot be started

	mu      sync.Mutex            // guards what follows, and the output
	again   map[int]chan struct{} // by node: the signal to restart it
	failing map[int]bool          // by node: it ended before it served, and has not served since
}

func newSupervisor(p verb.Process, k callbacks) *supervisor {
	r := &supervisor{p: p, callbacks: k, failed: make(chan error, embedded.MaxNodes), again: map[int]chan struct{}{}, failing: map[int]bool{}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

func (r *supervisor) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.again)
}

// say prints a line about a node.
func (r *supervisor) say(n Node, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := r.p.Paint(r.p.Stderr, verb.Cyan, fmt.Sprintf("n%d |", n.ID)) + " "
	if r.callbacks.alone {
		name = ""
	}
	fmt.Fprintf(r.p.Stderr, "%s%s\n", name, paintLog(r.p, r.p.Stderr, fmt.Sprintf(format, args...)))
}

// paintLog paints a line of a program's log by its level.
func paintLog(p verb.Process, w io.Writer, line string) string {
	switch {
	case strings.Contains(line, " level=ERROR ") || strings.Contains(line, `"level":"ERROR"`):
		return p.Paint(w, verb.Red, line)
	case strings.Contains(line, " level=WARN ") || strings.Contains(line, `"level":"WARN"`):
		return p.Paint(w, verb.Yellow, line)
	}
	return line
}

// start keeps a node running in the background.
func (r *supervisor) start(n Node) {
	again := make(chan struct{}, 1)
	r.mu.Lock()
	r.again[n.ID] = again
	r.mu.Unlock()
	r.running.Go(func() { r.keep(n, again) })
}

// restart stops all nodes cleanly and starts each again once it has ended, including those that have already
// ended.
func (r *supervisor) restart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, again := range r.again {
		signal(again)
	}
}

// wake restarts nodes that ended before they served. It reports whether there are any.
func (r *supervisor) wake() (some bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.failing {
		signal(r.again[id])
		some = true
	}
	return some
}

func signal(again chan<- struct{}) {
	select {
	case again <- struct{}{}:
	default: // it has not come to the last one yet
	}
}

// stop stops all nodes cleanly and waits until they have ended.
func (r *supervisor) stop() {
	r.cancel()
	r.running.Wait()
}

// keep runs a node repeatedly.
func (r *supervisor) keep(n Node, again <-chan struct{}) {
	// The kernel ends a child with the thread that started it (parentDeath), so this thread must run nothing
	// else and live as long as the child.
	runtime.LockOSThread()
	pause, failures, last := firstPause, 0, ""
	for {
		began := time.Now()
		end := r.once(n, again)
		switch {
		case r.ctx.Err() != nil:
			return
		case end.wanted:
			pause, failures = firstPause, 0
			continue
		case end.served:
			failures = 0
		default:
			failures++
		}
		if r.callbacks.down != nil {
			r.callbacks.down(n)
		}
		waits := false
		if !end.served && r.callbacks.failed != nil {
			how := withoutNumbers(end.why + "\n" + end.words)
			waits = failures > 1 && how == last
			last, pause = how, longestPause // it most likely needs a change
			r.fails(n, end.words, waits)
		} else if failures == maxFailures {
			r.failed <- fmt.Errorf("node %d does not start: %s", n.ID, end.why)
			return
		}
		if time.Since(began) > settled {
			pause = firstPause
		}
		var later <-chan time.Time // never
		if waits {
			r.say(n, "exited: %s; waiting for a change", end.why)
		} else {
			later = time.After(pause)
			r.say(n, "exited: %s; restarting in %v", end.why, pause)
		}
		select {
		case <-later:
		case <-again:
			pause, failures = firstPause, 0
			continue
		case <-r.ctx.Done():
			return
		}
		pause = min(2*pause, longestPause)
	}
}

// fails records and reports that a node ended before it served.
func (r *supervisor) fails(n Node, words string, waits bool) {
	r.mu.Lock()
	r.failing[n.ID] = true
	r.mu.Unlock()
	r.callbacks.failed(n, words, waits)
}

var number = regexp.MustCompile(`0x[0-9a-f]+|[0-9]+`)

// withoutNumbers returns what a process printed without times, addresses and process ids.
func withoutNumbers(words string) string { return number.ReplaceAllString(words, "0") }

// ending is how a process ended.
type ending struct {
	served bool   // whether it had begun to serve
	wanted bool   // by restart
	why    string // a short reason
	words  string // the last that it printed
}

// once runs a node until it ends.
func (r *supervisor) once(n Node, again <-chan struct{}) (end ending) {
	file, args := r.callbacks.command(n)
	cmd := exec.Command(file, args...)
	cmd.Env = ownSettings(r.p.Environ)
	parentDeath(cmd)
	stdin, err := cmd.StdinPipe() // the node stops when this process is gone, for any reason
	if err != nil {
		return ending{why: err.Error()}
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return ending{why: err.Error()}
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return ending{why: err.Error()}
	}
	if err := cmd.Start(); err != nil {
		return ending{why: err.Error(), words: err.Error()}
	}
	var last string
	var words tail
	var reading sync.WaitGroup
	reading.Go(func() {
		eachLine(stdout, func(line string) {
			if !end.served {
				end.served = true
				r.listens(n, line)
			} else if r.callbacks.lines {
				r.say(n, "%s", line)
			}
		})
	})
	reading.Go(func() {
		eachLine(stderr, func(line string) { last = r.heard(n, line, last); words.add(line) })
	})
	gone := make(chan struct{})
	stopped := make(chan bool)
	go func() { stopped <- r.stopper(n, cmd, stdin, again, gone) }()
	reading.Wait()
	err = cmd.Wait()
	close(gone)
	end.wanted = <-stopped
	end.why, end.words = outcome(err), words.String()
	if last != "" {
		end.why = last
	}
	return end
}

// stopper stops a process cleanly when all nodes must stop or this one must restart, and kills it if that
// takes too long. Once the process has ended, it returns whether it must restart.
func (r *supervisor) stopper(n Node, cmd *exec.Cmd, stdin io.Closer, again, gone <-chan struct{}) (wanted bool) {
	select {
	case <-gone:
		return false
	case <-r.ctx.Done():
	case <-again:
		wanted = true
		if r.callbacks.down != nil {
			r.callbacks.down(n)
		}
	}
	stdin.Close()
	select {
	case <-gone:
	case <-time.After(stopWait):
		_ = cmd.Process.Kill() // an error means that it has ended
		<-gone
	}
	return wanted
}

// listens passes on the announcement of a node that begins to serve.
func (r *supervisor) listens(n Node, line string) {
	var a serve.Announcement
	if err := json.Unmarshal([]byte(line), &a); err != nil {
		r.say(n, "%s", line)
		return
	}
	r.mu.Lock()
	delete(r.failing, n.ID)
	r.mu.Unlock()
	if r.callbacks.up != nil {
		r.callbacks.up(n, a)
	}
}

// maxTail is how many of a process's last lines are kept.
const maxTail = 100

// tail keeps the last lines.
type tail []string

func (t *tail) add(line string) {
	*t = append(*t, line)
	if len(*t) > maxTail {
		*t = slices.Delete(*t, 0, 1)
	}
}

func (t tail) String() string { return strings.Join(t, "\n") }

// outcome describes how a process ended.
func outcome(err error) string {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.String()
	}
	if err != nil {
		return err.Error()
	}
	return "it exited by itself"
}

// heard shows a log line of a node, if that is wanted. It returns the node's last words: what it printed when
// it could not go on.
func (r *supervisor) heard(n Node, line, last string) string {
	// Another node's end is no news here, because it is restarted.
	name, words, ok := strings.Cut(line, " serve: ")
	if ok = ok && !strings.Contains(name, " "); ok && !r.callbacks.lines {
		return words
	}
	if r.callbacks.lines || !strings.Contains(line, " level=") || strings.Contains(line, " level=ERROR ") {
		r.say(n, "%s", line)
	}
	if ok {
		return words
	}
	return last
}

// eachLine calls fn for every line of r, cut at maxLogLine.
func eachLine(r io.Reader, fn func(string)) {
	br := bufio.NewReaderSize(r, maxLogLine)
	for {
		line, more, err := br.ReadLine()
		if err != nil {
			return
		}
		fn(string(line))
		for more && err == nil {
			_, more, err = br.ReadLine()
		}
	}
}

// ownSettings returns the environment without settings: the nodes get theirs as flags.
func ownSettings(environ []string) (env []string) {
	for _, v := range environ {
		if !strings.HasPrefix(v, verb.EnvPrefix) || strings.HasPrefix(v, verb.EnvPrefix+"TEST_") {
			env = append(env, v)
		}
	}
	return env
}

// watchEvery is how often the leader is checked.
const watchEvery = 500 * time.Millisecond

// watch reports changes of the leader until ctx ends or a node cannot be started.
func (r *supervisor) watch(ctx context.Context, a *embedded.Admin, leader uint64) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-r.failed:
			return err
		case <-time.After(watchEvery):
		}
		ask, cancel := context.WithTimeout(ctx, cluster.AskWait)
		now := cluster.LeaderOf(a.Ask(ask))
		cancel()
		if now == leader || ctx.Err() != nil {
			continue
		}
		r.mu.Lock()
		if now != 0 {
			fmt.Fprintf(r.p.Stderr, "node %d leads\n", now)
		} else {
			fmt.Fprintln(r.p.Stderr, "no node leads")
		}
		r.mu.Unlock()
		leader = now
	}
}

package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/skerrydb/skerry/engine/embedded"
)

// Times of the processes that `skerry dev` starts.
const (
	firstPause   = 200 * time.Millisecond // before a node that ended is started again; doubled each time
	longestPause = 5 * time.Second
	settled      = 10 * time.Second // after so long the pauses begin anew
	stopWait     = 20 * time.Second // for a clean end; then it is killed
	maxFailures  = 5                // in a row, of a node that never got to serve
)

// maxLogLine bounds one line of a node that is shown; the rest is left out.
const maxLogLine = 64 << 10

// nursery runs the processes of several nodes, all of this program, and starts again what ends.
type nursery struct {
	p        process
	o        *devOptions
	ctx      context.Context // ends when all are to stop
	cancel   context.CancelFunc
	running  sync.WaitGroup
	hopeless chan error // a node that cannot be started

	mu    sync.Mutex // guards what follows, and the output
	nodes int
}

func newNursery(p process, o *devOptions) *nursery {
	r := &nursery{p: p, o: o, hopeless: make(chan error, embedded.MaxNodes)}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

func (r *nursery) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.nodes
}

// say prints a line about a node.
func (r *nursery) say(n devNode, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.p.Stderr, "n%d | %s\n", n.ID, fmt.Sprintf(format, args...))
}

// start keeps a node running in the background.
func (r *nursery) start(n devNode) {
	r.mu.Lock()
	r.nodes++
	r.mu.Unlock()
	r.running.Go(func() { r.keep(n) })
}

// stop ends all nodes cleanly and waits until they have ended.
func (r *nursery) stop() {
	r.cancel()
	r.running.Wait()
}

// keep runs a node again and again.
func (r *nursery) keep(n devNode) {
	// The kernel ends a child with the thread that started it (parentDeath), so
	// that has to be this one's alone and to live as long as the child.
	runtime.LockOSThread()
	pause, failures := firstPause, 0
	for {
		began := time.Now()
		served, why := r.once(n)
		if r.ctx.Err() != nil {
			return
		}
		if failures++; served {
			failures = 0
		}
		if failures == maxFailures {
			r.hopeless <- fmt.Errorf("node %d does not start: %s", n.ID, why)
			return
		}
		if time.Since(began) > settled {
			pause = firstPause
		}
		r.say(n, "ended: %s; it is started again in %v", why, pause)
		select {
		case <-time.After(pause):
		case <-r.ctx.Done():
			return
		}
		pause = min(2*pause, longestPause)
	}
}

// once runs a node until it ends, and says how it ended and whether it had got as
// far as serving.
func (r *nursery) once(n devNode) (served bool, why string) {
	self, err := os.Executable()
	if err != nil {
		return false, err.Error()
	}
	cmd := exec.Command(self, "serve", "--data", n.Dir, "--http", n.HTTP, "--resp", n.RESP, "--node", n.Addr,
		"--memory", strconv.FormatInt(r.o.memory, 10)+"B", "--while-stdin", "--json")
	if n.Join != "" {
		cmd.Args = append(cmd.Args, "--join", n.Join)
	}
	cmd.Env = ownSettings(r.p.Environ)
	parentDeath(cmd)
	stdin, err := cmd.StdinPipe() // the node stops when this process is gone, however that happens
	if err != nil {
		return false, err.Error()
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return false, err.Error()
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return false, err.Error()
	}
	if err := cmd.Start(); err != nil {
		return false, err.Error()
	}
	last := ""
	var reading sync.WaitGroup
	reading.Go(func() {
		eachLine(stdout, func(string) { served = true })
	})
	reading.Go(func() {
		eachLine(stderr, func(line string) { last = r.heard(n, line, last) })
	})
	ended := context.AfterFunc(r.ctx, func() { stdin.Close() })
	kill := time.AfterFunc(1<<62, func() { _ = cmd.Process.Kill() })
	late := context.AfterFunc(r.ctx, func() { kill.Reset(stopWait) })
	reading.Wait()
	err = cmd.Wait()
	ended()
	late()
	kill.Stop()
	if last != "" {
		return served, last
	}
	return served, outcome(err)
}

// outcome says how a process ended.
func outcome(err error) string {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.String()
	}
	if err != nil {
		return err.Error()
	}
	return "it stopped by itself"
}

// heard shows a line that a node has logged, if it is wanted. It returns the
// node's last words: what it said when it could not go on.
func (r *nursery) heard(n devNode, line, last string) string {
	if words, ok := strings.CutPrefix(line, r.p.app.Name+" serve: "); ok {
		return words
	}
	// That another node is gone is no news here, where it is started again.
	if r.o.verbose || !strings.Contains(line, " level=") || strings.Contains(line, " level=ERROR ") {
		r.say(n, "%s", line)
	}
	return last
}

// eachLine calls fn for every line of r, which are cut at maxLogLine.
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

// ownSettings is the environment without settings: the nodes get theirs as flags.
func ownSettings(environ []string) (env []string) {
	for _, v := range environ {
		if !strings.HasPrefix(v, envPrefix) || strings.HasPrefix(v, envPrefix+"TEST_") {
			env = append(env, v)
		}
	}
	return env
}

// watchEvery is how often it is looked whether another node leads.
const watchEvery = 500 * time.Millisecond

// watch tells who leads until ctx ends or a node is hopeless.
func (r *nursery) watch(ctx context.Context, a *embedded.Admin, leader uint64) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-r.hopeless:
			return err
		case <-time.After(watchEvery):
		}
		ask, cancel := context.WithTimeout(ctx, askWait)
		now := leaderOf(a.Ask(ask))
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

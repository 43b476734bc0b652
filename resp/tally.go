package resp

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// tallies is the number of copies of the command statistics, so that connections rarely
// share one.
const tallies = 8

// tally contains the statistics of some of the connections.
type tally struct {
	commands []commandTally // by command.index; 0 is for commands that are not counted
	counts

	_ [64]byte // padding: tallies share no cache line
}

// counts are the counters that every connection updates all the time.
type counts struct {
	processed     atomic.Int64 // commands
	hits, misses  atomic.Int64
	netIn, netOut atomic.Int64 // bytes
	reads, writes atomic.Int64 // of sockets
}

// each calls fn for each pair of counters.
func (n *counts) each(other *counts, fn func(n, other *atomic.Int64)) {
	fn(&n.processed, &other.processed)
	fn(&n.hits, &other.hits)
	fn(&n.misses, &other.misses)
	fn(&n.netIn, &other.netIn)
	fn(&n.netOut, &other.netOut)
	fn(&n.reads, &other.reads)
	fn(&n.writes, &other.writes)
}

// counted returns the sums over all connections.
func (s *Server) counted() *counts {
	var sum counts
	for i := range s.tallies {
		sum.each(&s.tallies[i].counts, func(n, other *atomic.Int64) { n.Add(other.Load()) })
	}
	return &sum
}

// commandTally counts one command.
type commandTally struct {
	calls, nanos     atomic.Int64
	rejected, failed atomic.Int64
}

// initTallies numbers the commands and allocates their counters.
func (s *Server) initTallies() {
	n := 0
	for _, name := range s.names() {
		c := s.table[name]
		n++
		c.index = n
		for i := range c.subs {
			n++
			c.subs[i].index = n
		}
	}
	for i := range s.tallies {
		s.tallies[i].commands = make([]commandTally, n+1)
	}
}

// tally returns the tally of the connection.
func (c *conn) tally() *tally { return &c.srv.tallies[uint64(c.id)%tallies] }

// rejected counts a command that is not run.
func (c *conn) rejected(cmd *command, text string) {
	c.srv.erred(text)
	if cmd != nil {
		c.tally().commands[cmd.index].rejected.Add(1)
	}
}

// failed counts a command whose reply is an error.
func (c *conn) failed(cmd *command, text string) {
	c.srv.erred(text)
	c.tally().commands[cmd.index].failed.Add(1)
}

// errorTally counts error replies by their first word. There are few, because all texts
// begin with words of this package.
type errorTally struct {
	mu     sync.Mutex // guards the field below
	byWord map[string]int64
}

// erred counts an error reply.
func (s *Server) erred(text string) {
	s.stats.errors.Add(1)
	word, _, _ := strings.Cut(text, " ")
	s.errorTally.mu.Lock()
	defer s.errorTally.mu.Unlock()
	if s.errorTally.byWord == nil {
		s.errorTally.byWord = map[string]int64{}
	}
	s.errorTally.byWord[word]++
}

// resetTallies resets the counters.
func (s *Server) resetTallies() {
	for i := range s.tallies {
		t := &s.tallies[i]
		t.each(&t.counts, func(n, _ *atomic.Int64) { n.Store(0) })
		for j := range t.commands {
			c := &t.commands[j]
			c.calls.Store(0)
			c.nanos.Store(0)
			c.rejected.Store(0)
			c.failed.Store(0)
		}
	}
	s.errorTally.mu.Lock()
	s.errorTally.byWord = nil
	s.errorTally.mu.Unlock()
}

// infoCommandStats is the section of INFO about the commands that ran on this node.
// Commands that were forwarded are counted on the other node.
func infoCommandStats(x *call) ([]string, error) {
	var lines []string
	for _, name := range x.srv.names() {
		c := x.srv.table[name]
		lines = x.srv.appendStats(lines, c)
		for i := range c.subs {
			lines = x.srv.appendStats(lines, &c.subs[i])
		}
	}
	return lines, nil
}

func (s *Server) appendStats(lines []string, c *command) []string {
	var calls, nanos, rejected, failed int64
	for i := range s.tallies {
		t := &s.tallies[i].commands[c.index]
		calls += t.calls.Load()
		nanos += t.nanos.Load()
		rejected += t.rejected.Load()
		failed += t.failed.Load()
	}
	if calls+rejected+failed == 0 {
		return lines
	}
	each := 0.0
	if calls > 0 {
		each = float64(nanos) / 1e3 / float64(calls)
	}
	return append(lines, fmt.Sprintf("cmdstat_%s:calls=%d,usec=%d,usec_per_call=%.2f,rejected_calls=%d,failed_calls=%d",
		c.name, calls, nanos/1e3, each, rejected, failed))
}

func infoErrorStats(x *call) ([]string, error) {
	t := &x.srv.errorTally
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for word, n := range t.byWord {
		lines = append(lines, fmt.Sprintf("errorstat_%s:count=%d", word, n))
	}
	slices.Sort(lines)
	return lines, nil
}

// stopwatch measures how long commands run. Reading the clock costs as much as a short
// command, so consecutive commands with the same name and constant cost are measured
// together.
type stopwatch struct {
	cmd   *command // being measured; nil: none
	args  [][]byte // of the first one
	calls int64
	since time.Duration // since the server's start

	together bool // the next call may be measured together with this one
}

// lightArgs is the maximum number of words of a command whose cost is considered constant.
const lightArgs = 8

// clock returns the time since the server's start.
func (s *Server) clock() time.Duration { return time.Since(s.started) }

// begin starts to measure a call, and ends the previous measurement.
func (w *stopwatch) begin(c *conn, cmd *command, args [][]byte) {
	if w.cmd == cmd && w.together && len(args) <= lightArgs {
		w.calls++
		return
	}
	w.start(c, cmd, args) // separate, so that begin can be inlined
}

func (w *stopwatch) start(c *conn, cmd *command, args [][]byte) {
	now := c.srv.clock()
	w.lap(c, now)
	*w = stopwatch{cmd, args, 1, now, cmd.flags&flagLight != 0 && len(args) <= lightArgs && !c.srv.slow.each()}
}

// ran ends the measurement if it covers a single call.
func (w *stopwatch) ran(c *conn) {
	if w.cmd != nil && !w.together {
		w.end(c)
	}
}

// end ends the measurement.
func (w *stopwatch) end(c *conn) {
	if w.cmd != nil {
		w.lap(c, c.srv.clock())
	}
}

// drop counts the calls without their time, which is unknown.
func (w *stopwatch) drop(c *conn) { w.lap(c, w.since) }

func (w *stopwatch) lap(c *conn, now time.Duration) {
	if w.cmd == nil {
		return
	}
	took := now - w.since
	t := &c.tally().commands[w.cmd.index]
	t.calls.Add(w.calls)
	t.nanos.Add(int64(took))
	if w.calls == 1 {
		c.srv.slow.ran(c, w.cmd, w.args, took)
	}
	w.cmd, w.args = nil, nil
}

// plainRun is consecutive calls of one plain command, such as PING. For every plainEvery
// runs, the first call of one is measured as a sample for the others.
type plainRun struct {
	cmd   *command
	calls int64

	last *command // the command measured last
	took time.Duration
	uses int // number of runs that the sample has been used for
}

// plainEvery is the number of runs per sample.
const plainEvery = 16

// end counts the calls.
func (r *plainRun) end(c *conn) {
	if r.cmd != nil {
		t := &c.tally().commands[r.cmd.index]
		t.calls.Add(r.calls)
		t.nanos.Add(r.calls * int64(r.took))
		r.cmd = nil
	}
}

// measured runs and counts c.x, a plain command.
func (c *conn) measured(start int) {
	r, cmd := &c.plain, c.x.cmd
	if cmd.flags&flagLight == 0 || c.srv.slow.each() {
		c.watch.begin(c, cmd, c.x.args)
		c.invoke(start)
		c.watch.end(c)
		return
	}
	if r.cmd == cmd {
		r.calls++
		c.invoke(start)
		return
	}
	r.end(c)
	r.cmd, r.calls = cmd, 1
	if r.uses++; r.last == cmd && r.uses < plainEvery {
		c.invoke(start)
		return
	}
	before := c.srv.clock()
	c.invoke(start)
	r.last, r.took, r.uses = cmd, c.srv.clock()-before, 0
}

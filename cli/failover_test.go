package cli

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skerrydb/skerry/cli/verb"
)

// clusterWriter counts up the value of one key over a connection to one node,
// and goes on over errors, which say that nothing is certain.
type clusterWriter struct {
	key          string
	node         *server
	stop         chan struct{}
	acked, sent  int
	longest      time.Duration // between two that were acknowledged
	failed, lost int           // answers that were errors; connections that broke
}

func (w *clusterWriter) run() {
	var c net.Conn
	var r *bufio.Reader
	last := time.Now()
	for {
		select {
		case <-w.stop:
			if c != nil {
				c.Close()
			}
			return
		default:
		}
		if c == nil {
			var err error
			if c, err = net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", w.node.respPort()), time.Second); err != nil {
				c = nil
				time.Sleep(10 * time.Millisecond)
				continue
			}
			r = bufio.NewReader(c)
		}
		w.sent++
		c.SetDeadline(time.Now().Add(clusterWait))
		reply := ""
		_, err := fmt.Fprintf(c, "SET %s %d\r\n", w.key, w.sent)
		if err == nil {
			reply, err = r.ReadString('\n')
		}
		switch {
		case err != nil:
			c.Close()
			c = nil
			w.lost++
		case reply == "+OK\r\n":
			w.acked = w.sent
			w.longest = max(w.longest, time.Since(last))
			last = time.Now()
		default:
			w.failed++
		}
	}
}

// load writes through every node but those that are left out.
func (c *nodes) load(without int) (ws []*clusterWriter, end func()) {
	var running sync.WaitGroup
	stop := make(chan struct{})
	for id, p := range c.proc {
		if p == nil || id == without {
			continue
		}
		for k := range 4 {
			w := &clusterWriter{key: fmt.Sprintf("w%d.%d", id, k), node: p, stop: stop}
			ws = append(ws, w)
			running.Go(w.run)
		}
	}
	return ws, func() { close(stop); running.Wait() }
}

// expectAcked checks that no acknowledged write is gone, at any node.
func (c *nodes) expectAcked(ws []*clusterWriter) {
	c.s.t.Helper()
	for _, w := range ws {
		if w.acked == 0 {
			c.s.t.Errorf("%s: nothing was acknowledged", w.key)
		}
		for id, p := range c.proc {
			if p == nil || p.ended() {
				continue
			}
			got := p.ask("GET " + w.key)
			n, err := strconv.Atoi(got)
			if err != nil || n < w.acked || n > w.sent {
				c.s.t.Errorf("node %d: %s is %q; %d was acknowledged and %d was sent", id, w.key, got, w.acked, w.sent)
			}
		}
	}
}

// TestLeaderIsKilled: writes go on elsewhere soon, nothing acknowledged is gone,
// and the killed one comes back and catches up.
func TestLeaderIsKilled(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 3)
	const bound = 10 * time.Second // 2 s on a machine with nothing else to do
	for range 2 {
		led := c.leader()
		ws, end := c.load(led)
		c.await("a load", func() bool { return c.proc[c.other(led)].ask("GET "+ws[0].key) != "$-1" })
		c.proc[led].kill()
		took := c.set(c.other(led), "after", "kill")
		end()
		t.Logf("node %d was killed; a write was acknowledged after %v", led, took.Round(time.Millisecond))
		if took > bound {
			t.Errorf("writes went on after %v, at most %v", took, bound)
		}
		c.leader()
		c.expectAcked(ws)
		c.restart(led)
		c.leader()
		c.expectAcked(ws)
	}
}

// TestLeaderStops: a leader that is stopped cleanly hands over first. Nothing
// fails at the other nodes, and writes wait for a moment only.
func TestLeaderStops(t *testing.T) {
	t.Parallel()
	c := newNodes(t, 3)
	led := c.leader()
	others, end := c.load(led)
	c.await("a load", func() bool { return c.proc[led].ask("GET "+others[0].key) != "$-1" })
	if code := c.proc[led].stop(syscall.SIGTERM); code != verb.ExitOK {
		t.Errorf("exit code %d\n%s", code, c.proc[led].log())
	}
	c.set(c.other(led), "after", "stop")
	end()
	c.leader()
	c.expectAcked(others)
	longest := time.Duration(0)
	for _, w := range others {
		longest = max(longest, w.longest)
		if w.failed+w.lost > 0 {
			t.Errorf("%s: %d errors, %d broken connections at a node that went on", w.key, w.failed, w.lost)
		}
	}
	t.Logf("the longest pause between two writes was %v", longest.Round(time.Millisecond))
	if log := c.proc[led].log(); strings.Contains(log, "cut off") {
		t.Errorf("requests were cut off:\n%s", log)
	}
	c.restart(led)
	c.leader()
	c.expectAcked(others)
}

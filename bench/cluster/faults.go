package main

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
	"github.com/skerrydb/skerry/bench/rig/trio"
)

// faults are the measurements while nodes fail and return.
type faults struct {
	kill, handOver []float64 // longest time without an acknowledged write, s
	lost           int       // of the acknowledged writes that were read back
	catchUp        []behind
}

// behind is one follower that was away and returned.
type behind struct {
	bulk, took   time.Duration // time to write what it missed; time until it caught up
	before, then lag
	frozen       bool // not killed
}

// lag is the performance of writes over a period.
type lag struct{ rate, p50, p99, max, gap float64 } // a second; ms

func lagOf(w *writers, from, to time.Duration) lag {
	rate, h := w.between(from, to)
	ms := func(d time.Duration) float64 { return rig.Micros(d) / 1000 }
	return lag{rate, ms(h.Quantile(0.5)), ms(h.Quantile(0.99)), ms(h.Max), ms(w.gap(from, to))}
}

// calm is how long writers run before a fault, and calmAfter how long after writes resume.
const (
	calm      = 1500 * time.Millisecond
	calmAfter = 2 * time.Second
	faultEnd  = 60 * time.Second // for writes to resume
)

// loseLeader sends the leader a signal that ends it, under load, and returns the longest time without an
// acknowledged write. It then restarts the node.
func loseLeader(c *trio.Cluster, sig syscall.Signal, run string) (gap time.Duration, lost int, err error) {
	lead, _, err := c.Roles()
	if err != nil {
		return 0, 0, err
	}
	w, err := startWriters(c, run)
	if err != nil {
		return 0, 0, err
	}
	defer w.end()
	time.Sleep(calm)
	if w.ackedSince(0) == 0 {
		return 0, 0, fmt.Errorf("no write was acknowledged in %v before the fault: %w", calm, w.lastError())
	}
	fault := w.now()
	stopped := make(chan error, 1)
	go func() { stopped <- c.Stop(lead, sig) }()
	// A leader that hands over keeps working for a while. What counts is when writes succeed after it is gone.
	if err := <-stopped; err != nil {
		return 0, 0, err
	}
	gone := w.now()
	err = trio.Poll(faultEnd, func() error {
		if err := c.Alive(); err != nil {
			return err
		}
		if w.ackedSince(gone+50*time.Millisecond) < writerCount {
			return fmt.Errorf("writes did not come back: %w", w.lastError())
		}
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	time.Sleep(calmAfter)
	w.end()
	gap = w.gap(fault, w.now())
	if err := c.Start(lead); err != nil {
		return 0, 0, err
	}
	if err := c.Await(trio.Size); err != nil {
		return 0, 0, err
	}
	lost, err = w.lost(fault)
	return gap, lost, err
}

// leaveBehind makes a follower miss that many bytes, and measures writes while it catches up. The follower is
// either stopped and started, or frozen and thawed.
func leaveBehind(c *trio.Cluster, bytes int64, freeze bool, run string) (b behind, err error) {
	lead, others, err := c.Roles()
	if err != nil {
		return b, err
	}
	away := others[0]
	if freeze {
		err = c.Nodes[away].Proc.Signal(syscall.SIGSTOP)
	} else {
		err = c.Stop(away, syscall.SIGKILL)
	}
	if err != nil {
		return b, err
	}
	from := time.Now()
	if err := writeBulk(c, lead, bytes); err != nil {
		return b, fmt.Errorf("write %d MiB: %w", bytes>>20, err)
	}
	b.bulk = time.Since(from)
	w, err := startWriters(c, run)
	if err != nil {
		return b, err
	}
	defer w.end()
	time.Sleep(2 * calm)
	begin := w.now()
	target, err := c.Applied(c.Nodes[lead])
	if err != nil {
		return b, err
	}
	if freeze {
		err = c.Nodes[away].Proc.Signal(syscall.SIGCONT)
	} else {
		err = c.Start(away)
	}
	if err != nil {
		return b, err
	}
	if err := awaitApplied(c, away, target); err != nil {
		return b, fmt.Errorf("%w; the writers: %w", err, errors.Join(w.lastError()))
	}
	end := w.now()
	w.end()
	b.took, b.before, b.then = end-begin, lagOf(w, calm/2, begin), lagOf(w, begin, end)
	return b, c.Await(trio.Size)
}

// awaitApplied waits until a node has everything that the leader had a moment ago, target at first.
func awaitApplied(c *trio.Cluster, i int, target uint64) error {
	return trio.Poll(10*time.Minute, func() error {
		if err := c.Alive(); err != nil {
			return err
		}
		at, err := c.Applied(c.Nodes[i])
		if err != nil {
			return err
		}
		if at < target {
			lead, err := c.Leader(c)
			if err != nil {
				return err
			}
			if now, err := c.Applied(c.Nodes[lead]); err == nil {
				target = now
			}
			return fmt.Errorf("the follower is %d writes behind", target-min(at, target))
		}
		return nil
	})
}

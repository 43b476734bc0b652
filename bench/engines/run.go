package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// outcome is what one window has measured.
type outcome struct {
	lat  rig.Hist
	took time.Duration
	own  time.Duration // CPU time of this process: of the callers and of what runs in it
	base time.Duration // CPU time of the database's processes
}

// run lets callers call do for a window after a warm-up.
func (p *plan) run(ctx context.Context, do op, callers int, pids []int, seed uint64) (o outcome, err error) {
	var wg sync.WaitGroup
	lats := make([]rig.Hist, callers)
	errs := make([]error, callers)
	begin := time.Now().Add(p.Warm)
	end := begin.Add(p.Window)
	for i := range callers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			for from := time.Now(); from.Before(end); {
				if errs[i] = do(ctx, i, rng.Int64()); errs[i] != nil {
					return
				}
				now := time.Now()
				if from.After(begin) {
					lats[i].Add(now.Sub(from))
				}
				from = now
			}
		})
	}
	time.Sleep(time.Until(begin))
	from, own, base := time.Now(), rig.OwnCPU(), cpu(pids)
	time.Sleep(time.Until(end))
	o.took, o.own, o.base = time.Since(from), rig.OwnCPU()-own, cpu(pids)-base
	wg.Wait()
	for i := range lats {
		o.lat.Merge(&lats[i])
	}
	err = errors.Join(errs...)
	if err == nil && o.lat.Count == 0 {
		err = errors.New("no call ended within the window")
	}
	return o, err
}

// cpu returns the CPU time of processes with their children. One that has just ended counts as nothing.
func cpu(pids []int) (sum time.Duration) {
	for _, pid := range pids {
		used, err := rig.CPUTree(pid)
		if err == nil {
			sum += used
		}
	}
	return sum
}

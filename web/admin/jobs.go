package admin

import (
	"context"
	"sync"
	"time"

	"github.com/skerrydb/skerry/backups"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
)

const (
	maxJobs  = 1           // at once: each reads or writes as much as a disk can
	keptJobs = 10          // ended ones whose outcome is kept
	jobEvery = time.Second // how often a page gets the progress
)

// job is work on backups that outlives the request that began it.
type job struct {
	Number       int
	Action       string // as in the log of actions
	Subject, Who string
	Started      time.Time
	Ended        time.Time // zero: it runs
	Outcome      string
	Failed       string // why it failed, for people
	Progress     *backups.Progress
	cancel       context.CancelFunc
}

// jobs is the jobs of this node. It must be initialized.
type jobs struct {
	ctx    context.Context //nolint:containedctx // of jobs, which no request's context bounds
	cancel context.CancelFunc
	ended  sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	running []*job     // at most maxJobs
	past    []*job     // newest first, at most keptJobs
	number  int        // of the last one
	changes int        // how many began or ended
	closed  bool
}

func (j *jobs) init() { j.ctx, j.cancel = context.WithCancel(context.Background()) }

// end stops all jobs and waits for them. No more begin.
func (j *jobs) end() {
	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()
	j.cancel()
	j.ended.Wait()
}

// list returns copies of the jobs that run and of the last ones that have ended, and a number that changes whenever one begins or ends.
func (j *jobs) list() (running, past []job, changes int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, one := range j.running {
		running = append(running, *one)
	}
	for _, one := range j.past {
		past = append(past, *one)
	}
	return running, past, j.changes
}

// add reserves a place for a job.
func (j *jobs) add(one *job) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.closed:
		return engine.Errorf(engine.CodeClosed, "the server is stopping")
	case len(j.running) >= maxJobs:
		return engine.Errorf(engine.CodeQueueFull, "%s, which %s has begun, still runs; wait until it has ended, or stop it", j.running[0].Action, j.running[0].Who)
	}
	j.number++
	j.changes++
	one.Number = j.number
	j.running = append(j.running, one)
	j.ended.Add(1)
	return nil
}

// finish moves a job to those that have ended.
func (j *jobs) finish(one *job, now time.Time, outcome, failed string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	one.Ended, one.Outcome, one.Failed = now, outcome, failed
	for i, other := range j.running {
		if other == one {
			j.running = append(j.running[:i:i], j.running[i+1:]...)
		}
	}
	j.past = append([]*job{one}, j.past...)
	j.past = j.past[:min(len(j.past), keptJobs)]
	j.changes++
}

// stop ends the job with that number, if it runs.
func (j *jobs) stop(number int) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, one := range j.running {
		if one.Number == number {
			one.cancel()
			return nil
		}
	}
	return engine.Errorf(engine.CodeNotFound, "this job has ended")
}

// begin runs fn as a job. The log of actions gets a line before it and one about its end, whose action is done if it succeeds. fn
// returns its outcome for people.
func (a *Admin) begin(c *web.Context, action, done, subject string, fn func(ctx context.Context, p *backups.Progress) (string, error)) error {
	return a.act(c, action, subject, "", func() error {
		ctx, cancel := context.WithCancel(a.jobs.ctx)
		u := person(c)
		one := &job{Action: action, Subject: subject, Who: u.Email, Started: a.o.Now(), Progress: &backups.Progress{}, cancel: cancel}
		if err := a.jobs.add(one); err != nil {
			cancel()
			return err
		}
		end := a.line(c, u, done, subject, "", nil)
		go func() {
			defer a.jobs.ended.Done()
			defer cancel()
			outcome, err := fn(ctx, one.Progress)
			failed := ""
			switch {
			case err != nil && ctx.Err() != nil:
				failed = a.text("stopped")
			case err != nil:
				failed = shorten(err.Error(), maxLogDetail)
			}
			end.At, end.Detail, end.Failed = a.o.Now().UTC(), shorten(outcome, maxLogDetail), failed
			if failed != "" {
				end.Action = action
			}
			_ = a.keep(ctx, end) // it is in the server's log
			a.jobs.finish(one, a.o.Now(), outcome, failed)
		}()
		return nil
	})
}

package mail

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	netmail "net/mail"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// SMTP sends messages through a server. Send puts a message into a bounded queue in memory, from which Run
// sends it. If the server is down, slow or refuses temporarily, Run retries for SMTPOptions.GiveUp. Every
// message that Send accepted is either sent or logged as lost, once, with its reference and never with its
// body. If the connection breaks when the server may have just accepted a message, the message is sent again
// under the same Message-ID.
//
// Waiting messages are lost when the process is killed. A program that must not lose a message has to store it
// and send it again.
type SMTP struct {
	o       SMTPOptions
	grace   time.Duration // stopGrace; longer in tests
	wake    chan struct{} // one token: the queue has changed
	running atomic.Bool

	mu       sync.Mutex // guards what follows
	waiting  []*queued
	n        int   // messages waiting or being sent
	bytes    int64 // of those n
	closed   bool
	failures int       // consecutive attempts that failed because of the server
	pause    time.Time // no attempt begins before

	sent, failed, retried atomic.Int64
}

// NewSMTP checks the options; it opens no connection. Mistakes are CodeInvalid.
func NewSMTP(o SMTPOptions) (*SMTP, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	return &SMTP{o: o.filled(), grace: stopGrace, wake: make(chan struct{}, 1)}, nil
}

// Send checks m and puts it into the queue. It never waits for the server. nil means that Run will try to send
// it. A full queue is CodeQueueFull, and once Run accepts no more messages at its stop it is CodeClosed; the
// message was then not accepted.
func (s *SMTP) Send(ctx context.Context, m Message) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("send mail: %w", err)
	}
	l, err := s.prepare(m)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch size := l.size(); {
	case s.closed:
		return engine.Errorf(engine.CodeClosed, "send mail: the program is stopping, no more mail is accepted")
	case s.n >= s.o.MaxQueue:
		return engine.Errorf(engine.CodeQueueFull, "send mail: %d messages are waiting for the mail server, which is the limit", s.n)
	case s.n > 0 && s.bytes+size > s.o.MaxQueueBytes:
		return engine.Errorf(engine.CodeQueueFull, "send mail: messages of %d bytes are waiting for the mail server, the limit is %d", s.bytes, s.o.MaxQueueBytes)
	default:
		s.n++
		s.bytes += size
		l.weight = size
	}
	s.waiting = append(s.waiting, l)
	s.signal()
	return nil
}

// SendNow makes one attempt and returns its result: CodeUnavailable if the server cannot be used or refuses
// temporarily, CodeRefused if it refuses the message or a recipient permanently; the other recipients then get
// it. It does not use the queue.
func (s *SMTP) SendNow(ctx context.Context, m Message) error {
	l, err := s.prepare(m)
	if err != nil {
		return err
	}
	out := deliver(ctx, &s.o, l)
	if out.err == nil {
		s.sent.Add(1)
		return nil
	}
	s.failed.Add(1)
	if len(out.refused) > 0 {
		return engine.Errorf(CodeRefused, "send mail %s: %d of %d recipients were refused (%s): %w",
			l.ref, len(out.refused), len(l.to), list(out.refused), out.err)
	}
	return engine.Errorf(CodeUnavailable, "send mail %s over %s: %d of %d recipients have to wait: %w", l.ref, s.o, len(out.left), len(l.to), out.err)
}

func (s *SMTP) prepare(m Message) (*queued, error) {
	l, err := check(m, s.o.From)
	if err != nil {
		return nil, fmt.Errorf("send mail: %w", err)
	}
	l.id, l.accepted = randomHex(16), time.Now()
	return l, nil
}

// list formats addresses for people.
func list(as []*netmail.Address) string {
	names := make([]string, len(as))
	for i, a := range as {
		names[i] = a.Address
	}
	return strings.Join(names, ", ")
}

// Metrics yields how many messages were sent, failed and wait. It may be called at any time.
func (s *SMTP) Metrics() iter.Seq[engine.Metric] {
	return func(yield func(engine.Metric) bool) {
		s.mu.Lock()
		n := s.n
		s.mu.Unlock()
		for _, m := range []engine.Metric{
			{Name: "mail_queued", Help: "Messages that wait for the mail server or are on their way to it.", Value: float64(n)},
			{Name: "mail_sent_total", Help: "Messages that the mail server accepted for every recipient that it did not refuse.", Counter: true, Value: float64(s.sent.Load())},
			{Name: "mail_failed_total", Help: "Messages that some recipient will not get: refused, given up or left at shutdown.", Counter: true, Value: float64(s.failed.Load())},
			{Name: "mail_retries_total", Help: "Delivery attempts that have to be repeated.", Counter: true, Value: float64(s.retried.Load())},
		} {
			if !yield(m) {
				return
			}
		}
	}
}

// stopGrace is how long Run still accepts messages after the queue is empty, from parts of the program that
// stop at the same time.
const stopGrace = 100 * time.Millisecond

// Run sends the messages of Send until ctx ends. Then it makes one more attempt for every message that waits
// or still arrives, within SMTPOptions.Drain, logs the rest as lost and returns nil. It can be called once.
func (s *SMTP) Run(ctx context.Context) error {
	if s.running.Swap(true) {
		return engine.Errorf(engine.CodeInvalid, "the mail queue is already running")
	}
	sending, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	places := make(chan struct{}, s.o.MaxSenders)
	var under sync.WaitGroup
	work := func(ctx context.Context, next func(context.Context) *queued) {
		for ctx.Err() == nil {
			select {
			case places <- struct{}{}:
			case <-ctx.Done():
				return
			}
			l := next(ctx)
			if l == nil {
				<-places
				return
			}
			under.Go(func() {
				s.attempt(sending, l)
				<-places
				s.signal()
			})
		}
	}
	work(ctx, s.await)
	defer time.AfterFunc(s.o.Drain, cut).Stop()
	work(sending, s.rest)
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	under.Wait()
	s.mu.Lock()
	lost := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	for _, l := range lost {
		s.lose(l, "the program stopped before the mail server accepted it", l.last)
	}
	return nil
}

// rest returns a message that was not tried since the stop. Once there has been none for a moment it closes
// the queue and returns nil. It also returns nil when ctx ends.
func (s *SMTP) rest(ctx context.Context) *queued {
	for {
		if l := s.untried(false); l != nil {
			return l
		}
		timer := time.NewTimer(s.grace)
		select {
		case <-s.wake:
		case <-timer.C:
			return s.untried(true)
		case <-ctx.Done():
			return nil
		}
		timer.Stop()
	}
}

// untried removes and returns a message that was not tried since the stop. If there is none and closing is
// set, it closes the queue.
func (s *SMTP) untried(closing bool) *queued {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, l := range s.waiting {
		if !l.final {
			l.final = true
			s.waiting = slices.Delete(s.waiting, i, i+1)
			return l
		}
	}
	s.closed = s.closed || closing
	return nil
}

// await returns the next message that is due, or nil when ctx has ended.
func (s *SMTP) await(ctx context.Context) *queued {
	for {
		l, old, wait := s.next(time.Now())
		for _, o := range old {
			s.lose(o, fmt.Sprintf("the mail server did not accept it within %v", s.o.GiveUp), o.last)
		}
		if l != nil {
			return l
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-s.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// next removes and returns the message that has been due the longest, and those that are too old. If none is
// due, wait is the time until the next one.
func (s *SMTP) next(now time.Time) (due *queued, old []*queued, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = slices.DeleteFunc(s.waiting, func(l *queued) bool {
		if now.Sub(l.accepted) < s.o.GiveUp {
			return false
		}
		old = append(old, l)
		return true
	})
	wait = s.o.GiveUp
	best := -1
	for i, l := range s.waiting {
		if best < 0 || l.next.Before(s.waiting[best].next) {
			best = i
		}
		wait = min(wait, l.accepted.Add(s.o.GiveUp).Sub(now))
	}
	if best < 0 {
		return nil, old, wait
	}
	at := s.waiting[best].next
	if at.Before(s.pause) {
		at = s.pause
	}
	if at.After(now) {
		return nil, old, min(wait, at.Sub(now))
	}
	due = s.waiting[best]
	s.waiting = slices.Delete(s.waiting, best, best+1)
	return due, old, 0
}

// attempt makes one attempt to deliver a message and handles the outcome.
func (s *SMTP) attempt(ctx context.Context, l *queued) {
	out := deliver(ctx, &s.o, l)
	now := time.Now()
	s.server(now, out)
	if len(out.refused) > 0 {
		l.broken = true
		s.o.Logger.Error("mail refused", "ref", l.ref, "recipients", list(out.refused), "code", string(CodeRefused), "error", out.err)
	}
	l.to, l.last = out.left, out.err
	if len(l.to) == 0 {
		s.done(l)
		return
	}
	s.retried.Add(1)
	if !out.server {
		l.tries++
		l.next = now.Add(s.backoff(l.tries))
	}
	s.mu.Lock()
	s.waiting = append(s.waiting, l)
	s.mu.Unlock()
}

// server records whether the server can be used, and logs changes once.
func (s *SMTP) server(now time.Time, out outcome) {
	s.mu.Lock()
	was := s.failures
	if out.server {
		// Concurrent attempts count as one.
		if !now.Before(s.pause) {
			s.failures++
			s.pause = now.Add(s.backoff(s.failures))
		}
	} else {
		s.failures, s.pause = 0, time.Time{}
	}
	is, n := s.failures, s.n
	s.mu.Unlock()
	switch {
	case was == 0 && is > 0:
		s.o.Logger.Warn("mail server cannot be used, mail waits", "server", s.o, "waiting", n, "error", out.err)
	case was > 0 && is == 0:
		s.o.Logger.Info("mail server can be used again", "server", s.o, "waiting", n)
	}
}

// backoff returns the wait after that many consecutive failures.
func (s *SMTP) backoff(failures int) time.Duration {
	wait := s.o.RetryFirst
	for range min(failures-1, 30) {
		if wait *= 2; wait >= s.o.MaxRetryWait {
			break
		}
	}
	return min(wait, s.o.MaxRetryWait)
}

// lose logs a message that is not tried again.
func (s *SMTP) lose(l *queued, why string, last error) {
	l.broken = true
	if last == nil {
		last = errors.New("it was never tried")
	}
	s.o.Logger.Error("mail lost", "ref", l.ref, "why", why, "recipients", list(l.to),
		slog.Duration("waited", time.Since(l.accepted)), "code", string(CodeUnavailable), "error", last)
	s.done(l)
}

// done counts a message that is finished.
func (s *SMTP) done(l *queued) {
	if l.broken {
		s.failed.Add(1)
	} else {
		s.sent.Add(1)
	}
	s.mu.Lock()
	s.n--
	s.bytes -= l.weight
	s.mu.Unlock()
}

func (s *SMTP) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

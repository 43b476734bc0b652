package main

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// span is a time from the beginning of a window.
type span struct{ from, to time.Duration }

func (s span) length() time.Duration { return s.to - s.from }

// within returns the length of the part of s that lies in o.
func (s span) within(o span) time.Duration { return max(0, min(s.to, o.to)-max(s.from, o.from)) }

// watcher reads a server's figures from time to time.
type watcher struct {
	s         *server
	quit      chan struct{}
	ended     chan struct{}
	at        []time.Time
	seen      []figures
	resident  int64 // greatest
	residents []float64
}

// watchEvery is how often figures are read.
const watchEvery = 250 * time.Millisecond

// watch begins to watch a server.
func watch(s *server) *watcher {
	w := &watcher{s: s, quit: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			w.look()
			select {
			case <-w.quit:
				w.look()
				return
			case <-tick.C:
			}
		}
	}()
	return w
}

func (w *watcher) look() {
	f, err := w.s.figures(w.s)
	if err != nil {
		return // a busy server; the next time may do
	}
	w.at, w.seen = append(w.at, time.Now()), append(w.seen, f)
	if r, err := rig.RSS(w.s.proc.PID()); err == nil {
		w.resident = max(w.resident, r)
		w.residents = append(w.residents, float64(r))
	}
}

func (w *watcher) end() {
	close(w.quit)
	<-w.ended
}

// logged returns the bytes of log a write, NaN if they are not known.
func (w *watcher) logged() float64 {
	a, b := w.seen[0], w.seen[len(w.seen)-1]
	if n := b.written - a.written; n > 0 {
		return (b.logged - a.logged) / n
	}
	return math.NaN()
}

// snapshots returns when snapshots were written, as times since from. The last may not have ended.
func (w *watcher) snapshots(from time.Time) (all []span, ended []time.Duration) {
	var open *span
	end := func(s span, took time.Duration) {
		all, ended = append(all, span{s.from, max(s.from, min(s.to, s.from+took))}), append(ended, took)
	}
	for i, f := range w.seen {
		now := w.at[i].Sub(from)
		switch {
		case open != nil && f.running < w.seen[i-1].running: // it has ended; another one may have been begun
			took := f.last
			if took == 0 {
				took = now - open.from
			}
			end(span{open.from, now}, took)
			open = nil
		case i > 0 && open == nil && f.running == 0 && f.snapshots > w.seen[i-1].snapshots: // begun and ended between two looks
			end(span{w.at[i-1].Sub(from), now}, f.last)
		}
		if f.running > 0 && open == nil {
			open = &span{from: now - f.running}
		}
	}
	if open != nil {
		all = append(all, span{open.from, w.at[len(w.at)-1].Sub(from)})
	}
	return all, ended
}

// mark is one collection of Go's collector.
type mark struct {
	span
	cpu  time.Duration
	live float64 // bytes
}

// traced is a line of GODEBUG=gctrace=1, see https://pkg.go.dev/runtime.
var traced = regexp.MustCompile(`^gc \d+ @([\d.]+)s \d+%: ([\d.]+)\+([\d.]+)\+([\d.]+) ms clock, ([\d.]+)\+([\d.]+)/([\d.]+)/([\d.]+)\+([\d.]+) ms cpu, \d+->\d+->(\d+) MB`)

// marks returns the collections of a server's process as times since from.
func (s *server) marks(from time.Time) ([]mark, error) {
	text, err := os.ReadFile(s.log)
	return parseMarks(string(text), s.began.Sub(from)), err
}

// parseMarks finds the collections in a log; begin is when the process was started.
func parseMarks(log string, begin time.Duration) (all []mark) {
	for line := range strings.Lines(log) {
		found := traced.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		var n [10]float64
		for i, text := range found[1:] {
			n[i], _ = strconv.ParseFloat(text, 64) // the pattern allows only numbers
		}
		ms := func(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }
		at := begin + time.Duration(n[0]*float64(time.Second))
		all = append(all, mark{
			span: span{at, at + ms(n[1]+n[2]+n[3])},
			cpu:  ms(n[4] + n[5] + n[6] + n[7] + n[8]), live: n[9] * (1 << 20),
		})
	}
	return all
}

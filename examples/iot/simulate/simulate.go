// Package simulate plays the sensors of a chocolate factory: each measures a value a second, and sends those of ten
// seconds at once, as InfluxDB's line protocol over HTTP.
//
// It knows values, batches and retries. It must not know what the server does with them.
package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/skerrydb/skerry/examples/iot"
)

const (
	// BatchSeconds is how many values of a sensor are sent at once.
	BatchSeconds = 10
	// MaxSensors bounds Options.Sensors: a batch of all of them is in memory.
	MaxSensors = 100_000

	maxLines    = 50_000 // of one request
	maxAttempts = 8      // of one request
	maxAnswer   = 1 << 20
	firstPause  = 100 * time.Millisecond // before the second attempt; then it doubles
	maxPause    = 10 * time.Second
)

// Options of Run. URL, Sensors, Duration and Speedup are required.
type Options struct {
	URL      string        // of the server: http://127.0.0.1:7001
	Token    string        // that the server asks for, or ""
	Sensors  int           // 1 to MaxSensors, a quarter of each kind
	Duration time.Duration // that is simulated, in whole batches; what is left over is not sent
	Speedup  float64       // simulated seconds in a second
	Seed     uint64        // values are the same for the same seed

	Client   *http.Client                                     // nil: http.DefaultClient
	Now      func() time.Time                                 // nil: time.Now
	Pause    func(ctx context.Context, d time.Duration) error // waits; nil: with a timer
	Progress func(o Outcome, simulated time.Duration)         // called after each batch; may be nil
}

// Outcome counts values.
type Outcome struct {
	Sent         int // each once, however often it was tried
	Acknowledged int // stored, as the server says
	Refused      int // not stored, as the server says
	Retries      int // of requests
}

// String returns the counts in words.
func (o Outcome) String() string {
	return fmt.Sprintf("%d values sent, %d acknowledged, %d refused, %d unknown, %d retries", o.Sent, o.Acknowledged, o.Refused, o.Unknown(), o.Retries)
}

// Unknown returns how many values were in requests that failed: they may be stored.
func (o Outcome) Unknown() int { return o.Sent - o.Acknowledged - o.Refused }

// Complete returns an error unless all values were acknowledged.
func (o Outcome) Complete() error {
	if o.Acknowledged != o.Sent {
		return fmt.Errorf("only %d of %d values were acknowledged", o.Acknowledged, o.Sent)
	}
	return nil
}

// Run sends the values. The simulated time ends with the real one, so that no value is from the future. If a request
// fails for good, Run ends with its error. The Outcome counts what was done in any case.
func Run(ctx context.Context, o Options) (Outcome, error) {
	r := &runner{o: o, all: sensors(o.Sensors, o.Seed)}
	r.defaults()
	start := r.o.Now()
	first := beginning(start, o)
	batch := time.Duration(BatchSeconds) * time.Second
	for n := range int(o.Duration / batch) {
		simulated := time.Duration(n+1) * batch
		due := start.Add(time.Duration(float64(simulated) / o.Speedup))
		if err := r.until(ctx, due); err != nil {
			return r.outcome, err
		}
		if err := r.batch(ctx, first.Add(simulated-batch).Unix()); err != nil {
			return r.outcome, err
		}
		if o.Progress != nil {
			o.Progress(r.outcome, simulated)
		}
	}
	return r.outcome, nil
}

// beginning returns the time of the first value.
func beginning(now time.Time, o Options) time.Time {
	return now.Add(time.Duration(float64(o.Duration)/o.Speedup) - o.Duration)
}

// runner is one Run.
type runner struct {
	o       Options
	all     []*sensor
	outcome Outcome
}

func (r *runner) defaults() {
	if r.o.Client == nil {
		r.o.Client = http.DefaultClient
	}
	if r.o.Now == nil {
		r.o.Now = time.Now
	}
	if r.o.Pause == nil {
		r.o.Pause = pause
	}
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// until waits until a time.
func (r *runner) until(ctx context.Context, t time.Time) error {
	if d := t.Sub(r.o.Now()); d > 0 {
		return r.o.Pause(ctx, d)
	}
	return ctx.Err()
}

// batch sends the values of all sensors from a time on, in Unix seconds.
func (r *runner) batch(ctx context.Context, from int64) error {
	var body []byte
	lines := 0
	for second := range int64(BatchSeconds) {
		for _, s := range r.all {
			body = s.appendLine(body, from+second)
			if lines++; lines < maxLines {
				continue
			}
			if err := r.send(ctx, body, lines); err != nil {
				return err
			}
			body, lines = body[:0], 0
		}
	}
	if lines == 0 {
		return nil
	}
	return r.send(ctx, body, lines)
}

// send sends lines until the server has stored or refused them. It tries again whatever may pass: a value that is
// stored twice is one value.
func (r *runner) send(ctx context.Context, body []byte, lines int) error {
	r.outcome.Sent += lines
	wait := firstPause
	for attempt := 1; ; attempt++ {
		again, err := r.try(ctx, body, lines)
		if err == nil {
			return nil
		}
		if again < 0 || attempt == maxAttempts || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if err := r.o.Pause(ctx, min(max(wait, again), maxPause)); err != nil {
			return err
		}
		r.outcome.Retries++
		wait *= 2
	}
}

// never is what try returns if a request must not be tried again.
const never = -time.Second

// try sends a request. If it fails, it returns how long the server wants the next one to wait, or never.
func (r *runner) try(ctx context.Context, body []byte, lines int) (again time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.o.URL+"/api/v2/write?precision=s&bucket="+iot.Factory.Name, bytes.NewReader(body))
	if err != nil {
		return never, err
	}
	req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	if r.o.Token != "" {
		req.Header.Set("Authorization", "Token "+r.o.Token)
	}
	res, err := r.o.Client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("send values: %w", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return 0, fmt.Errorf("send values: %w", err)
	}
	var answer struct {
		Code, Detail    string
		Stored, Refused int
	}
	_ = json.Unmarshal(text, &answer) // if it is anything else, the status says enough
	switch {
	case res.StatusCode == http.StatusNoContent:
		r.outcome.Acknowledged += lines
		return 0, nil
	case answer.Code == "series_partial":
		r.outcome.Acknowledged += answer.Stored
		r.outcome.Refused += answer.Refused
		return 0, nil
	case res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable:
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After")) // 0 if there is none
		again = time.Duration(seconds) * time.Second
	case res.StatusCode < http.StatusInternalServerError:
		r.outcome.Refused += lines
		again = never
	default:
		again = never
	}
	return again, fmt.Errorf("send values: the server responded with %s: %s", res.Status, answer.Detail)
}

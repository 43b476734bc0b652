package simulate_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/examples/iot/simulate"
)

// answer is how a server responds to one request; no status breaks the connection.
type answer struct {
	status       int
	again, about string
}

// play runs a simulation of 4 sensors and 20 seconds against a server that gives these answers, then stores
// everything. It returns the outcome, the bodies, and how long the simulation wanted to wait.
func play(t *testing.T, answers ...answer) (done simulate.Outcome, bodies []string, waits []time.Duration, err error) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(text))
		if r.Header.Get("Authorization") != "Token t" || r.URL.String() != "/api/v2/write?precision=s&bucket=factory" {
			t.Errorf("%s with %q", r.URL, r.Header.Get("Authorization"))
		}
		a := answer{status: http.StatusNoContent}
		if len(answers) > 0 {
			a, answers = answers[0], answers[1:]
		}
		if a.status == 0 {
			panic(http.ErrAbortHandler)
		}
		if a.again != "" {
			w.Header().Set("Retry-After", a.again)
		}
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, a.about)
	}))
	defer srv.Close()
	now := time.Unix(1_800_000_000, 0)
	done, err = simulate.Run(t.Context(), simulate.Options{
		URL: srv.URL, Token: "t", Sensors: 4, Duration: 25 * time.Second, Speedup: 10, Seed: 1, Client: srv.Client(),
		Now: func() time.Time { return now },
		Pause: func(_ context.Context, d time.Duration) error {
			now = now.Add(d)
			waits = append(waits, d)
			return nil
		},
	})
	return done, bodies, waits, err
}

// TestPace sends a batch when its simulated time has passed.
func TestPace(t *testing.T) {
	t.Parallel()
	done, bodies, waits, err := play(t)
	if err != nil || done != (simulate.Outcome{Sent: 80, Acknowledged: 80}) || len(bodies) != 2 {
		t.Fatalf("%v, %v, %d requests", done, err, len(bodies))
	}
	if len(waits) != 2 || waits[0] != time.Second || waits[1] != time.Second {
		t.Errorf("it waits for %v", waits)
	}
	lines := strings.Split(strings.TrimSpace(bodies[1]), "\n")
	if len(lines) != 40 || !strings.HasPrefix(lines[3], "sensor,kind=vibration,line=1,sensor=vibration-0001 value=") || !strings.HasSuffix(lines[39], " 1799999996") {
		t.Errorf("%d lines, like %s and %s", len(lines), lines[3], lines[39])
	}
}

// TestRetries sends a batch again if the server is busy or cannot be reached, with the same values.
func TestRetries(t *testing.T) {
	t.Parallel()
	done, bodies, waits, err := play(t, answer{status: 429, again: "2"}, answer{status: 503}, answer{}, answer{status: 503, again: "soon"})
	if err != nil || done != (simulate.Outcome{Sent: 80, Acknowledged: 80, Retries: 4}) {
		t.Fatal(done, err)
	}
	if len(bodies) != 6 || bodies[0] != bodies[4] || bodies[4] == bodies[5] {
		t.Errorf("%d requests", len(bodies))
	}
	if len(waits) != 5 || waits[1] != 2*time.Second || waits[2] != 200*time.Millisecond {
		t.Errorf("it waits for %v", waits)
	}
}

// TestFailures counts what the server has not acknowledged.
func TestFailures(t *testing.T) {
	t.Parallel()
	partial := `{"code":"series_partial","detail":"partial write","stored":39,"refused":1}`
	busy := make([]answer, 8)
	for i := range busy {
		busy[i].status = 503
	}
	for name, c := range map[string]struct {
		answers []answer
		want    simulate.Outcome
		text    string
	}{
		"partial": {[]answer{{status: 400, about: partial}}, simulate.Outcome{Sent: 80, Acknowledged: 79, Refused: 1}, ""},
		"token":   {[]answer{{status: 401, about: `{"detail":"no token"}`}}, simulate.Outcome{Sent: 40, Refused: 40}, "no token"},
		"broken":  {[]answer{{status: 500}}, simulate.Outcome{Sent: 40}, "500"},
		"busy":    {busy, simulate.Outcome{Sent: 40, Retries: 7}, "503"},
	} {
		done, _, _, err := play(t, c.answers...)
		if done != c.want || (err == nil) != (c.text == "") || err != nil && !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, %v", name, done, err)
		}
		if done.Complete() == nil {
			t.Errorf("%s: it is complete", name)
		}
	}
}

// TestStopped ends when its context does.
func TestStopped(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	done, err := simulate.Run(ctx, simulate.Options{URL: "http://127.0.0.1:1", Sensors: 1, Duration: time.Hour, Speedup: 1})
	if !errors.Is(err, context.Canceled) || done.Sent != 0 {
		t.Error(done, err)
	}
}

package top

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/vt"
)

var rewrite = flag.Bool("rewrite", false, "write the screens into testdata")

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// fake is a server that a test changes between two readings.
type fake struct {
	metrics, cluster string
	err              error
}

func (f *fake) fetch(_ context.Context, path string) ([]byte, error) {
	switch {
	case f.err != nil:
		return nil, f.err
	case path == "/metrics":
		return []byte(f.metrics), nil
	}
	return []byte(f.cluster), nil
}

// numbers are metrics after requests and transactions, of which slow ones took between 0.1 and 0.25 s and the others
// at most 1 ms.
func numbers(requests, slow, writes, position int, more string) string {
	return fmt.Sprintf(`# HELP skerry_http_requests_total Requests.
# TYPE skerry_http_requests_total counter
skerry_http_requests_total{class="2xx",method="GET",route="/a"} %d
skerry_http_requests_total{class="2xx",method="GET",route="/metrics"} 99999
skerry_http_request_seconds_bucket{method="GET",route="/a",le="0.001"} %d
skerry_http_request_seconds_bucket{method="GET",route="/a",le="0.1"} %[2]d
skerry_http_request_seconds_bucket{method="GET",route="/a",le="0.25"} %[1]d
skerry_http_request_seconds_bucket{method="GET",route="/a",le="+Inf"} %[1]d
skerry_engine_transactions_total %[3]d
skerry_engine_position %[4]d
skerry_engine_keys 1234
skerry_engine_data_bytes 1.048576e+06
skerry_engine_memory_limit_bytes 1.073741824e+09
skerry_engine_log_since_snapshot_bytes 2.5e+06
process_resident_memory_bytes 4.2e+07
process_cpu_seconds_total 1
%[5]s`, requests, requests-slow, writes, position, more)
}

const three = `{"self":%d,"leader":1,"nodes":[{"id":1,"addr":"n1:7002","voter":true},{"id":2,"addr":"n2:7002","voter":true},{"id":3,"addr":"n3:7002","replica":true},{"id":4,"addr":"n4:7002","http":"host3:7201","voter":true}]}`

// rig is a monitor of servers with a clock that stands still.
type rig struct {
	*monitor
	clock time.Time
}

func newRig(servers ...*fake) *rig {
	r := &rig{clock: start}
	o := Options{Every: 2 * time.Second, Now: func() time.Time { return r.clock }}
	for i, f := range servers {
		o.Sources = append(o.Sources, Source{Name: fmt.Sprintf("http://host%d:7201", i+1), Fetch: f.fetch})
	}
	r.monitor = newMonitor(o)
	return r
}

// pass reads the servers and lets time pass.
func (r *rig) pass(t *testing.T, d time.Duration) {
	t.Helper()
	if err := r.round(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.clock = r.clock.Add(d)
}

func (r *rig) screen(width, height int) string {
	v := r.view()
	var b strings.Builder
	for _, l := range v.draw(width, height) {
		b.WriteString(l.String() + "\n")
	}
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -rewrite writes what is drawn):\n%s", file, got)
	}
}

// TestParse reads metrics, broken and hostile lines among them.
func TestParse(t *testing.T) {
	t.Parallel()
	got := parse(numbers(100, 10, 7, 8, "") + `
skerry_http_requests_total{class="5xx",route="/{a}, b"} 3 1700000000
skerry_cluster_clock_skew_seconds{node="2"} -3
skerry_cluster_clock_skew_seconds{node="3"} 1
skerry_nan NaN
skerry_inf +Inf
skerry_open{a="b 5
skerry_none
{} 5
 x
` + "\x1b[31mskerry_red 5\r\nskerry_crlf 6\r\n")
	for name, want := range map[string]float64{"http_requests_total": 103, "engine_transactions_total": 7, "engine_keys": 1234, "cluster_clock_skew_seconds": 3, "nan": 0, "inf": 0, "open": 0, "crlf": 6} {
		if got.values[name] != want {
			t.Errorf("%s is %v, want %v", name, got.values[name], want)
		}
	}
	if got.errors != 3 || len(got.buckets) != 4 || got.buckets[0.001] != 90 || got.buckets[math.Inf(1)] != 100 {
		t.Errorf("%v errors, buckets %v", got.errors, got.buckets)
	}
}

// TestRates: rates and quantiles are those between two readings, also across a restart.
func TestRates(t *testing.T) {
	t.Parallel()
	f := &fake{metrics: numbers(1000, 0, 500, 500, "")}
	r := newRig(f)
	r.pass(t, 2*time.Second)
	if n := r.nodes[0]; n.measured || n.Now.Requests != 0 || n.Now.Keys != 1234 {
		t.Errorf("the first reading has rates: %+v", n.Now)
	}
	f.metrics = numbers(1200, 20, 600, 600, "")
	r.pass(t, 2*time.Second)
	s := r.nodes[0].Now
	if s.Requests != 100 || s.Writes != 50 || s.CPU != 0 {
		t.Errorf("%v requests, %v writes a second, want 100 and 50", s.Requests, s.Writes)
	}
	// 180 of 200 took up to 1 ms: the median is in the middle of that bucket; the 198th is the 18th of 20 from 100 to 250 ms.
	if math.Abs(s.P50-100./180) > 1e-9 || math.Abs(s.P99-235) > 1e-9 {
		t.Errorf("p50 %v, p99 %v ms", s.P50, s.P99)
	}
	r.pass(t, 2*time.Second)
	if s = r.nodes[0].Now; s.Requests != 0 || s.P99 != 0 {
		t.Errorf("without requests: %+v", s)
	}
	f.metrics = numbers(10, 0, 4, 4, "")
	r.pass(t, 2*time.Second)
	if s = r.nodes[0].Now; s.Requests != 5 || s.Writes != 2 || s.P99 <= 0 || s.P99 > 1 {
		t.Errorf("after a restart: %+v", s)
	}
	r.clock = r.clock.Add(-4 * time.Second) // the clock jumps back
	r.pass(t, 0)
	if s = r.nodes[0].Now; s.Requests != 0 {
		t.Errorf("when the clock went back: %+v", s)
	}
}

// cluster returns three nodes: a leader with load, a follower that is behind, and one that does not answer.
func trio(t *testing.T) (*rig, []*fake) {
	t.Helper()
	of := func(self int) string { return fmt.Sprintf(three, self) }
	const healthy = "skerry_cluster_nodes 3\nskerry_cluster_connected_nodes 2\n"
	servers := []*fake{
		{metrics: numbers(0, 0, 0, 0, healthy), cluster: of(1)},
		{metrics: numbers(0, 0, 0, 0, healthy), cluster: of(2)},
		{err: errors.New("dial tcp: connection refused")},
	}
	r := newRig(servers...)
	for i := range 12 {
		n := 100 * i * i
		servers[0].metrics = numbers(2*n, i, n, n, healthy+"skerry_wrong_passwords_total 7\n")
		servers[1].metrics = numbers(n, 0, n, n-40*i, "skerry_cluster_nodes 3\nskerry_cluster_connected_nodes 1\nskerry_engine_snapshot_failing 1\n")
		r.pass(t, 2*time.Second)
	}
	return r, servers
}

// TestScreens: what is drawn for three nodes, wide, narrow and paused.
func TestScreens(t *testing.T) {
	t.Parallel()
	r, _ := trio(t)
	golden(t, "wide.txt", r.screen(120, 20))
	r.chosen, r.paused = 1, true
	golden(t, "usual.txt", r.screen(80, 24))
	golden(t, "tiny.txt", r.screen(40, 10))
	r.ASCII = true
	golden(t, "ascii.txt", r.screen(80, 24))
	var b bytes.Buffer
	v := r.view()
	if err := v.print(&b, false); err != nil {
		t.Fatal(err)
	}
	golden(t, "once.txt", b.String())
	for width := range 60 {
		for height := range 24 {
			lines := strings.Split(strings.TrimSuffix(r.screen(width, height), "\n"), "\n")
			if height > 0 && len(lines) != height || len([]rune(lines[0])) > width {
				t.Fatalf("%d×%d: %d lines", width, height, len(lines))
			}
		}
	}
}

// TestUnreachable: a node that does not answer is shown since when, and is back when it answers.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	f := &fake{metrics: numbers(1, 0, 1, 1, "")}
	r := newRig(f, &fake{metrics: numbers(1, 0, 1, 1, "")})
	r.pass(t, 2*time.Second)
	f.err = errors.New("connection refused")
	for range 3 {
		r.pass(t, 2*time.Second)
	}
	if got := r.screen(100, 20); !strings.Contains(got, "host1:7201: does not answer since 12:00:02: connection refused") {
		t.Errorf("down:\n%s", got)
	}
	f.err = nil
	r.pass(t, 2*time.Second)
	if got := r.screen(100, 20); !strings.Contains(got, "nothing is wrong") || strings.Contains(got, " down ") {
		t.Errorf("back:\n%s", got)
	}
}

// TestRefused: if every server refuses the password, watching ends; if one does not, it goes on.
func TestRefused(t *testing.T) {
	t.Parallel()
	no := &fake{err: fmt.Errorf("wrong password: %w", ErrRefused)}
	var b bytes.Buffer
	o := newRig(no).Options
	if err := Once(t.Context(), o, &b, false); !errors.Is(err, ErrRefused) || b.Len() > 0 {
		t.Errorf("%v, printed %q", err, &b)
	}
	r := newRig(no, &fake{metrics: numbers(1, 0, 1, 1, "")})
	r.pass(t, time.Second)
	if got := r.screen(80, 20); !strings.Contains(got, "wrong password") {
		t.Errorf("one of two refuses:\n%s", got)
	}
}

// TestJSON: the snapshot as JSON has the numbers of each node, and an error if none responds.
func TestJSON(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	o := newRig(&fake{metrics: numbers(1, 0, 1, 1, "")}, &fake{err: errors.New("gone")}).Options
	o.Every = time.Millisecond
	if err := Once(t.Context(), o, &b, true); err != nil {
		t.Fatal(err)
	}
	var got struct{ Nodes []Node }
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Nodes) != 2 || got.Nodes[0].Role != "alone" || got.Nodes[0].Now.Keys != 1234 || got.Nodes[1].Down == nil || got.Nodes[1].Error != "gone" {
		t.Errorf("%s", &b)
	}
	o = newRig(&fake{err: errors.New("gone")}).Options
	o.Every = time.Millisecond
	if err := Once(t.Context(), o, &b, true); err == nil || !strings.Contains(err.Error(), "no server responds: gone") {
		t.Errorf("%v", err)
	}
	for text, want := range map[string]string{"": "no metrics", "<html>": "no metrics", "skerry_cluster_nodes 3\n": "not that of a Skerry server"} {
		r := newRig(&fake{metrics: text, cluster: "<html>"})
		r.pass(t, time.Second)
		if !strings.Contains(r.nodes[0].Error, want) {
			t.Errorf("%q: %q", text, r.nodes[0].Error)
		}
	}
}

// TestHostile: nothing that a server says controls the terminal.
func TestHostile(t *testing.T) {
	t.Parallel()
	const evil = "\x1b]0;gone\x07\x1b[2J\u009b31m\u202egnp\u200b\r\n\t\xff\x7f"
	state, err := json.Marshal(map[string]any{"self": 1, "leader": 1, "nodes": []any{map[string]any{"id": 2, "addr": evil + strings.Repeat("x", 10_000)}}})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(&fake{metrics: "skerry_cluster_nodes 2\n" + evil + "{a=\"" + evil + "\"} 1\n", cluster: string(state)}, &fake{err: errors.New(evil + strings.Repeat("y", 1<<20))})
	r.Sources[0].Name = evil
	r.monitor = newMonitor(r.Options)
	r.pass(t, time.Second)
	r.pass(t, time.Second)
	var once, asJSON bytes.Buffer
	v := r.view()
	if err := errors.Join(v.print(&once, false), v.print(&asJSON, true)); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{r.screen(200, 30), once.String(), asJSON.String()} {
		for _, c := range strings.ReplaceAll(text, "\n", "") {
			if !unicode.IsPrint(c) {
				t.Fatalf("%q is sent to the terminal: %.300q", c, text)
			}
		}
		if len(text) > 10_000 {
			t.Errorf("%d bytes", len(text))
		}
	}
}

// TestKeys drives the program on a terminal that exists in memory only.
func TestKeys(t *testing.T) {
	t.Parallel()
	r, _ := trio(t)
	mock := vt.NewMockTerm(vt.MockOptSize{X: 40, Y: 10})
	s, err := tcell.NewTerminfoScreenFromTty(mock)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Init(); err != nil {
		t.Fatal(err)
	}
	defer s.Fini()
	mock.SendRaw([]byte("\t\x1b[Bpq"))
	if err := r.loop(t.Context(), s); err != nil {
		t.Error(err)
	}
	if !r.paused || r.chosen != 2 {
		t.Errorf("paused %v, node %d is chosen, want the third", r.paused, r.chosen)
	}
}

// TestEnd: the end of the context is no error.
func TestEnd(t *testing.T) {
	t.Parallel()
	r := newRig(&fake{metrics: numbers(1, 0, 1, 1, "")})
	s, err := tcell.NewTerminfoScreenFromTty(vt.NewMockTerm(vt.MockOptSize{X: 1, Y: 1}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.watch(ctx, s); err != nil {
		t.Error(err)
	}
}

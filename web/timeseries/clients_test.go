package timeseries_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/npm"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/series"
)

// client is a client of InfluxDB that others have made, and that writes to Skerry as it is.
type client struct {
	name        string
	command     func(t *testing.T) []string // runs its program in testdata/influxdb
	precisions  map[string]time.Duration    // all that it offers
	coding      string                      // how it compresses bodies; "" if it cannot
	backslashes bool                        // it escapes backslashes, so that two of them are not one
	retries     bool                        // it tries a write again that was refused with 429
}

// clients write through both versions of the API, and with all schemes of Authorization: Token and Basic.
var clients = []client{
	{"npm influxdb-client", node("v2.js"), map[string]time.Duration{"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}, "gzip", false, true},
	{"npm influx", node("v1.js"), map[string]time.Duration{"n": 1, "u": 1e3, "ms": 1e6, "s": 1e9, "m": time.Minute, "h": time.Hour}, "", false, false},
	{"Python influxdb", python("v1.py"), map[string]time.Duration{"n": 1, "u": 1e3, "ms": 1e6, "s": 1e9, "m": time.Minute, "h": time.Hour}, "gzip", true, false},
}

// point is what a client writes. It has its time from the first of Date, Nanos and Time that is set, or else from the
// server.
type point struct {
	Measurement string            `json:"measurement"`
	Tags        map[string]string `json:"tags,omitempty"`
	Fields      map[string]any    `json:"fields"`
	Time        string            `json:"time"`            // an integer, in the precision of the write
	Nanos       string            `json:"nanos,omitempty"` // the same in nanoseconds, as the client's own type for times if it has one
	Date        int64             `json:"date,omitempty"`  // Unix milliseconds, as a time of the language
}

// clientWrite is one write of a client, and result how it ended.
type clientWrite struct {
	Token     string  `json:"token"`
	Bucket    string  `json:"bucket"`
	Precision string  `json:"precision"`
	Points    []point `json:"points"`
}

type result struct {
	OK      bool
	Failed  []int  // the statuses of attempts that failed
	Message string // of the client's error
	Body    string // of the response, as the client's error has it
}

// absent skips a test that needs what ci/servers installs, which in CI is a failure.
func absent(t *testing.T, args ...any) {
	t.Helper()
	if os.Getenv("SKERRY_REQUIRE_SERVERS") == "1" {
		t.Fatal(args...)
	}
	t.Skip(args...)
}

func node(program string) func(t *testing.T) []string {
	return func(t *testing.T) []string {
		t.Helper()
		command, err := exec.LookPath("node")
		if err != nil {
			absent(t, err)
		}
		dir, err := npm.Install("influxdb", "testdata/influxdb", "v1.js", "v2.js")
		if err != nil {
			absent(t, err)
		}
		return []string{command, filepath.Join(dir, program)}
	}
}

// python names the interpreter by its path: the first one of PATH may be another one, which does not have Debian's
// packages.
func python(program string) func(t *testing.T) []string {
	return func(t *testing.T) []string {
		t.Helper()
		const command, library = "/usr/bin/python3", "/usr/lib/python3/dist-packages/influxdb/client.py"
		for _, file := range []string{command, library} {
			if _, err := os.Stat(file); err != nil {
				absent(t, err)
			}
		}
		return []string{command, filepath.Join("testdata/influxdb", program)}
	}
}

// run lets a client write to a server, one write after the other.
func (c client) run(t *testing.T, url string, writes ...clientWrite) []result {
	t.Helper()
	command := c.command(t)
	in, err := json.Marshal(map[string]any{"url": url, "writes": writes})
	must(t, err)
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%v: %v\n%s\n%s", command, err, out, &stderr)
	}
	var results []result
	if err := json.Unmarshal(out, &results); err != nil || len(results) != len(writes) {
		t.Fatalf("%v: %v in %s", command, err, out)
	}
	return results
}

// token is the password of servers that serve starts.
const token = "a-token-of-clients=="

// server is a whole server, which asks for the token and has the collection c.
type server struct {
	t   *testing.T
	url string
}

func serve(t *testing.T) *server {
	t.Helper()
	eng, err := embedded.Open(t.TempDir(), embedded.Options{Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { must(t, eng.Close()) })
	s, err := skerry.Open(eng, skerry.Options{HTTP: "127.0.0.1:0", RESP: skerry.Off, Password: token, Series: []series.Collection{{Name: "c"}}})
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		must(t, s.Close())
	})
	eventually.True(t, "the server is ready", func() bool { return s.Ready() == nil })
	return &server{t, s.HTTPURL()}
}

// samples returns what the query finds in c, as site.samples does.
func (s *server) samples(query string) string {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), "GET", s.url+"/series/c?"+query, nil)
	must(s.t, err)
	req.Header.Set("Authorization", "Token "+token)
	resp, err := http.DefaultClient.Do(req)
	must(s.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(s.t, err)
	if resp.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %s: %s", query, resp.Status, body)
	}
	return list(s.t, query, body)
}

// eachClient runs a test for each client, with a server of its own.
func eachClient(t *testing.T, test func(t *testing.T, c client)) {
	if testing.Short() {
		t.Skip("it starts programs of other languages")
	}
	t.Parallel()
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

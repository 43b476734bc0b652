package main

import (
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/ci/cassandraserver"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/npm"
	"github.com/skerrydb/skerry/engine/cassandra"
	"github.com/skerrydb/skerry/examples/exampletest"
	"github.com/skerrydb/skerry/examples/iot"
)

// TestCassandra runs the factory on Cassandra: sensors send to the server, and a program in JavaScript writes the server's tables.
func TestCassandra(t *testing.T) {
	t.Parallel()
	host := cassandraserver.Start(t).Addr()
	eng, err := cassandra.Open(t.Context(), &url.URL{Scheme: cassandra.Scheme, Host: host, Path: "/factory"}, cassandra.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close() })
	srv := exampletest.ServeOn(t, eng, skerry.Options{Web: skerry.Web{Application: iot.Application("t")}})
	args := []string{"simulate", "--url", srv.HTTPURL(), "--sensors", "8", "--duration", "30s", "--speedup", "1000000"}
	if code, out, wrong := start(t, []string{"IOT_TOKEN=t"}, args...); code != 0 || out != "240 values sent, 240 acknowledged, 0 refused, 0 unknown, 0 retries\n" {
		t.Fatalf("exit code %d\n%s%s", code, out, wrong)
	}
	if out, err := node(t, host, "factory", "dc1"); err != nil || out != "40 values of 4 sensors are stored\n" {
		t.Fatalf("%v\n%s", err, out)
	}
	var page string
	defer func() {
		if t.Failed() {
			t.Log(page)
		}
	}()
	eventually.True(t, "the page shows all sensors", func() bool {
		page = get(t, srv.HTTPURL()+"/?kind=humidity")
		return strings.Contains(page, "12 sensors report") && strings.Contains(page, "sensor=node-2")
	})
	query := "/series/factory?match=" + url.QueryEscape(`sensor_value{line="9"}`) + "&from=-1h&step=1d&agg=count"
	if text := get(t, srv.HTTPURL()+query); strings.Count(text, "node-") != 4 {
		t.Errorf("%s\n%s", text, page)
	}
	if out, err := node(t, host); err == nil || !strings.Contains(out, "usage:") {
		t.Errorf("without arguments: %v\n%s", err, out)
	}
}

// node runs the program in JavaScript.
func node(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	missing := t.Skipf
	if os.Getenv("SKERRY_REQUIRE_SERVERS") != "" {
		missing = t.Fatalf
	}
	dir, err := npm.Install("cassandra", "../node", "write.mjs")
	if err != nil {
		missing("npm: %v", err)
	}
	all, err := exec.CommandContext(t.Context(), "node", append([]string{filepath.Join(dir, "write.mjs")}, args...)...).CombinedOutput()
	return string(all), err
}

// get returns what a URL responds with.
func get(t *testing.T, from string) string {
	t.Helper()
	resp, err := http.Get(from)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%s: %s %v %s", from, resp.Status, err, body)
	}
	return string(body)
}

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/cli"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/examples/exampletest"
	"github.com/skerrydb/skerry/examples/iot"
)

// start runs the program and returns its exit code and output.
func start(t *testing.T, environ []string, args ...string) (code int, out, wrong string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = cli.Run(t.Context(), program(""), cli.Process{Args: args, Environ: environ, Stdout: &stdout, Stderr: &stderr})
	return code, stdout.String(), stderr.String()
}

func TestSimulate(t *testing.T) {
	t.Parallel()
	srv := exampletest.Serve(t, embedded.Options{}, skerry.Options{Web: skerry.Web{Application: iot.Application("t")}})
	args := []string{"simulate", "--url", srv.HTTPURL(), "--sensors", "8", "--duration", "30s", "--speedup", "1000000"}
	if code, out, wrong := start(t, []string{"IOT_TOKEN=t"}, args...); code != 0 || out != "240 values sent, 240 acknowledged, 0 refused, 0 unknown, 0 retries\n" || !strings.Contains(wrong, "10s of 30s") {
		t.Errorf("exit code %d\n%s%s", code, out, wrong)
	}
	if code, out, wrong := start(t, nil, args...); code != 1 || !strings.Contains(out, "80 refused") || !strings.Contains(wrong, "IOT_TOKEN") {
		t.Errorf("without the token: exit code %d\n%s%s", code, out, wrong)
	}
}

func TestBadFlags(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"--sensors 0", "--sensors 100001", "--sensors x", "--speedup 0.5", "--speedup NaN", "--speedup Inf", "--duration 9s", "--duration 721h",
		"--duration 1", "--seed -1", "--url 127.0.0.1:7001", "--url ftp://x", "--url http://u:p@x", "--url http://x/?y=z", "--sensor 5", "more",
	} {
		if code, out, wrong := start(t, nil, append([]string{"simulate"}, strings.Fields(args)...)...); code != 2 || out != "" || wrong == "" {
			t.Errorf("%s: exit code %d\n%s%s", args, code, out, wrong)
		}
	}
	if code, out, _ := start(t, nil, "help", "simulate"); code != 0 || !strings.Contains(out, "--speedup") || !strings.Contains(out, "IOT_TOKEN") {
		t.Errorf("help: exit code %d\n%s", code, out)
	}
}

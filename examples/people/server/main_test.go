package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/cli"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/examples/exampletest"
	"github.com/skerrydb/skerry/examples/people"
)

// start runs the program and returns its exit code and output.
func start(t *testing.T, args ...string) (code int, out, wrong string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = cli.Run(t.Context(), program(), cli.Process{Args: args, Stdout: &stdout, Stderr: &stderr})
	return code, stdout.String(), stderr.String()
}

func TestLesson(t *testing.T) {
	t.Parallel()
	srv := exampletest.Serve(t, embedded.Options{}, skerry.Options{Gremlin: "127.0.0.1:0", Web: skerry.Web{Application: people.Application}})
	at := strings.Replace(srv.GremlinURL(), "ws://", "http://", 1)
	if code, out, wrong := start(t, "lesson", "--url", at); code != 0 || !strings.Contains(out, "==>[ann, eva, guy, john]") {
		t.Errorf("exit code %d\n%s%s", code, out, wrong)
	}
	if code, out, wrong := start(t, "lesson", "--url", at+"/other"); code != 1 || !strings.Contains(wrong, "404") {
		t.Errorf("another path: exit code %d\n%s%s", code, out, wrong)
	}
	if code, out, wrong := start(t, "lesson", "--url", "ws://x"); code != 2 || out != "" || !strings.Contains(wrong, "not a URL") {
		t.Errorf("not a URL: exit code %d\n%s%s", code, out, wrong)
	}
}

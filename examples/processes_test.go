package examples_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// startWait is how long a server may take until it listens, or has elected a
// leader, on a busy machine.
const startWait = 60 * time.Second

// program builds a program of the examples, e.g. "voter/load", and returns its path.
func program(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(name))
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	if out, err := exec.Command("go", "build", "-o", path, "./"+name).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return path
}

// need skips a test that uses programs which are not here.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			if os.Getenv("SKERRY_REQUIRE_SERVERS") == "1" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
}

// launch starts a server that prints a line of JSON once it listens, and reads
// that into v. It is stopped at the end of the test, or before that by stop.
func launch(t *testing.T, v any, path string, args ...string) (stop func(os.Signal)) {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan []byte, 1)
	ended := make(chan struct{})
	go func() {
		s := bufio.NewScanner(out)
		s.Scan()
		lines <- bytes.Clone(s.Bytes())
		for s.Scan() { // discard the rest
		}
		_ = cmd.Wait() // it was asked to stop, or the test fails anyway
		close(ended)
	}()
	stop = func(sig os.Signal) {
		_ = cmd.Process.Signal(sig) // it may have ended
		select {
		case <-ended:
		case <-time.After(startWait):
			_ = cmd.Process.Kill()
			<-ended
			t.Errorf("%s did not stop", path)
		}
	}
	t.Cleanup(func() {
		stop(syscall.SIGTERM)
		if t.Failed() {
			t.Logf("%s:\n%s", path, stderr.String())
		}
	})
	select {
	case line := <-lines:
		if err := json.Unmarshal(line, v); err != nil {
			t.Fatalf("%s printed %q: %v", path, line, err)
		}
	case <-time.After(startWait):
		t.Fatalf("%s does not serve after %v", path, startWait)
	}
	return stop
}

package load_test

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/examples/load"
)

// run runs a load that does nothing once it is connected.
func run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var l load.Load
	var stdout, stderr bytes.Buffer
	code = l.Run(t.Context(), l.Flags("load"), args, &stdout, &stderr, func() error { return nil },
		func(context.Context) (string, error) { return "", nil })
	return code, stdout.String(), stderr.String()
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"-clients 0", load.ExitUsage, "-clients must be at least 1"},
		{"more", load.ExitUsage, `unexpected argument "more"`},
		{"-nothing", load.ExitUsage, "not defined"},
		{"-addr a:b:c", load.ExitFailed, "HOST:PORT"},
		{"-addr other://host", load.ExitFailed, "other"},
	} {
		if code, _, errs := run(t, strings.Fields(c.args)...); code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit code %d, %s", c.args, code, errs)
		}
	}
}

// TestNoServer: without a server the load soon reports where it looked. One address accepts connections and
// sends nothing.
func TestNoServer(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	for _, at := range []string{"127.0.0.1:1", silent.Addr().String()} {
		begin := time.Now()
		code, out, errs := run(t, "-addr", "skerry://user:geheim@"+at)
		if code != load.ExitFailed || out != "connecting to "+at+"\n" || !strings.HasPrefix(errs, "load: connect to "+at+": ") || strings.Contains(errs, "geheim") {
			t.Errorf("exit code %d\n%s%s", code, out, errs)
		}
		if took := time.Since(begin); took > 20*time.Second { // 4 s if the machine is idle; a call may take 30 s
			t.Errorf("it took %v", took)
		}
	}
}

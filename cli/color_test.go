package cli

import (
	"strings"
	"testing"
)

// TestColors: a terminal gets colors unless NO_COLOR or TERM says no; files and pipes
// never do.
func TestColors(t *testing.T) {
	t.Parallel()
	need(t, "script") // gives a program a terminal
	s := newShell(t)
	const terminal = "TERM=xterm script -qec 'skerry frob' /dev/null </dev/null"
	for _, c := range []struct {
		command string
		want    bool
	}{
		{terminal, true},
		{"NO_COLOR= " + terminal, true},
		{"NO_COLOR=1 " + terminal, false},
		{strings.Replace(terminal, "xterm", "dumb", 1), false},
		{"TERM=xterm script -qec 'skerry help' /dev/null </dev/null", true},
		{"TERM=xterm skerry frob", false},
		{"TERM=xterm skerry help", false},
	} {
		out := s.run("unset NO_COLOR; " + c.command)
		if got := strings.Contains(out, "\x1b["); got != c.want || !strings.Contains(out, "skerry") {
			t.Errorf("%s: colors %v\n%q", c.command, got, out)
		}
	}
}

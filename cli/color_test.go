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

// TestLines: a terminal whose locale is UTF-8 gets lines; other terminals, files and pipes get ASCII.
func TestLines(t *testing.T) {
	t.Parallel()
	need(t, "script")
	s := newShell(t)
	s.run("skerry cluster init --data n1 --node localhost:1")
	const status = "skerry cluster status --data n1"
	const terminal = "TERM=xterm script -qec '" + status + "' /dev/null </dev/null"
	for _, c := range []struct {
		command string
		want    bool
	}{
		{"LANG=C.UTF-8 " + terminal, true},
		{"LANG=C LC_CTYPE=en_US.utf8 " + terminal, true},
		{"LC_ALL=C LANG=C.UTF-8 " + terminal, false},
		{terminal, false},
		{"LANG=C.UTF-8 " + strings.Replace(terminal, "xterm", "dumb", 1), false},
		{"LANG=C.UTF-8 " + status, false},
	} {
		out := s.run("unset LC_ALL LC_CTYPE LANG; " + c.command)
		if lines, ascii := strings.Contains(out, "└─ 1 "), strings.Contains(out, "`- 1 "); lines != c.want || ascii == c.want {
			t.Errorf("%s: lines %v\n%q", c.command, lines, out)
		}
	}
}

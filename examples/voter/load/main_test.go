package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/examples/exampletest"
	"github.com/skerrydb/skerry/examples/load"
	"github.com/skerrydb/skerry/examples/voter"
	"github.com/skerrydb/skerry/proc"
)

// TestModes votes in every mode; there are so few phones that some votes are refused.
func TestModes(t *testing.T) {
	t.Parallel()
	addr := exampletest.Address(t, voter.Procedures())
	for _, flags := range []string{
		"-mode blocking -clients 5", "-mode blocking -clients 5 -once", "-mode async -inflight 50", "-mode async -inflight 50 -once",
		"-mode sql -clients 5", "-mode sql -clients 5 -once",
	} {
		args := append(strings.Fields(flags), "-addr", addr, "-duration", "300ms", "-every", "100ms", "-phones", "2000", "-max", "3")
		var out, errs bytes.Buffer
		if code := run(t.Context(), args, &out, &errs); code != 0 {
			t.Fatalf("%s: exit code %d\n%s%s", flags, code, &out, &errs)
		}
		for _, want := range []string{
			`voting for 300ms, mode `, `\n +second +calls/s`, `\n +0 +\d+ +\d+\.\d\d `, `\nThe winner is [A-Z][a-z]+ [A-Z][a-z]+\.\n`,
			`\nacknowledged \d+, refused \d+, failed 0, of unknown outcome 0; the server counted \d+\n`, `\nright: exactly the acknowledged votes\n`,
		} {
			if !regexp.MustCompile(want).MatchString(out.String()) {
				t.Errorf("%s: no %s in\n%s", flags, want, &out)
			}
		}
	}
}

// TestWrongTotalsAreFound votes at servers that acknowledge what they do not
// count, or count more than they acknowledge.
func TestWrongTotalsAreFound(t *testing.T) {
	t.Parallel()
	lost := proc.Define("vote", func(_ *proc.Tx, _ voter.VoteIn) (int64, error) { return 1, nil })
	twice := proc.Define("vote", func(tx *proc.Tx, in voter.VoteIn) (int64, error) {
		if _, err := voter.Vote.Run(tx, in); err != nil {
			return 0, err
		}
		return voter.Vote.Run(tx, in)
	})
	split := proc.Define("vote", func(tx *proc.Tx, in voter.VoteIn) (int64, error) {
		if _, err := tx.KV(0).Add([]byte("votes/1"), 1); err != nil {
			return 0, err
		}
		return voter.Vote.Run(tx, in)
	})
	for want, liar := range map[string]proc.Procedure{
		"acknowledged votes are missing": lost, "votes more than were cast": twice, "the server's counters do not agree": split,
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), []string{"-addr", exampletest.Address(t, voter.Procedures(), liar), "-duration", "100ms", "-clients", "3", "-max", "1000"}, &out, &errs)
		if code != load.ExitWrong || !strings.Contains(out.String(), "WRONG: ") || !strings.Contains(out.String(), want) {
			t.Errorf("%s: exit code %d\n%s%s", want, code, &out, &errs)
		}
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{
		"-mode=sideways":      `unknown -mode "sideways": use blocking, async or sql`,
		"-phones=99999999999": "-phones must be between 1 and 2000000000",
		"-phones=0":           "-phones must be between 1 and 2000000000",
		"-inflight=0":         "-inflight must be at least 1",
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), []string{flag}, &out, &errs); code != load.ExitUsage || errs.String() != "voter-load: "+want+"\n" {
			t.Errorf("%s: exit code %d, %s", flag, code, &errs)
		}
	}
}

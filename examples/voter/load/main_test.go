package main

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/examples/voter"
	"github.com/skerrydb/skerry/proc"
)

// serve runs a server with the vote, or with another procedure in the place of
// one of its own, and returns its address.
func serve(t *testing.T, instead ...proc.Procedure) string {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	db, err := embedded.Open(t.TempDir(), embedded.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	procedures := instead
	for _, p := range voter.Procedures() {
		if len(instead) == 0 || p.Schema().Name != instead[0].Schema().Name {
			procedures = append(procedures, p)
		}
	}
	srv, err := skerry.Open(db, skerry.Options{HTTP: skerry.Off, RESP: "127.0.0.1:0", Procedures: procedures, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Run(context.Background()) }()
	t.Cleanup(func() {
		srv.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return strings.TrimPrefix(srv.RESPURL(), "redis://")
}

// TestModes votes in every mode; there are so few phones that some votes are refused.
func TestModes(t *testing.T) {
	t.Parallel()
	addr := serve(t)
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
	apart := proc.Define("vote", func(tx *proc.Tx, in voter.VoteIn) (int64, error) {
		if _, err := tx.KV(0).Add([]byte("votes/1"), 1); err != nil {
			return 0, err
		}
		return voter.Vote.Run(tx, in)
	})
	for want, liar := range map[string]proc.Procedure{
		"acknowledged votes are missing": lost, "votes more than were cast": twice, "the server's counters do not agree": apart,
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), []string{"-addr", serve(t, liar), "-duration", "100ms", "-clients", "3", "-max", "1000"}, &out, &errs)
		if code != exitWrong || !strings.Contains(out.String(), "WRONG: ") || !strings.Contains(out.String(), want) {
			t.Errorf("%s: exit code %d\n%s%s", want, code, &out, &errs)
		}
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"-mode sideways -addr " + serve(t), exitFailed, "no mode"},
		{"-clients 0", exitUsage, "begin at 1"},
		{"-phones 99999999999", exitUsage, "begin at 1"},
		{"more", exitUsage, "behind the flags"},
		{"-nothing", exitUsage, "not defined"},
		{"-addr a:b:c", exitFailed, "HOST:PORT"},
		{"-addr other://host", exitFailed, "other"},
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), strings.Fields(c.args), &out, &errs); code != c.code || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: exit code %d, %s", c.args, code, &errs)
		}
	}
}

// TestNobodyThere: without a server the load says where it looked, soon. One
// takes connections and says nothing.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	for _, at := range []string{"127.0.0.1:1", silent.Addr().String()} {
		var out, errs bytes.Buffer
		begin := time.Now()
		code := run(t.Context(), []string{"-addr", "skerry://user:geheim@" + at}, &out, &errs)
		if code != exitFailed || out.String() != "connecting to "+at+"\n" || !strings.HasPrefix(errs.String(), "load: connect to "+at+": ") || strings.Contains(errs.String(), "geheim") {
			t.Errorf("exit code %d\n%s%s", code, &out, &errs)
		}
		if took := time.Since(begin); took > 20*time.Second { // 4 s, on a machine with time for it; a call may take 30 s
			t.Errorf("it took %v", took)
		}
	}
}

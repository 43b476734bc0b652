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
	"github.com/skerrydb/skerry/examples/bank"
	"github.com/skerrydb/skerry/proc"
)

// serve runs a server with the bank, or with another procedure in the place of
// one of its own, and returns its address.
func serve(t *testing.T, instead ...proc.Procedure) string {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	db, err := embedded.Open(t.TempDir(), embedded.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	procedures := instead
	for _, p := range bank.Procedures() {
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

func TestMoneyStays(t *testing.T) {
	t.Parallel()
	addr := serve(t)
	for _, flags := range []string{"-clients 5", "-clients 5 -once"} { // the second time on the same accounts
		args := append(strings.Fields(flags), "-addr", addr, "-duration", "400ms", "-every", "100ms", "-accounts", "10")
		var out, errs bytes.Buffer
		if code := run(t.Context(), args, &out, &errs); code != 0 {
			t.Fatalf("%s: exit code %d\n%s%s", flags, code, &out, &errs)
		}
		want := `(?s)^connecting to 127.0.0.1:\d+\n10 accounts, .*\ndone [1-9]\d*, refused [1-9]\d*, failed 0, of unknown outcome 0; 10 accounts with 1000000 cents, the poorest has \d+\n$`
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("%s:\n%s", flags, &out)
		}
	}
}

// TestWrongBooksAreFound uses servers that create money or allow overdrawn accounts.
func TestWrongBooksAreFound(t *testing.T) {
	t.Parallel()
	makesMoney := proc.Define("transfer", func(tx *proc.Tx, in bank.TransferIn) (bank.TransferOut, error) {
		n, err := bank.Deposit.Run(tx, bank.AmountIn{Account: in.To, Cents: in.Cents})
		return bank.TransferOut{To: n}, err
	})
	overdraws := proc.Define("transfer", func(tx *proc.Tx, in bank.TransferIn) (out bank.TransferOut, err error) {
		if out.From, err = tx.KV(0).Add([]byte("account/"+in.From), -in.Cents); err == nil {
			out.To, err = tx.KV(0).Add([]byte("account/"+in.To), in.Cents)
		}
		return out, err
	})
	for want, liar := range map[string]proc.Procedure{"accounts had": makesMoney, "an account has -": overdraws} {
		var out, errs bytes.Buffer
		args := []string{"-addr", serve(t, liar), "-duration", "300ms", "-clients", "3", "-accounts", "3"}
		if code := run(t.Context(), args, &out, &errs); code != exitWrong || !strings.Contains(out.String(), want) {
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
		{"-accounts 1", exitUsage, "begin at 1"},
		{"more", exitUsage, "behind the flags"},
		{"-nothing", exitUsage, "not defined"},
		{"-addr a:b:c", exitFailed, "HOST:PORT"},
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

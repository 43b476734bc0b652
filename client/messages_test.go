package client_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/client"
	"github.com/skerrydb/skerry/resp/wire"
)

// TestNoPassword connects without a password to a server that requires one.
func TestNoPassword(t *testing.T) {
	noLeaks(t)
	addr := startServer(t, skerry.Options{Password: "hunter2"})
	err := open(t, client.Options{Addrs: []string{addr}, Timeout: patience}).Ping(background)
	if want := "the server requires a password: skerry://:PASSWORD@" + addr + " [unauthenticated]"; err == nil || err.Error() != want {
		t.Errorf("without a password: %v, want %s", err, want)
	}
	err = open(t, client.Options{Addrs: []string{addr}, Password: "wrong", Timeout: patience}).Ping(background)
	if err == nil || !strings.HasPrefix(err.Error(), "WRONGPASS ") {
		t.Errorf("with another one: %v", err)
	}
}

// TestOtherProtocols connects to servers of other protocols than Redis's.
func TestOtherProtocols(t *testing.T) {
	noLeaks(t)
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	ssh, _ := startText(t, "SSH-2.0-OpenSSH_9.2\r\n")
	for _, addr := range []string{web.Listener.Addr().String(), ssh} {
		err := open(t, client.Options{Addrs: []string{addr}, Timeout: 300 * time.Millisecond}).Ping(background)
		want := addr + " does not speak the Redis protocol; is this its HTTP address? [unavailable]"
		if !errors.Is(err, client.ErrUnavailable) || !strings.HasSuffix(err.Error(), ": "+want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestCodeOnce checks that the code is shown once at the end, even if one error wraps
// another.
func TestCodeOnce(t *testing.T) {
	noLeaks(t)
	err := open(t, client.Options{Addrs: []string{unused(t)}, Timeout: 50 * time.Millisecond}).Ping(background)
	if !errors.Is(err, client.ErrUnavailable) || strings.Count(err.Error(), "[unavailable]") != 1 || !strings.HasSuffix(err.Error(), "[unavailable]") {
		t.Errorf("nobody there: %v", err)
	}
	var n struct{ A int }
	err = client.ResultOf([]byte("%1\r\n+A\r\n+x\r\n")).Scan(&n)
	if !errors.Is(err, client.ErrWrongType) || strings.Count(err.Error(), "[") != 1 {
		t.Errorf("a field of another type: %v", err)
	}
}

// TestCallReadOfWriter checks that the error of CallRead for a procedure that may write
// suggests the fix.
func TestCallReadOfWriter(t *testing.T) {
	noLeaks(t)
	c := open(t, client.Options{Addrs: []string{startServer(t, skerry.Options{})}, Timeout: patience})
	_, err := c.CallRead(background, "add", "k", 1)
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != "read_only" || e.Error() != "add may write: use Call [read_only]" {
		t.Errorf("CallRead: %v", err)
	}
	f := startFake(t, func(w *wire.Writer, _ int, _ [][]byte) bool {
		w.Error("ERR Can not execute a script with write flag using *_ro command. Procedure p writes: call it with FCALL (node 2 leads and runs another version of the program) [read_only]")
		return true
	})
	c = open(t, client.Options{Addrs: []string{f.addr()}, Timeout: patience})
	_, err = c.CallRead(background, "p")
	if want := "p may write: use Call (node 2 leads and runs another version of the program) [read_only]"; err == nil || err.Error() != want {
		t.Errorf("CallRead in two versions: %v", err)
	}
}

// TestResultString checks the human-readable form of results, up to its limit.
func TestResultString(t *testing.T) {
	for reply, want := range map[string]string{
		"":                              "null",
		"_\r\n":                         "null",
		":5\r\n":                        "5",
		"#t\r\n":                        "true",
		",1.5\r\n":                      "1.5",
		"$5\r\nhello\r\n":               `"hello"`,
		"$3\r\n\x00\xff\n\r\n":          `"\x00\xff\n"`,
		"*2\r\n:1\r\n-ERR no [bad]\r\n": `[1,"ERR no [bad]"]`,
		"%2\r\n+text\r\n$5\r\nhello\r\n$5\r\ntimes\r\n:3\r\n": `{"text":"hello","times":3}`,
		"*0\r\n":                        "[]",
		"|1\r\n+a\r\n:1\r\n*1\r\n_\r\n": "[null]",
		"*3\r\n:1\r\n":                  "[1,null,null]",
	} {
		if got := client.ResultOf([]byte(reply)).String(); got != want {
			t.Errorf("%q: %s, want %s", reply, got, want)
		}
	}
	if got := fmt.Sprint(client.ResultOf([]byte("$1\r\nx\r\n"))); got != `"x"` {
		t.Errorf("printed: %s", got)
	}
	fits := strings.Repeat("x", client.MaxStringBytes-2)
	for text, whole := range map[string]bool{fits: true, fits + "x": false, strings.Repeat("ä", client.MaxStringBytes): false, strings.Repeat("\x80", 1<<20): false} {
		var w wire.Writer
		w.BulkString(text)
		got := client.ResultOf(w.Buf).String()
		if whole != (got == `"`+text+`"`) || whole == strings.HasSuffix(got, "…") || len(got) > client.MaxStringBytes+len("…") || strings.Contains(got, "\ufffd") {
			t.Errorf("%d bytes: %d: %.20s…%s", len(text), len(got), got, got[max(0, len(got)-8):])
		}
	}
	got := client.ResultOf([]byte("*100000\r\n" + strings.Repeat(":7\r\n", 100000))).String()
	if len(got) != client.MaxStringBytes+len("…") || !strings.HasPrefix(got, "[7,7,") {
		t.Errorf("a long list is %d bytes", len(got))
	}
}

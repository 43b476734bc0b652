package resp_test

import (
	"context"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/engine/enginetest"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/resp"
)

// TestOnePartition talks to a server on an engine that is atomic over one partition, and has no scans, feed, positions
// or clock: commands on keys of one tag work, also in pipelines and transactions, and all others are refused and
// change nothing.
func TestOnePartition(t *testing.T) {
	store, err := kv.New(enginetest.Within(openEngine(t, embedded.Options{}), engine.OnePartition), kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := resp.New(store, nil, resp.Options{Logger: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	l, served := loopback(t), make(chan error, 1)
	go func() { served <- srv.Serve(context.Background(), l) }()
	t.Cleanup(func() {
		srv.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	a := newAsker(t, l.Addr().String())
	for _, c := range []struct{ command, want string }{
		{"SET k v EX 10999", "OK"},
		{"TTL k", "109*"}, // the clock may go back,
		{"APPEND k w", "2"},
		{"GETRANGE k 0 -1", "vw"},
		{"GETSET k 1", "vw"},
		{"INCRBY k 41", "42"},
		{"PERSIST k", "0"},
		{"EXISTS k none", "1"},
		{"MGET k {t}a none", "[42 nil nil]"},
		{"MSETNX {t}a 1 {t}b 2", "1"},
		{"RENAME {t}a {t}c", "OK"},
		{"MGET {t}a {t}b {t}c", "[nil 2 1]"},
		{"DEL {t}b {t}c", "2"},
		{"RENAME k other", "ERR key*"},
		{"MSET k 1 l 2", "ERR key*"},
		{"MGET k l", "[42 nil]"},
		{"WATCH {t}a", "OK"},
		{"MULTI", "OK"},
		{"SET {t}a 1", "QUEUED"},
		{"INCR {t}a", "QUEUED"},
		{"EXEC", "[OK 2]"},
		{"MULTI", "OK"},
		{"INCR {t}a", "QUEUED"},
		{"INCR k", "QUEUED"},
		{"EXEC", "ERR*"},
		{"MGET {t}a k", "[2 42]"},
		{"OBJECT ENCODING k", "int"},
		{"SCAN 0", "ERR listing*"},
		{"DBSIZE", "ERR listing*"},
		{"FLUSHDB", "ERR listing*"},
	} {
		got := show(t, a.ask(strings.Fields(c.command)...))
		if prefix, more := strings.CutSuffix(c.want, "*"); got != c.want && !(more && strings.HasPrefix(got, prefix)) {
			t.Errorf("%s: %s, want %s", c.command, got, c.want)
		}
	}
	for i := range 3 { // a pipeline: each command is a transaction
		for _, key := range []string{"p", "q", "r"} {
			a.send("INCR " + key)
		}
		for range 3 {
			if got := show(t, a.next()); got != string(rune('1'+i)) {
				t.Errorf("pipeline %d: %s", i, got)
			}
		}
	}
}

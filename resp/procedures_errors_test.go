package resp_test

import (
	"bytes"
	"cmp"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/resp"
)

// TestCallsThatSpeakForNodes checks that an error of a procedure with a code of a node is
// not mistaken for the node's: the call is not sent again.
func TestCallsThatSpeakForNodes(t *testing.T) {
	var runs atomic.Int32
	says := proc.Define("says", func(tx *proc.Tx, in keyArgs) (int64, error) {
		runs.Add(1)
		if _, err := tx.KV(0).Add([]byte("written"), 1); err != nil {
			return 0, err
		}
		return 0, engine.Errorf(engine.Code(in.Key), "so it says")
	})
	all := startNodes(t, 2, resp.Options{}, []proc.Procedure{says}, []proc.Procedure{says})
	for _, id := range []int{1, 2} { // on the leader, and forwarded
		a := all.ask(id)
		for _, code := range []string{"outcome_unknown", "not_leader", ""} {
			for _, words := range [][]string{{"CALL", "says", code}, {"CALLONCE", fmt.Sprint(id, code), "says", code}} {
				before := runs.Load()
				a.want("ERR so it says [procedure_failed]", words...)
				if n := runs.Load() - before; n != 1 {
					t.Errorf("node %d: %q ran %d times", id, words, n)
				}
			}
		}
		for _, code := range []string{"queue_full", "closed", "stopped", "conflict"} { // about another node's call
			if v := show(t, a.ask("CALLONCE", fmt.Sprint(id, code), "says", code)); !strings.HasSuffix(v, " so it says ["+code+"]") {
				t.Errorf("node %d: %s", id, v)
			}
		}
		a.want("nil", "GET", "written")
	}
}

// TestErrorWords checks that the kind of a code determines the first word of a reply,
// including for codes that other packages declare.
func TestErrorWords(t *testing.T) {
	says := proc.DefineRead("says", func(_ *proc.Tx, in keyArgs) (int64, error) {
		return 0, engine.Errorf(engine.Code(in.Key), "text")
	})
	eng := openEngine(t, embedded.Options{})
	own := []engine.Meaning{{Code: "own_busy", Kind: engine.KindBusy}, {Code: "own_conflict", Kind: engine.KindConflict}}
	a := newAsker(t, serveOn(t, eng, resp.Options{Procedures: testProcedures(t, eng, says), Errors: [][]engine.Meaning{own}}))
	words := map[engine.Code]string{
		engine.CodeConflict: "TRYAGAIN", engine.CodeDiskFull: "MISCONF", engine.CodeFilesFull: "BUSY", engine.CodeMemoryFull: "OOM",
		engine.CodePositionTimeout: "TRYAGAIN", engine.CodeQueueFull: "BUSY", engine.CodeReadOnly: "READONLY", engine.CodeStopped: "MISCONF",
		engine.CodeUnauthenticated: "NOAUTH", "own_busy": "BUSY",
	}
	for _, m := range append(append(engine.Catalog(), own...), engine.Meaning{Code: "unknown"}) {
		if m.Code == engine.CodeNotLeader || m.Code == engine.CodeOutcomeUnknown {
			continue // procedures may not return these
		}
		a.want(cmp.Or(words[m.Code], "ERR")+" text ["+string(m.Code)+"]", "CALL", "says", string(m.Code))
	}
}

// TestConflictOfOneCall checks that a read-only call that returns a conflict does not fail
// the reads that run with it.
func TestConflictOfOneCall(t *testing.T) {
	clash := proc.DefineRead("clash", func(*proc.Tx, noArgs) (int64, error) {
		return 0, engine.Errorf(engine.CodeConflict, "the versions differ")
	})
	eng := openEngine(t, embedded.Options{})
	a := newAsker(t, serveOn(t, eng, resp.Options{Procedures: testProcedures(t, eng, clash)}))
	const failed = "TRYAGAIN the versions differ [conflict]"
	for _, c := range []struct{ in, want string }{
		{"SET k v,GET k,CALL clash,GET k", "OK,v," + failed + ",v"},
		{"CALL clash,GET k", failed + ",v"},
		{"GET k,GET k,CALL clash,CALL clash,GET k,CALL clash", "v,v," + failed + "," + failed + ",v," + failed},
		{"GET k,CALL clash,SET k w,GET k,CALL clash", "v," + failed + ",OK,w," + failed},
		{"GET k,MULTI,GET k,CALL clash,EXEC,GET k", "w,OK,QUEUED,QUEUED," + failed + ",w"},
		{"GET k,CLIENT REPLY SKIP,CALL clash,GET k", "w,w"},
	} {
		a.nc.Write([]byte(strings.ReplaceAll(c.in, ",", "\r\n") + "\r\n"))
		for i, want := range strings.Split(c.want, ",") {
			if v := show(t, a.next()); v != want {
				t.Errorf("%s: reply %d: %s, want %s", c.in, i, v, want)
			}
		}
	}
}

// TestCallOnceRefusedLater: a call with a key whose outcome is unknown is sent again and
// then refused before the key was looked up. It may still have run.
func TestCallOnceRefusedLater(t *testing.T) {
	born := proc.Define("born", func(tx *proc.Tx, _ noArgs) (int64, error) { return tx.KV(0).Add([]byte("born"), 1) })
	all := startNodes(t, 3, resp.Options{}, []proc.Procedure{born}, nil, nil)
	lose := breaks(all.list[1])
	a := all.ask(2)
	for i, code := range []engine.Code{engine.CodeQueueFull, engine.CodeClosed, engine.CodeStopped, engine.CodeDiskFull, engine.CodeFilesFull} {
		refuse := func() {
			after := func() error {
				all.list[0].after.Store(nil)
				return engine.Errorf(code, "not now; nothing was written")
			}
			all.list[0].after.Store(&after)
		}
		lose.Store(&refuse)
		key := fmt.Sprint("key", i)
		a.want(replyUnknown, "CALLONCE", key, "add", "n", "1")
		if lose.Load() != nil || all.list[0].after.Load() != nil {
			t.Errorf("%s: the connection was not broken, or the call not sent again", code)
		}
		a.want(fmt.Sprint(i+1), "CALLONCE", key, "add", "n", "1")
	}
	other := func() { all.lead(3) } // its program does not have the procedure
	lose.Store(&other)
	a.want(replyUnknown, "CALLONCE", "born", "born")
	all.lead(1)
	a.want("1", "CALLONCE", "born", "born")
}

// TestReadsOfOtherPrograms checks that a call that only reads in this node's program cannot
// write in the leader's, however it gets there and however often.
func TestReadsOfOtherPrograms(t *testing.T) {
	reads := proc.DefineRead("turned", func(*proc.Tx, keyArgs) (int64, error) { return -1, nil })
	writes := proc.Define("turned", func(tx *proc.Tx, in keyArgs) (int64, error) { return tx.KV(0).Add([]byte(in.Key), 1) })
	all := startNodes(t, 2, resp.Options{}, []proc.Procedure{writes}, []proc.Procedure{reads})
	lose := breaks(all.list[1])
	a := all.ask(2)
	const begins = "ERR Can not execute a script with write flag using *_ro command. Procedure turned writes: call it with FCALL"
	const refused = begins + " (node 1 leads and runs another version of the program) [read_only]"
	for i, call := range []string{"CALL turned n", "FCALL turned 1 n", "FCALL_RO turned 0 n", "CALLONCE k turned n", "MULTI,CALL turned n,EXEC"} {
		want := []string{fmt.Sprint(i + 1), refused}
		if i == 4 {
			want = []string{fmt.Sprint(i + 1), "OK", "QUEUED", "[" + begins + " [read_only]]"}
		}
		nothing := func() {}
		lose.Store(&nothing)
		a.nc.Write([]byte(strings.ReplaceAll(fmt.Sprintf("CALLONCE k%d add m 1,%s", i, call), ",", "\r\n") + "\r\n"))
		for j, want := range want {
			if v := show(t, a.next()); v != want {
				t.Errorf("%s: reply %d: %s, want %s", call, j, v, want)
			}
		}
		if lose.Load() != nil {
			t.Errorf("%s: the connection was not broken", call)
		}
		a.want("nil", "GET", "n")
		a.want("-1", strings.Fields(strings.TrimSuffix(strings.TrimPrefix(call, "MULTI,"), ",EXEC"))...)
	}
}

// TestRefusedByVersionBefore: a leader of the previous version refuses calls only in the
// text of its reply, which this node does not interpret. No reply may then claim that a
// call has not run if it may have. A node of the previous version must also work with a
// leader of this one.
func TestRefusedByVersionBefore(t *testing.T) {
	born := proc.Define("born", func(tx *proc.Tx, _ noArgs) (int64, error) { return tx.KV(0).Add([]byte("born"), 1) })
	all := startNodes(t, 3, resp.Options{}, []proc.Procedure{born}, nil, nil)
	lose := breaks(all.list[1])
	wrap := func(nc net.Conn) net.Conn { return before{&breaker{Conn: nc, lose: lose}} }
	all.list[1].wrap.Store(&wrap)
	a := all.ask(2)
	const unknown = "ERR there is no procedure nothing (node 1 leads and runs another version of the program) [unknown_procedure]"
	a.want(unknown, "CALL", "nothing") // not that this node does not have it either
	other := func() { all.lead(3) }    // its program does not have the procedure
	lose.Store(&other)
	a.want(replyUnknown, "CALLONCE", "k", "born")
	all.lead(1)
	a.want("1", "CALLONCE", "k", "born")
}

// before is a connection between nodes, one of which does not support SKERRY REFUSALS.
type before struct{ net.Conn }

func (b before) Write(p []byte) (int, error) {
	return b.Conn.Write(bytes.ReplaceAll(p, []byte("REFUSALS"), []byte("REFUSALX")))
}

// TestUnwritableInTransaction checks that a call whose result exceeds the limit is undone
// together with its key, even within a transaction.
func TestUnwritableInTransaction(t *testing.T) {
	large := proc.Define("large", func(tx *proc.Tx, in sizeArgs) ([]byte, error) {
		_, err := tx.KV(0).Add([]byte("large"), 1)
		return make([]byte, in.Bytes), err
	})
	eng := openEngine(t, embedded.Options{})
	a := newAsker(t, serveOn(t, eng, resp.Options{Procedures: testProcedures(t, eng, large)}))
	size := fmt.Sprint(proc.DefaultMaxResult + 1)
	const over = "ERR the result of large is over the limit of 16777216 bytes [limit]"
	a.want(over, "CALL", "large", size)
	a.want("OK", "MULTI")
	a.want("QUEUED", "CALL", "add", "n", "1")
	a.want("QUEUED", "CALL", "large", size)
	a.want("QUEUED", "CALL", "value", "large")
	a.want("QUEUED", "CALL", "add", "n", "1")
	a.want("[1 "+over+" nil 2]", "EXEC")
	a.want("nil", "GET", "large")
	a.want("2", "GET", "n")
}

// TestNameForCommand checks that a procedure's name in place of a command gives a hint how
// to call it, but not to clients that have not authenticated.
func TestNameForCommand(t *testing.T) {
	eng := openEngine(t, embedded.Options{})
	a := newAsker(t, serveOn(t, eng, resp.Options{Password: "p", Procedures: testProcedures(t, eng)}))
	const redis = "ERR unknown command 'add', with args beginning with: 'n' '1' "
	a.want(redis, "add", "n", "1")
	a.want("OK", "AUTH", "p")
	a.want(redis+"(it is a procedure: CALL add …)", "add", "n", "1")
	a.want("ERR unknown command 'shape', with args beginning with: (it is a procedure: CALL shape …)", "shape")
	a.want("ERR unknown command 'ADD', with args beginning with: ", "ADD") // names are case-sensitive
}

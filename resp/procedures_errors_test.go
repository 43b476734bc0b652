package resp_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/resp"
	"github.com/skerrydb/skerry/resp/wire"
)

// TestCallsThatSpeakForNodes: what a procedure says of itself in the words of a
// node is taken for neither: the call is not sent again.
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
	for _, id := range []int{1, 2} { // on the leader, and by forwarding
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
		for _, code := range []string{"queue_full", "closed", "stopped", "conflict"} { // what it says of another node's call
			if v := show(t, a.ask("CALLONCE", fmt.Sprint(id, code), "says", code)); !strings.HasSuffix(v, " so it says ["+code+"]") {
				t.Errorf("node %d: %s", id, v)
			}
		}
		a.want("nil", "GET", "written")
	}
}

// TestConflictOfOneCall: a call that only reads and says that it conflicts does
// not fail what is read beside it.
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

// TestSchemasOverLimit: a schema may be asked for often in one command, up to the
// limit of a reply.
func TestSchemasOverLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 500 MB")
	}
	long := proc.Define("long", func(*proc.Tx, noArgs) (int64, error) { return 0, nil }).Describe(strings.Repeat("word ", 1000))
	eng := openEngine(t, embedded.Options{})
	a := newAsker(t, serveOn(t, eng, resp.Options{Procedures: testProcedures(t, eng, long)}))
	one := len(a.ask("PROC", "SCHEMA", "long").Str) - 1 // with the comma
	for _, c := range []struct {
		n   int
		too bool
	}{{2, false}, {resp.MaxReplyBytes/one + 2, true}} {
		words := []string{"PROC", "SCHEMA"}
		for range c.n {
			words = append(words, "long")
		}
		v := a.ask(words...)
		if too := v.Kind == wire.KindError; too != c.too || !too && len(v.Str) != c.n*one+1 || too && !strings.HasSuffix(string(v.Str), "[limit]") {
			t.Errorf("%d schemas: %.100q", c.n, v.Str)
		}
	}
}

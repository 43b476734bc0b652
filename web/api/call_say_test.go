package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/web/api"
	"github.com/skerrydb/skerry/web/problem"
)

type unwritable struct{}

// MarshalJSON panics.
func (unwritable) MarshalJSON() ([]byte, error) { panic("secret of the program") }

// faultyProcedures are testProcedures, and some that go wrong in other ways.
func faultyProcedures() procedures {
	return append(testProcedures(),
		proc.Define("wordy.code", func(*proc.Tx, nothing) (nothing, error) {
			return nothing{}, engine.Errorf(engine.Code(strings.Repeat("c", api.MaxCodeBytes+1)), "text")
		}),
		proc.Define("secretive", func(*proc.Tx, nothing) (nothing, error) {
			return nothing{}, engine.Errorf(engine.CodeInternal, "secret of the program")
		}),
		proc.DefineRead("unwritable", func(*proc.Tx, nothing) (unwritable, error) { return unwritable{}, nil }),
	)
}

// TestCallSays: refusals say what to do instead.
func TestCallSays(t *testing.T) {
	s := serveProcedures(t, testProcedures(), api.Options{})
	const json415 = "the arguments must be a JSON object: application/json in UTF-8 (curl --json sends it), not "
	for _, c := range []struct {
		method, name, kind string
		status             int
		detail, allow      string
	}{
		{"POST", "vote", "application/x-www-form-urlencoded", 415, json415 + "application/x-www-form-urlencoded", ""},
		{"POST", "vote", "application/json; charset=latin1", 415, json415 + "application/json; charset=latin1", ""},
		{"POST", "vote", "text/\xff\tä" + strings.Repeat("x", 80), 415, json415 + "text/???" + strings.Repeat("x", 71) + "…", ""},
		{"GET", "vote", "", 405, "procedure vote writes; call it with POST", "POST, OPTIONS"},
		{"DELETE", "vote", "", 405, "procedure vote writes; call it with POST", "POST, OPTIONS"},
		{"DELETE", "ping", "", 405, "DELETE is not allowed here, only GET, HEAD, POST, OPTIONS", "GET, HEAD, POST, OPTIONS"},
	} {
		var headers []string
		if c.kind != "" {
			headers = []string{"Content-Type", c.kind}
		}
		got := s.do(t, c.method, "/api/call/"+c.name, strings.NewReader("a=b"), headers...)
		var p problem.Problem
		if err := json.Unmarshal(got.body, &p); err != nil || got.status != c.status || !strings.HasSuffix(p.Detail, c.detail) || got.header.Get("Allow") != c.allow {
			t.Errorf("%s %s %q: %d %v %s, want %s", c.method, c.name, c.kind, got.status, got.header, got.body, c.detail)
		}
	}
}

// TestCallFaults: the response to a fault in a procedure names only the procedure; the details are in the log.
func TestCallFaults(t *testing.T) {
	var log logged
	s := serveProcedures(t, faultyProcedures(), api.Options{Logger: log.logger()})
	for _, name := range []string{"broken", "secretive", "unwritable"} {
		got := s.do(t, "POST", "/api/call/"+name, nil)
		var p problem.Problem
		want := fmt.Sprintf("procedure %s failed; the server's log has the details", name)
		if err := json.Unmarshal(got.body, &p); err != nil || got.status != 500 || p.Code != engine.CodeInternal || p.Detail != want || strings.Contains(string(got.body), "secret of") {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
		if !strings.Contains(log.String(), "call "+name+": ") {
			t.Errorf("%s is not in the log:\n%s", name, log.String())
		}
	}
	s.do(t, "POST", "/api/call/wordy.code", nil).is(t, "a long code", 422, engine.Code(strings.Repeat("c", api.MaxCodeBytes)))
}

package api

import (
	"errors"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/web/conditions"
	"github.com/skerrydb/skerry/web/problem"
)

const (
	readMethods  = "GET, HEAD, POST, OPTIONS" // of a procedure that only reads
	writeMethods = "POST, OPTIONS"

	// procedureHeader sends the leader the version of the procedure that the forwarding node has:
	// procedure.sum, or noProcedure. With readsSuffix the procedure only reads; the call is then repeated if
	// its response is lost.
	procedureHeader = "X-Skerry-Procedure"
	noProcedure     = "none"
	readsSuffix     = "-reads"
)

// call calls the procedure in the path, on this node or the leader. The leader decides which procedures exist:
// during an upgrade its program may have other procedures than this one.
func (x *operation) call(r *http.Request) error {
	if r.URL.RawPath != "" || !plainName(procedureOf(r)) {
		return errCallPath
	}
	err := x.here(r, (*operation).callHere)
	if x.fromNode && x.app.forward != nil {
		return x.otherVersion(r, err)
	}
	return err
}

var errCallPath = engine.Errorf(problem.CodeNoRoute, "expected %s and the name of a procedure, unescaped; GET /api/procedures lists them", callPath)

// procedureOf returns the name of the procedure that r calls.
func procedureOf(r *http.Request) string { return r.URL.Path[len(callPath):] }

// plainName reports whether a procedure can have that name at all.
func plainName(name string) bool {
	return name != "" && len(name) <= proc.MaxNameBytes &&
		!strings.ContainsFunc(name, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '.' || r == '-')
		})
}

// callHere is call on this node. It may be called again, as handlers of keys may.
func (x *operation) callHere(r *http.Request) error {
	a, name := x.app, procedureOf(r)
	if x.fromNode && a.o.Cluster != nil {
		if s := a.o.Cluster.State(); s.Leader != s.Self {
			return engine.ErrNotLeader // the leader must decide
		}
	}
	p, known := a.procedures[name]
	if x.procedure = p.sum; !known {
		x.procedure = noProcedure
		return x.callUnknown(r, name)
	}
	x.reading = p.schema.ReadOnly
	switch reads := r.Method == http.MethodGet || r.Method == http.MethodHead; {
	case r.Method == http.MethodPost, reads && x.reading:
	case x.reading:
		return x.c.OtherMethod(readMethods)
	default:
		if err := x.c.OtherMethod(writeMethods); err == nil {
			return nil
		}
		return engine.Errorf(problem.CodeMethodNotAllowed, "procedure %s writes; call it with POST", name)
	}
	if theirs := r.Header[procedureHeader]; x.fromNode && !x.reading && len(theirs) == 1 && strings.HasSuffix(theirs[0], readsSuffix) {
		return engine.Errorf(engine.CodeReadOnly, "procedure %s writes, but was called as read-only; nothing was written", name)
	}
	read, err := x.callParameters(r, &p)
	if err != nil {
		return err
	}
	if !x.reading && x.othersLead() {
		return engine.ErrNotLeader
	}
	c, err := a.o.Procedures.Begin([]byte(name))
	if err != nil {
		return err
	}
	if err := x.arguments(r, c); err != nil {
		c.End()
		return err
	}
	x.running = c
	return x.run(r, read, name)
}

// callUnknown responds for a procedure that this program does not have.
func (x *operation) callUnknown(r *http.Request, name string) error {
	if x.othersLead() {
		if r.Method == http.MethodPost {
			if err := x.callBody(r); err != nil {
				return err
			}
		}
		return engine.ErrNotLeader
	}
	if x.app.o.Procedures == nil {
		return engine.Errorf(engine.CodeUnknownProcedure, "there is no procedure %s: this program has none", name)
	}
	_, err := x.app.o.Procedures.Schema(name)
	return err
}

// callParameters reads everything of the request but the arguments, whose JSON it leaves in x.val.
func (x *operation) callParameters(r *http.Request, p *procedure) (read engine.Read, err error) {
	if r.Method != http.MethodPost {
		q, err := query(r, p.parameters...)
		if err != nil {
			return read, err
		}
		if x.val, err = p.queryJSON(x.val[:0], q); err != nil {
			return read, err
		}
		x.head = r.Method == http.MethodHead
		return readOf(r, q)
	}
	if x.reading {
		q, err := query(r, "read", "max_stale")
		if err != nil {
			return read, err
		}
		if read, err = readOf(r, q); err != nil {
			return read, err
		}
	} else if _, err := query(r); err != nil {
		return read, err
	}
	return read, x.callBody(r)
}

// callBody checks the headers of a call by POST and reads its body.
func (x *operation) callBody(r *http.Request) (err error) {
	h := r.Header
	switch {
	case h["Content-Range"] != nil:
		return badHeader("Content-Range", engine.CodeInvalid, "not supported: the arguments must be sent as a whole")
	case h["Content-Encoding"] != nil && !slices.Equal(h["Content-Encoding"], []string{"identity"}):
		return badHeader("Content-Encoding", problem.CodeMediaType, "not supported: the arguments must be sent unencoded")
	case h["If-Match"] != nil, h["If-None-Match"] != nil, h["If-Unmodified-Since"] != nil:
		return engine.Errorf(engine.CodeInvalid, "a call cannot have conditions; the procedure can check them instead")
	}
	if x.once.key, err = conditions.Once(h); err != nil || x.gathered {
		return err
	}
	if r.ContentLength == 0 {
		x.val, x.gathered = x.val[:0], true
		return nil
	}
	if err := jsonOnly(h); err != nil {
		return err
	}
	if err := x.readBody(r, bodyLimit{MaxCallBytes, problem.CodeBodyTooLarge, "the arguments are"}); err != nil {
		return err
	}
	x.gathered = true
	return nil
}

// jsonOnly refuses a body that is declared not to be JSON. A body without a declared type counts as JSON.
func jsonOnly(h http.Header) error {
	text, ok, err := single(h, "Content-Type")
	if err != nil || !ok || text == "application/json" {
		return err
	}
	kind, parameters, err := mime.ParseMediaType(text)
	charset := parameters["charset"]
	if err != nil || kind != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return badHeader("Content-Type", problem.CodeMediaType, "the arguments must be a JSON object: application/json in UTF-8 (curl --json sends it), not "+printable(text))
	}
	return nil
}

// maxShown is how many bytes of a client's own text appear in a detail.
const maxShown = 80

// printable returns a client's own text in the form for a detail.
func printable(text string) string {
	shown := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text[:min(len(text), maxShown)])
	if len(text) > maxShown {
		shown += "…"
	}
	return shown
}

// arguments sets the arguments of c from x.val.
func (x *operation) arguments(r *http.Request, c *proc.Call) error {
	err := c.JSON(x.val)
	if bad, ok := errors.AsType[*proc.ArgumentError](err); ok && bad.Pointer != "" {
		f := problem.Fault{Pointer: bad.Pointer, Code: bad.Err.Code, Detail: bad.Err.Msg}
		if r.Method != http.MethodPost {
			name, _, _ := strings.Cut(bad.Pointer[1:], "/")
			f.Pointer, f.Parameter = "", strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		}
		return &engine.Error{Code: f.Code, Msg: f.Detail, Err: problem.Faults{f}}
	}
	if err != nil || x.once.key == nil {
		return err
	}
	return c.Once(x.once.key)
}

// callFault is a fault in the program during a call. Its detail names only the procedure; the text of err is
// for the log.
type callFault struct {
	name string
	err  error
}

func (e *callFault) Error() string { return "call " + e.name + ": " + e.err.Error() }

// Unwrap exposes the error to engine.CodeOf.
func (e *callFault) Unwrap() error { return e.err }

// PublicDetail implements problem.WithDetail.
func (e *callFault) PublicDetail() string {
	return "procedure " + e.name + " failed; the server's log has the details"
}

// run runs x.running, a call of the procedure called name, and responds with its result.
func (x *operation) run(r *http.Request, read engine.Read, name string) (err error) {
	var pos engine.Position
	if x.reading {
		pos, err = x.view(r, read, x.callFn)
	} else {
		pos, err = x.app.store.Update(r.Context(), 0, x.callFn)
	}
	if err == error(&x.refused) {
		// runIn has ended, so nothing else uses x.
		if err = x.refused.err; engine.CodeOf(err) == engine.CodeInternal {
			return &callFault{name, err} // x.running is not reused: a panic may have left it in any state
		}
		x.running.End()
		x.running, x.refused.err = nil, nil
		return err
	}
	if err != nil {
		// The call may have been abandoned while it waited to run: then the engine still has x and x.running.
		x.kept = true
		return err
	}
	if x.running.Replayed() {
		x.Header()[conditions.ReplayedHeader] = []string{"true"}
	}
	verdict := x.running.Verdict()
	x.running.End()
	x.running = nil
	if verdict != nil {
		x.setPosition(pos)
		return ofProcedure(verdict)
	}
	x.answer(pos)
	return nil
}

// callFailure is the error with which runIn ended.
type callFailure struct{ err error }

func (r *callFailure) Error() string { return r.err.Error() }

// Unwrap exposes the error to engine.CodeOf.
func (r *callFailure) Unwrap() error { return r.err }

// runIn is run's transaction. It leaves the result in x.text. If the result is too large, nothing is written.
func (x *operation) runIn(t *kv.Tx) error {
	if err := x.runCall(t); err != nil {
		x.refused.err = err
		return &x.refused
	}
	return nil
}

func (x *operation) runCall(t *kv.Tx) error {
	err := x.running.Run(t.Engine())
	if err != nil {
		return ofProcedure(err)
	}
	if x.running.Verdict() != nil {
		return nil //nolint:nilerr // it is remembered, so the transaction has to be committed
	}
	if x.text, err = x.running.AppendJSON(x.text[:0]); err != nil {
		return err
	}
	x.text = append(x.text, '\n')
	return x.room(len(x.text))
}

// answer responds with the result in x.text.
func (x *operation) answer(pos engine.Position) {
	h := x.Header()
	h["Cache-Control"] = x.app.noStore
	h["Content-Type"] = x.app.json
	h["X-Content-Type-Options"] = x.app.noSniff
	n := len(x.text)
	both := strconv.AppendUint(x.text, uint64(pos), 10)
	position := len(both)
	both = strconv.AppendInt(both, int64(n), 10)
	text, vals := string(both[n:]), make([]string, 2)
	vals[0], vals[1] = text[:position-n], text[position-n:]
	h[positionHeader], h["Content-Length"] = vals[0:1:1], vals[1:2:2]
	x.WriteHeader(http.StatusOK)
	if !x.head {
		_, _ = x.Write(x.text) // an error means that the client is gone
	}
}

// ofProcedure returns an error of a procedure as the client gets it.
func ofProcedure(err error) error {
	e, ok := errors.AsType[*engine.Error](err)
	if !ok {
		return err
	}
	if len(e.Msg) > MaxDetailBytes {
		e = &engine.Error{Code: e.Code, Msg: strings.ToValidUTF8(e.Msg[:MaxDetailBytes], "") + "…", Err: err}
		err = e
	}
	if len(e.Code) > MaxCodeBytes {
		e = &engine.Error{Code: engine.Code(strings.ToValidUTF8(string(e.Code[:MaxCodeBytes]), "")), Msg: e.Msg, Err: err}
		err = e
	}
	switch e.Code {
	case engine.CodeNotLeader, engine.CodeOutcomeUnknown, "":
		// It is not about this transaction, which runs. Returned unchanged, the request would be tried on
		// another node.
		return &engine.Error{Code: engine.CodeProcedureFailed, Msg: e.Msg, Err: err}
	}
	return err
}

// otherVersion adds to err, the error of a forwarded call, that the programs of the nodes may differ.
func (x *operation) otherVersion(r *http.Request, err error) error {
	theirs := r.Header[procedureHeader]
	e, ok := errors.AsType[*engine.Error](err)
	if !ok || len(theirs) != 1 || theirs[0] == x.procedure {
		return err
	}
	_, wrong := errors.AsType[problem.Faults](err)
	switch e.Code {
	case engine.CodeUnknownProcedure, engine.CodeReadOnly, problem.CodeMethodNotAllowed:
	default:
		if !wrong {
			return err
		}
	}
	return &engine.Error{Code: e.Code, Err: err,
		Msg: e.Msg + " (node " + x.app.node[0] + " leads and runs another version of the program)"}
}

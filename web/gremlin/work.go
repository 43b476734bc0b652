package gremlin

import (
	"math"
	"time"

	lang "github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/value"
)

// work is what a request asks for, once its arguments have been checked.
type work struct {
	req      Request
	args     *value.Map
	text     string // to be parsed to req.Traversal, if there is no bytecode
	bindings *value.Map
	aliases  *value.Map // of sources, for text
	close    bool       // of the session
	tx       string     // commit, rollback or begin
	managed  bool       // the session's transaction ends with the request
	session  string     // over HTTP, the id of a transaction
	posted   bool       // over HTTP
	batch    int
	timeout  time.Duration
	limit    time.Duration // what is left of it, of a request of another node; 0: all
	form     byte          // of body, between nodes
	body     []byte        // the request as it came
	// traversers is whether results are sent with how often they occur.
	traversers bool
}

// arguments reads the arguments of a request, each of which may be missing.
type arguments struct {
	m   *value.Map
	err *Error
}

func (a *arguments) fail(name, want string, got any) {
	if a.err == nil {
		a.err = errorf(StatusInvalid, "argument %s: expected %s, found %s", name, want, value.Describe(got))
	}
}

func (a *arguments) string(name string) string {
	v, ok := a.m.Get(name)
	if !ok || v == nil {
		return ""
	}
	s, ok := v.(string)
	if !ok {
		a.fail(name, "a string", v)
	}
	return s
}

// int returns an integer that is not negative; -1 if there is none.
func (a *arguments) int(name string) int64 {
	v, ok := a.m.Get(name)
	if !ok || v == nil {
		return -1
	}
	n, ok := value.Int(v)
	if !ok || n < 0 {
		a.fail(name, "an integer of at least 0", v)
		return -1
	}
	return n
}

func (a *arguments) bool(name string) bool {
	v, ok := a.m.Get(name)
	if !ok || v == nil {
		return false
	}
	b, ok := v.(bool)
	if !ok {
		a.fail(name, "a boolean", v)
	}
	return b
}

func (a *arguments) mapping(name string) *value.Map {
	v, ok := a.m.Get(name)
	if !ok || v == nil {
		return nil
	}
	m, ok := v.(*value.Map)
	if !ok {
		a.fail(name, "a map", v)
	}
	return m
}

// aliasMap returns the aliases, which are names of sources by other names.
func (a *arguments) aliasMap() *value.Map {
	m := a.mapping("aliases")
	if m == nil {
		return nil
	}
	for _, e := range m.Entries() {
		_, key := e.Key.(string)
		if _, val := e.Val.(string); !key || !val {
			a.fail("aliases", "names by names", e.Val)
		}
	}
	return m
}

// timeLimit returns the time limit that one of the names has, which the options
// bound. 0 is as much as they allow.
func (a *arguments) timeLimit(o *Options, names ...string) time.Duration {
	for _, name := range names {
		switch ms := a.int(name); {
		case ms == 0 || ms > math.MaxInt64/int64(time.Millisecond):
			return o.MaxTimeout
		case ms > 0:
			return min(time.Duration(ms)*time.Millisecond, o.MaxTimeout)
		}
	}
	return o.Timeout
}

// sessionID returns the name of the session, which some drivers send as a UUID.
func (a *arguments) sessionID() string {
	if v, _ := a.m.Get("session"); v != nil {
		if u, ok := v.(value.UUID); ok {
			return u.String()
		}
	}
	id := a.string("session")
	if id == "" || len(id) > MaxSessionID {
		a.fail("session", "a name of 1 to 256 bytes", id)
	}
	return id
}

// common reads the arguments that all kinds of requests have.
func (a *arguments) common(o *Options, w *work) {
	w.timeout = a.timeLimit(o, "evaluationTimeout", "timeoutMillis", "timeoutMs", "scriptEvaluationTimeout")
	w.batch = DefaultBatch
	if n := a.int("batchSize"); n > 0 {
		w.batch = int(min(n, MaxBatch))
	}
	switch p := a.string("materializeProperties"); p {
	case "", "all":
	case "tokens":
		w.req.References = true
	default:
		a.fail("materializeProperties", "all or tokens", p)
	}
}

// script reads the arguments of text.
func (a *arguments) script(w *work) {
	w.text = a.string("gremlin")
	if w.text == "" {
		a.fail("gremlin", "text", w.text)
	}
	switch l := a.string("language"); l {
	case "", "gremlin-lang", "gremlin-groovy":
	default:
		a.fail("language", "gremlin-lang or gremlin-groovy", l)
	}
	w.bindings, w.aliases = a.mapping("bindings"), a.aliasMap()
}

// bytecode reads the arguments of a traversal in bytecode.
func (a *arguments) bytecode(w *work) {
	v, _ := a.m.Get("gremlin")
	t, ok := v.(*lang.Traversal)
	if !ok {
		a.fail("gremlin", "bytecode", v)
		return
	}
	w.req.Traversal, w.traversers, w.req.Source, w.req.N = t, true, "g", -1
	if m := a.aliasMap(); m != nil && a.err == nil {
		if m.Len() != 1 {
			a.fail("aliases", "one source", m)
		} else {
			w.req.Source = m.Entries()[0].Val.(string)
		}
	}
	w.tx = txOf(t)
}

// txOf returns what bytecode asks of a transaction: its source has a call of tx
// then, and there are no steps.
func txOf(t *lang.Traversal) string {
	if len(t.Steps) == 0 && len(t.Source) > 0 {
		if c := t.Source[len(t.Source)-1]; c.Name == "tx" && len(c.Args) == 1 {
			if what, ok := c.Args[0].(string); ok {
				return what
			}
		}
	}
	return ""
}

// workOf checks a request of a driver.
func workOf(o *Options, op, processor string, args *value.Map) (*work, *Error) {
	a, w := &arguments{m: args}, &work{args: args}
	switch op {
	case "eval", "bytecode", "close":
	case "keys", "gather":
		return nil, errorf(StatusMalformed, "op %q is not supported: side effects stay at the server; use cap()", op)
	default:
		return nil, errorf(StatusMalformed, "there is no op %q", op)
	}
	switch {
	case processor == "session":
		w.session = a.sessionID()
		w.managed = a.bool("manageTransaction")
	case op == "close":
		return nil, errorf(StatusInvalid, "op close needs the processor session")
	case processor != "" && processor != "traversal":
		return nil, errorf(StatusInvalid, "there is no processor %q", processor)
	}
	a.common(o, w)
	switch op {
	case "eval":
		a.script(w)
	case "bytecode":
		a.bytecode(w)
	default:
		w.close = true
	}
	if a.err != nil {
		return nil, a.err
	}
	return w, w.checkTx()
}

// checkTx refuses what is asked of a transaction that there cannot be.
func (w *work) checkTx() *Error {
	switch {
	case w.tx == "":
		return nil
	case w.tx != "commit" && w.tx != "rollback" && w.tx != "begin":
		return errorf(StatusInvalid, "tx: expected commit or rollback, found %q", w.tx)
	case w.posted && w.session == "" && w.tx != "begin":
		return errorf(StatusInvalid, "tx().%s() needs the argument transactionId, which tx().begin() has as its result", w.tx)
	case w.posted && w.session != "" && w.tx == "begin":
		return errorf(StatusInvalid, "the transaction has begun: tx().begin() has no transactionId")
	case w.session == "" && !w.posted:
		return errorf(StatusInvalid, "tx().%s() needs a session; a request without one is a transaction of its own", w.tx)
	}
	return nil
}

// parse makes a traversal of the text, if there is one, and heeds what its source says
// about the request.
func (w *work) parse(o *Options) error {
	if w.text != "" {
		if err := w.parseText(); err != nil {
			return err
		}
	}
	if w.req.Traversal == nil {
		return nil
	}
	m := optionsOf(w.req.Traversal)
	if m.Len() == 0 {
		return nil
	}
	for _, e := range w.args.Entries() {
		if _, own := m.Get(e.Key); !own {
			m.Set(e.Key, e.Val)
		}
	}
	a := &arguments{m: m}
	if a.common(o, w); a.err != nil {
		return a.err
	}
	return nil
}

// optionsOf returns what a source sets by with(key, value). They stand for arguments
// of the request: drivers send both.
func optionsOf(t *lang.Traversal) *value.Map {
	m := &value.Map{}
	for _, c := range t.Source {
		switch {
		case c.Name == "with" && len(c.Args) == 2:
			m.Set(c.Args[0], c.Args[1])
		case c.Name == "withStrategies":
			for _, a := range c.Args {
				s, ok := a.(lang.Strategy)
				if !ok || s.Name != "OptionsStrategy" || s.Config == nil {
					continue
				}
				for _, e := range s.Config.Entries() {
					m.Set(e.Key, e.Val)
				}
			}
		}
	}
	return m
}

func (w *work) parseText() error {
	q, err := lang.Parse(w.text, w.bindings)
	if err != nil {
		return errorf(StatusEvaluation, "%v", err)
	}
	w.req.Source, w.req.Traversal, w.req.End, w.req.N, w.tx = q.Source, q.Traversal, q.End, q.N, q.Tx
	if w.aliases != nil {
		if name, ok := w.aliases.Get(q.Source); ok {
			w.req.Source, _ = name.(string)
		}
	}
	if err := w.checkTx(); err != nil {
		return err
	}
	return nil
}

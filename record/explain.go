package record

import (
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record/expr"
	"github.com/skerrydb/skerry/record/keys"
	"github.com/skerrydb/skerry/record/query"
	"github.com/skerrydb/skerry/suggest"
)

// Explanation reports why a rule allows or refuses an operation.
type Explanation struct {
	Collection string  `json:"collection"`
	Operation  string  `json:"operation"`
	ID         string  `json:"id,omitempty"`
	Rule       string  `json:"rule"`
	Result     string  `json:"result"` // of Clause
	Text       string  `json:"text"`   // one sentence
	Clause     *Clause `json:"clause,omitempty"`
}

// The results of clauses.
const (
	Holds   = "true"
	Fails   = "false"
	Depends = "depends" // on the record, and none was given
)

// Clause is a part of a rule.
type Clause struct {
	Text   string   `json:"text"`
	Result string   `json:"result"`
	Terms  []Clause `json:"terms,omitempty"` // of and, or and not
}

// ParseOperation returns the operation with the given name.
func ParseOperation(name string) (Operation, error) {
	var names []string
	for op := List; op < operations; op++ {
		if op.String() == name {
			return op, nil
		}
		names = append(names, op.String())
	}
	err := engine.Errorf(engine.CodeInvalid, "unknown operation %.40q; the operations are %v", name, names)
	if near := suggest.Nearest(name, names); near != "" {
		err = engine.Errorf(engine.CodeInvalid, "unknown operation %.40q; did you mean %s?", name, near)
	}
	return 0, err
}

// Explain evaluates the rule of an operation for the actor of t, clause by clause. With an id it evaluates the rule for
// that record, which may be in the trash; in update rules, @new is then the record as it is. Explain shows more than
// the actor may see, so it is for operators.
func (t *Tx) Explain(collection string, op Operation, id string) (*Explanation, error) {
	c, err := t.collection(collection)
	if err != nil {
		return nil, err
	}
	e := &Explanation{Collection: collection, Operation: op.String(), ID: id, Rule: c.rules[op].text}
	var d *keys.Doc
	if id != "" {
		if d, err = keys.Get(t.tx, c.Collection, id); err == nil && d == nil {
			err = notFound(c, id)
		}
		if err != nil {
			return nil, err
		}
	}
	if t.actor.System {
		e.Result, e.Text = Holds, "The actor is not subject to rules."
		return e, nil
	}
	if text := c.rules[op].nobody(); text != "" {
		e.Result, e.Text = Fails, text
		return e, nil
	}
	x, err := expr.Parse(e.Rule)
	if err != nil {
		return nil, err
	}
	clause, err := t.clause(x, query.Scope{Collection: c.Compiled, Other: t.catalog.compiled, New: op == Update}, d)
	if err != nil {
		return nil, err
	}
	e.Clause, e.Result = &clause, clause.Result
	e.Text = map[string]string{Holds: "The rule allows it.", Fails: "The rule refuses it.", Depends: "It depends on the record."}[e.Result]
	if e.Result == Holds && d != nil && d.Deleted && op != Delete && op != History {
		e.Text = "The rule allows it, but the record is in the trash."
	}
	return e, nil
}

// nobody explains why the rule allows nobody. It returns "" if the rule may allow somebody.
func (r *rule) nobody() string {
	switch {
	case r.text == "":
		return "There is no rule, so nobody is allowed."
	case r.broken != nil:
		return "The rule is broken, so nobody is allowed: " + r.broken.Error() + "."
	}
	return ""
}

// clause evaluates a part of a rule and the parts of that.
func (t *Tx) clause(x expr.Expr, s query.Scope, d *keys.Doc) (Clause, error) {
	cond, err := query.Check(x, s)
	if err != nil {
		return Clause{}, err
	}
	c := Clause{Text: expr.String(x), Result: Depends}
	if d != nil {
		ok, err := cond.Holds(&t.env, d, d)
		if err != nil {
			return c, err
		}
		if c.Result = Fails; ok {
			c.Result = Holds
		}
	} else if bound := cond.Bind(&t.env); bound.Always() {
		c.Result = Holds
	} else if bound.Never() {
		c.Result = Fails
	}
	var terms []expr.Expr
	switch x := x.(type) {
	case *expr.And:
		terms = x.Terms
	case *expr.Or:
		terms = x.Terms
	case *expr.Not:
		terms = []expr.Expr{x.X}
	}
	for _, term := range terms {
		part, err := t.clause(term, s, d)
		if err != nil {
			return c, err
		}
		c.Terms = append(c.Terms, part)
	}
	return c, nil
}

package admin

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/schema"
	"github.com/skerrydb/skerry/web"
)

func (a *Admin) addRules(g *web.Group) { g.Get("/rules", a.rules) }

// trial is an operation that is tried. Nothing is carried out: the rule is evaluated.
type trial struct{ Collection, Operation, ID, As string }

// verdict is the result of a trial.
type verdict struct {
	*record.Explanation
	Who     string
	Clauses []clauseRow
	Reasons []string
}

// clauseRow is a part of a rule, with how deep it is within the rule.
type clauseRow struct {
	record.Clause
	Depth int
	Why   string
}

// rulesOf are the rules of one collection.
type rulesOf struct {
	Name, Path string
	Rules      []ruleRow
}

// operations are those that have rules.
func operations() []string {
	var all []string
	for _, r := range ruleRows(schema.Rules{}) {
		all = append(all, r.Operation)
	}
	return all
}

func (a *Admin) rules(c *web.Context) error {
	all, err := a.o.Records.Collections(c, engine.Read{Level: engine.Local})
	if err != nil {
		return err
	}
	i, found := slices.BinarySearchFunc(all, c.Query("after").String(), func(s schema.Collection, name string) int { return cmp.Compare(s.Name, name) })
	if found {
		i++
	}
	shown, next := all[i:], ""
	if len(shown) > schemaPage {
		shown = shown[:schemaPage]
		next = shown[schemaPage-1].Name
	}
	var list []rulesOf
	for _, s := range shown {
		list = append(list, rulesOf{s.Name, Prefix + "/schema/" + url.PathEscape(s.Name), ruleRows(s.Rules)})
	}
	get := func(name string) string { return strings.TrimSpace(c.Query(name).String()) }
	t := trial{get("collection"), get("operation"), get("id"), get("as")}
	locals := web.Locals{"title": a.text("Rules"), "list": list, "next": next, "names": collectionNames(all), "operations": operations(), "trial": t, "verdict": (*verdict)(nil), "users": a.o.Users != nil, "problem": ""}
	status := http.StatusOK
	if t.Operation != "" {
		v, err := a.tryRule(c, t)
		if err != nil {
			if engine.Retryable(err) {
				return err
			}
			status = http.StatusUnprocessableEntity
			locals["problem"] = c.Detail(err)
		} else {
			locals["verdict"] = v
		}
	}
	return a.show(c, status, "rules", locals)
}

// actor returns a user of the application by email address or id, and who that is; a stranger for "".
func (a *Admin) actor(ctx context.Context, name string) (record.Actor, string, error) {
	if name == "" {
		return record.Actor{}, a.text("somebody who is not logged in"), nil
	}
	if a.o.Users == nil {
		return record.Actor{}, "", engine.Errorf(engine.CodeUnsupported, "the application has no users, so a rule can be tried only as somebody who is not logged in")
	}
	find := a.o.Users.Get
	if strings.Contains(name, "@") {
		find = a.o.Users.Find
	}
	u, err := find(ctx, engine.Read{}, name)
	if err != nil {
		return record.Actor{}, "", err
	}
	return record.Actor{ID: u.ID, Email: u.Email, Name: u.Name, Roles: u.Roles, Verified: u.Verified()}, u.Email, nil
}

// tryRule evaluates the rule of an operation for a user.
func (a *Admin) tryRule(c *web.Context, t trial) (*verdict, error) {
	op, err := record.ParseOperation(t.Operation)
	if err != nil {
		return nil, err
	}
	actor, who, err := a.actor(c, t.As)
	if err != nil {
		return nil, err
	}
	var v *verdict
	_, err = a.o.Records.View(c, engine.Read{}, record.Program(), func(tx *record.Tx) error {
		e, err := tx.As(actor).Explain(t.Collection, op, t.ID)
		if err != nil {
			return err
		}
		v = &verdict{Explanation: e, Who: who}
		if e.Clause == nil {
			return nil
		}
		w := &witness{a: a, tx: tx, actor: actor}
		if t.ID != "" {
			if w.row, err = getAnyRecord(w.tx, t.Collection, t.ID); err != nil {
				return err
			}
		}
		if w.of, err = tx.Collection(t.Collection); err != nil {
			return err
		}
		v.list(w, *e.Clause, 0)
		if e.Result == record.Fails {
			v.Reasons = w.reasons(*e.Clause, true)
		}
		return nil
	})
	return v, err
}

// list appends a clause and its parts.
func (v *verdict) list(w *witness, x record.Clause, depth int) {
	row := clauseRow{Clause: x, Depth: min(depth, maxIndent)}
	if len(x.Terms) == 0 {
		row.Why = w.values(x.Text)
	}
	v.Clauses = append(v.Clauses, row)
	for _, t := range x.Terms {
		v.list(w, t, depth+1)
	}
}

// maxIndent is how deep clauses are indented; rules.css has a class for each.
const maxIndent = 6

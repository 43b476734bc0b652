package fraud

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/examples/picture"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/traversal"
	"github.com/skerrydb/skerry/graph/value"
)

// A ring is a way of transfers that ends where it began, in which each transfer is later than the one before it and not
// larger. Smaller, slower and longer ones are no rings.
const (
	MinAccounts = 3
	MaxAccounts = 6
	LeastCents  = 100_000            // of each transfer
	LeastShare  = 80                 // percent of the first transfer that come back
	Window      = 3 * 24 * time.Hour // from the first transfer to the last
)

// maxRings is how many rings are looked for. The search ends when it has found them.
const maxRings = 100

// Transfer is an edge of the graph.
type Transfer struct {
	ID, From, To string
	Cents        int64
	At           time.Time
}

// Ring is a way of transfers that comes back.
type Ring struct {
	Transfers []Transfer // in their order
	Shared    []Shared   // what several of its accounts use
}

// ID returns what a ring is known by: its first transfer. Rings may begin with the same transfer.
func (r *Ring) ID() string { return r.Transfers[0].ID }

// Accounts returns the accounts from the first payer on.
func (r *Ring) Accounts() (list []string) {
	for _, t := range r.Transfers {
		list = append(list, t.From)
	}
	return list
}

// Shared is a device or a card, and the accounts that use it.
type Shared struct {
	Kind, Code string
	Accounts   []string
}

// Found is what one snapshot of the graph has.
type Found struct {
	Accounts, Transfers int
	Rings               []Ring
	Shared              []Shared   // by several accounts
	Groups              [][]string // of three or more accounts that are connected by what they share
}

// Find looks at the whole graph.
func Find(ctx context.Context, db *graph.DB) (f Found, err error) {
	_, err = db.View(ctx, engine.Read{}, graph.Default, func(tx *graph.Tx) error {
		f = Found{}
		g := traversal.G(tx)
		if f.Accounts, _, err = traversal.First[int](ctx, g.V().HasLabel(labelAccount).Count()); err != nil {
			return err
		}
		if f.Transfers, _, err = traversal.First[int](ctx, g.E().HasLabel(labelTransfer).Count()); err != nil {
			return err
		}
		if f.Shared, err = shared(ctx, g); err != nil {
			return err
		}
		if f.Groups, err = groups(ctx, g); err != nil {
			return err
		}
		f.Rings, err = rings(ctx, beginnings(g).OutE(labelTransfer).Has(keyCents, traversal.Gte(LeastCents)), f.Shared)
		return err
	})
	return f, err
}

// FindRings returns the rings that begin with one transfer.
func FindRings(ctx context.Context, db *graph.DB, id string) (list []Ring, err error) {
	_, err = db.View(ctx, engine.Read{}, graph.Default, func(tx *graph.Tx) error {
		g := traversal.G(tx)
		all, err := shared(ctx, g)
		if err != nil {
			return err
		}
		list, err = rings(ctx, g.E(id).HasLabel(labelTransfer).OutV().As("start").OutE(labelTransfer).HasID(id), all)
		return err
	})
	return list, err
}

// beginnings finds the accounts with large payments, by Index.
func beginnings(g traversal.Query) traversal.Query {
	return g.E().HasLabel(labelTransfer).Has(keyCents, traversal.Gte(LeastCents)).OutV().Dedup().As("start")
}

// rings follows transfers from the first of each ring on: q is at them, and has labelled their payers start. A transfer
// that is not larger than the last, and later, continues the way, unless it leads to an account that is on it already
// and is not the first.
func rings(ctx context.Context, q traversal.Query, all []Shared) (list []Ring, err error) {
	var __ traversal.Query
	home := __.Where(traversal.Eq("start"))
	next := __.OutE(labelTransfer).Has(keyCents, traversal.Gte(LeastCents)).
		Where(traversal.Lte("last")).By(keyCents).Where(traversal.Gt("last")).By(keyAt).As("last").
		InV().Or(home, __.SimplePath().From("start"))
	q = q.As("last").InV().
		Repeat(next).Until(__.Or(home, __.Loops().Is(MaxAccounts-1))).
		Where(traversal.Eq("start")).Path().From("start")
	for p, err := range traversal.Results[*value.Path](ctx, q) {
		if err != nil {
			return nil, err
		}
		r, err := ring(p)
		if err != nil {
			return nil, err
		}
		first, last := r.Transfers[0], r.Transfers[len(r.Transfers)-1]
		if len(r.Transfers) >= MinAccounts && last.At.Sub(first.At) <= Window && last.Cents*100 >= first.Cents*LeastShare {
			r.Shared = among(r.Accounts(), all)
			list = append(list, r)
		}
		if len(list) == maxRings {
			break
		}
	}
	slices.SortStableFunc(list, func(a, b Ring) int { return a.Transfers[0].At.Compare(b.Transfers[0].At) })
	return list, nil
}

// ring returns the transfers on a path of accounts and transfers by turns.
func ring(p *value.Path) (r Ring, err error) {
	for _, o := range p.Objects {
		e, ok := o.(*graph.Edge)
		if !ok {
			continue
		}
		t := Transfer{ID: value.Text(e.ElementID()), From: value.Text(e.Out().ElementID()), To: value.Text(e.In().ElementID())}
		if err := e.Properties(nil, func(p *value.Property) error {
			switch p.Key {
			case keyCents:
				t.Cents, _ = value.Int(p.Val)
			case keyAt:
				t.At, _ = p.Val.(time.Time)
			}
			return nil
		}); err != nil {
			return r, err
		}
		r.Transfers = append(r.Transfers, t)
	}
	return r, nil
}

// shared returns the devices and cards that several accounts use.
func shared(ctx context.Context, g traversal.Query) (list []Shared, err error) {
	var __ traversal.Query
	users := __.In(labelUses)
	q := g.V().HasLabel(labelDevice, labelCard).Where(users.Count().Is(traversal.Gt(1))).
		Order().By(__.Label()).By(keyCode).
		Project("kind", "code", "accounts").By(__.Label()).By(keyCode).By(users.ID().Order().Fold())
	for row, err := range traversal.Results[*value.Map](ctx, q) {
		if err != nil {
			return nil, err
		}
		kind, _ := row.Get("kind")
		code, _ := row.Get("code")
		accounts, _ := row.Get("accounts")
		list = append(list, Shared{value.Text(kind), value.Text(code), texts(accounts)})
	}
	return list, nil
}

// groups returns the accounts that are connected by devices and cards, directly or through others.
func groups(ctx context.Context, g traversal.Query) (list [][]string, err error) {
	var __ traversal.Query
	q := g.V().HasLabel(labelAccount).ConnectedComponent().
		With("edges", __.BothE(labelUses)).
		With("propertyName", "group").
		Group().By("group").By(__.ID().Order().Fold()).
		Unfold().Step("select", value.ColumnVals).Where(__.Step("count", value.Local).Is(traversal.Gte(MinAccounts)))
	for row, err := range traversal.Results[value.List](ctx, q) {
		if err != nil {
			return nil, err
		}
		list = append(list, texts(row))
	}
	slices.SortFunc(list, slices.Compare)
	return list, nil
}

func texts(list any) (out []string) {
	for _, v := range value.Items(list) {
		out = append(out, value.Text(v))
	}
	return out
}

// among returns what at least two of some accounts share, with these accounts only.
func among(accounts []string, all []Shared) (list []Shared) {
	for _, s := range all {
		some := Shared{Kind: s.Kind, Code: s.Code}
		for _, a := range s.Accounts {
			if slices.Contains(accounts, a) {
				some.Accounts = append(some.Accounts, a)
			}
		}
		if len(some.Accounts) > 1 {
			list = append(list, some)
		}
	}
	return list
}

// Picture draws a ring, with the device or card that most of its accounts share in the middle.
func (r *Ring) Picture() picture.Picture {
	accounts := r.Accounts()
	p := picture.Picture{ID: "ring-" + r.ID(), Title: r.Title(), About: r.about()}
	for i, t := range r.Transfers {
		p.Names = append(p.Names, picture.Name{Text: t.From})
		p.Arrows = append(p.Arrows, picture.Arrow{From: i, To: (i + 1) % len(accounts), Labels: []string{fmt.Sprintf("%d. %s", i+1, Euros(t.Cents)), r.after(t)}})
	}
	if len(r.Shared) > 0 {
		most := slices.MaxFunc(r.Shared, func(a, b Shared) int { return len(a.Accounts) - len(b.Accounts) })
		p.Names = append(p.Names, picture.Name{Text: most.Code, Middle: true})
		for _, a := range most.Accounts {
			p.Lines = append(p.Lines, picture.Line{From: slices.Index(accounts, a), To: len(accounts)})
		}
	}
	return p
}

// Title names a ring.
func (r *Ring) Title() string {
	return fmt.Sprintf("Ring of %d accounts from %s", len(r.Transfers), r.Transfers[0].From)
}

// Span says how long the money was on its way.
func (r *Ring) Span() string { return span(r.Transfers[len(r.Transfers)-1].At.Sub(r.Transfers[0].At)) }

// after says how long after the first a transfer was made.
func (r *Ring) after(t Transfer) string {
	if t.ID == r.ID() {
		return "first"
	}
	return span(t.At.Sub(r.Transfers[0].At)) + " later"
}

func span(d time.Duration) string {
	if d < time.Minute {
		return "less than a minute"
	}
	if d < time.Hour {
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d h", d/time.Hour)
}

// about says in words what a picture shows.
func (r *Ring) about() string {
	var b strings.Builder
	for _, t := range r.Transfers {
		fmt.Fprintf(&b, "%s pays %s to %s. ", t.From, Euros(t.Cents), t.To)
	}
	for _, s := range r.Shared {
		fmt.Fprintf(&b, "%s use the %s %s. ", strings.Join(s.Accounts, ", "), s.Kind, s.Code)
	}
	return strings.TrimSpace(b.String())
}

// Euros formats an amount.
func Euros(cents int64) string {
	whole := fmt.Sprint(cents / 100)
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return fmt.Sprintf("€%s.%02d", whole, cents%100)
}

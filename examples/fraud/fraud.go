// Package fraud finds rings: money that goes from account to account, and in a few days comes back to where it began,
// nearly all of it. Accounts, the devices and cards they use, and transfers are a graph; balances are keys. Both change
// in one transaction.
//
// It knows accounts, what a ring is, and its pages. It must not know how graphs and keys are stored.
package fraud

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/value"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
)

// Labels and properties of the graph. The id of an account is its name, and that of a transfer T and its number.
const (
	labelAccount  = "account"
	labelDevice   = "device"
	labelCard     = "card"
	labelUses     = "uses"     // from an account to a device or card
	labelTransfer = "transfer" // from an account to another
	keyHolder     = "holder"
	keyCode       = "code" // of a device or card
	keyCents      = "cents"
	keyAt         = "at"
)

// Balances is the space of the keys with the balances.
const Balances = 16

// MaxCents is the largest amount of one transfer, and the largest balance.
const MaxCents = 1_000_000_000_000

// Errors that clients can get, besides those of the engine.
const (
	CodeAccountExists     engine.Code = "account_exists"
	CodeInsufficientFunds engine.Code = "insufficient_funds"
	CodeUnknownAccount    engine.Code = "unknown_account"
	CodeNotEmpty          engine.Code = "not_empty"
)

// Index finds transfers by their amounts: rings begin with a large one.
var Index = graph.Index{On: value.KindEdge, Label: labelTransfer, Keys: []string{keyCents}}

// Procedures that change accounts.
var (
	// Open opens an account. It fails with CodeAccountExists.
	Open = proc.Define("open", openAccount).Describe("opens an account that uses a device and a card; returns its balance in cents")

	// Pay makes a transfer. It fails with CodeUnknownAccount and CodeInsufficientFunds.
	Pay = proc.Define("transfer", pay).Describe("moves cents from one account to another")

	// Fill opens accounts and makes transfers with rings in between, if there are no accounts.
	Fill = proc.Define("sample", fill).Describe("opens the accounts and makes the transfers of a sample")
)

// Procedures returns all procedures.
func Procedures() []proc.Procedure { return []proc.Procedure{Open, Pay, Fill} }

// OpenIn is a new account.
type OpenIn struct {
	Account string `json:"account"`
	Holder  string `json:"holder"`
	Device  string `json:"device,omitempty"`
	Card    string `json:"card,omitempty"`
	Cents   int64  `json:"cents,omitempty"`
}

func openAccount(tx *proc.Tx, in OpenIn) (int64, error) {
	return in.Cents, change(tx, func(l *ledger) error { return l.open(in) })
}

// PayIn is a transfer that is to be made.
type PayIn struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Cents int64  `json:"cents"`
}

// PayOut is a transfer that was made, and both balances after it.
type PayOut struct {
	ID   string `json:"id"`
	From int64  `json:"from"`
	To   int64  `json:"to"`
}

func pay(tx *proc.Tx, in PayIn) (out PayOut, err error) {
	err = change(tx, func(l *ledger) error {
		out, err = l.transfer(in, tx.Now())
		return err
	})
	return out, err
}

// FillIn says which sample.
type FillIn struct {
	Seed uint64 `json:"seed"`
}

// FillOut says what is in the sample.
type FillOut struct {
	Accounts  int `json:"accounts"`
	Transfers int `json:"transfers"`
	Rings     int `json:"rings"`
}

func fill(tx *proc.Tx, in FillIn) (out FillOut, err error) {
	s := NewSample(in.Seed)
	return FillOut{len(s.Accounts), len(s.Transfers), len(s.Rings)}, change(tx, func(l *ledger) error {
		n, err := l.keys.Count()
		if err != nil {
			return err
		}
		if n > 0 {
			return engine.Errorf(CodeNotEmpty, "there are accounts already; a sample needs empty data")
		}
		for _, a := range s.Accounts {
			if err := l.open(a); err != nil {
				return err
			}
		}
		for _, p := range s.Transfers {
			if _, err := l.transfer(p.PayIn, tx.Now().Add(-p.Ago)); err != nil {
				return err
			}
		}
		return nil
	})
}

// ledger has the balances and the graph in one transaction.
type ledger struct {
	keys  *kv.Tx
	graph *graph.Tx
}

// change runs fn on the ledger of a procedure's transaction.
func change(tx *proc.Tx, fn func(l *ledger) error) error {
	g, err := graph.Begin(tx.Engine(), graph.Default, true)
	if err != nil {
		return err
	}
	if err := fn(&ledger{tx.KV(Balances), g}); err != nil {
		return err
	}
	return g.End()
}

// A name begins with a letter: text of digits would also find a vertex by its number.
var name = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,39}$`)

func (l *ledger) open(in OpenIn) error {
	if !name.MatchString(in.Account) {
		return engine.Errorf(engine.CodeInvalid, "the name of an account is a letter and up to 39 letters, digits and hyphens, and not %.50q", in.Account)
	}
	if in.Cents < 0 || in.Cents > MaxCents {
		return engine.Errorf(engine.CodeInvalid, "an account must start with 0 to %d cents, and not %d", int64(MaxCents), in.Cents)
	}
	res, err := l.keys.Set(balanceKey(in.Account), strconv.AppendInt(nil, in.Cents, 10), kv.SetOptions{OnlyNew: true})
	if err != nil {
		return err
	}
	if !res.Written {
		return engine.Errorf(CodeAccountExists, "account %s exists already", in.Account)
	}
	account, err := l.graph.AddVertex([]string{labelAccount}, in.Account)
	if err != nil {
		return err
	}
	if _, err := account.Set(graph.Single, keyHolder, in.Holder); err != nil {
		return err
	}
	return errors.Join(l.use(account, labelDevice, in.Device), l.use(account, labelCard, in.Card))
}

// use adds an edge to a device or card, which is added if no other account uses it.
func (l *ledger) use(account *graph.Vertex, label, code string) error {
	if code == "" {
		return nil
	}
	if !name.MatchString(code) {
		return engine.Errorf(engine.CodeInvalid, "the code of a %s is a letter and up to 39 letters, digits and hyphens, and not %.50q", label, code)
	}
	id := label + "/" + code // no account has such a name
	thing, ok, err := l.graph.Vertex(id)
	if err == nil && !ok {
		if thing, err = l.graph.AddVertex([]string{label}, id); err == nil {
			_, err = thing.Set(graph.Single, keyCode, code)
		}
	}
	if err != nil {
		return err
	}
	_, err = l.graph.AddEdge(labelUses, account, thing, nil)
	return err
}

// transfer changes two balances and adds an edge.
func (l *ledger) transfer(in PayIn, at time.Time) (out PayOut, err error) {
	if in.Cents < 1 || in.Cents > MaxCents {
		return out, engine.Errorf(engine.CodeInvalid, "an amount must be 1 to %d cents, and not %d", int64(MaxCents), in.Cents)
	}
	if in.From == in.To {
		return out, engine.Errorf(engine.CodeInvalid, "a transfer needs two different accounts")
	}
	from, err := l.account(in.From)
	if err != nil {
		return out, err
	}
	to, err := l.account(in.To)
	if err != nil {
		return out, err
	}
	if out.From, err = l.keys.Add(balanceKey(in.From), -in.Cents); err != nil {
		return out, err
	}
	if out.From < 0 {
		return out, engine.Errorf(CodeInsufficientFunds, "account %s has %d cents, but %d are needed", in.From, out.From+in.Cents, in.Cents)
	}
	if out.To, err = l.keys.Add(balanceKey(in.To), in.Cents); err != nil {
		return out, err
	}
	if out.To > MaxCents {
		return out, engine.Errorf(engine.CodeInvalid, "account %s would have more than %d cents", in.To, int64(MaxCents))
	}
	number, err := l.keys.Add([]byte("transfers"), 1)
	if err != nil {
		return out, err
	}
	out.ID = fmt.Sprintf("T%d", number)
	edge, err := l.graph.AddEdge(labelTransfer, from, to, out.ID)
	if err != nil {
		return out, err
	}
	return out, errors.Join(edge.Set(keyCents, in.Cents), edge.Set(keyAt, at))
}

func (l *ledger) account(id string) (*graph.Vertex, error) {
	if !name.MatchString(id) {
		return nil, engine.Errorf(CodeUnknownAccount, "there is no account %.50q", id)
	}
	v, ok, err := l.graph.Vertex(id)
	if err == nil && !ok {
		err = engine.Errorf(CodeUnknownAccount, "there is no account %s", id)
	}
	return v, err
}

func balanceKey(account string) []byte { return []byte("balance/" + account) }

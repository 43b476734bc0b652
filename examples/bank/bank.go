// Package bank keeps accounts whose money never appears or disappears, and which are never overdrawn.
//
// It knows the rules of the bank, as procedures over plain keys; it must not know how they are called: server
// serves them, load calls them.
//
// Keys, all in space 0:
//
//	account/anna             the balance in cents, as text
//	entry/anna/00000000001   the first entry of her statement, as JSON
//	entries/anna             how many entries there are
package bank

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/proc"
)

// Error codes, besides those of the engine.
const (
	CodeInsufficientFunds engine.Code = "insufficient_funds"
	CodeUnknownAccount    engine.Code = "unknown_account"
	CodeAccountExists     engine.Code = "account_exists"
)

// Limits of one call; going over is engine.CodeInvalid.
const (
	// MaxName is how many bytes the name of an account has at most.
	MaxName = 64
	// MaxCents is the largest amount of one call, and the largest balance.
	MaxCents = 1_000_000_000_000
	// MaxEntries is how many entries of a statement one call gives at most.
	MaxEntries = 1000
)

var (
	// Open opens an account.
	Open = proc.Define("open", open).Describe("opens an account with a balance in cents; returns the balance")

	// Deposit pays money in and returns the new balance.
	Deposit = proc.Define("deposit", deposit).Describe("pays cents into an account; returns the new balance")

	// Withdraw pays money out and returns the new balance. It fails with CodeInsufficientFunds.
	Withdraw = proc.Define("withdraw", withdraw).Describe("takes cents out of an account; returns the new balance")

	// Transfer moves money from one account to another. It fails with CodeInsufficientFunds.
	Transfer = proc.Define("transfer", transfer).Describe("moves cents from one account to another; returns both balances")

	// Balance reads a balance.
	Balance = proc.DefineRead("balance", balance).Describe("the balance of an account in cents")

	// Statement reads the newest entries of an account.
	Statement = proc.DefineRead("statement", statement).Describe("the newest entries of an account, newest first")

	// Audit adds up all accounts.
	Audit = proc.DefineRead("audit", audit).Describe("number of accounts, and sum and least of their balances")
)

// Procedures returns all procedures of the bank.
func Procedures() []proc.Procedure {
	return []proc.Procedure{Open, Deposit, Withdraw, Transfer, Balance, Statement, Audit}
}

// AmountIn is an account and an amount.
type AmountIn struct {
	Account string `json:"account"`
	Cents   int64  `json:"cents"`
	Note    string `json:"note,omitempty"` // shown in the statement
}

func open(tx *proc.Tx, in AmountIn) (int64, error) {
	if len(in.Account) == 0 || len(in.Account) > MaxName {
		return 0, engine.Errorf(engine.CodeInvalid, "an account name must have 1 to %d bytes", MaxName)
	}
	if in.Cents < 0 || in.Cents > MaxCents {
		return 0, engine.Errorf(engine.CodeInvalid, "an account must start with 0 to %d cents", int64(MaxCents))
	}
	res, err := tx.KV(0).Set(accountKey(in.Account), []byte("0"), kv.SetOptions{OnlyNew: true})
	if err != nil {
		return 0, err
	}
	if !res.Written {
		return 0, engine.Errorf(CodeAccountExists, "account %s already exists", in.Account)
	}
	if in.Cents == 0 {
		return 0, nil
	}
	if in.Note == "" {
		in.Note = "opened"
	}
	return Deposit.Run(tx, in)
}

func deposit(tx *proc.Tx, in AmountIn) (int64, error) {
	if err := checkAmount(in.Cents); err != nil {
		return 0, err
	}
	return book(tx, in.Account, in.Cents, in.Note)
}

func withdraw(tx *proc.Tx, in AmountIn) (int64, error) {
	if err := checkAmount(in.Cents); err != nil {
		return 0, err
	}
	return book(tx, in.Account, -in.Cents, in.Note)
}

// TransferIn is a transfer: from whom, to whom and how much.
type TransferIn struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Cents int64  `json:"cents"`
}

// TransferOut is both balances after a transfer.
type TransferOut struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// transfer runs two other procedures in one transaction. If the second one fails, for example because an
// account does not exist, the first one has no effect.
func transfer(tx *proc.Tx, in TransferIn) (out TransferOut, err error) {
	if in.From == in.To {
		return out, engine.Errorf(engine.CodeInvalid, "a transfer needs two different accounts")
	}
	if out.From, err = Withdraw.Run(tx, AmountIn{in.From, in.Cents, "to " + in.To}); err != nil {
		return out, err
	}
	out.To, err = Deposit.Run(tx, AmountIn{in.To, in.Cents, "from " + in.From})
	return out, err
}

// AccountIn names an account.
type AccountIn struct {
	Account string `json:"account"`
}

func balance(tx *proc.Tx, in AccountIn) (int64, error) {
	return readBalance(tx.KV(0), in.Account)
}

// StatementIn is an account and the number of entries to return; 0 means 10.
type StatementIn struct {
	Account string `json:"account"`
	Limit   int    `json:"limit,omitempty"`
}

// Entry is one line of a statement.
type Entry struct {
	Number  int64     `json:"number"`
	At      time.Time `json:"at"`
	Cents   int64     `json:"cents"` // negative: paid out
	Balance int64     `json:"balance"`
	Note    string    `json:"note"`
}

func statement(tx *proc.Tx, in StatementIn) ([]Entry, error) {
	if in.Limit == 0 {
		in.Limit = 10
	}
	if in.Limit < 1 || in.Limit > MaxEntries {
		return nil, engine.Errorf(engine.CodeInvalid, "a statement can have 1 to %d entries", MaxEntries)
	}
	if _, err := readBalance(tx.KV(0), in.Account); err != nil {
		return nil, err
	}
	last, err := readCount(tx.KV(0), in.Account)
	if err != nil {
		return nil, err
	}
	var list []Entry
	for n := last; n > 0 && len(list) < in.Limit; n-- {
		e, _, err := tx.KV(0).Get(entryKey(in.Account, n))
		if err != nil {
			return nil, err
		}
		var line Entry
		if err := json.Unmarshal(e.Val, &line); err != nil {
			return nil, fmt.Errorf("read entry %d of %s: %w", n, in.Account, err)
		}
		list = append(list, line)
	}
	return list, nil
}

// Books is the result of an audit.
type Books struct {
	Accounts int   `json:"accounts"`
	Sum      int64 `json:"sum"`
	Least    int64 `json:"least"` // of the balances; 0 without accounts
}

// audit reads one snapshot: concurrent transfers are in it either completely or not at all.
func audit(tx *proc.Tx, _ struct{}) (b Books, err error) {
	for item, err := range tx.KV(0).ScanPrefix([]byte("account/")) {
		if err != nil {
			return b, err
		}
		n, err := strconv.ParseInt(string(item.Val), 10, 64)
		if err != nil {
			return b, err
		}
		if b.Accounts == 0 || n < b.Least {
			b.Least = n
		}
		b.Accounts++
		b.Sum += n
	}
	return b, nil
}

func checkAmount(cents int64) error {
	if cents < 1 || cents > MaxCents {
		return engine.Errorf(engine.CodeInvalid, "an amount must be 1 to %d cents", int64(MaxCents))
	}
	return nil
}

// book changes a balance by cents and adds an entry to the statement.
func book(tx *proc.Tx, account string, cents int64, note string) (int64, error) {
	old, err := readBalance(tx.KV(0), account)
	if err != nil {
		return 0, err
	}
	if old+cents < 0 {
		return 0, engine.Errorf(CodeInsufficientFunds, "%s has %d cents, but %d are needed", account, old, -cents)
	}
	if old+cents > MaxCents {
		return 0, engine.Errorf(engine.CodeInvalid, "%s would have more than %d cents", account, int64(MaxCents))
	}
	n, err := tx.KV(0).Add([]byte("entries/"+account), 1)
	if err != nil {
		return 0, err
	}
	line, err := json.Marshal(Entry{Number: n, At: tx.Now(), Cents: cents, Balance: old + cents, Note: note})
	if err != nil {
		return 0, err
	}
	if _, err := tx.KV(0).Set(entryKey(account, n), line, kv.SetOptions{}); err != nil {
		return 0, err
	}
	return tx.KV(0).Add(accountKey(account), cents)
}

func readBalance(keys *kv.Tx, account string) (int64, error) {
	if len(account) == 0 || len(account) > MaxName {
		return 0, engine.Errorf(engine.CodeInvalid, "an account name must have 1 to %d bytes", MaxName)
	}
	e, ok, err := keys.Get(accountKey(account))
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, engine.Errorf(CodeUnknownAccount, "there is no account %s", account)
	}
	return strconv.ParseInt(string(e.Val), 10, 64)
}

func readCount(keys *kv.Tx, account string) (int64, error) {
	e, ok, err := keys.Get([]byte("entries/" + account))
	if err != nil || !ok {
		return 0, err
	}
	return strconv.ParseInt(string(e.Val), 10, 64)
}

func accountKey(name string) []byte { return []byte("account/" + name) }

func entryKey(account string, n int64) []byte {
	return fmt.Appendf(nil, "entry/%s/%011d", account, n)
}

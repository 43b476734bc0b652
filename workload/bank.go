package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/skerrydb/skerry/engine"
)

// Defaults of Bank.
const (
	DefaultAccounts = 20
	DefaultBalance  = 100
)

// Bank moves money between accounts. Its invariant is isolation: in every view, at every
// level, and after every single change, all accounts exist, none is below zero and the
// total is unchanged.
type Bank struct {
	Accounts int // 0: DefaultAccounts
	Each     int // initial balance of each; 0: DefaultBalance

	start engine.Position // of Setup
}

const bankPrefix = "w/bank/"

// Name implements Workload.
func (b *Bank) Name() string { return "bank" }

// Needs implements Workload.
func (b *Bank) Needs() engine.Promises {
	return engine.Promises{Atomic: engine.AllKeys, Serializable: true, Ordered: true}
}

// Setup implements Workload.
func (b *Bank) Setup(ctx context.Context, eng engine.Engine) error {
	if b.Accounts <= 0 {
		b.Accounts = DefaultAccounts
	}
	if b.Each <= 0 {
		b.Each = DefaultBalance
	}
	if _, err := wipe(ctx, eng, []byte(bankPrefix)); err != nil {
		return err
	}
	pos, err := eng.Update(ctx, func(tx engine.Tx) error {
		for i := range b.Accounts {
			if err := tx.Put(account(i), strconv.AppendInt(nil, int64(b.Each), 10)); err != nil {
				return err
			}
		}
		return nil
	})
	b.start = pos
	return err
}

// Step implements Workload: one step in four checks the total, the others transfer.
func (b *Bank) Step(ctx context.Context, eng engine.Engine, rng *rand.Rand) error {
	if rng.IntN(4) == 0 {
		level := []engine.Level{engine.Linearizable, engine.Session, engine.Local}[rng.IntN(3)]
		return b.look(ctx, eng, engine.Read{Level: level, AtLeast: b.start})
	}
	from, to, n := rng.IntN(b.Accounts), rng.IntN(b.Accounts), int64(rng.IntN(2*b.Each))
	_, err := eng.Update(ctx, func(tx engine.Tx) error {
		have, err := balance(tx, from)
		if err != nil || have < n {
			return err // insufficient balance: the transaction writes nothing
		}
		if err := tx.Put(account(from), strconv.AppendInt(nil, have-n, 10)); err != nil {
			return err
		}
		if have, err = balance(tx, to); err != nil { // if from is to, it sees its own write
			return err
		}
		return tx.Put(account(to), strconv.AppendInt(nil, have+n, 10))
	})
	return judged(b.Name(), err)
}

// Check implements Workload.
func (b *Bank) Check(ctx context.Context, eng engine.Engine) error {
	if err := b.look(ctx, eng, engine.Read{}); err != nil || !eng.Promises().Feed {
		return err
	}
	held := map[string]int64{}
	for i := range b.Accounts {
		held[string(account(i))] = int64(b.Each)
	}
	err := history(ctx, eng, b.Name(), []byte("w/mark/bank"), b.start, func(c engine.Change) error {
		for _, w := range c.Writes {
			if _, ours := held[string(w.Key)]; !ours {
				continue
			}
			n, err := strconv.ParseInt(string(w.Val), 10, 64)
			if err != nil || w.Deleted {
				return violation(b.Name(), "change %d sets %s to %q", c.Pos, w.Key, w.Val)
			}
			held[string(w.Key)] = n
		}
		return b.judge(held, fmt.Sprintf("after change %d", c.Pos))
	})
	if errors.Is(err, engine.ErrTruncated) {
		return nil // the kept history may be shorter than the load; the views were checked
	}
	return err
}

// look checks the total in one view.
func (b *Bank) look(ctx context.Context, eng engine.Engine, r engine.Read) error {
	held := map[string]int64{}
	pos, err := eng.View(ctx, r, func(tx engine.Tx) error {
		clear(held)
		for p, err := range tx.Scan([]byte(bankPrefix), engine.PrefixEnd([]byte(bankPrefix))) {
			if err != nil {
				return err
			}
			n, err := strconv.ParseInt(string(p.Val), 10, 64)
			if err != nil {
				return violation(b.Name(), "%s holds %q", p.Key, p.Val)
			}
			held[string(p.Key)] = n
		}
		return nil
	})
	if err != nil {
		return err
	}
	return b.judge(held, fmt.Sprintf("in a view of position %d, level %d", pos, r.Level))
}

func (b *Bank) judge(held map[string]int64, where string) error {
	var sum int64
	for k, n := range held {
		if n < 0 {
			return violation(b.Name(), "%s holds %d %s", k, n, where)
		}
		sum += n
	}
	if len(held) != b.Accounts || sum != int64(b.Accounts)*int64(b.Each) {
		return violation(b.Name(), "%d accounts hold %d %s; want %d and %d",
			len(held), sum, where, b.Accounts, b.Accounts*b.Each)
	}
	return nil
}

func account(i int) []byte { return fmt.Appendf(nil, bankPrefix+"%06d", i) }

func balance(tx engine.Tx, i int) (int64, error) { return readNumber(tx, account(i)) }

// badNumber is a value that no workload wrote.
type badNumber struct{ key, val string }

func (e *badNumber) Error() string { return fmt.Sprintf("%s holds %q", e.key, e.val) }

// judged turns a bad number into a violation and leaves any other error as it is.
func judged(name string, err error) error {
	if e, ok := errors.AsType[*badNumber](err); ok {
		return violation(name, "%v", e)
	}
	return err
}

// readNumber reads a decimal number. A missing key is zero.
func readNumber(tx engine.Tx, key []byte) (int64, error) {
	v, ok, err := tx.Get(key)
	if err != nil || !ok {
		return 0, err
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		return 0, &badNumber{string(key), string(v)}
	}
	return n, nil
}

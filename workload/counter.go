package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/skerrydb/skerry/engine"
)

// DefaultCounters is how many keys Counter adds to: few, so that they clash.
const DefaultCounters = 4

// Counter increments counters by one. Its invariant: no addition is lost or made twice,
// and a read after an acknowledgement sees it. Bank alone cannot detect a lost
// transaction, because losing a whole transfer keeps the total.
type Counter struct {
	Counters int     // 0: DefaultCounters
	Ledger   *Ledger // records additions; nil: a new one

	once sync.Once
	mu   sync.Mutex     // guards high
	high map[int]marked // per counter, the highest acknowledged value
}

// marked is an acknowledged value and its position.
type marked struct {
	val int64
	pos engine.Position
}

const (
	counterPrefix = "w/counter/"
	counterKind   = 'c'
)

// Name implements Workload.
func (c *Counter) Name() string { return "counter" }

// Needs implements Workload.
func (c *Counter) Needs() engine.Promises {
	return engine.Promises{Serializable: true, Ordered: true}
}

func (c *Counter) init() {
	c.once.Do(func() {
		if c.Counters <= 0 {
			c.Counters = DefaultCounters
		}
		if c.Ledger == nil {
			c.Ledger = NewLedger(0, nil)
		}
		c.high = map[int]marked{}
	})
}

// Setup implements Workload.
func (c *Counter) Setup(ctx context.Context, eng engine.Engine) error {
	c.init()
	if _, err := wipe(ctx, eng, []byte(counterPrefix)); err != nil {
		return err
	}
	clear(c.high)
	return c.Ledger.wipe(counterKind)
}

// Step implements Workload: one step in four reads, the others add.
func (c *Counter) Step(ctx context.Context, eng engine.Engine, rng *rand.Rand) error {
	c.init()
	i := rng.IntN(c.Counters)
	floor := c.floor(i)
	if n := rng.IntN(8); n < 2 {
		read := engine.Read{}
		if n == 1 {
			read = engine.Read{Level: engine.Session, AtLeast: floor.pos}
		}
		return c.read(ctx, eng, i, read, floor)
	}
	it := Item{Kind: counterKind, Key: uint64(i), Writer: c.Ledger.nextID()}
	if err := c.Ledger.begin(it); err != nil {
		return err
	}
	var val int64
	pos, err := eng.Update(ctx, func(tx engine.Tx) error {
		n, err := readNumber(tx, counterKey(i))
		if err != nil {
			return err
		}
		val = n + 1
		return tx.Put(counterKey(i), strconv.AppendInt(nil, val, 10))
	})
	if lerr := c.Ledger.end(it, pos, err); lerr != nil {
		return lerr
	}
	if err != nil {
		return judged(c.Name(), err)
	}
	return c.raise(i, floor, marked{val, pos})
}

// read checks that a view has at least the value that was acknowledged before.
func (c *Counter) read(ctx context.Context, eng engine.Engine, i int, r engine.Read, floor marked) error {
	var val int64
	pos, err := eng.View(ctx, r, func(tx engine.Tx) (err error) {
		val, err = readNumber(tx, counterKey(i))
		return err
	})
	if err != nil {
		return judged(c.Name(), err)
	}
	if val < floor.val || pos < floor.pos {
		return violation(c.Name(), "counter %d is %d in a view of position %d, after %d was acknowledged at %d",
			i, val, pos, floor.val, floor.pos)
	}
	return nil
}

func (c *Counter) floor(i int) marked {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.high[i]
}

// raise records an acknowledged addition that was made after floor was acknowledged.
func (c *Counter) raise(i int, floor, now marked) error {
	if now.val <= floor.val || now.pos <= floor.pos {
		return violation(c.Name(), "counter %d became %d at position %d, after %d was acknowledged at %d",
			i, now.val, now.pos, floor.val, floor.pos)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.val > c.high[i].val {
		c.high[i] = now
	}
	return nil
}

// Check implements Workload. It checks every counter that the ledger names.
func (c *Counter) Check(ctx context.Context, eng engine.Engine) error {
	c.init()
	known := c.Ledger.of(counterKind)
	atLeast, atMost := map[uint64]int64{}, map[uint64]int64{}
	for it, r := range known {
		if r.outcome != Failed {
			atMost[it.Key]++
		}
		if r.outcome == Acked {
			atLeast[it.Key]++
		}
	}
	for i, most := range atMost {
		var val int64
		_, err := eng.View(ctx, engine.Read{}, func(tx engine.Tx) (err error) {
			val, err = readNumber(tx, counterKey(int(i)))
			return err
		})
		if err != nil {
			return judged(c.Name(), err)
		}
		if val < atLeast[i] || val > most {
			return violation(c.Name(), "counter %d is %d after %d acknowledged additions and %d of unknown outcome",
				i, val, atLeast[i], most-atLeast[i])
		}
	}
	return positionsInOrder(c.Name(), known)
}

func counterKey(i int) []byte { return fmt.Appendf(nil, counterPrefix+"%d", i) }

package cli

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerrydb/skerry/workload/history"
)

// load is what clients do while faults happen; every operation is recorded.
type load struct {
	t     *testing.T
	f     *fleet
	rec   *history.Recorder
	file  *os.File
	began time.Time

	workers []*worker
	steps   atomic.Int64
	marked  atomic.Int64 // when something was broken last, since began
	stop    chan struct{}
	running sync.WaitGroup

	mu    sync.Mutex              // guards what follows
	keys  map[string]history.Kind // all that were touched, and how they are read
	wrong []string                // answers that no server may give
}

// worker is one client with its own library and connection.
type worker struct {
	*load
	name  string
	id    int64
	rng   *rand.Rand
	count int
	seen  int64           // mark after which it has written
	gaps  []time.Duration // from a mark to the first write that began after it and succeeded
	unk   int
	ok    int
}

// stepsPerEpoch is after how many operations clients turn to new keys: a history
// of one key costs time to check.
const stepsPerEpoch = 300

// stepPause is about how long a client pauses between two operations.
const stepPause = 4 * time.Millisecond

func newLoad(t *testing.T, f *fleet) *load {
	t.Helper()
	file, err := os.Create(f.history())
	if err != nil {
		t.Fatal(err)
	}
	l := &load{t: t, f: f, rec: history.NewRecorder(file, nil), file: file, began: time.Now(), stop: make(chan struct{}), keys: map[string]history.Kind{}}
	t.Cleanup(l.end)
	return l
}

// run starts a worker that takes steps until the load ends.
func (l *load) run(name string, rng *rand.Rand, step func(w *worker, ctx context.Context)) {
	w := &worker{load: l, name: name, id: int64(len(l.workers) + 1), rng: rand.New(rand.NewPCG(rng.Uint64(), 0))}
	l.workers = append(l.workers, w)
	l.running.Go(func() {
		for {
			select {
			case <-l.stop:
				return
			case <-time.After(time.Duration(w.rng.Int64N(int64(2 * stepPause)))):
			}
			l.steps.Add(1)
			ctx, cancel := context.WithTimeout(context.Background(), opWait)
			step(w, ctx)
			cancel()
		}
	})
}

// end ends the load and the recording.
func (l *load) end() {
	l.quiet()
	if err := l.rec.Close(); err != nil {
		l.t.Error(err)
	}
	l.file.Close()
}

// quiet waits for the steps that are being taken and lets no further ones begin,
// as long as the load lives.
func (l *load) quiet() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.running.Wait()
}

// mark says that something was broken or mended now: workers measure from here.
func (l *load) mark() { l.marked.Store(int64(time.Since(l.began))) }

// behind returns which workers have not written since the last mark.
func (l *load) behind() (names []string) {
	at := l.marked.Load()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.workers {
		if w.seen < at {
			names = append(names, w.name)
		}
	}
	return names
}

// key returns a key of the present epoch and remembers how it is read at the end.
func (w *worker) key(of string, n int, read history.Kind) string {
	key := fmt.Sprintf("h/%d/%s%d", w.steps.Load()/stepsPerEpoch, of, w.rng.IntN(n))
	if of == "a" { // accounts are used together, which cluster clients want to see in the key
		key = fmt.Sprintf("h/{b%d}/%s", w.steps.Load()/stepsPerEpoch, key[strings.LastIndexByte(key, '/')+1:])
	}
	w.touch(key, read)
	return key
}

func (w *worker) touch(key string, read history.Kind) {
	w.mu.Lock()
	w.keys[key] = read
	w.mu.Unlock()
}

// value returns a unique value.
func (w *worker) value() string {
	w.count++
	return fmt.Sprintf("%d-%d", w.id, w.count)
}

// do records one operation.
func (w *worker) do(op history.Op, call func(op *history.Op) error) error {
	op.Client = w.id
	p := w.rec.Begin(op)
	err := call(&p.Op)
	w.ended(p, err)
	return err
}

// ended records how an operation that has begun ended.
func (w *worker) ended(p *history.Pending, err error) {
	out, known := outcomeOf(err)
	if !known {
		w.fault("%s: %s %s: %v", w.name, p.Op.Kind, p.Op.Key, err)
	}
	writes := !slices.Contains([]history.Kind{history.Get, history.List, history.SetRead, history.MGet}, p.Op.Kind)
	if !writes && out != history.OK {
		out = history.Fail // it is of no use
	}
	if out == history.Unknown {
		w.unk++
		if testing.Verbose() {
			w.f.tell("%s: %s %s: %v", w.name, p.Op.Kind, p.Op.Key, err)
		}
	}
	call := p.Op.Call
	p.End(out)
	if out == history.OK {
		w.ok++
	}
	if writes && out == history.OK {
		w.wrote(call)
	}
}

// wrote takes note of a write that was called at a time and has succeeded.
func (w *worker) wrote(call int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at := w.marked.Load(); w.seen < at && call >= at {
		w.seen = at
		w.gaps = append(w.gaps, time.Since(w.began)-time.Duration(at))
	}
}

// fault records an error that is wrong in any case.
func (l *load) fault(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong = append(l.wrong, fmt.Sprintf(format, args...))
}

// redisStep is one operation, or a few, of a client of the Redis protocol.
func redisStep(c redisClient) func(*worker, context.Context) {
	return func(w *worker, ctx context.Context) {
		switch p := w.rng.IntN(100); {
		case p < 27:
			w.get(ctx, c, w.key("r", 3, history.Get))
		case p < 30:
			w.set(ctx, c, w.key("x", 2, history.Get))
		case p < 45:
			w.set(ctx, c, w.key("r", 3, history.Get))
		case p < 50:
			w.create(ctx, c, w.key("r", 3, history.Get))
		case p < 54:
			w.remove(ctx, c, w.key("r", 3, history.Get))
		case p < 57:
			w.get(ctx, c, w.key("x", 2, history.Get))
		case p < 62:
			w.swap(ctx, c, w.key("x", 2, history.Get))
		case p < 74:
			w.add(ctx, c, w.key("c", 2, history.Get))
		case p < 82:
			w.push(ctx, c, w.key("l", 2, history.List))
		case p < 85:
			w.elements(ctx, c, w.key("l", 2, history.List))
		case p < 90:
			w.setAdd(ctx, c, w.key("s", 2, history.SetRead))
		case p < 92:
			w.setRead(ctx, c, w.key("s", 2, history.SetRead))
		default:
			w.transfer(ctx, c, w.key("a", 4, history.Get), w.key("a", 4, history.Get))
		}
	}
}

// valueOf is a reply as a value.
func valueOf(v any) history.Value {
	if v == nil {
		return history.Value{}
	}
	return history.Some(fmt.Sprint(v))
}

func opOn(kind history.Kind, key string) history.Op {
	return history.Op{Step: history.Step{Kind: kind, Key: key}}
}

func (w *worker) get(ctx context.Context, c redisClient, key string) {
	w.do(opOn(history.Get, key), func(op *history.Op) error {
		v, err := c.do(ctx, "GET", key)
		op.Got = valueOf(v)
		return err
	})
}

func (w *worker) set(ctx context.Context, c redisClient, key string) {
	op := opOn(history.Set, key)
	op.Value = history.Some(w.value())
	w.do(op, func(op *history.Op) error {
		_, err := c.do(ctx, "SET", key, op.Value.Text)
		return err
	})
}

func (w *worker) create(ctx context.Context, c redisClient, key string) {
	op := opOn(history.CAS, key)
	op.Value = history.Some(w.value())
	w.do(op, func(op *history.Op) error {
		v, err := c.do(ctx, "SET", key, op.Value.Text, "NX")
		op.Done = v != nil
		return err
	})
}

func (w *worker) remove(ctx context.Context, c redisClient, key string) {
	w.do(opOn(history.Delete, key), func(op *history.Op) error {
		v, err := c.do(ctx, "DEL", key)
		op.Done = v == int64(1)
		return err
	})
}

func (w *worker) add(ctx context.Context, c redisClient, key string) {
	op := opOn(history.Add, key)
	op.Delta = w.rng.Int64N(1 << 30)
	w.do(op, func(op *history.Op) error {
		v, err := c.do(ctx, "INCRBY", key, fmt.Sprint(op.Delta))
		op.Sum, _ = v.(int64)
		return err
	})
}

func (w *worker) push(ctx context.Context, c redisClient, key string) {
	op := opOn(history.Append, key)
	op.Value = history.Some(w.value())
	w.do(op, func(op *history.Op) error {
		_, err := c.do(ctx, "APPEND", key, op.Value.Text+",")
		return err
	})
}

func (w *worker) elements(ctx context.Context, c redisClient, key string) {
	w.do(opOn(history.List, key), func(op *history.Op) error {
		v, err := c.do(ctx, "GET", key)
		op.List = elementsOf(valueOf(v).Text)
		return err
	})
}

func elementsOf(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, ","), ",")
}

func (w *worker) setAdd(ctx context.Context, c redisClient, key string) {
	op := opOn(history.SetAdd, key)
	op.Value = history.Some(w.value())
	w.do(op, func(op *history.Op) error {
		v, err := c.do(ctx, "SET", key+"/"+op.Value.Text, "1", "NX")
		op.Done = v != nil
		return err
	})
}

func (w *worker) setRead(ctx context.Context, c redisClient, key string) {
	w.do(opOn(history.SetRead, key), func(op *history.Op) error {
		v, err := c.do(ctx, "KEYS", key+"/*")
		list, _ := v.([]any)
		for _, k := range list {
			op.List = append(op.List, strings.TrimPrefix(fmt.Sprint(k), key+"/"))
		}
		return err
	})
}

// swap is a compare-and-set by WATCH. Its keys are never deleted: one that was
// absent at WATCH, was created and is absent again counts as unchanged (docs/redis.md),
// though MGET may have shown it in between.
func (w *worker) swap(ctx context.Context, c redisClient, key string) {
	var p *history.Pending
	op := opOn(history.CAS, key)
	op.Client = w.id
	replies, err := c.transact(ctx, []string{key}, func(vals []any) [][]string {
		op.Expect, op.Value = valueOf(vals[0]), history.Some(w.value())
		return [][]string{{"SET", key, op.Value.Text}}
	}, func() { p = w.rec.Begin(op) })
	if p == nil {
		return
	}
	p.Op.Done = true
	w.exec(p, replies, err)
}

// exec records how an EXEC ended. With nil nothing was done: the key may have been
// changed already before it was read, right after WATCH.
func (w *worker) exec(p *history.Pending, replies []any, err error) {
	if err == nil && replies == nil {
		p.End(history.Fail)
		return
	}
	w.ended(p, err)
}

// opening is the initial balance of an account.
const opening = 100

// transfer moves an amount between two accounts by WATCH, MULTI and EXEC. What an
// account has gets a mark, so that no two values are the same.
func (w *worker) transfer(ctx context.Context, c redisClient, from, to string) {
	if from == to {
		return
	}
	var p *history.Pending
	op := history.Op{Client: w.id, Step: history.Step{Kind: history.Txn}}
	replies, err := c.transact(ctx, []string{from, to}, func(vals []any) [][]string {
		amount := 1 + w.rng.IntN(20)
		a, b := valueOf(vals[0]), valueOf(vals[1])
		newA := fmt.Sprintf("%d#%s", balance(a)-amount, w.value())
		newB := fmt.Sprintf("%d#%s", balance(b)+amount, w.value())
		op.Steps = []history.Step{
			{Kind: history.CAS, Key: from, Expect: a, Value: history.Some(newA)},
			{Kind: history.CAS, Key: to, Expect: b, Value: history.Some(newB)},
		}
		return [][]string{{"SET", from, newA}, {"SET", to, newB}}
	}, func() { p = w.rec.Begin(op) })
	if p == nil {
		return
	}
	for i := range p.Op.Steps {
		p.Op.Steps[i].Done = true
	}
	w.exec(p, replies, err)
}

func balance(v history.Value) (n int) {
	if !v.Present {
		return opening
	}
	fmt.Sscanf(v.Text, "%d#", &n)
	return n
}

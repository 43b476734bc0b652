package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/skerrydb/skerry/workload/history"
)

// ownKeys are those that only clients of HTTP write. Their writes have positions,
// and so reads of them are checked against positions as well: with writes that have
// none that would take too long.
const ownKeys = "w"

// owned reports whether a key is one of them.
func owned(key string) bool {
	return strings.HasPrefix(key[strings.LastIndexByte(key, '/')+1:], ownKeys)
}

// positioned gives an operation its position, if its key is one of ownKeys.
func positioned(op *history.Op, a webAnswer) {
	if owned(op.Key) && !a.replayed {
		op.Pos = a.pos
	}
}

// webStep is one operation of a client of the HTTP face.
func webStep(c *webClient) func(*worker, context.Context) {
	counter := &onceCounter{}
	return func(w *worker, ctx context.Context) {
		if w.rng.IntN(8) == 0 {
			c.next()
		}
		of := [...]string{"r", ownKeys}[w.rng.IntN(2)]
		key := w.key(of, 3, history.Get)
		switch p := w.rng.IntN(100); {
		case p < 50:
			w.webGet(ctx, c, key)
		case p < 60:
			w.webPut(ctx, c, key)
		case p < 70:
			w.webPutOnce(c, key)
		case p < 75:
			w.webCreate(ctx, c, key)
		case p < 83:
			w.webSwap(ctx, c, key)
		case p < 86:
			w.webRemove(ctx, c, key)
		case p < 90:
			w.webSetRead(ctx, c, w.key("s", 2, history.SetRead))
		default:
			counter.step(w, c)
		}
	}
}

// webGet reads at one of the levels; the response names the state that it shows.
func (w *worker) webGet(ctx context.Context, c *webClient, key string) {
	op := opOn(history.Get, key)
	op.Level = history.Linearizable
	if owned(key) {
		op.Level = [...]history.Level{history.Linearizable, history.Session, history.Local}[w.rng.IntN(3)]
	}
	header := []string{}
	if op.Level == history.Session {
		op.Asked = c.pos
		header = []string{"X-Skerry-Position", fmt.Sprint(c.pos)}
	}
	w.do(op, func(op *history.Op) error {
		a, err := c.ask(ctx, "GET", dbPath(key)+"?read="+string(op.Level), "", header...)
		if err != nil {
			return err
		}
		if positioned(op, a); a.pos == 0 {
			return errNotSent{errors.New("nothing was ever written, as far as this node knows")}
		}
		if a.status == http.StatusOK {
			op.Got = history.Some(a.body)
		}
		if op.Level != history.Local {
			c.saw(a)
		}
		return nil
	})
}

func (w *worker) webPut(ctx context.Context, c *webClient, key string) {
	op := opOn(history.Set, key)
	op.Value = history.Some(w.value())
	w.do(op, func(op *history.Op) error {
		a, err := c.ask(ctx, "PUT", dbPath(key), op.Value.Text)
		positioned(op, a)
		c.saw(a)
		return err
	})
}

func (w *worker) webCreate(ctx context.Context, c *webClient, key string) {
	op := opOn(history.CAS, key)
	op.Value = history.Some(w.value())
	w.do(op, func(op *history.Op) error {
		a, err := c.ask(ctx, "PUT", dbPath(key), op.Value.Text, "If-None-Match", "*")
		op.Done = a.status == http.StatusCreated
		positioned(op, a)
		c.saw(a)
		return err
	})
}

// webSwap is a compare-and-set by revision.
func (w *worker) webSwap(ctx context.Context, c *webClient, key string) {
	had, err := c.ask(ctx, "GET", dbPath(key), "")
	if err != nil || had.status != http.StatusOK {
		return
	}
	op := opOn(history.CAS, key)
	op.Expect, op.Value = history.Some(had.body), history.Some(w.value())
	w.do(op, func(op *history.Op) error {
		a, err := c.ask(ctx, "PUT", dbPath(key), op.Value.Text, "If-Match", had.etag)
		op.Done = a.status == http.StatusNoContent
		positioned(op, a)
		c.saw(a)
		return err
	})
}

func (w *worker) webRemove(ctx context.Context, c *webClient, key string) {
	w.do(opOn(history.Delete, key), func(op *history.Op) error {
		a, err := c.ask(ctx, "DELETE", dbPath(key), "")
		op.Done = a.status == http.StatusNoContent
		positioned(op, a)
		c.saw(a)
		return err
	})
}

func (w *worker) webSetRead(ctx context.Context, c *webClient, key string) {
	w.do(opOn(history.SetRead, key), func(op *history.Op) error {
		items, _, pages, err := c.list(ctx, key+"/", "linearizable")
		if err == nil && pages > 1 {
			err = errNotSent{fmt.Errorf("%d pages are not one state", pages)}
		}
		for _, i := range items {
			op.List = append(op.List, strings.TrimPrefix(i.Key, key+"/"))
		}
		return err
	})
}

// onceWait bounds how long a request with an Idempotency-Key is repeated.
const onceWait = 20 * time.Second

// askOnce repeats a write with an Idempotency-Key, at one node after the other, until it gets a response.
func (c *webClient) askOnce(stop chan struct{}, once, path, body string, header ...string) (a webAnswer, err error) {
	header = append(header, "Idempotency-Key", once)
	unsure := error(nil)
	for deadline := time.Now().Add(onceWait); ; c.next() {
		ctx, cancel := context.WithTimeout(context.Background(), opWait)
		a, err = c.ask(ctx, "POST", path, body, header...)
		cancel()
		if err == nil {
			return a, nil
		}
		out, known := outcomeOf(err)
		if !known {
			return a, err
		}
		if out == history.Unknown {
			unsure = err
		}
		ended := false
		select {
		case <-stop:
			ended = true
		case <-time.After(20 * time.Millisecond):
		}
		if ended || time.Now().After(deadline) {
			if unsure != nil {
				err = unsure
			}
			return a, err
		}
	}
}

// webPutOnce is a write that is repeated until it is answered, and must then have
// been done once: a second time would bring back a value that others have
// replaced.
func (w *worker) webPutOnce(c *webClient, key string) {
	op := opOn(history.Set, key)
	op.Value = history.Some(w.value())
	w.do(op, func(op *history.Op) error {
		a, err := c.askOnce(w.stop, "once-"+op.Value.Text, dbPath(key), op.Value.Text)
		positioned(op, a)
		c.saw(a)
		return err
	})
}

// onceCounter increments a key that only it writes, each time on the condition that the key is as it left it:
// an increment applied twice or not at all would fail the next one.
type onceCounter struct {
	n    int
	etag string
}

func (o *onceCounter) step(w *worker, c *webClient) {
	key := fmt.Sprintf("h/once/%d", w.id)
	w.touch(key, history.Get)
	op := opOn(history.CAS, key)
	condition := []string{"If-None-Match", "*"}
	if o.n > 0 {
		op.Expect = history.Some(fmt.Sprint(o.n))
		condition = []string{"If-Match", o.etag}
	}
	op.Value = history.Some(fmt.Sprint(o.n + 1))
	err := w.do(op, func(op *history.Op) error {
		a, err := c.askOnce(w.stop, fmt.Sprintf("count-%d-%d", w.id, o.n), dbPath(key), op.Value.Text, condition...)
		if err != nil {
			return err
		}
		positioned(op, a)
		if op.Done = a.status != http.StatusPreconditionFailed; !op.Done {
			w.fault("%s: counting from %d to %d, as the only one: %d %s", w.name, o.n, o.n+1, a.status, a.body)
		}
		o.n, o.etag = o.n+1, a.etag
		return nil
	})
	_ = err // the next step is the same request again, under the same key
}

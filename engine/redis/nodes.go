package redis

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/skerrydb/skerry/engine"
)

// anyNode checks that one of the addresses of the URL is a node of a cluster. The others may be down.
func anyNode(ctx context.Context, t target) error {
	var first error
	for _, addr := range t.addrs {
		one := t
		one.client.InitAddress = []string{addr}
		c, _, err := connect(ctx, one)
		if err == nil {
			c.Close()
			return nil
		}
		if engine.CodeOf(err) != engine.CodeUnavailable {
			return err
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// survey checks every node that can be reached. Another may have taken over what the others had. It returns why commits
// are not durable on one of the primaries, or "".
func (e *slots) survey(ctx context.Context) (volatile string, err error) {
	for addr, node := range e.c.Nodes() {
		ctx, cancel := context.WithTimeout(ctx, e.o.patience)
		s, err := inspect(ctx, node)
		cancel()
		if err == nil {
			err = s.check(true)
		} else if engine.CodeOf(err) == engine.CodeUnavailable || errors.Is(err, context.DeadlineExceeded) {
			e.o.Logger.Warn("redis: a node of the cluster cannot be reached", "node", addr, "error", err)
			continue
		}
		if err != nil {
			return "", ofNode(addr, err)
		}
		if s.role == "master" && s.volatile != "" {
			volatile = "node " + addr + ": " + s.volatile
		}
	}
	return volatile, nil
}

func ofNode(addr string, err error) error {
	return engine.Errorf(engine.CodeOf(err), "node %s: %w", addr, err)
}

// keep finds out within a second that a primary no longer keeps what was promised, or that the data was removed. A
// node that does not answer delays nothing that is found out about the others.
func (e *slots) keep() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-tick.C:
		}
		nodes := e.c.Nodes()
		e.forget(nodes)
		for addr, node := range nodes {
			e.ask(addr, func(ctx context.Context) { e.look(ctx, addr, node) })
		}
		e.ask("", e.lookForFormat)
	}
}

// ask runs look unless it still runs.
func (e *slots) ask(addr string, look func(context.Context)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.asked[addr] {
		return
	}
	e.asked[addr] = true
	e.bg.Go(func() {
		ctx, cancel := context.WithTimeout(e.ctx, e.o.patience)
		defer cancel()
		look(ctx)
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.asked, addr)
	})
}

// forget removes what is known about nodes that have left.
func (e *slots) forget(nodes map[string]rueidis.Client) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for addr := range e.unfit {
		if nodes[addr] == nil {
			delete(e.unfit, addr)
		}
	}
}

// look examines one node. Nothing is held against one that cannot be reached, because it takes no writes either.
func (e *slots) look(ctx context.Context, addr string, node rueidis.Client) {
	s, err := inspect(ctx, node)
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.unfit, addr)
	if err != nil || s.role != "master" {
		return
	}
	if err := s.unfit(e.promises.Durable); err != nil {
		e.unfit[addr] = ofNode(addr, err)
	}
}

// lookForFormat finds out whether the data is still there, as far as one key tells.
func (e *slots) lookForFormat(ctx context.Context) {
	err := e.c.Do(ctx, e.c.B().Get().Key(e.prefix+"format").Build()).Error()
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case err == nil:
		e.gone = nil
	case rueidis.IsRedisNil(err):
		e.gone = engine.Errorf(engine.CodeCorrupt, "redis: the data was removed from the cluster: the key %sformat is gone", e.prefix)
	}
}

// refusal returns why nothing can be read, or written if writes is set; nil: it can.
func (e *slots) refusal(writes bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone != nil || !writes {
		return e.gone
	}
	for _, err := range e.unfit {
		return err
	}
	return nil
}

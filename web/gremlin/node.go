package gremlin

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/graph/graphson"
	"github.com/skerrydb/skerry/graph/value"
)

const (
	// nodeGrace is how long requests of other nodes have to end when this one stops.
	nodeGrace = 10 * time.Second
	// partTime is how long a connection stays open after this node has said that it
	// stops: closing it at once could lose what was said.
	partTime = 2 * time.Second
	// headBytes bounds what a request of another node has besides its body.
	headBytes = 64 << 10
)

// ServeNode serves the requests that other nodes pass on to this one, as the leader. l
// is engine.Cluster's Listen(NodeProtocol); whoever connects there is a node, which has
// checked passwords. It serves until ctx ends, then lets requests end, and returns nil.
func (h *Handler) ServeNode(ctx context.Context, l net.Listener) error {
	defer context.AfterFunc(ctx, func() { l.Close() })()
	var running sync.WaitGroup
	defer running.Wait()
	for {
		nc, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil || h.stop.Err() != nil {
				return nil
			}
			return err
		}
		running.Go(func() { h.serveNode(ctx, nc) })
	}
}

// peer is a connection from another node.
type peer struct {
	h      *Handler
	nc     net.Conn
	ctx    context.Context // done when the connection ends
	cancel context.CancelFunc
	asks   chan *ask // closed when there are no more
	tx     Session   // of the session that was begun; nil: none
	end    func()    // of tx
	broken bool      // the connection is to be closed
}

func (h *Handler) serveNode(stop context.Context, nc net.Conn) {
	n := &peer{h: h, nc: nc, asks: make(chan *ask)}
	n.ctx, n.cancel = context.WithCancel(h.stop)
	defer context.AfterFunc(n.ctx, func() { nc.Close() })()
	defer context.AfterFunc(stop, func() { time.AfterFunc(nodeGrace, n.cancel) })()
	read := make(chan struct{})
	go func() {
		defer close(read)
		n.read()
	}()
	n.answerAll(stop)
	n.rollback()
	n.cancel()
	nc.Close()
	<-read
}

// read reads requests. The end of the connection ends the one that runs.
func (n *peer) read() {
	defer n.cancel()
	defer close(n.asks)
	r := bufio.NewReader(n.nc)
	for {
		a, err := readAsk(r, n.h.o.MaxMessageBytes+headBytes)
		if err != nil {
			return
		}
		select {
		case n.asks <- a:
		case <-n.ctx.Done():
			return
		}
	}
}

// answerAll answers requests until the connection ends or the node stops.
func (n *peer) answerAll(stop context.Context) {
	for !n.broken {
		if stop.Err() != nil {
			n.part()
			return
		}
		select {
		case a, ok := <-n.asks:
			if !ok {
				return
			}
			if err := n.h.guard(n.ctx, func(context.Context) error { n.answer(a); return nil }); err != nil {
				return
			}
		case <-stop.Done():
		}
	}
}

// part says that nothing more runs here. The other node takes it for the answer to
// what it has sent meanwhile.
func (n *peer) part() {
	n.rollback()
	_ = n.write(answerOf(refused()))
	late := time.NewTimer(partTime)
	defer late.Stop()
	for {
		select {
		case _, ok := <-n.asks: // which is not looked at
			if !ok {
				return
			}
		case <-late.C:
			return
		}
	}
}

func refused() *Error {
	e, _ := errors.AsType[*Error](coded(engine.Errorf(engine.CodeNotLeader, "the node stops; nothing was written")))
	return e
}

func (n *peer) write(a *answer) error {
	_ = n.nc.SetWriteDeadline(time.Now().Add(2 * n.h.o.WriteTimeout))
	buf := n.h.buffers.Get().(*[]byte)
	defer n.h.buffers.Put(buf)
	b := a.append((*buf)[:0])
	if cap(b) <= 2*MaxBatchBytes {
		*buf = b[:0]
	}
	_, err := n.nc.Write(b)
	if err != nil {
		n.broken = true
	}
	return err
}

// answer answers one request.
func (n *peer) answer(a *ask) {
	var err error
	switch a.kind {
	case framePing:
	case frameSubmit, frameSession:
		n.submit(a)
		return
	case frameBegin:
		err = n.h.guard(n.ctx, func(context.Context) error { return n.begin(a) })
	case frameCommit:
		ctx, cancel := n.limited(a)
		defer cancel()
		err = n.h.guard(ctx, n.commit)
		if err != nil {
			err = n.h.failure(ctx, err, a.limit)
		}
	case frameRollback:
		n.rollback()
	default:
		n.broken = true
		return
	}
	end := &answer{kind: frameEnd, status: StatusNoContent}
	if err != nil {
		end = answerOf(n.h.failure(n.ctx, err, a.limit))
	}
	_ = n.write(end)
}

// limited returns the context of a request with a time limit.
func (n *peer) limited(a *ask) (context.Context, context.CancelFunc) {
	if a.limit == 0 {
		return n.ctx, func() {}
	}
	return context.WithTimeoutCause(n.ctx, a.limit, errTimeout)
}

// begin begins the session's transaction. The other node ends one that lasts too long;
// this is for one that does not.
func (n *peer) begin(a *ask) error {
	if n.tx != nil {
		n.broken = true
		return errorf(StatusInternal, "the session has a transaction")
	}
	if bad := n.h.openSession(); bad != nil {
		return bad
	}
	ctx, cancel := context.WithTimeout(n.ctx, n.h.o.SessionLife+time.Minute)
	end := func() {
		cancel()
		n.h.sessions.Add(-1)
	}
	defer func() {
		if n.tx == nil {
			end()
		}
	}()
	tx, err := n.h.o.Backend.Begin(ctx, Request{Source: a.source, User: a.user, References: a.references, N: -1})
	if err != nil {
		return coded(err)
	}
	n.tx, n.end = tx, end
	return nil
}

// take ends the session; the caller ends the transaction that it returns, if there is
// one, and calls end then.
func (n *peer) take() (tx Session, end func()) {
	tx, end = n.tx, n.end
	n.tx, n.end = nil, nil
	return tx, end
}

func (n *peer) commit(ctx context.Context) error {
	tx, end := n.take()
	if tx == nil {
		return errNoTx()
	}
	defer end()
	return tx.Commit(ctx)
}

func (n *peer) rollback() {
	tx, end := n.take()
	if tx == nil {
		return
	}
	defer end()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(n.ctx), rollbackTimeout)
	defer cancel()
	if err := n.h.guard(ctx, tx.Rollback); err != nil {
		n.h.o.Log.Error("roll back a Gremlin session of another node", "err", err)
	}
}

// submit runs a traversal and sends its results.
func (n *peer) submit(a *ask) {
	w, codec, bad := a.work(&n.h.o)
	if bad != nil {
		_ = n.write(answerOf(bad))
		return
	}
	w.req.User, w.limit = a.user, a.limit
	s := &stream{codec: codec, to: n}
	n.h.run(n.ctx, w, s, func(ctx context.Context) error {
		if a.kind == frameSubmit {
			return n.h.o.Backend.Submit(ctx, w.req, s.yield)
		}
		return n.inSession(ctx, w, s)
	})
	n.broken = n.broken || s.broken != nil
}

func (n *peer) inSession(ctx context.Context, w *work, s *stream) error {
	if n.tx == nil {
		return errNoTx()
	}
	whole := false
	defer func() {
		if !whole { // it panicked: the transaction is in no known state
			n.rollback()
		}
	}()
	err := n.tx.Submit(ctx, w.req, s.yield)
	whole = true
	return err
}

func errNoTx() *Error {
	return errorf(StatusInternal, "the session's transaction was rolled back after an internal error")
}

// work decodes the request of a client that another node has passed on.
func (a *ask) work(o *Options) (*work, *codec, *Error) {
	codec := codecOf(a.form &^ formHTTP)
	if codec == nil || a.form == formHTTP|formBinary || a.form == formBinary4 {
		return nil, nil, errorf(StatusMalformed, "a request in a form that this node does not know: %d", a.form)
	}
	if a.form&formHTTP != 0 {
		v, err := graphson.Decode(a.body)
		args, ok := v.(*value.Map)
		if err != nil || !ok {
			return nil, nil, errorf(StatusMalformed, "malformed request: expected an object")
		}
		w, bad := httpWork(o, args, a.form)
		return w, codec, bad
	}
	req, err := codec.decode(a.body)
	if err != nil {
		return nil, nil, errorf(StatusMalformed, "malformed request: %v", err)
	}
	w, bad := workOf(o, req.Op, req.Processor, req.Args)
	return w, codec, bad
}

// send implements sink.
func (n *peer) send(status int, items []byte, count int) error {
	if len(items)+headBytes > maxFrameBytes {
		_ = n.fail(errorf(StatusSerialization, "a result of %d bytes cannot be sent between nodes", len(items)))
		return errFrame
	}
	a := &answer{kind: frameEnd, status: status, n: count, items: items}
	if status == StatusPartial {
		a.kind = frameItems
	}
	return n.write(a)
}

// fail implements sink.
func (n *peer) fail(e *Error) error { return n.write(answerOf(e)) }

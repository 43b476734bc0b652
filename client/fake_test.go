package client_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/skerrydb/skerry/ci/ports"
	"github.com/skerrydb/skerry/client"
	"github.com/skerrydb/skerry/resp/wire"
)

// fake is a server whose replies a test chooses.
type fake struct {
	tb testing.TB
	l  net.Listener
	// answer appends the reply to a command. conn is the number of the connection, from 0.
	// If it returns false, the connection is closed without writing pending replies.
	answer func(w *wire.Writer, conn int, args [][]byte) bool
	nodes  atomic.Value // reply to CLUSTER NODES, a string; if unset, it is a single node

	mu    sync.Mutex
	conns []net.Conn
}

// startFake serves on loopback. The fake itself replies to greetings.
func startFake(tb testing.TB, answer func(w *wire.Writer, conn int, args [][]byte) bool) *fake {
	tb.Helper()
	l, err := net.Listen("tcp", ports.Addr(tb))
	if err != nil {
		tb.Fatal(err)
	}
	f := &fake{tb: tb, l: l, answer: answer}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			n := len(f.conns)
			f.conns = append(f.conns, nc)
			f.mu.Unlock()
			all.Go(func() { f.serve(nc, n) })
		}
	})
	tb.Cleanup(func() {
		l.Close()
		f.cut()
		all.Wait()
	})
	return f
}

// startText starts a server that sends a text on every connection and nothing else. It
// returns its address and the number of connections.
func startText(tb testing.TB, text string) (addr string, seen *atomic.Int64) {
	tb.Helper()
	l := listen(tb)
	tb.Cleanup(func() { l.Close() })
	seen = new(atomic.Int64)
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			seen.Add(1)
			go func() {
				defer nc.Close()
				_, _ = io.WriteString(nc, text)
				_, _ = io.Copy(io.Discard, nc) // until the client disconnects: closing with unread input would discard text
			}()
		}
	}()
	return l.Addr().String(), seen
}

func (f *fake) addr() string { return f.l.Addr().String() }

// cut closes all connections.
func (f *fake) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, nc := range f.conns {
		nc.Close()
	}
}

// connections returns how many there have been.
func (f *fake) connections() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.conns)
}

func (f *fake) serve(nc net.Conn, n int) {
	defer nc.Close()
	var bufs wire.Buffers
	r := wire.NewReader(nc, &bufs, wire.Limits{})
	w := wire.Writer{RESP3: true}
	var args [][]byte
	for {
		var ok bool
		var err error
		if args, ok, err = r.Next(args[:0]); err != nil {
			return
		}
		if !ok {
			if len(w.Buf) > 0 {
				if _, err := nc.Write(w.Buf); err != nil {
					return
				}
				w.Buf = w.Buf[:0]
			}
			if err := r.Fill(); err != nil {
				return
			}
			continue
		}
		if len(args) == 0 {
			continue
		}
		if f.greets(&w, args) {
			continue
		}
		if !f.answer(&w, n, args) {
			return
		}
	}
}

// greets replies to the greeting of a client.
func (f *fake) greets(w *wire.Writer, args [][]byte) bool {
	switch {
	case string(args[0]) == "HELLO":
		w.Map(0)
	case string(args[0]) == "CLUSTER" && string(args[1]) == "NODES" && f.nodes.Load() != nil:
		w.Verbatim("txt", f.nodes.Load().(string))
	case string(args[0]) == "CLUSTER":
		w.Error("ERR This instance has cluster support disabled")
	case string(args[0]) == "CLIENT" && string(args[1]) == "TRACKING":
		w.OK()
	default:
		return false
	}
	return true
}

// one replies to every command with 1.
func one(w *wire.Writer, _ int, _ [][]byte) bool {
	w.Int(1)
	return true
}

// last replies to every command with its last word.
func last(w *wire.Writer, _ int, args [][]byte) bool {
	w.Bulk(args[len(args)-1])
	return true
}

func open(tb testing.TB, o client.Options) *client.Client {
	tb.Helper()
	c, err := client.Open(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

var background = context.Background()

// words joins a command for comparison.
func words(args [][]byte) string {
	var b strings.Builder
	for i, a := range args {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.Write(a)
	}
	return b.String()
}

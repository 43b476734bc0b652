package resp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/feed"
	"github.com/skerrydb/skerry/resp/wire"
)

// trackedServer is a server whose tracker follows a real feed.
func trackedServer(t *testing.T) (*Server, string) {
	t.Helper()
	eng := openEngine(t)
	f, err := feed.New(eng, feed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	srv := newTestServer(t, eng, f, Options{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { f.Run(ctx) })
	wg.Go(func() { srv.Serve(ctx, l) })
	t.Cleanup(func() {
		srv.Close()
		cancel()
		wg.Wait()
	})
	return srv, l.Addr().String()
}

// line is a client that reads the server's output line by line.
type line struct {
	*testing.T
	net.Conn
	in *bufio.Reader
}

func dialLine(t *testing.T, addr string) line {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(20 * time.Second))
	return line{t, nc, bufio.NewReader(nc)}
}

func (l line) say(text string) {
	l.Helper()
	if _, err := io.WriteString(l, text+"\r\n"); err != nil {
		l.Fatal(err)
	}
}

func (l line) hear() string {
	l.Helper()
	s, err := l.in.ReadString('\n')
	if err != nil {
		l.Fatal(err)
	}
	return strings.TrimSpace(s)
}

// expect reads the lines in want, which are separated by spaces.
func (l line) expect(what, want string) {
	l.Helper()
	for _, w := range strings.Fields(want) {
		if got := l.hear(); got != w {
			l.Fatalf("%s: %q where %q of %q was expected", what, got, w, want)
		}
	}
}

// tracks makes l a tracking client that has read k.
func (l line) tracks() {
	l.Helper()
	l.say("HELLO 3\r\nCLIENT TRACKING ON\r\nGET k")
	for got := ""; got != "+OK"; got = l.hear() {
		continue
	}
	if got := l.hear(); got != "_" {
		l.hear() // the value
	}
}

const invalidatedK = ">2 $10 invalidate *1 $1 k "

// TestReplyIsABarrier delays the tracker between a change and its invalidation. All replies
// after the acknowledged change must come after the invalidation.
func TestReplyIsABarrier(t *testing.T) {
	for _, c := range []struct{ name, ask, reply string }{
		{"ping", "PING", "+PONG"},
		{"read", "GET other", "_"},
		{"state", "CLIENT GETNAME", "_"},
		{"error", "BOGUS", "-ERR"},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv, addr := trackedServer(t)
			reader, writer := dialLine(t, addr), dialLine(t, addr)
			reader.tracks()
			conn := srv.clients()[0]
			conn.mu.Lock() // invalidate needs it
			writer.say("SET k 1")
			writer.expect("SET", "+OK")
			reader.say(c.ask)
			time.AfterFunc(30*time.Millisecond, conn.mu.Unlock) // without a barrier the reply is written long before
			reader.expect(c.name, invalidatedK)
			if got := reader.hear(); !strings.HasPrefix(got, c.reply) {
				t.Errorf("%s: %q", c.name, got)
			}
		})
	}
}

// TestBarrierOfRedirected checks that the connection that receives another one's
// invalidations gets them before its own replies.
func TestBarrierOfRedirected(t *testing.T) {
	srv, addr := trackedServer(t)
	reader, writer, taker := dialLine(t, addr), dialLine(t, addr), dialLine(t, addr)
	taker.say("SUBSCRIBE __redis__:invalidate")
	taker.expect("SUBSCRIBE", "*3 $9 subscribe $20 __redis__:invalidate :1")
	conn := srv.clients()[len(srv.clients())-1]
	reader.say(fmt.Sprintf("CLIENT TRACKING ON REDIRECT %d\r\nGET k", conn.id))
	reader.expect("tracking", "+OK $-1")
	conn.mu.Lock()
	writer.say("SET k 1")
	writer.expect("SET", "+OK")
	taker.say("PING")
	time.AfterFunc(30*time.Millisecond, conn.mu.Unlock)
	taker.expect("push and PONG", "*3 $7 message $20 __redis__:invalidate *1 $1 k *2 $4 pong $0")
}

// TestBarrierInPipeline checks that a client's own write invalidates before the reply to a
// following PING in the same pipeline.
func TestBarrierInPipeline(t *testing.T) {
	_, addr := trackedServer(t)
	reader := dialLine(t, addr)
	for range 50 {
		reader.say("HELLO 3\r\nCLIENT TRACKING ON\r\nGET k\r\nSET k 1\r\nPING\r\nECHO end")
		for got := ""; got != "+OK"; got = reader.hear() {
			continue
		}
		if got := reader.hear(); got != "_" {
			reader.hear()
		}
		reader.expect("pipeline", "+OK "+invalidatedK+"+PONG $3 end")
	}
}

// TestBarrierGivesUp checks that while the tracker is blocked a reply waits for
// barrierWait, and that all keys of the client are then invalidated.
func TestBarrierGivesUp(t *testing.T) {
	srv, addr := trackedServer(t)
	reader := dialLine(t, addr)
	reader.tracks()
	srv.acknowledged(1 << 40) // by another node, and it never arrives here
	began := time.Now()
	reader.say("PING")
	reader.expect("PING", ">2 $10 invalidate _ +PONG")
	if d := time.Since(began); d < barrierWait {
		t.Errorf("it waited only %v", d)
	}
	reader.say("PING")
	reader.expect("the next PING", "+PONG")
	srv.tracker.mu.Lock()
	defer srv.tracker.mu.Unlock()
	if n := len(srv.tracker.settling); n != 0 {
		t.Errorf("%d calls still wait", n)
	}
}

// TestBarrierRace runs a writer and a reader concurrently.
func TestBarrierRace(t *testing.T) {
	_, addr := trackedServer(t)
	reader, writer := dialLine(t, addr), dialLine(t, addr)
	reader.tracks()
	for i := range 300 {
		writer.say(fmt.Sprintf("SET k %d", i))
		writer.expect("SET", "+OK")
		reader.say("PING")
		reader.expect(fmt.Sprint("round ", i), invalidatedK+"+PONG")
		reader.say("GET k")
		if got := reader.hear(); got[0] != wire.KindBulk {
			t.Fatalf("GET: %q", got)
		}
		reader.hear()
	}
}

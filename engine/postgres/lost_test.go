package postgres

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/enginetest"
)

// proxy passes connections on, and can cut off a commit.
type proxy struct {
	net.Listener
	to     string
	before atomic.Bool // cut the next commit off before the server has it
	after  atomic.Bool // cut the next commit off once it was sent
}

func startProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, to: to}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	return p
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer server.Close()
	m := muted{Conn: client, committed: make(chan struct{})}
	go func() {
		_, _ = io.Copy(&m, server)
		_ = client.Close()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		commit := bytes.Contains(buf[:n], []byte("skerry skerry")) // the notification
		if commit && p.before.CompareAndSwap(true, false) {
			return
		}
		m.mute.Store(commit && p.after.CompareAndSwap(true, false))
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
		if m.mute.Load() {
			_ = client.Close()
			<-m.committed // a server that notices that its client has gone stops half-way
			return
		}
	}
}

// muted drops what is written while mute is set, up to the reply to COMMIT.
type muted struct {
	net.Conn
	mute      atomic.Bool
	committed chan struct{}
}

func (m *muted) Write(b []byte) (int, error) {
	if !m.mute.Load() {
		return m.Conn.Write(b)
	}
	if bytes.Contains(b, []byte("COMMIT")) {
		close(m.committed)
	}
	return len(b), nil
}

// TestCommitCutOff loses the connection before and after COMMIT was sent. The engine finds out which it was.
func TestCommitCutOff(t *testing.T) {
	server := pgserver.Shared(t)
	p := startProxy(t, server.Addr())
	u, err := url.Parse(server.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	u.Host = p.Addr().String()
	d := open(enginetest.Adapt(t), u.String(), Options{})
	defer d.Close()
	if _, err := d.Update(t.Context(), increment); err != nil { // it also notes the server
		t.Fatal(err)
	}
	found := 0
	for i := range 10 {
		ran := 0
		armed, want := &p.after, 1
		if i%2 == 0 {
			armed, want = &p.before, 2
		}
		armed.Store(true)
		pos, err := d.Update(t.Context(), func(tx engine.Tx) error { ran++; return increment(tx) })
		if i%2 == 1 && ran == 1 {
			found++
		}
		// The engine may end the lost session before that has received what was sent.
		if err != nil || pos != engine.Position(i+2) || ran != want && (i%2 == 0 || ran != 2) {
			t.Fatalf("update %d: position %d, the function ran %d times, want %d (%v)", i, pos, ran, want, err)
		}
	}
	if found == 0 {
		t.Error("no commit that was sent was found")
	}
	if n := d.settled.Load(); n != 10 {
		t.Errorf("%d commits were settled, want 10", n)
	}
}

// increment adds one to the number under key n.
func increment(tx engine.Tx) error {
	v, ok, err := tx.Get([]byte("n"))
	if err != nil {
		return err
	}
	n := 0
	if ok {
		if n, err = strconv.Atoi(string(v)); err != nil {
			return err
		}
	}
	return tx.Put([]byte("n"), fmt.Append(nil, n+1))
}

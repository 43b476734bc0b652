package gate_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/skerrydb/skerry/gate"
)

// open returns a gate on loopback that accepts as long as the test runs, and the accepted
// connections.
func open(t *testing.T, o gate.Options, wrap func(net.Listener) net.Listener) (*gate.Listener, <-chan *gate.Conn) {
	t.Helper()
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if wrap != nil {
		raw = wrap(raw)
	}
	l, in := gate.New(raw, o), make(chan *gate.Conn, 1000)
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			in <- c.(*gate.Conn)
		}
	})
	t.Cleanup(func() {
		l.Close()
		accepting.Wait()
		close(in)
		for c := range in {
			c.Close()
		}
	})
	return l, in
}

func dial(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(20 * time.Second))
	t.Cleanup(func() { c.Close() })
	return c
}

// closed waits until the other side has closed a connection, and returns what it sent.
func closed(t *testing.T, c net.Conn) string {
	t.Helper()
	said, err := io.ReadAll(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the connection is still open")
	}
	return string(said)
}

// TestGuestsMakeRoom: silent guests are closed, the oldest first, and members stay.
func TestGuestsMakeRoom(t *testing.T) {
	l, in := open(t, gate.Options{Max: 5, Guests: 3}, nil)
	member := dial(t, l)
	m := <-in
	if !m.Enter() {
		t.Fatal("a guest cannot become a member")
	}
	var strangers []net.Conn
	for range 10 {
		strangers = append(strangers, dial(t, l))
		<-in
	}
	for _, c := range strangers[:7] {
		closed(t, c)
	}
	if s := l.Stats(); s.Guests != 3 || s.Members != 1 || s.Evicted != 7 || s.Refused != 0 {
		t.Errorf("%+v", s)
	}
	for _, c := range append(strangers[7:], member) {
		c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a connection that should be open: %v", err)
		}
	}
	m.Leave() // the youngest guest: the three others go before it
	for range 2 {
		dial(t, l)
		<-in
	}
	if !m.Enter() {
		t.Error("a member that was a guest for a while was evicted before older guests")
	}
	m.Close()
	m.Close()
	if m.Enter() {
		t.Error("a closed connection became a member")
	}
	if s := l.Stats(); s.Members != 0 {
		t.Errorf("%+v", s)
	}
}

// TestRefused: if all connections are members, another one gets the refusal, even if it
// has sent unread data. When a member ends there is room again.
func TestRefused(t *testing.T) {
	var refusals atomic.Int32
	l, in := open(t, gate.Options{Max: 2, Refusal: []byte("full\r\n"), OnRefused: func() { refusals.Add(1) }}, nil)
	var members []*gate.Conn
	for range 2 {
		dial(t, l)
		c := <-in
		c.Enter()
		members = append(members, c)
	}
	c := dial(t, l)
	io.WriteString(c, strings.Repeat("x", 1000))
	if got := closed(t, c); got != "full\r\n" {
		t.Errorf("the refusal is %q", got)
	}
	for range 3 * gate.MaxRefusals { // most of them are over MaxRefusals
		closed(t, dial(t, l))
	}
	if s := l.Stats(); s.Refused != 3*gate.MaxRefusals+1 {
		t.Errorf("%+v", s)
	}
	members[0].Close()
	dial(t, l)
	if c := <-in; !c.Enter() {
		t.Error("no connection is accepted after a member has left")
	}
	l.Close()
	if n := refusals.Load(); n != 3*gate.MaxRefusals+1 {
		t.Errorf("OnRefused was called %d times", n)
	}
}

// farConn is a connection from another machine.
type farConn struct{ net.Conn }

func (farConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }

// TestKept: other machines cannot use the connections that are reserved for this one.
func TestKept(t *testing.T) {
	var far atomic.Bool
	far.Store(true)
	l, in := open(t, gate.Options{Max: 4, Kept: 1}, func(l net.Listener) net.Listener { return sometimes{l, &far} })
	enter := func() *gate.Conn {
		c := <-in
		c.Enter()
		return c
	}
	for range 3 {
		dial(t, l)
		enter()
	}
	closed(t, dial(t, l))
	if s := l.Stats(); s.Refused != 1 || s.Members != 3 {
		t.Errorf("%+v", s)
	}
	far.Store(false)
	dial(t, l)
	enter()
	if s := l.Stats(); s.Refused != 1 || s.Members != 4 {
		t.Errorf("a client on this machine is refused: %+v", s)
	}
}

// TestKeptFromGuests: nor can other machines get them by evicting guests of this machine.
func TestKeptFromGuests(t *testing.T) {
	var far atomic.Bool
	l, in := open(t, gate.Options{Max: 4, Kept: 1}, func(l net.Listener) net.Listener { return sometimes{l, &far} })
	guest := func(isFar bool) *gate.Conn {
		far.Store(isFar)
		dial(t, l)
		select {
		case c := <-in:
			return c
		case <-time.After(20 * time.Second):
			t.Fatal("a client is not accepted")
			return nil
		}
	}
	var guests []*gate.Conn
	for _, isFar := range []bool{true, true, true, false, true, true, true, true} {
		guests = append(guests, guest(isFar))
	}
	for _, c := range guests {
		c.Enter()
	}
	if c := guest(false); !c.Enter() {
		t.Error("a guest of this machine was evicted")
	}
	if s := l.Stats(); s.Members != 4 || s.Refused != 0 {
		t.Errorf("%+v", s)
	}
}

// sometimes is a listener whose connections come from another machine while far.
type sometimes struct {
	net.Listener
	far *atomic.Bool
}

func (l sometimes) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil && l.far.Load() {
		c = farConn{c}
	}
	return c, err
}

// starved is a listener that has no descriptor a few times, after some connections.
type starved struct {
	net.Listener
	after, times int
}

func (l *starved) Accept() (net.Conn, error) {
	if l.after--; l.after < 0 && l.times > 0 {
		l.times--
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

// TestStarvedListener: without a descriptor for a new connection the oldest guest is
// closed, and the listener continues.
func TestStarvedListener(t *testing.T) {
	l, in := open(t, gate.Options{Max: 10}, func(l net.Listener) net.Listener { return &starved{l, 2, 1} })
	first, second := dial(t, l), dial(t, l)
	<-in
	(<-in).Enter()
	third := dial(t, l)
	(<-in).Enter()
	closed(t, first)
	if s := l.Stats(); s.Evicted != 1 || s.Members != 2 {
		t.Errorf("%+v", s)
	}
	_, _ = second, third
}

func TestContext(t *testing.T) {
	l, in := open(t, gate.Options{Max: 1}, nil)
	dial(t, l)
	c := <-in
	if got := gate.FromContext(gate.NewContext(t.Context(), c)); got != c || gate.FromContext(context.Background()) != nil {
		t.Errorf("the context has %v", got)
	}
	if c.Known() {
		t.Error("a new connection is known")
	}
	c.SetKnown(true)
	if !c.Known() {
		t.Error("SetKnown has no effect")
	}
}

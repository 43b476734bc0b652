package peer

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/ci/logbuf"
	"github.com/skerrydb/skerry/journal"
)

// patience is how long a test waits for what must happen on a slow machine.
const patience = 30 * time.Second

// TestMain fails if a test leaves a goroutine of the package behind.
func TestMain(m *testing.M) {
	code := m.Run()
	buf, left := make([]byte, 4<<20), 0
	if code == 0 && !eventually.Within(patience, func() bool {
		left = 0
		for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(g, "skerry/peer.") && !strings.Contains(g, "TestMain") {
				left++
			}
		}
		return left == 0
	}) {
		fmt.Printf("%d goroutines are left:\n%s\n", left, buf[:runtime.Stack(buf, true)])
		code = 1
	}
	os.Exit(code)
}

// logs is a log that a test can search.
type logs struct{ logbuf.Buffer }

func (l *logs) has(text string) bool {
	return strings.Contains(l.String(), text)
}

// onDisk keeps identities in real files.
var onDisk = journal.Files{FS: journal.OS()}

// identities makes a cluster of n folders.
func identities(t testing.TB, n int) []*Identity {
	t.Helper()
	first, err := Init(onDisk, filepath.Join(t.TempDir(), "cluster"))
	if err != nil {
		t.Fatal(err)
	}
	ids := []*Identity{first}
	for len(ids) < n {
		ids = append(ids, invited(t, first, time.Now()))
	}
	return ids
}

// invited makes another folder of the cluster, with a certificate made at a time.
func invited(t testing.TB, by *Identity, at time.Time) *Identity {
	t.Helper()
	text, err := by.inviteAt(at, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	id, err := Accept(onDisk, filepath.Join(t.TempDir(), "cluster"), text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// inbox is what a port of a test has received.
type inbox struct {
	mu   sync.Mutex
	msgs map[uint64][][]byte
	down map[uint64]int
}

func (in *inbox) put(from uint64, msg []byte) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.msgs == nil {
		in.msgs = map[uint64][][]byte{}
	}
	in.msgs[from] = append(in.msgs[from], bytes.Clone(msg))
}

func (in *inbox) lost(id uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.down == nil {
		in.down = map[uint64]int{}
	}
	in.down[id]++
}

func (in *inbox) from(id uint64) [][]byte {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.msgs[id]
}

func (in *inbox) downs(id uint64) int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.down[id]
}

// running is a running port of a test.
type running struct {
	*Port
	inbox
	log logs
}

// open starts a port on a free address of the loopback.
func open(t testing.TB, id *Identity, change func(o *Options)) *running {
	t.Helper()
	r := &running{}
	o := Options{
		Addr: "127.0.0.1:0", Version: "1.2.3", Receive: r.put, Down: r.lost,
		Logger: slog.New(slog.NewTextHandler(&r.log, nil)),
	}
	if change != nil {
		change(&o)
	}
	var err error
	if r.Port, err = Listen(id, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// join connects all ports with each other, and waits until they are connected.
func join(t testing.TB, ports ...*running) {
	t.Helper()
	addrs := map[uint64]string{}
	for _, p := range ports {
		addrs[p.id.Node] = p.Addr()
	}
	for _, p := range ports {
		p.SetPeers(addrs)
	}
	for _, p := range ports {
		eventually.True(t, "all to be connected", func() bool {
			n := 0
			for _, s := range p.Peers() {
				if s.Connected && s.Inbound {
					n++
				}
			}
			return n == len(ports)-1
		})
	}
}

// state returns what a port knows about another node.
func (r *running) state(id uint64) PeerState {
	for _, s := range r.Peers() {
		if s.ID == id {
			return s
		}
	}
	return PeerState{}
}

// proxy is between two ports and can delay everything without closing connections.
type proxy struct {
	net.Listener
	to string

	mu    sync.Mutex
	held  bool
	conns []net.Conn
}

func newProxy(t testing.TB, to string) *proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: ln, to: to}
	go func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, in, out)
			p.mu.Unlock()
			go p.pipe(in, out)
			go p.pipe(out, in)
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		p.cut()
	})
	return p
}

func (p *proxy) pipe(to, from net.Conn) {
	defer to.Close()
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		p.mu.Lock()
		held := p.held
		p.mu.Unlock()
		if held {
			continue // swallowed: to both sides the connection looks whole
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) hold(held bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = held
}

// cut closes all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

// withTimeout is a context that ends with the test's patience.
func withTimeout(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// repeating is n bytes that are not all the same, without holding them.
type repeating struct{ n, at int }

func (r *repeating) Read(b []byte) (int, error) {
	if r.at == r.n {
		return 0, io.EOF
	}
	n := min(len(b), r.n-r.at)
	for i := range b[:n] {
		b[i] = byte((r.at + i) * 7 >> 3)
	}
	r.at += n
	return n, nil
}

func pattern(n int) []byte {
	b, err := io.ReadAll(&repeating{n: n})
	if err != nil {
		panic(err)
	}
	return b
}

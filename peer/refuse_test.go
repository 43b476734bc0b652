package peer

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/eventually"
)

// forged makes an identity that claims to be of a cluster, with a CA of its own.
func forged(t *testing.T, cluster string, node uint64) *Identity {
	t.Helper()
	now := time.Now()
	caPEM, caKeyPEM, err := issue(cluster, 0, now, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := parseCert(caPEM)
	if err != nil {
		t.Fatal(err)
	}
	caKey, err := parseKey(caKeyPEM)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := issue(cluster, node, now, ca, caKey)
	if err != nil {
		t.Fatal(err)
	}
	id, err := assemble(about{plainFormat, cluster, node, randomHex(), false}, caPEM, cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// knock connects with a certificate and a greeting as given, trusts whoever
// answers, and returns what it says.
func knock(t *testing.T, addr string, pair tls.Certificate, protocol string, greeting []byte) (answer, error) {
	t.Helper()
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", addr, &tls.Config{
		Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true, NextProtos: []string{protocol},
	})
	if err != nil {
		return answer{}, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write(appendBlob(nil, greeting)); err != nil {
		return answer{}, err
	}
	text, err := readBlob(c, "the answer", MaxHelloBytes)
	if err != nil {
		return answer{}, err
	}
	var a answer
	return a, json.Unmarshal(text, &a)
}

// TestStrangersGetAReason: a refused client gets a response with a code and a text for people,
// even if its program trusts any server.
func TestStrangersGetAReason(t *testing.T) {
	ids := identities(t, 3)
	year := 365 * 24 * time.Hour
	p := open(t, ids[0], func(o *Options) {
		o.Handle = nil
		o.Check = func(h Hello) error {
			if h.Node == 3 {
				return errors.New("node 3 was removed from the cluster")
			}
			return nil
		}
	})
	foreign := identities(t, 1)[0]
	hello := func(id *Identity, change func(h *Hello)) []byte {
		h := Hello{Version: "1.2.0", Cluster: id.Cluster, Folder: id.Folder, Node: id.Node, Start: 7, Time: time.Now()}
		if change != nil {
			change(&h)
		}
		text, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	late, early, fake := invited(t, ids[0], time.Now().Add(-11*year)), invited(t, ids[0], time.Now().Add(year)), forged(t, ids[0].Cluster, 2)
	for _, c := range []struct {
		name       string
		id         *Identity
		protocol   string
		greeting   []byte
		code, text string
	}{
		{"other cluster", foreign, ProtocolRaft, hello(foreign, nil), CodeCluster, "the certificate is not that of a node of this cluster"},
		{"other CA", fake, ProtocolRaft, hello(fake, nil), CodeCluster, "the certificate is not that of a node of this cluster"},
		{"expired", late, ProtocolRaft, hello(late, nil), CodeCert, "the certificate of node 4 expired at 20"},
		{"not valid yet", early, ProtocolRaft, hello(early, nil), CodeCert, "the certificate of node 5 is not valid before 20"},
		{"future version", ids[1], ProtocolRaft, hello(ids[1], func(h *Hello) { h.Version = "1.4.0" }), CodeVersion, "version 1.4.0 is not compatible with version 1.2.3"},
		{"other node's id", ids[1], ProtocolRaft, hello(ids[1], func(h *Hello) { h.Node = 3 }), CodeCert, "node 3 has the certificate of node 2"},
		{"cluster in greeting", ids[1], ProtocolRaft, hello(ids[1], func(h *Hello) { h.Cluster = "x" }), CodeCluster, "of cluster x talks"},
		{"removed", ids[2], ProtocolRaft, hello(ids[2], nil), CodeRefused, "node 3 was removed from the cluster"},
		{"no such protocol", ids[1], "skerry-tea/1", hello(ids[1], nil), CodeProtocol, `does not serve the protocol "skerry-tea/1"`},
		{"nobody handles calls", ids[1], ProtocolCall, hello(ids[1], nil), CodeProtocol, `does not serve the protocol "skerry-call/1"`},
		{"itself", ids[0], ProtocolRaft, hello(ids[0], func(h *Hello) { h.Start = 0 }), CodeTwin, "node 1 talks to itself"},
		{"greeting is no JSON", ids[1], ProtocolRaft, []byte("hello"), CodeProtocol, "the greeting is malformed"},
		{"greeting too long", ids[1], ProtocolRaft, make([]byte, MaxHelloBytes+1), CodeLimit, "the greeting has 16385 bytes, at most 16384"},
	} {
		a, err := knock(t, p.Addr(), c.id.pair, c.protocol, c.greeting)
		if err != nil || a.Refused == nil || a.Refused.Code != c.code || !strings.Contains(a.Refused.Text, c.text) {
			t.Errorf("%s: %+v, %v", c.name, a.Refused, err)
		}
	}
	if a, err := knock(t, p.Addr(), ids[1].pair, ProtocolRaft, hello(ids[1], nil)); err != nil || a.Hello == nil {
		t.Errorf("a good greeting: %+v, %v", a, err)
	}
	eventually.True(t, "the metrics", func() bool { s := p.Stats(); return s.Refused == 13 && s.Accepted == 1 })
}

// TestWrongServer: a dialling node detects a wrong server before it has sent anything.
func TestWrongServer(t *testing.T) {
	ids := identities(t, 3)
	year := 365 * 24 * time.Hour
	a := open(t, ids[0], nil)
	web := httptest.NewUnstartedServer(http.NotFoundHandler())
	web.TLS = &tls.Config{NextProtos: []string{ProtocolRaft}} // or it would end the handshake by itself
	web.StartTLS()
	defer web.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	late, early := invited(t, ids[0], time.Now().Add(-11*year)), invited(t, ids[0], time.Now().Add(year))
	at := func(id *Identity) string { return open(t, id, nil).Addr() }
	for _, c := range []struct {
		name, addr string
		node       uint64
		code, text string
	}{
		{"other cluster", at(identities(t, 2)[1]), 2, CodeCluster, "the node there is not of cluster " + ids[0].Cluster},
		{"other CA", at(forged(t, ids[0].Cluster, 2)), 2, CodeCluster, "the node there is not of cluster " + ids[0].Cluster},
		{"expired", at(late), late.Node, CodeCert, "expired at"},
		{"not valid yet", at(early), early.Node, CodeCert, "is not valid before"},
		{"other node", at(ids[2]), 2, CodeNode, "node 3 answers there, not node 2"},
		{"a web server", web.Listener.Addr().String(), 2, CodeCert, "the certificate is not a node's"},
		{"no TLS", plain.Listener.Addr().String(), 2, CodeProtocol, "does not speak TLS"},
	} {
		_, _, err := a.connect(withTimeout(t), c.addr, c.node, ProtocolRaft)
		refused, ok := errors.AsType[*RefusedError](err)
		if !ok || refused.Code != c.code || refused.Remote || !strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), c.addr) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if b := open(t, late, nil); !b.log.has("other nodes will refuse this one: its certificate expired at") {
		t.Error("a node with an expired certificate did not say so when it started")
	}
}

func TestVersions(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"1.2.3", "1.2.9", true}, {"1.2.3", "1.3.0", true}, {"v1.2.3", "1.1.0-rc1+x", true}, {"0.1", "0.2.0", true},
		{"1.2.3", "1.4.0", false}, {"1.2.3", "1.0.9", false}, {"1.2.3", "2.2.3", false}, {"0.9.0", "1.0.0", false},
		{"1.2.3", "(devel)", true}, {"unknown", "9.9.9", true}, {"", "1.0.0", true},
		{"1.2147483647.0", "1.0.0", false},
	} {
		for _, pair := range [][2]string{{c.a, c.b}, {c.b, c.a}} {
			if err := compatible(pair[0], pair[1]); (err == nil) != c.want {
				t.Errorf("%s with %s: %v", pair[0], pair[1], err)
			}
		}
	}
}

// TestMixedVersions: neighbouring minor versions work together.
func TestMixedVersions(t *testing.T) {
	ids := identities(t, 2)
	a := open(t, ids[0], func(o *Options) { o.Version = "v1.2.3" })
	b := open(t, ids[1], func(o *Options) { o.Version = "1.3.0-rc1" })
	join(t, a, b)
	if v := a.state(2).Hello.Version; v != "1.3.0-rc1" {
		t.Errorf("version %q", v)
	}
}

// TestTwins: of two folders with one invitation the second is turned away, by the
// node that it dials and by the node that dials it, and so is a copied folder.
func TestTwins(t *testing.T) {
	ids := identities(t, 1)
	text, err := ids[0].Invite()
	if err != nil {
		t.Fatal(err)
	}
	var two [2]*Identity
	for i := range two {
		if two[i], err = Accept(onDisk, filepath.Join(t.TempDir(), "cluster"), text); err != nil {
			t.Fatal(err)
		}
	}
	a, b := open(t, ids[0], nil), open(t, two[0], nil)
	join(t, a, b)
	twin := open(t, two[1], nil)
	twin.SetPeers(map[uint64]string{1: a.Addr()})
	eventually.True(t, "the twin to report it", func() bool { return twin.log.has("two data folders run as node 2") })
	if _, _, err := a.connect(withTimeout(t), twin.Addr(), 2, ProtocolRaft); err == nil || !strings.Contains(err.Error(), "two data folders run as node 2") {
		t.Errorf("dialling the twin: %v", err)
	}
	if _, _, err := b.connect(withTimeout(t), twin.Addr(), 2, ProtocolRaft); err == nil || !strings.Contains(err.Error(), "two data folders run as node 2") {
		t.Errorf("one twin dialling the other: %v", err)
	}

	// A copy of the folder: its process takes the place of the first, as after a
	// restart; then the first one is the one that is turned away.
	copied := open(t, two[0], nil)
	copied.SetPeers(map[uint64]string{1: a.Addr()})
	eventually.True(t, "one of the two to report it", func() bool {
		return b.log.has("two programs run as node 2") || copied.log.has("two programs run as node 2")
	})
	if !a.state(2).Inbound {
		t.Error("neither of the two is connected")
	}
	copied.Close()
	b.Close()
	a.SetPeers(nil) // forgets node 2
	twin.SetPeers(nil)
	twin.SetPeers(map[uint64]string{1: a.Addr()})
	eventually.True(t, "the twin to be the only one", func() bool { return twin.state(1).Connected })
}

// TestSkew: a clock that is an hour off is logged and shown, and refuses nothing:
// also not a certificate that was made in the other clock's past or future.
func TestSkew(t *testing.T) {
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		first, err := Init(onDisk, filepath.Join(t.TempDir(), "cluster"))
		if err != nil {
			t.Fatal(err)
		}
		a := open(t, first, func(o *Options) { o.IdleTimeout = 3 * time.Second })
		b := open(t, invited(t, first, time.Now()), func(o *Options) {
			o.Now = func() time.Time { return time.Now().Add(off) }
			o.IdleTimeout = 3 * time.Second
		})
		join(t, a, b)
		near := func(d, want time.Duration) bool { return (d - want).Abs() < time.Minute }
		if d := a.state(2).Skew; !near(d, off) {
			t.Errorf("node 2's clock is %v ahead, want %v", d, off)
		}
		if d := b.state(1).Skew; !near(d, -off) {
			t.Errorf("node 1's clock is %v ahead, want %v", d, -off)
		}
		eventually.True(t, "a round trip", func() bool { return a.state(2).RTT > 0 })
		if d := a.state(2).Skew; !near(d, off) {
			t.Errorf("after a beat node 2's clock is %v ahead, want %v", d, off)
		}
		if !a.log.has("the clocks of two nodes differ") {
			t.Error("it was not logged")
		}
	}
}

// TestGarbage: whatever is thrown at the port, nodes get through.
func TestGarbage(t *testing.T) {
	ids := identities(t, 2)
	a := open(t, ids[0], func(o *Options) { o.HandshakeTimeout = 2 * time.Second })
	b := open(t, ids[1], nil)
	for _, text := range []string{"", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\xff\xff" + strings.Repeat("x", 70_000), "*1\r\n$4\r\nPING\r\n", "\x16\x03\x01\x00\x05\x01\xff\xff\xff\xff"} {
		c, err := net.Dial("tcp", a.Addr())
		if err != nil {
			t.Fatal(err)
		}
		c.Write([]byte(text)) // it may be closed on us: so be it
		c.SetDeadline(time.Now().Add(patience))
		if n, err := io.Copy(io.Discard, c); n > 100 || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%.20q: answered by %d bytes, %v", text, n, err)
		}
		c.Close()
	}
	bare, err := tls.Dial("tcp", a.Addr(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{ProtocolRaft}})
	if err == nil { // with TLS 1.3 it learns at its first read that a certificate is asked for
		bare.SetDeadline(time.Now().Add(patience))
		_, err = bare.Read(make([]byte, 1))
		bare.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("without a certificate: %v", err)
	}
	if _, err := tls.Dial("tcp", a.Addr(), &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}); err == nil {
		t.Error("TLS 1.2 was accepted")
	}
	eventually.True(t, "the metrics", func() bool { return a.Stats().Strange == 7 })
	join(t, a, b)
}

// TestSlowloris: strangers that say nothing do not keep nodes out.
func TestSlowloris(t *testing.T) {
	ids := identities(t, 2)
	a := open(t, ids[0], func(o *Options) { o.Guests, o.HandshakeTimeout = 4, 10*patience })
	b := open(t, ids[1], nil)
	for range 10 {
		c, err := net.Dial("tcp", a.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.Write([]byte{0x16}) // the begin of a record, and no more
	}
	eventually.True(t, "the oldest to go", func() bool { return a.Stats().Evicted == 6 })
	join(t, a, b)
	if n := a.Stats().Evicted; n != 7 {
		t.Errorf("%d unauthenticated connections were evicted", n)
	}
}

// TestHandshakeTimeout: a stranger that is slow at any step is gone in time.
func TestHandshakeTimeout(t *testing.T) {
	ids := identities(t, 2)
	a := open(t, ids[0], func(o *Options) { o.HandshakeTimeout = 300 * time.Millisecond })
	mute, err := net.Dial("tcp", a.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	slow, err := tls.Dial("tcp", a.Addr(), &tls.Config{
		Certificates: []tls.Certificate{ids[1].pair}, InsecureSkipVerify: true, NextProtos: []string{ProtocolRaft},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	slow.Write([]byte{0, 0}) // half the length of a greeting
	for _, c := range []net.Conn{mute, slow} {
		c.SetReadDeadline(time.Now().Add(patience))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("not ended: %v", err)
		}
	}
	eventually.True(t, "the metrics", func() bool { return a.Stats().Strange == 2 })

	// The dialling side gives up in the same time, with an error.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	began := time.Now()
	_, _, err = a.connect(withTimeout(t), silent.Addr().String(), 2, ProtocolRaft)
	if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), ": no answer in ") || took < 300*time.Millisecond || took > patience/2 {
		t.Errorf("dialling one that is silent, after %v: %v", took, err)
	}
}

// TestTooManyConns: above the limit a node gets a refusal, and below it is accepted again.
func TestTooManyConns(t *testing.T) {
	ids := identities(t, 2)
	a := open(t, ids[0], func(o *Options) { o.Conns = 2 })
	b := open(t, ids[1], nil)
	ln := a.Protocol("echo")
	defer ln.Close()
	b.SetPeers(map[uint64]string{1: a.Addr()})
	eventually.True(t, "the first", func() bool { return b.state(1).Connected })
	second, err := b.Dial(withTimeout(t), 1, "echo")
	if err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "both to be counted", func() bool { return a.Stats().Accepted == 2 })
	_, err = b.Dial(withTimeout(t), 1, "echo")
	if refused, ok := errors.AsType[*RefusedError](err); !ok || refused.Code != CodeBusy || !refused.Remote {
		t.Errorf("a third connection: %v", err)
	}
	second.Close()
	if c, err := ln.Accept(); err != nil {
		t.Error(err)
	} else {
		c.Close()
	}
	c, err := b.Dial(withTimeout(t), 1, "echo")
	if err != nil {
		t.Fatalf("after one has gone: %v", err)
	}
	c.Close()
}

// TestManyWait: connections that were let in are served, however many wait to be accepted: a write may be on its way.
func TestManyWait(t *testing.T) {
	ids := identities(t, 2)
	a, b := open(t, ids[0], nil), open(t, ids[1], nil)
	ln := a.Protocol("echo")
	defer ln.Close()
	b.SetPeers(map[uint64]string{1: a.Addr()})
	const many = 300
	for i := range many {
		c, err := b.Dial(withTimeout(t), 1, "echo")
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		defer c.Close()
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	for i := range many {
		c, err := ln.Accept()
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		var got [1]byte
		if _, err := c.Read(got[:]); err != nil || got[0] != 'x' {
			t.Errorf("connection %d: %q, %v", i, got, err)
		}
		c.Close()
	}
}

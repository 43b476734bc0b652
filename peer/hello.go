package peer

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// answer is the accepting side's reply to a greeting: its own greeting, or a refusal.
type answer struct {
	Hello   *Hello       `json:"hello,omitempty"`
	Refused *RemoteError `json:"refused,omitempty"`
	Reason  string       `json:"reason,omitempty"` // of the refusal
}

// node is the common part of a Port and a Client: it can exchange greetings.
type node struct {
	id *Identity
	o  Options // with its defaults filled in

	older olderNodes
	start uint64                                     // 0: a Client
	addr  string                                     // advertised
	admit func(h Hello, outgoing bool) *RefusedError // what only a Port checks; may be nil
}

// greeting returns this node's greeting.
func (n *node) greeting(protocol string) Hello {
	h := Hello{
		Version: n.o.Version, Cluster: n.id.Cluster, Folder: n.id.Folder, Node: n.id.Node,
		Start: n.start, Addr: n.addr, Time: n.o.Now(), Protocol: protocol, Sealed: !n.o.former,
	}
	if n.o.Hello != nil {
		n.o.Hello(&h)
	}
	return h
}

// judge decides whether to communicate with the node that sent h. proven is the id
// in its certificate.
func (n *node) judge(h Hello, proven uint64, outgoing bool) *RefusedError {
	switch {
	case h.Node != proven:
		return refuse(CodeCert, "node %d has the certificate of node %d", h.Node, proven)
	case h.Cluster != n.id.Cluster:
		return refuse(CodeCluster, "node %d of cluster %s talks to node %d of cluster %s; check the addresses and the data folder", h.Node, h.Cluster, n.id.Node, n.id.Cluster)
	case h.Node == n.id.Node && h.Folder != n.id.Folder:
		return refuse(CodeTwin, "two data folders run as node %d; stop one, and give it its own invitation", h.Node)
	case h.Node == n.id.Node && h.Start != 0 && n.start != 0 && h.Start != n.start:
		return refuse(CodeTwin, "two programs run as node %d, with copies of one data folder; stop one, and remove its folder", h.Node)
	}
	if err := compatible(n.o.Version, h.Version); err != nil {
		return refuse(CodeVersion, "node %d: %v", h.Node, err)
	}
	if n.o.Check != nil {
		if err := n.o.Check(h); err != nil {
			r := refuse(CodeRefused, "%v", err)
			if n.o.Explain != nil {
				r.Reason, _ = n.o.Explain(err)
			}
			return r
		}
	}
	if n.admit != nil {
		return n.admit(h, outgoing)
	}
	return nil
}

// connect opens a connection to addr for a protocol. want is the id that the node
// there must have; 0 means any. The second result is how far its clock is ahead.
func (n *node) connect(ctx context.Context, addr string, want uint64, protocol string) (*Conn, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, n.o.HandshakeTimeout)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, 0, fmt.Errorf("peer: connect: %w", err)
	}
	keepAlive(raw)
	c, skew, err := n.greet(ctx, raw, want, protocol)
	if err != nil {
		raw.Close()
		if _, garbage := errors.AsType[tls.RecordHeaderError](err); garbage {
			err = refuse(CodeProtocol, "the server there does not speak TLS; is it the port between nodes?")
		}
		return nil, 0, fmt.Errorf("peer: connect to %s: %w", addr, err)
	}
	return c, skew, nil
}

// greet does the TLS handshake on a connection that this node opened, and exchanges
// greetings.
func (n *node) greet(ctx context.Context, raw net.Conn, want uint64, protocol string) (*Conn, time.Duration, error) {
	stop := context.AfterFunc(ctx, func() { raw.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var proven uint64
	config := n.id.tlsConfig()
	config.NextProtos = []string{protocol}
	config.InsecureSkipVerify = true // host names prove nothing here; VerifyConnection does
	config.VerifyConnection = func(s tls.ConnectionState) error {
		shown, refused := s.PeerCertificates, (*RefusedError)(nil)
		if !n.o.former {
			shown, refused = n.id.unseal(shown)
		}
		if refused != nil {
			return refused
		}
		node, refused := n.id.verify(shown, n.o.Now())
		if refused != nil {
			return refused
		}
		if want != 0 && node != want {
			return refuse(CodeNode, "node %d answers there, not node %d", node, want)
		}
		proven = node
		return nil
	}
	w := &wire{Conn: raw}
	c := &Conn{Conn: tls.Client(w, config), wire: w}
	began := time.Now()
	err := c.HandshakeContext(ctx)
	var skew time.Duration
	if err == nil {
		skew, err = n.introduce(c, protocol)
	}
	if err != nil {
		if ctx.Err() != nil && !stop() {
			err = fmt.Errorf("no answer in %v: %w", time.Since(began).Round(time.Millisecond), ctx.Err())
		}
		return nil, 0, err
	}
	if refused := n.judge(c.hello, proven, true); refused != nil {
		return nil, 0, refused
	}
	n.older.met(c.hello)
	if !stop() {
		return nil, 0, ctx.Err() // the deadline has been or is being moved
	}
	return c, skew, nil
}

// introduce sends this node's greeting and reads the other's.
func (n *node) introduce(c *Conn, protocol string) (skew time.Duration, err error) {
	text, err := json.Marshal(n.greeting(protocol))
	if err != nil {
		return 0, err
	}
	began, wall := time.Now(), n.o.Now()
	if _, err := c.Conn.Write(appendBlob(nil, text)); err != nil {
		return 0, err
	}
	if text, err = readBlob(c.Conn, "the greeting", MaxHelloBytes); err != nil {
		return 0, err
	}
	var a answer
	if err := json.Unmarshal(text, &a); err != nil || (a.Hello == nil) == (a.Refused == nil) {
		return 0, refuse(CodeProtocol, "the other node's greeting is malformed")
	}
	if a.Refused != nil {
		return 0, &RefusedError{Code: a.Refused.Code, Text: a.Refused.Text, Remote: true, Reason: a.Reason}
	}
	c.hello = *a.Hello
	c.hello.Protocol = protocol
	return c.hello.Time.Sub(wall.Add(time.Since(began) / 2)), nil
}

// welcome does the TLS handshake on an accepted connection, and exchanges greetings.
// ready decides whether the protocol is served. welcome sends a refusal with its
// text to the other side and then leaves the connection open for part.
func (n *node) welcome(raw net.Conn, ready func(Hello) *RefusedError) (c *Conn, skew time.Duration, err error) {
	w := &wire{Conn: raw}
	config := n.id.tlsConfig()
	config.GetConfigForClient = func(chi *tls.ClientHelloInfo) (*tls.Config, error) {
		own := n.id.tlsConfig()
		if !n.o.former && !n.older.some() {
			own.Certificates = []tls.Certificate{n.id.shown}
		}
		if len(chi.SupportedProtos) == 1 {
			own.NextProtos = chi.SupportedProtos // unsupported protocols are refused below, with a message
		}
		return own, nil
	}
	c = &Conn{Conn: tls.Server(w, config), wire: w}
	if err := c.Handshake(); err != nil {
		return c, 0, err
	}
	text, err := readBlob(c.Conn, "the greeting", MaxHelloBytes)
	if limit, over := errors.AsType[*LimitError](err); over {
		return c, 0, n.turnAway(c, refuse(CodeLimit, "%v", limit))
	} else if err != nil {
		return c, 0, err
	}
	state := c.ConnectionState()
	proven, refused := n.id.verify(state.PeerCertificates, n.o.Now())
	if refused != nil && refused.Code == CodeCluster { // do not reveal names to strangers
		return c, 0, n.turnAwayAs(c, refused, "the certificate is not that of a node of this cluster; check the addresses and the data folder")
	} else if refused != nil {
		return c, 0, n.turnAway(c, refused)
	}
	if err := json.Unmarshal(text, &c.hello); err != nil {
		return c, 0, n.turnAway(c, refuse(CodeProtocol, "the greeting is malformed"))
	}
	c.hello.Protocol = state.NegotiatedProtocol
	skew = c.hello.Time.Sub(n.o.Now())
	if refused = ready(c.hello); refused == nil {
		refused = n.judge(c.hello, proven, false)
	}
	if refused != nil {
		return c, 0, n.turnAway(c, refused)
	}
	n.older.met(c.hello)
	own := n.greeting(c.hello.Protocol)
	if err := n.reply(c, answer{Hello: &own}); err != nil {
		return c, 0, err
	}
	return c, skew, nil
}

// turnAway sends the refusal to the other side and returns it.
func (n *node) turnAway(c *Conn, r *RefusedError) error { return n.turnAwayAs(c, r, r.Text) }

// turnAwayAs is turnAway with a different text for the other side.
func (n *node) turnAwayAs(c *Conn, r *RefusedError, text string) error {
	if err := n.reply(c, answer{Refused: &RemoteError{r.Code, shorten(text)}, Reason: r.Reason}); err != nil {
		return fmt.Errorf("%w (the reason could not be sent: %w)", r, err)
	}
	return r
}

// maxTextBytes bounds an error's text on the wire. JSON may make it six times as
// long, which still fits into a greeting.
const maxTextBytes = 2 << 10

func shorten(text string) string {
	if len(text) <= maxTextBytes {
		return text
	}
	return strings.ToValidUTF8(text[:maxTextBytes], "") + "…"
}

func (n *node) reply(c *Conn, a answer) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	_, err = c.Conn.Write(appendBlob(nil, text))
	return err
}

// keepAlive makes c fail within half a minute after the machine at the other end has
// gone, even if the connection is idle.
func keepAlive(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 4})
	}
}

// compatible returns an error if two versions of the program are too far apart: they
// must have the same major number, and minor numbers that differ by at most one. A
// string that is not a version, as in a development build, is compatible with all.
func compatible(own, other string) error {
	a, okA := parseVersion(own)
	b, okB := parseVersion(other)
	if !okA || !okB || a[0] == b[0] && a[1]-b[1] <= 1 && b[1]-a[1] <= 1 {
		return nil
	}
	return fmt.Errorf("version %s is not compatible with version %s; nodes of one cluster may be one minor version apart, so upgrade step by step", other, own)
}

// parseVersion returns the major and minor number of 1.2.3, v1.2.3-rc1 or 1.2.
func parseVersion(s string) (v [2]int64, ok bool) {
	s, _, _ = strings.Cut(strings.TrimPrefix(s, "v"), "-")
	s, _, _ = strings.Cut(s, "+")
	parts := strings.Split(s, ".")
	if len(parts) < 2 || len(parts) > 3 {
		return v, false
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return v, false
		}
		if i < 2 {
			v[i] = int64(n)
		}
	}
	return v, true
}

// lost reports whether an error only means that the other side is gone.
func lost(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

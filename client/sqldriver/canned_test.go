package sqldriver_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/skerrydb/skerry/resp/wire"
)

// canned is a server with prepared replies. It is cheap, and it can send replies that a
// real server would not.
type canned struct {
	listener net.Listener
	ends     sync.WaitGroup

	mu      sync.Mutex                   // guards the fields below
	replies map[string]map[string]string // by command and procedure, "" for any; the reply "" closes the connection
	drop    string                       // the command whose next occurrence closes the connection
	heard   []string                     // the calls, if listen is set
	listen  bool
}

const (
	voteSchema = `[{"name":"vote","read_only":false,"args":[{"name":"phone","type":{"kind":"int","bits":64}},{"name":"contestant","type":{"kind":"int","bits":64}},{"name":"limit","type":{"kind":"int","bits":64}}],` +
		`"result":{"kind":"object","fields":[{"name":"status","type":{"kind":"int","bits":64}},{"name":"total","type":{"kind":"int","bits":64}}]}}]`
	addSchema = `[{"name":"add","read_only":false,"args":[{"name":"name","type":{"kind":"string"}},{"name":"n","type":{"kind":"int","bits":64}}],"result":{"kind":"int","bits":64}}]`
)

func bulk(s string) string {
	var w wire.Writer
	w.BulkString(s)
	return string(w.Buf)
}

func newCanned(tb testing.TB) *canned {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &canned{listener: l, replies: map[string]map[string]string{
		"HELLO": {"": "%1\r\n+server\r\n+canned\r\n"}, "CLUSTER": {"": "_\r\n"}, "PING": {"": "+PONG\r\n"},
	}}
	s.set("PROC", "vote", bulk(voteSchema))
	s.set("CALL", "vote", "%2\r\n$6\r\nstatus\r\n:0\r\n$5\r\ntotal\r\n:5678901\r\n")
	s.set("PROC", "add", bulk(addSchema))
	s.set("CALL", "add", ":123456\r\n")
	s.ends.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.ends.Go(func() { s.serve(tb, c) })
		}
	})
	tb.Cleanup(func() {
		l.Close()
		s.ends.Wait()
	})
	return s
}

// set sets the reply to a command on a procedure.
func (s *canned) set(command, procedure, reply string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.replies[command] == nil {
		s.replies[command] = map[string]string{}
	}
	s.replies[command][procedure] = reply
}

// reply returns the reply to a command. If close is set, the connection is closed instead.
func (s *canned) reply(args [][]byte) (reply string, close bool) {
	at := 1
	switch string(args[0]) {
	case "PROC", "CALLONCE":
		at = 2
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.replies[string(args[0])]
	var found bool
	if len(args) > at {
		reply, found = of[string(args[at])]
	}
	if s.listen && at < len(args) && string(args[0]) != "HELLO" && string(args[0]) != "CLUSTER" {
		s.heard = append(s.heard, string(bytes.Join(args, []byte(" "))))
	}
	if s.drop == string(args[0]) {
		s.drop = ""
		return "", true
	}
	if !found {
		reply, found = of[""]
	}
	if !found {
		return "-ERR the canned server does not know this\r\n", false
	}
	return reply, reply == ""
}

// dropNext closes the connection at the next such command.
func (s *canned) dropNext(command string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop = command
}

// hear returns the requests since the last call, and continues to listen.
func (s *canned) hear() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	heard := s.heard
	s.heard, s.listen = nil, true
	return heard
}

func (s *canned) dsn() string { return "skerry://" + s.listener.Addr().String() + "/" }

// serve replies until the client disconnects. Unknown commands get an error.
func (s *canned) serve(tb testing.TB, c net.Conn) {
	defer c.Close()
	var bufs wire.Buffers
	r := wire.NewReader(c, &bufs, wire.Limits{})
	defer r.Release()
	var out []byte
	var args [][]byte
	for {
		var ok bool
		var err error
		if args, ok, err = r.Next(args[:0]); err != nil {
			tb.Errorf("canned: %v", err)
			return
		}
		if ok {
			reply, end := s.reply(args)
			if end {
				return
			}
			out = append(out, reply...)
			continue
		}
		if _, err := c.Write(out); err != nil {
			return
		}
		out = out[:0]
		if err := r.Fill(); err != nil {
			if !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "reset") && !strings.Contains(err.Error(), "closed") {
				tb.Errorf("canned: %v", err)
			}
			return
		}
	}
}

// Command sessions compares one web application with sessions on each engine of Skerry, and with the same pages by hand
// on Redis: a new session each request, and pages without a cookie.
//
// It knows how the systems are started and measured; it must not know how an engine works. Linux only (epoll, /proc).
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// plan is the measurements of one run.
type plan struct {
	rig.Plan
	requests uint64
	conns    int
}

func main() {
	if len(os.Args) == 4 && os.Args[1] == "site" { // this program is also the server, in a process of its own
		if err := serve(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, "site:", err)
			os.Exit(1)
		}
		return
	}
	p := plan{Plan: rig.Plan{Name: "sessions", Systems: "embedded,postgres,redis,cassandra,rueidis", Rounds: 3, Window: 5 * time.Second, Warm: 2 * time.Second}}
	p.Flags("2,000 pages")
	flag.Uint64Var(&p.requests, "requests", 50_000, "pages without a cookie that one measurement requests; the original had 255000")
	flag.IntVar(&p.conns, "conns", 255, "connections, which stay open, each with one request in flight")
	flag.Parse()
	if p.Quick {
		p.requests = 2_000
	}
	p.Main(p.compare)
}

// compare runs the whole plan and prints the report.
func (p *plan) compare(dir string, w io.Writer) error {
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL runs as another user
		return err
	}
	systems, err := p.open(dir)
	if err != nil {
		return err
	}
	m := &measurements{w: w, cells: map[string]*cell{}}
	if err := m.head(p, systems, dir); err != nil {
		return err
	}
	if err := rig.Turns(&p.Plan, systems, func(s *system, round int) error { return m.visit(p, s, round) }); err != nil {
		return err
	}
	m.report(p, systems)
	return nil
}

// load is one kind of request. It implements rig.Codec.
type load struct {
	name, request string
	bytes         int // of the page
	cookie        bool
}

var loads = []load{
	{"new session, 341 B", "POST /login HTTP/1.1\r\nHost: bench\r\nContent-Length: 0\r\n\r\n", len(small), true},
	{"no cookie, 10.7 kB", "GET /page HTTP/1.1\r\nHost: bench\r\n\r\n", len(large), false},
}

// AppendGet implements rig.Codec.
func (l load) AppendGet(b []byte, _ uint64) []byte { return append(b, l.request...) }

// AppendSet implements rig.Codec.
func (l load) AppendSet(b []byte, _, _ uint64) []byte { return append(b, l.request...) }

// Reply implements rig.Codec. It refuses a login without a cookie, and a page with one.
func (l load) Reply(b []byte, _ bool) (int, error) {
	n, err := rig.HTTPReply(b, false, l.bytes)
	if n > 0 && bytes.Contains(b[:n], []byte("\r\nSet-Cookie: ")) != l.cookie {
		return 0, fmt.Errorf("%s: the cookie is not as expected: %q", l.name, b[:min(n, 500)])
	}
	return n, err
}
